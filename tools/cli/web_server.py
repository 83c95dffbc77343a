"""The server of `sluice web`: Werkzeug's own, on 127.0.0.1, for one person."""

import logging
import signal
import socket
import sys
import threading
import time
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final

import typer
from werkzeug.serving import BaseWSGIServer, ThreadedWSGIServer, WSGIRequestHandler

from capabilities.console.app import Application
from capabilities.console.session import LocalLogin
from capabilities.console.visit import View
from tools.cli.options import end

#: Only this machine.
ADDRESS: Final = "127.0.0.1"
#: Seconds that requests in work get at the end.
ENDS_WITHIN: Final = 5.0
#: Seconds in which a request must come, and its page must be sent. A page over many parked entries takes up to half a minute.
COMES_WITHIN: Final = 10.0
SENT_WITHIN: Final = 120.0
#: Connections at a time, each with a thread. A browser opens six.
MOST_CONNECTIONS: Final = 64


def serve(view: View, port: int, who: str, page: str, *, may_act: bool) -> None:
    """Serve the pages until a signal."""
    server = _listen(port)
    login = LocalLogin(server.port, who, may_act=may_act, monotonic=view.clock.monotonic)
    server.app = Application(view, login)
    _run(server, login, page)


@dataclass(slots=True)
class _Connection:
    """A connection since its begin."""

    since: float
    #: Whether its request came, up to its body.
    has_come: bool = False


class _Server(ThreadedWSGIServer):
    """Serves a bounded number of connections, and closes those that say nothing, or say it one byte at a time.

    Any user of this machine can connect. Where all are taken, the one makes room that has waited longest for its request.
    """

    def __init__(self, *given: Any, **named: Any) -> None:
        self._open: dict[socket.socket, _Connection] = {}
        self._lock = threading.Lock()
        super().__init__(*given, **named)

    def process_request(self, request: Any, client_address: Any) -> None:
        """Serve a connection in a thread of its own."""
        with self._lock:
            if len(self._open) >= MOST_CONNECTIONS:
                # Its thread notices, and ends.
                _cut(self._open, min(self._open, key=lambda one: (self._open[one].has_come, self._open[one].since)))
            self._open[request] = _Connection(time.monotonic())
        super().process_request(request, client_address)

    def note_come(self, request: socket.socket) -> None:
        """Note that the request of a connection is there."""
        with self._lock:
            if request in self._open:
                self._open[request].has_come = True

    def service_actions(self) -> None:
        """Cut the connections whose time is over. The library calls it twice a second."""
        now = time.monotonic()
        with self._lock:
            for request, one in list(self._open.items()):
                if now - one.since > (SENT_WITHIN if one.has_come else COMES_WITHIN):
                    _cut(self._open, request)
        super().service_actions()

    def shutdown_request(self, request: Any) -> None:
        """Close a connection that was served."""
        with self._lock:
            self._open.pop(request, None)
        super().shutdown_request(request)


def _cut(connections: dict[socket.socket, _Connection], request: socket.socket) -> None:
    del connections[request]
    # The other side may have closed it at this moment.
    with suppress(OSError):
        request.shutdown(socket.SHUT_RDWR)


class _Handler(WSGIRequestHandler):
    """Writes no line for a request: its address has a secret."""

    protocol_version = "HTTP/1.1"
    server: _Server

    def run_wsgi(self) -> None:
        """Answer a request that came."""
        self.server.note_come(self.connection)
        super().run_wsgi()

    def log(self, type: str, message: str, *args: Any) -> None:  # noqa: A002 - the library's name
        """Write nothing."""

    def version_string(self) -> str:
        """Return the name of the server, without versions."""
        return "sluice"


def _not_ready(_environ: Any, start: Any) -> list[bytes]:
    start("503 Service Unavailable", [("Retry-After", "1")])
    return []


def _listen(port: int) -> BaseWSGIServer:
    # Bound here, because the library ends the process where the port is taken.
    bound = socket.socket()
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        bound.bind((ADDRESS, port))
    except OSError as error:
        bound.close()
        end(f"cannot listen on {ADDRESS}:{port} ({error.strerror}): name another --port")
    bound.listen()
    with bound:
        # The library makes a socket of its own of the number, so this one is closed.
        return _Server(ADDRESS, port, _not_ready, _Handler, fd=bound.fileno())


def _run(server: BaseWSGIServer, login: LocalLogin, page: str) -> None:
    """Serve until a signal. Each line of the terminal prints a new address."""
    told_to_stop = threading.Event()
    # SIGHUP: the terminal was closed.
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda *_: told_to_stop.set())
    _show_faults()
    serving = threading.Thread(target=server.serve_forever, daemon=True)
    serving.start()
    typer.echo(f"{login.issue(page)}\nOpen it within a minute; it is good once. Enter: a new address. Ctrl-C: the end.")
    threading.Thread(target=_read_lines, args=(login, page), daemon=True).start()
    told_to_stop.wait()
    server.shutdown()
    serving.join(ENDS_WITHIN)
    server.server_close()


def _read_lines(login: LocalLogin, page: str) -> None:
    # Without a terminal, or when it was closed, there is nothing to read or to print.
    with suppress(OSError, ValueError):
        while sys.stdin.readline():
            typer.echo(login.issue(page))


def _show_faults() -> None:
    """Print what goes wrong in a page: here is no other log."""
    shown = logging.StreamHandler()
    shown.setLevel(logging.ERROR)
    logging.getLogger("sluice").addHandler(shown)
