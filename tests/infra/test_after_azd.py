"""The hook of azd: it waits for new roles as long as a service refuses the login, and never fails a deployment."""

import json
import re
import subprocess
from dataclasses import asdict

import pytest

from tools.cli.doctor import Finding, State
from tools.local.paths import ROOT

SCRIPT = ROOT / "infra" / "after-azd.sh"
#: A `sluice` that notes its calls, and answers `--json` with one line of the file `answers` after the other.
SLUICE = """#!/bin/sh
echo "$@" >> calls
[ "$2" = --json ] || exec test ! -e wrong
head -n 1 answers
sed -i 1d answers
"""


def answer(state):
    """Return a line as `sluice doctor --json` prints it."""
    return json.dumps({"ok": state == "ok", "findings": [{"kind": "queue", "name": "submissions", "state": state}]})


@pytest.fixture
def after(tmp_path, monkeypatch):
    """Run the hook in a folder whose `sluice` gives these answers, without waiting. Return what it says and asked."""
    (tmp_path / "sleep").write_text("#!/bin/sh\necho sleep $1 >> calls\n")
    (tmp_path / "sleep").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")

    def run(*states, is_wrong=False):
        (tmp_path / "answers").write_text("".join(f"{answer(state)}\n" for state in states))
        if is_wrong:
            (tmp_path / "wrong").touch()
        done = subprocess.run(["sh", SCRIPT], cwd=tmp_path, capture_output=True, text=True, check=True)
        calls = tmp_path / "calls"
        return done.stdout, calls.read_text().splitlines() if calls.exists() else []

    (tmp_path / ".venv" / "bin").mkdir(parents=True)
    (tmp_path / ".venv" / "bin" / "sluice").write_text(SLUICE)
    (tmp_path / ".venv" / "bin" / "sluice").chmod(0o755)
    return run


def test_roles_that_are_there_are_not_waited_for(after):
    """One look, then the table for the person."""
    assert after("ok") == ("", ["doctor --json", "doctor"])


def test_a_refusal_is_waited_for(after):
    """Each further look is announced; the last one finds the role."""
    said, calls = after("refused", "refused", "ok")
    assert calls == ["doctor --json", "sleep 30", "doctor --json", "sleep 30", "doctor --json", "doctor"]
    assert said.count("new roles may take some minutes") == 2


def test_the_waiting_ends(after):
    """After ten minutes the person sees what is refused, and the deployment goes on."""
    said, calls = after(*["refused"] * 30, is_wrong=True)
    assert calls.count("sleep 30") * 30 == 600
    assert calls[-1] == "doctor"
    assert "not everything is right" in said


@pytest.mark.parametrize("state", ["missing", "differs", "unreachable"])
def test_another_fault_is_said_and_not_waited_for(after, state):
    """No role would mend it."""
    said, calls = after(state, is_wrong=True)
    assert calls == ["doctor --json", "doctor"]
    assert "docs/operating.md has the remedies" in said


def test_a_machine_without_the_command_deploys_as_before(tmp_path):
    """A workflow has no .venv: the hook says so, and is no failure."""
    done = subprocess.run(["sh", SCRIPT], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert "run `make setup`" in done.stdout


def test_the_state_is_that_of_the_command():
    """The word that the hook looks for is the one that `sluice doctor --json` prints."""
    printed = json.dumps({"findings": [asdict(Finding("queue", "submissions", "refuses", State.REFUSED))]})
    assert re.search(r"grep -q '(.+)'", SCRIPT.read_text())[1] in printed
