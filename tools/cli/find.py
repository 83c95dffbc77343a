"""`sluice find`: jobs, gates, causes and numbers by a part of their names. Reads storage, so the app may be down."""

import json
from typing import Annotated, Final

import typer
from rich.table import Table

from shared.app import Stores
from shared.operating import NEWEST, Hit, HitKind
from tools.cli.options import PROBLEM_FOUND, JsonOption, SettingsOption, connected
from tools.cli.screen import Screen, clean

#: What shows more of it.
_NEXT: Final = {
    HitKind.JOB: "sluice jobs show",
    HitKind.GATE: "sluice gate status",
    HitKind.CAUSE: "sluice parked list",
    HitKind.NUMBER: "sluice ids explain transactions",
}


def find(
    text: Annotated[str, typer.Argument(help="The beginning of a job's id, or a part of a gate or a cause.")],
    *,
    further: Annotated[
        bool, typer.Option("--further", help=f"Also any part of the ids of the newest {NEWEST:,} jobs.")
    ] = False,
    settings: SettingsOption = None,
    as_json: JsonOption = False,
) -> None:
    """Find jobs, gates, causes and numbers by a part of their names. Status 1: nothing has it."""
    with connected(settings) as connections:
        hits = list(Stores(connections).finder.find(text.strip(), further=further))
    if as_json:
        found = [{"kind": hit.kind, "name": hit.name, "words": hit.words, "exact": hit.is_exact} for hit in hits]
        typer.echo(json.dumps({"found": found}))
    elif hits:
        Screen().show(_table(hits))
    else:
        typer.echo("nothing has it in its name", err=True)
    if not hits:
        raise typer.Exit(PROBLEM_FOUND)


def _table(hits: list[Hit]) -> Table:
    table = Table("found", "name", "what it is", "next", title="What was found")
    for hit in hits:
        table.add_row(*map(clean, (hit.kind, hit.name, hit.words, _NEXT.get(hit.kind, ""))))
    return table
