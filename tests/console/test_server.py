"""`sluice web` as a person runs it: a process, an address in the terminal, a browser, and an end."""

import re
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from http.cookiejar import CookieJar
from pathlib import Path

import pytest

from local.paths import ROOT

SLUICE = Path(sys.executable).parent / "sluice"
(BLOCK,) = re.findall(r"^```sh\n(.*?)^```", (ROOT / "docs" / "console.md").read_text(), re.DOTALL | re.MULTILINE)
CALLS = [line.partition("#")[0].split() for line in BLOCK.splitlines()]


@pytest.fixture
def start(stack_settings, tmp_path):
    """Start the command; it is stopped at the end."""
    started = []

    def begin(*arguments):
        environment = {"PATH": "/usr/bin:/bin", "HOME": str(tmp_path), "PYTHONPATH": str(ROOT), **stack_settings}
        process = subprocess.Popen(
            [SLUICE, *arguments],
            env=environment,
            cwd=tmp_path,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        started.append(process)
        return process

    yield begin
    for process in started:
        process.kill()
        process.communicate()


def browse():
    """Return a browser that keeps its cookies."""
    return urllib.request.build_opener(urllib.request.HTTPCookieProcessor(CookieJar()))


def next_address(process):
    """Return the next address that the terminal shows."""
    for line in process.stdout:
        if line.startswith("http://127.0.0.1:"):
            return line.strip()
    raise AssertionError(process.stderr.read())


@pytest.mark.parametrize("call", CALLS, ids=" ".join)
def test_each_call_of_the_page_opens_the_console(start, call):
    """The address leads to the page that was wanted."""
    process = start(*call[1:])
    address = next_address(process)
    with browse().open(address, timeout=30) as reply:
        assert reply.status == 200
        page = call[call.index("--open") + 1] if "--open" in call else "/"
        assert reply.url.endswith(page)
        text = reply.read().decode()
    assert ("and may only read" in text) is ("--read-only" in call)
    if "--port" in call:
        assert f":{call[call.index('--port') + 1]}/" in address


def test_enter_prints_another_address_and_a_signal_ends_it(start):
    """The first one was used: only a new one lets another browser in."""
    process = start("web")
    first = next_address(process)
    browse().open(first, timeout=30).close()
    with pytest.raises(urllib.error.HTTPError, match="403"):
        browse().open(first, timeout=30)
    process.stdin.write("\n")
    process.stdin.flush()
    browse().open(next_address(process), timeout=30).close()
    process.send_signal(signal.SIGTERM)
    assert process.wait(15) == 0
    # No line has an address of a request: it would have the secret folder.
    assert process.stderr.read() == ""


def test_a_port_that_is_taken_is_one_line(start):
    """It says what to do."""
    port = re.search(r":(\d+)/", next_address(start("web")))[1]
    second = start("web", "--port", port)
    _, said = second.communicate(timeout=30)
    assert second.returncode == 1
    assert f"cannot listen on 127.0.0.1:{port}" in said
    assert said.count("\n") == 1
