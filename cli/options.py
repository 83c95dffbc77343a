"""What every command shares: its common options, its exit statuses, its connections."""

import getpass
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from cli.settings_file import load
from shared.connections import Connections

#: Exit statuses: 0 all is well, 1 something was found or failed, 2 the call or the settings make no sense.
PROBLEM_FOUND, WRONG_CALL = 1, 2

SettingsOption = Annotated[
    Path | None, typer.Option("--settings", help="A settings file to read instead of the ones looked for.")
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON document for programs.")]


def _user() -> str:
    return f"{getpass.getuser()}@{socket.gethostname()}"


WhyOption = Annotated[
    str, typer.Option(help="Kept in the audit, and in the history where there is one.", metavar="TEXT")
]
ByOption = Annotated[str, typer.Option(help="Who does it, for the audit.", default_factory=_user)]
YesOption = Annotated[bool, typer.Option("--yes", help="Do not ask.")]


def moment(text: str) -> datetime:
    """Return a time that somebody typed, in UTC."""
    try:
        at = datetime.fromisoformat(text)
    except ValueError as error:
        raise typer.BadParameter(f"{text!r} is no time: write for instance 2026-11-21T09:00Z") from error
    if at.tzinfo is None:
        raise typer.BadParameter(f"{text!r} has no time zone: write {text}Z for UTC")
    return at.astimezone(UTC)


@contextmanager
def connected(settings: Path | None) -> Iterator[Connections]:
    """Yield connections to the installation that the settings name, with a person's own login where they hold no key."""
    with Connections.parse(load(settings), is_person=True) as connections:
        yield connections
