"""`sluice web` as a person runs it: a process, an address in the terminal, a browser, and an end."""

import re
import select
import signal
import socket
import subprocess
import sys
import threading
import urllib.error
import urllib.request
from contextlib import suppress
from http.cookiejar import CookieJar
from pathlib import Path

import pytest

from tests.waiting import LIMIT, until
from tools.cli import web_server
from tools.local.paths import ROOT

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
    with browse().open(address, timeout=LIMIT) as reply:
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
    browse().open(first, timeout=LIMIT).close()
    with pytest.raises(urllib.error.HTTPError, match="403"):
        browse().open(first, timeout=LIMIT)
    process.stdin.write("\n")
    process.stdin.flush()
    browse().open(next_address(process), timeout=LIMIT).close()
    process.send_signal(signal.SIGTERM)
    assert process.wait(LIMIT) == 0
    # No line has an address of a request: it would have the secret folder.
    assert process.stderr.read() == ""


@pytest.fixture
def hall(monkeypatch):
    """The server alone, with room for four connections, and little patience with those that say nothing."""
    monkeypatch.setattr(web_server, "MOST_CONNECTIONS", 4)
    monkeypatch.setattr(web_server, "COMES_WITHIN", 1.0)
    server = web_server._listen(0)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    opened = []

    def connect(said=b""):
        opened.append(socket.create_connection((web_server.ADDRESS, server.port), timeout=LIMIT))
        opened[-1].sendall(said)
        return opened[-1]

    yield server, connect
    server.shutdown()
    thread.join(LIMIT)
    server.server_close()
    for one in opened:
        one.close()


GOOD = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"


@pytest.mark.parametrize("said", [b"", b"GET / HTTP/1.1\r\nHo"])
def test_a_connection_that_says_nothing_more_is_closed(hall, said):
    """And one that sends one byte at a time: what counts is when it began."""
    server, connect = hall
    quiet, slow = connect(said), connect(said)
    feeding = threading.Thread(target=feed, args=(slow,), daemon=True)
    feeding.start()
    assert quiet.recv(1) == b""
    feeding.join(LIMIT)
    assert not feeding.is_alive()
    until(lambda: not server._open)


def feed(connection):
    """Send a byte at a time until the connection is closed."""
    with suppress(OSError):
        while not select.select([connection], [], [], 0.05)[0]:
            connection.send(b"x")


def test_connections_that_say_nothing_make_room_for_one_that_does(hall, monkeypatch):
    """However many they are, there are no more threads than connections."""
    monkeypatch.setattr(web_server, "COMES_WITHIN", 3600.0)
    _, connect = hall
    before = threading.active_count()
    quiet = [connect() for _ in range(40)]
    until(lambda: all(one.recv(1) == b"" for one in quiet[:36]))
    until(lambda: threading.active_count() <= before + 4)
    assert connect(GOOD).recv(12) == b"HTTP/1.1 503"


def test_a_request_in_work_is_not_cut_for_one_that_waits(hall, monkeypatch):
    """A page may take its time, and the bound is for those that hold a place without a word."""
    monkeypatch.setattr(web_server, "COMES_WITHIN", 3600.0)
    server, connect = hall
    begun, may_end = threading.Event(), threading.Event()

    def slow(_environ, start):
        begun.set()
        may_end.wait(LIMIT)
        start("200 OK", [("Content-Length", "2")])
        return [b"ok"]

    server.app = slow
    page = connect(GOOD)
    assert begun.wait(LIMIT)
    quiet = [connect() for _ in range(20)]
    until(lambda: all(one.recv(1) == b"" for one in quiet[:17]))
    may_end.set()
    assert page.recv(12) == b"HTTP/1.1 200"


def test_the_address_is_not_used_up_by_who_only_looks_at_it(start):
    """A HEAD is refused, as every act but a GET. The browser is let in after it."""
    address = next_address(start("web"))
    for method in ("HEAD", "POST", "OPTIONS"):
        with pytest.raises(urllib.error.HTTPError, match="405"):
            browse().open(urllib.request.Request(address, method=method), timeout=LIMIT)
    with browse().open(address, timeout=LIMIT) as reply:
        assert reply.status == 200


def test_a_port_that_is_taken_is_one_line(start):
    """It says what to do."""
    port = re.search(r":(\d+)/", next_address(start("web")))[1]
    second = start("web", "--port", port)
    _, said = second.communicate(timeout=LIMIT)
    assert second.returncode == 1
    assert f"cannot listen on 127.0.0.1:{port}" in said
    assert said.count("\n") == 1
