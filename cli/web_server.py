"""The server of `sluice web`: Werkzeug's own, on 127.0.0.1, for one person."""

import logging
import signal
import socket
import sys
import threading
from contextlib import suppress
from typing import Any, Final

import typer
from werkzeug.serving import BaseWSGIServer, WSGIRequestHandler, make_server

from cli.options import PROBLEM_FOUND
from console import Application, LocalLogin, View

#: Only this machine.
ADDRESS: Final = "127.0.0.1"
#: Seconds that requests in work get at the end.
ENDS_WITHIN: Final = 5.0


def serve(view: View, port: int, who: str, page: str, *, may_act: bool) -> None:
    """Serve the pages until a signal."""
    server = _listen(port)
    login = LocalLogin(server.port, who, may_act=may_act, monotonic=view.clock.monotonic)
    server.app = Application(view, login)
    _run(server, login, page)


class _Handler(WSGIRequestHandler):
    """Writes no line for a request: its address has a secret."""

    protocol_version = "HTTP/1.1"

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
        typer.echo(f"sluice: cannot listen on {ADDRESS}:{port} ({error.strerror}): name another --port", err=True)
        raise typer.Exit(PROBLEM_FOUND) from error
    bound.listen()
    with bound:
        # The library makes a socket of its own of the number, so this one is closed.
        return make_server(ADDRESS, port, _not_ready, threaded=True, request_handler=_Handler, fd=bound.fileno())


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
