"""Common options, exit statuses and connections of all commands."""

import getpass
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated
from urllib.parse import urlsplit
from urllib.request import getproxies

import typer

from shared.azure import Connections
from shared.errors import StorageUnavailableError
from shared.grammar import is_room
from tools.cli.settings_file import load_connected

#: Exit statuses: 0 all is well, 1 something was found or failed, 2 the call or the settings make no sense.
PROBLEM_FOUND, WRONG_CALL = 1, 2

#: Seconds that a person waits to read that storage cannot be reached.
ANSWERS_WITHIN = 3.0
DEFAULT_PORTS = {"http": 80, "https": 443}

SettingsOption = Annotated[
    Path | None, typer.Option("--settings", help="The settings file to read instead of the default ones.")
]
PricesOption = Annotated[
    Path | None, typer.Option("--prices", help="Prices of your own: a file as `sluice cost prices` prints it.")
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON document for programs.")]


def _user() -> str:
    return f"{getpass.getuser()}@{socket.gethostname()}"


WhyOption = Annotated[
    str, typer.Option(help="Kept in the audit, and in the history where there is one.", metavar="TEXT")
]
ByOption = Annotated[str, typer.Option(help="The operator's name, for the audit.", default_factory=_user)]
YesOption = Annotated[bool, typer.Option("--yes", help="Do not ask.")]


def room_name(text: str) -> str:
    """Return a typed name of a room, or the empty text for the common one."""
    if text and not is_room(text):
        raise typer.BadParameter(
            f"{text!r} is not a room: use small letters, digits and single hyphens, such as team-a"
        )
    return text


def moment(text: str) -> datetime:
    """Return a typed time in UTC."""
    try:
        at = datetime.fromisoformat(text)
    except ValueError as error:
        raise typer.BadParameter(f"{text!r} is not a valid time: use the form 2026-11-21T09:00Z") from error
    if at.tzinfo is None:
        raise typer.BadParameter(f"{text!r} has no time zone: write {text}Z for UTC")
    return at.astimezone(UTC)


@contextmanager
def connected(settings: Path | None) -> Iterator[Connections]:
    """Yield connections to the installation of the settings, with the person's own login if they hold no key."""
    with Connections.parse(load_connected(settings), is_person=True) as connections:
        _check_answer(connections.tables.url)
        yield connections


def _check_answer(url: str) -> None:
    """Raise StorageUnavailableError if nothing listens there. The library would try for half a minute."""
    parts = urlsplit(url)
    host, port = parts.hostname or "", parts.port or DEFAULT_PORTS[parts.scheme]
    if getproxies():
        # Then only the proxy may reach it.
        return
    try:
        socket.create_connection((host, port), ANSWERS_WITHIN).close()
    except OSError as error:
        raise StorageUnavailableError(
            f"storage does not answer at {host}:{port} ({error.strerror or error}): is the stack running (`make up`), or "
            "the network down?"
        ) from error
