"""Crashes, time limits, drains, groups, start errors: what happens to the processes of a host."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from functions_local_host.errors import StartError
from functions_local_host.launcher import Host
from host_tests.client import eventually, get, get_json, runs

from tools.local.paths import ROOT

APP = Path(__file__).parent / "app"


def is_alive(pid):
    """Whether a process runs; a zombie of nobody's counts as ended."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def test_a_killed_instance_is_replaced_and_the_others_serve_on(start_host):
    """SIGKILL of one of two: requests go on being answered, and a new process takes its name."""
    host = start_host(instances=2)
    killed = host.kill_instance("http-1")
    assert get(host, "/api/text")[0] == 200
    eventually(lambda: host.instance_pids().get("http-1") not in {None, killed})
    eventually(lambda: host.status()["state"] == "Running")
    assert "instance http-1 ended: signal SIGKILL" in host.log.read_text()


def test_a_host_that_a_launcher_started_ends_with_it(start_host):
    """A launcher that was killed closes its end of the pipe. The instances drain, as after SIGTERM."""
    host = start_host(instances=2)
    pids = list(host.instance_pids().values())
    host.process.stdin.close()
    assert host.process.wait(60) == 0
    eventually(lambda: not any(map(is_alive, pids)))


def test_a_timeout_ends_the_whole_worker_and_a_new_one_starts(start_host):
    """The slow run fails; the next request finds a new process, the thread that hung is gone with the old one."""
    host = start_host({"AzureFunctionsJobHost__functionTimeout": "00:00:02"})
    before = host.instance_pids()["http-0"]
    assert get(host, "/api/sleep?seconds=30")[0] == 500
    eventually(lambda: host.instance_pids().get("http-0") not in {None, before})
    assert get(host, "/api/text")[0] == 200
    log = host.log.read_text()
    assert "timeout: still running after 2.0 s" in log
    assert "a function ran into functionTimeout" in log
    assert not is_alive(before)


def test_what_runs_beside_a_timeout_fails_too(start_host):
    """The whole worker process is lost, not only the slow run: its neighbour fails long before its own limit."""
    host = start_host({"AzureFunctionsJobHost__functionTimeout": "00:00:05"})
    with ThreadPoolExecutor(2) as pool:
        slow = pool.submit(get, host, "/api/sleep?seconds=30")
        eventually(lambda: "began to sleep" in host.log.read_text())
        get_json(host, "/api/async?sleep=2")
        beside = pool.submit(get, host, "/api/async?sleep=30")
        assert (slow.result()[0], beside.result()[0]) == (500, 500)
    log = host.log.read_text()
    assert "the worker process ended because sleep timed out" in log
    (milliseconds,) = re.findall(r"asynchronous failed \(id=[^,]+, (\d+) ms\)", log)
    assert int(milliseconds) < 4500


def test_a_stop_lets_requests_in_flight_end(start_host):
    """SIGTERM while a function runs: its answer arrives, then everything is gone."""
    host = start_host(instances=2)
    pids = host.instance_pids().values()
    with ThreadPoolExecutor(1) as pool:
        slow = pool.submit(get, host, "/api/sleep?seconds=1.5")
        eventually(lambda: "began to sleep" in host.log.read_text())
        host.process.send_signal(signal.SIGTERM)
        assert slow.result()[0] == 200
    assert host.process.wait(30) == 0
    assert not any(is_alive(pid) for pid in pids)


def test_a_drain_has_a_limit(start_host):
    """What outlasts it is ended, with a line that names the function."""
    host = start_host(options=["--drain-seconds", "1"])
    pid = host.instance_pids()["http-0"]
    with ThreadPoolExecutor(1) as pool:
        slow = pool.submit(_ignoring_errors, get, host, "/api/sleep?seconds=60")
        eventually(lambda: "began to sleep" in host.log.read_text())
        host.process.send_signal(signal.SIGINT)
        assert host.process.wait(30) == 0
        slow.result()
    assert not is_alive(pid)
    assert "still running after 1 s of draining: sleep" in host.log.read_text()


def _ignoring_errors(ask, *arguments):
    try:
        return ask(*arguments)
    except OSError:
        return None


def test_nothing_outlives_a_killed_supervisor(start_host):
    """Even SIGKILL of the supervisor leaves no instance behind."""
    host = start_host(instances=2)
    pids = list(host.instance_pids().values())
    host.process.kill()
    host.process.wait()
    eventually(lambda: not any(is_alive(pid) for pid in pids))


def test_on_flex_every_group_has_processes_of_its_own(start_host, azurite, settings):
    """A timer runs in its own process, by schedule and by hand, and shares no memory with HTTP functions."""
    for name in ("every_second", "hourly"):
        del settings[f"AzureWebJobs_{name}_Disabled"]
    host = start_host(flex=True)
    pids = host.instance_pids()
    assert {"http-0", "every_second-0", "hourly-0"} <= set(pids)
    assert len(set(pids.values())) == len(pids)
    assert get_json(host, "/api/calls")["pid"] == pids["http-0"]
    assert get(host, "/admin/functions/hourly", method="POST", body=b"{}")[0] == 202
    eventually(lambda: pids["hourly-0"] in {run["pid"] for run in runs(azurite, "hourly")})
    eventually(lambda: pids["every_second-0"] in {run["pid"] for run in runs(azurite, "every_second")})


def run_host(app, *words, settings=None):
    """Run a host that should not start; return its status and what it wrote."""
    command = [sys.executable, "-m", "functions_local_host", "--app", str(app), "--port", "0", *words]
    environment = {**os.environ, **(settings or {})}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=600, check=False)
    return done.returncode, done.stderr


def errors(output):
    """Return the error lines."""
    return [line for line in output.splitlines() if line.startswith("error: ")]


@pytest.mark.parametrize(
    ("host_json", "script", "reason"),
    [
        ({"version": "1.0"}, "", "host.json: version is '1.0'"),
        (
            {"version": "2.0", "extensions": {"queues": {"batchSize": 64}}},
            "",
            "batchSize is '64', the host takes 1 to 32",
        ),
        ({"version": "2.0"}, "raise RuntimeError('settings are wrong')", "RuntimeError: settings are wrong"),
        ({"version": "2.0"}, "", "has no top-level FunctionApp"),
    ],
)
def test_what_the_host_refuses_is_one_line_and_a_status(tmp_path, host_json, script, reason):
    """No traceback unless asked for."""
    (tmp_path / "host.json").write_text(json.dumps(host_json))
    (tmp_path / "function_app.py").write_text(script)
    status, output = run_host(tmp_path)
    assert status != 0
    assert reason in errors(output)[0]
    assert "Traceback" not in output
    assert "Traceback" in run_host(tmp_path, "--verbose")[1]


def test_a_missing_app_and_a_taken_port_are_named_with_the_fix(tmp_path):
    """The error says which option to use."""
    assert "name the app's folder with --app" in run_host(tmp_path)[1]
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        status, output = run_host(tmp_path, "--port", str(port))
    assert status != 0
    assert f"port {port} cannot be taken" in errors(output)[0]


@pytest.mark.parametrize(
    ("words", "reason"),
    [(("--timer-lease", "5"), "15 to 60 seconds"), (("--instances", "0"), "expected 1 or more")],
)
def test_an_option_out_of_range_is_refused(tmp_path, words, reason):
    """Before anything is started."""
    status, output = run_host(tmp_path, *words)
    assert status != 0
    assert reason in errors(output)[0]


def test_the_launcher_tells_why_a_host_did_not_start(tmp_path):
    """Its error carries the end of the log."""
    (tmp_path / "function_app.py").write_text("import nowhere")
    with pytest.raises(StartError, match="No module named 'nowhere'"):
        Host.start(tmp_path, {})


@pytest.mark.parametrize("connection", ["nonsense", "AccountName=a"])
def test_a_connection_string_that_is_none_is_named_and_not_shown(start_host, connection):
    """One line with the setting's name, at the start rather than at the first request."""
    with pytest.raises(StartError, match="connection 'AzureWebJobsStorage' is no connection string"):
        start_host({"AzureWebJobsStorage": connection})


def test_a_listener_that_cannot_go_on_ends_the_instance_which_is_started_again(azurite, settings, tmp_path):
    """Storage that refuses the host's key: one line with function and reason, a new start, and no traceback."""
    wrong = azurite.connection_string.replace(azurite.account.key, f"AAAA{azurite.account.key[4:]}")
    environment = {**os.environ, **settings, "AzureWebJobsStorage": wrong, "WORK_QUEUE": "some-queue"}
    log = tmp_path / "log"
    with log.open("wb") as output:
        command = [sys.executable, "-m", "functions_local_host", "--app", str(APP), "--port", "0"]
        process = subprocess.Popen(command, cwd=ROOT, env=environment, stderr=output)
    try:
        eventually(lambda: log.read_text().count("instance http-0 ended: a listener failed") >= 2)
    finally:
        process.terminate()
        process.wait()
    assert "the listener of on_work cannot go on, the instance ends: Server failed to authenticate" in log.read_text()
    assert "Traceback" not in log.read_text()


def test_a_function_in_error_does_not_keep_the_others_from_running(start_host, settings):
    """The status names it with the reason."""
    del settings["HOURLY"]
    host = start_host()
    assert get(host, "/api/text")[0] == 200
    (error,) = [line for line in host.status()["errors"] if line.startswith("hourly")]
    assert "'%HOURLY%' does not resolve to a value" in error
