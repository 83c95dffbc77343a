"""Common options, exit statuses and connections of all commands."""

import getpass
import json
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, NoReturn
from urllib.parse import urlsplit
from urllib.request import getproxies

import typer

from shared.errors import StorageUnavailableError
from shared.grammar import is_room

if TYPE_CHECKING:
    from shared.azure import Connections

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
#: True while a command works for a program. Its errors are JSON too.
_FOR_PROGRAM: Final = ContextVar("for_program", default=False)


def note_reader(as_json: bool) -> bool:  # noqa: FBT001 - typer calls it with the flag's value
    """Remember who reads the errors of this call."""
    _FOR_PROGRAM.set(as_json)
    return as_json


JsonOption = Annotated[
    bool, typer.Option("--json", callback=note_reader, help="Print one JSON document for programs, errors too.")
]


def _user() -> str:
    return f"{getpass.getuser()}@{socket.gethostname()}"


WhyOption = Annotated[
    str, typer.Option(help="Kept in the audit, and in the history where there is one.", metavar="TEXT")
]
ByOption = Annotated[str, typer.Option(help="The operator's name, for the audit.", default_factory=_user)]
DryRunOption = Annotated[bool, typer.Option("--dry-run", help="Say what it would do, and do nothing.")]
YesOption = Annotated[bool, typer.Option("--yes", help="Do not ask.")]

#: For the commands with `--limit`: its name before 0.5.0 still works. The help does not show it.
FORMER_NAMES = {"token_normalize_func": lambda name: "limit" if name == "most" else name}


def complain(text: str, status: int, *, as_json: bool) -> None:
    """Say what is wrong on the standard error, to a person or, where JSON was asked, to a program."""
    typer.echo(json.dumps({"error": text, "status": status}) if as_json else f"sluice: {text}", err=True)


def end(text: str, status: int = PROBLEM_FOUND) -> NoReturn:
    """Say why the command ends here, and end it."""
    complain(text, status, as_json=_FOR_PROGRAM.get())
    raise typer.Exit(status)


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
def connected(settings: Path | None) -> "Iterator[Connections]":
    """Yield connections to the installation of the settings, with the person's own login if they hold no key."""
    # Neither help nor completion needs these, and they import the libraries of Azure.
    from shared.azure import Connections  # noqa: PLC0415
    from tools.cli.settings_file import load_connected  # noqa: PLC0415

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
