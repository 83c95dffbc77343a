"""The comparison with Microsoft's emulator: what it makes of two documents of `sluice doctor --deep`."""

import subprocess

import pytest

from tests.conformance.emulator import PAGE, compare, judge
from tools.local.paths import ROOT


def document(**states):
    """Return a document as the command prints it."""
    return {
        "properties": [
            {"property": f"bus.{key}", "state": state, "found": "", "why": "so"} for key, state in states.items()
        ]
    }


def test_a_difference_needs_its_row_and_a_row_its_difference():
    """In either direction a person reads something that is not so."""
    differences = compare(document(lock="holds", peek="does not hold"), document(lock="holds", peek="holds"))
    assert differences == {"bus.peek": "| `bus.peek` | does not hold | holds | so |"}
    assert judge(differences, "| `bus.peek` | it looks otherwise |") == []
    assert "lacks the row: | `bus.peek`" in judge(differences, "")[0]
    assert "which does not differ" in judge({}, "| `bus.peek` | it looks otherwise |")[0]


def test_the_page_has_no_row_before_the_emulator_was_run():
    """None was found yet, and none is made up."""
    assert judge({}, PAGE.read_text()) == []


@pytest.mark.parametrize("name", ["emulator", "log-in", "remove-proof"])
def test_a_shell_can_read_what_workflows_run(name):
    """They run on GitHub alone."""
    done = subprocess.run(["bash", "-n", ROOT / ".ci" / name], capture_output=True, text=True, check=False)
    assert done.stderr == ""


def test_without_a_licence_nothing_is_started():
    """Microsoft's terms are for a person to accept. Where Docker is not, that is said first."""
    done = subprocess.run(
        ["bash", ROOT / ".ci" / "emulator"], capture_output=True, text=True, check=True, env={"PATH": "/usr/bin:/bin"}
    )
    assert "the emulator is skipped" in done.stdout
