"""`make up` and `make demo` as a person runs them: what they start, what they say, and that nothing is left."""

import json
import os
import re
import signal
import socket
import ssl
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path

import pytest
from servicebus_local.launcher import Broker

from tests.e2e.debugger import Editor
from tests.waiting import LIMIT, until
from tools.cli.settings_file import is_running
from tools.local import readme
from tools.local.azurite.launcher import Azurite
from tools.local.paths import ROOT
from tools.local.stack import settings_for
from tools.local.up import SETTINGS_FILE

#: Blocks of docs/workloads.md: one that runs the stack, and one that is typed beside it.
START, TYPED = re.findall(r"^```sh\n(.*?)^```", (ROOT / "docs" / "workloads.md").read_text(), re.DOTALL | re.MULTILINE)[
    :2
]


def descendants(pid):
    """Return every process that a process started, directly or not."""
    children = [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    return children + [below for child in children for below in descendants(child)]


def is_alive(pid):
    """Whether a process still runs; one that only waits to be reaped does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False


def wait_for_lines(process, texts):
    """Read what a process prints until each text was in a line, in whatever order, and return those lines."""
    missing, found = set(texts), []
    for line in process.stdout:
        if held := {text for text in missing if text in line}:
            missing -= held
            found.append(line)
        if not missing:
            return found
    raise AssertionError(f"{missing} were never printed; exit status {process.wait()}")


def wait_for_line(process, text):
    """Read what a process prints until a line holds the text, and return that line."""
    (line,) = wait_for_lines(process, [text])
    return line


@pytest.fixture
def up(worker):
    """Start `make up` with these arguments; whatever happens, it is stopped at the end."""
    if SETTINGS_FILE.exists() and is_running(SETTINGS_FILE):
        pytest.skip("a stack of this folder runs, and a second one is refused")
    started = []

    def start(*arguments, **settings):
        command = [sys.executable, "-m", "tools.local", "up", "--port", "0", "--worker", worker, *arguments]
        process = subprocess.Popen(
            command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=os.environ | settings
        )
        started.append(process)
        return process

    yield start
    for process in started:
        if process.poll() is None:
            process.send_signal(signal.SIGINT)
        process.communicate(timeout=LIMIT)


def end(process, number):
    """Send a signal: the command ends well, and leaves neither a process nor its settings file."""
    started = descendants(process.pid)
    assert len(started) >= 4, "Azurite, the broker, the host and its instances"
    process.send_signal(number)
    process.communicate(timeout=LIMIT)
    assert process.returncode == 0
    assert [pid for pid in started if is_alive(pid)] == []
    assert not SETTINGS_FILE.exists()


def test_up_runs_until_it_is_told_to_stop_and_leaves_nothing(up):
    """The app answers, the `sluice` command finds the stack, and after Ctrl-C every process is gone."""
    process = up()
    base_url = wait_for_line(process, "Sluice runs at").split()[3]
    with urllib.request.urlopen(f"{base_url}/api/health", timeout=LIMIT) as reply:
        assert json.loads(reply.read())["status"] == "ok"
    assert SETTINGS_FILE.stat().st_mode & 0o077 == 0
    command = [Path(sys.executable).parent / "sluice", "publisher-env", "--json"]
    printed = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, timeout=LIMIT).stdout
    door = json.loads(printed)["environment"]
    trusted = ssl.create_default_context(cafile=door["CURL_CA_BUNDLE"])
    with pytest.raises(urllib.error.HTTPError, match="401"):
        urllib.request.urlopen(door["IDENTITY_ENDPOINT"], context=trusted, timeout=LIMIT)
    end(process, signal.SIGINT)


def test_up_that_is_killed_leaves_no_process(up):
    """Nobody can tell its parts to stop: they notice that it is gone. What they keep in memory goes with them."""
    process = up()
    wait_for_line(process, "Ctrl-C stops everything")
    started = descendants(process.pid)
    process.kill()
    process.communicate(timeout=LIMIT)
    until(lambda: not [pid for pid in started if is_alive(pid)])
    assert not is_running(SETTINGS_FILE)


@pytest.mark.parametrize(("dequeue", "ended_by"), [("trigger", signal.SIGTERM), ("push", signal.SIGHUP)])
def test_up_shows_the_spans_of_a_job(up, tmp_path, dequeue, ended_by):
    """With `--spans` each stage's work is a line, all of one trace, also where signals wake the app for it.

    A signal of a service manager or of a terminal that is closed ends it as Ctrl-C does.
    """
    process = up("--spans", "--instances", "1", *(["--trigger"] if dequeue == "trigger" else []))
    wait_for_line(process, "Ctrl-C stops everything")
    assert json.loads(SETTINGS_FILE.read_text())["Values"].get("SLUICE_DEQUEUE", "push") == dequeue
    file = tmp_path / "one.ndjson"
    file.write_text('{"account": "a", "plan": "basic", "quantity": "1"}\n')
    sluice = [Path(sys.executable).parent / "sluice", "submit", file, "--job", "seen", "--settings", SETTINGS_FILE]
    subprocess.run(sluice, cwd=ROOT, check=True, capture_output=True, timeout=LIMIT)
    # A span is a line when it ends, and a job is dispatched within its acceptance.
    pieces = ("accept", "dispatch", "process", "settle", "finish")
    shown = wait_for_lines(process, [f" sluice.{piece} " for piece in pieces])
    assert len({line.split()[0] for line in shown}) == 1
    end(process, ended_by)


def test_a_workload_of_ones_own_runs_on_the_stack(up, tmp_path):
    """As docs/workloads.md says it: own/ names the README's file, and what is typed then prints what stands behind it."""
    assert START == "make up\n"
    process = up("--instances", "1")
    wait_for_line(process, "Ctrl-C stops everything")
    second = up("--instances", "1")
    _, said = second.communicate(timeout=LIMIT)
    assert (second.returncode, "a stack of this folder runs already" in said) == (1, True)
    # A settings file of another installation lies in the way: the stack that runs is meant.
    (tmp_path / ".stack").symlink_to(ROOT / ".stack")
    (tmp_path / ".venv").symlink_to(Path(sys.executable).parent.parent)
    (tmp_path / "local.settings.json").write_text('{"Values": {"SluiceStorage": "nonsense"}}')
    typed = subprocess.run(
        ["bash", "-e", "-c", TYPED], cwd=tmp_path, check=True, capture_output=True, text=True, timeout=LIMIT
    )
    *_, printed = TYPED.splitlines()
    assert json.loads(typed.stdout.splitlines()[-1]) == json.loads(printed.partition("#")[2])


def test_an_editor_stops_in_a_workload(up, tmp_path, worker):
    """As docs/workloads.md says: attached to the process, at a line of `map`, with its values. Then the job goes on."""
    if worker != "local":
        pytest.skip("Microsoft's worker runs the app in a process that the local host does not start")
    (tmp_path / "sales.py").write_text(readme.workload())
    (tmp_path / "sales.ndjson").write_text('{"units": 7}\n')
    line = readme.workload().splitlines().index("        return sale.units") + 1
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    process = up("--debug", str(port), SLUICE_WORKLOADS="sales:Sales", PYTHONPATH=f"{tmp_path}{os.pathsep}{ROOT}")
    wait_for_line(process, "Ctrl-C stops everything")
    started = descendants(process.pid)

    def sluice(*words):
        command = [Path(sys.executable).parent / "sluice", *words, "--settings", SETTINGS_FILE]
        done = subprocess.run(command, cwd=tmp_path, check=True, capture_output=True, text=True, timeout=LIMIT)
        return done.stdout

    with Editor(port, LIMIT) as editor:
        assert [one["verified"] for one in editor.begin(tmp_path / "sales.py", line)] == [True]
        sluice("submit", "sales.ndjson", "--job", "seen", "--workload", "sales")
        stopped = editor.event("stopped")
        assert stopped["reason"] == "breakpoint"
        (frame, *_) = editor.ask("stackTrace", threadId=stopped["threadId"])["stackFrames"]
        assert (frame["name"].split(".")[-1], frame["line"]) == ("map", line)
        assert editor.ask("evaluate", expression="sale.units", frameId=frame["id"])["result"] == "7"
        editor.ask("setBreakpoints", source={"path": str(tmp_path / "sales.py")}, breakpoints=[])
        editor.ask("continue", threadId=stopped["threadId"])
        sluice("jobs", "watch", "seen", "--timeout", "120")
        assert json.loads(sluice("jobs", "output", "seen")) == {"units": 7}
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=LIMIT)
    until(lambda: not [pid for pid in started if is_alive(pid)])


def test_up_ends_when_a_part_of_the_stack_does(up):
    """A host that dies ends everything, with one line that says so."""
    process = up("--instances", "1")
    wait_for_line(process, "Ctrl-C stops everything")
    started = descendants(process.pid)
    (host,) = [pid for pid in started if b"functions_local_host\0" in Path(f"/proc/{pid}/cmdline").read_bytes()]
    os.kill(host, signal.SIGKILL)
    _, said = process.communicate(timeout=LIMIT)
    assert process.returncode == 1
    assert said.startswith("sluice up: the host ended by itself")
    assert said.count("\n") == 1
    until(lambda: not [pid for pid in started if is_alive(pid)])


def test_a_taken_port_is_one_line_and_leaves_nothing(up):
    """A port that somebody uses is named with what to do, and what had been started is stopped."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        process = up("--port", str(port))
        _, said = process.communicate(timeout=LIMIT)
    assert process.returncode == 1
    assert f"port {port}" in said
    assert said.count("\n") == 1
    assert "Traceback" not in said


def test_a_misspelt_setting_is_one_line_and_starts_nothing(up):
    """Three work queues that are one would be noticed much later."""
    _, said = (process := up(SLUICE_WORKQUEUES="3")).communicate(timeout=LIMIT)
    assert (process.returncode, said.count("\n")) == (1, 1)
    assert said.startswith("sluice up: SLUICE_WORKQUEUES is no setting: did you mean SLUICE_WORK_QUEUES?")


def test_external_without_settings_names_the_file_to_copy(up):
    """`--external` needs local.settings.json, and says where it comes from."""
    if (ROOT / "local.settings.json").exists():
        pytest.skip("this checkout has a local.settings.json, so the error cannot be shown")
    process = up("--external")
    _, said = process.communicate(timeout=LIMIT)
    assert (process.returncode, "copy local.settings.sample.json" in said) == (1, True)


def test_external_ends_with_what_is_missing_and_the_command_that_makes_it(worker, tmp_path):
    """As the sample and two stand-ins of somebody's own: what nobody made is listed, made while the app runs, and used."""
    if worker != "local":
        pytest.skip("what the app finds does not depend on whose worker runs it")
    own = tmp_path / "local.settings.json"
    script = f"import sys, tools.local.up as up; from pathlib import Path; up.LOCAL_FILE = Path({str(own)!r}); sys.exit(up.main(sys.argv[1:]))"
    with Azurite.start() as storage, Broker.start() as bus:
        own.write_text(json.dumps({"Values": settings_for(storage.connection_string, bus.connection_string)}))
        words = [sys.executable, "-c", script, "--external", "--instances", "1", "--port", "0"]
        process = subprocess.Popen(words, cwd=ROOT, stdout=subprocess.PIPE, text=True)

        def sluice(*typed):
            command = [Path(sys.executable).parent / "sluice", *typed]
            return subprocess.run(command, cwd=tmp_path, check=True, capture_output=True, text=True, timeout=LIMIT)

        try:
            *listed, told, typed = wait_for_lines(
                process,
                [
                    "queue submissions does not exist",
                    "table jobs does not exist",
                    "entities are missing",
                    "provision   ",
                ],
            )
            assert len(listed) == 2
            missing, whole = re.findall(r"\d+", told)
            made = sluice(*typed.split("(")[0].split()[1:]).stdout.splitlines()[-1]
            assert made == f"{int(whole) - int(missing)} was there, {missing} made"
            (tmp_path / "one.ndjson").write_text('{"account": "a", "plan": "basic", "quantity": "1"}\n')
            sluice("submit", "one.ndjson", "--job", "made")
            assert "complete" in sluice("jobs", "watch", "made", "--timeout", "80").stdout
        finally:
            process.send_signal(signal.SIGINT)
            process.communicate(timeout=LIMIT)


def test_the_demonstration_succeeds():
    """`make demo` ends well and says what it showed."""
    done = subprocess.run(
        [sys.executable, "-m", "tools.local.demo"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=LIMIT,
    )
    assert done.returncode == 0, done.stderr
    assert "everything stopped" in done.stdout
    printed = _without_figures(done.stdout)
    (shown,) = re.findall(r"```text\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    assert [line for line in shown.splitlines() if _without_figures(line) not in printed] == []


def _without_figures(text):
    """Return a text on one line, without figures and bars, which differ from run to run."""
    return " ".join(re.sub(r"[\d.:,/]+|━+", "#", text).split())
