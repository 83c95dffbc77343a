"""`sluice audit`: who did what, when and why."""

import json
from datetime import UTC, datetime
from typing import Annotated

import typer
from rich.table import Table

from shared.app import Stores
from shared.operating import RecordedAct
from tools.cli.moments import show_moment
from tools.cli.options import JsonOption, SettingsOption, connected
from tools.cli.screen import Screen, clean


def _month(text: str | None) -> str:
    if text is None:
        return f"{datetime.now(UTC):%Y-%m}"
    try:
        return f"{datetime.strptime(text, '%Y-%m').replace(tzinfo=UTC):%Y-%m}"
    except ValueError as error:
        raise typer.BadParameter(f"{text!r} is no month: use the form 2026-11") from error


def audit(  # noqa: PLR0913 - each option of the command is an argument
    month: Annotated[
        str | None, typer.Argument(callback=_month, metavar="[MONTH]", help="UTC, such as 2026-11; else this month.")
    ] = None,
    *,
    who: Annotated[str, typer.Option("--by", metavar="TEXT", help="Only by people whose name has this in it.")] = "",
    about: Annotated[
        str, typer.Option(metavar="TEXT", help="Only what has this in its target: a gate, a job, a fingerprint.")
    ] = "",
    limit: Annotated[int, typer.Option(min=1, max=10_000, help="How many, the newest first.")] = 50,
    settings: SettingsOption = None,
    as_json: JsonOption = False,
) -> None:
    """List the acts of operators: each was written before its effect, and its result after it."""
    with connected(settings) as connections:
        found = Stores(connections).audit.newest(month or "", limit, who=who, about=about)
    if as_json:
        typer.echo(json.dumps({"month": month, "acts": [_document(one) for one in found]}))
    elif found:
        Screen().show(_table(found))
    else:
        typer.echo(f"no such act was recorded in {month}")


def _document(one: RecordedAct) -> dict[str, object]:
    act = one.act
    known = {"who": act.who, "what": act.what, "target": act.target, "why": act.why, "result": act.result}
    return {"at": one.at.isoformat(), **known, "details": act.details}


def _table(found: list[RecordedAct]) -> Table:
    table = Table("when (UTC)", "who", "what", "target", "result", "why", "details", title="Acts, the newest first")
    for one in found:
        act = one.act
        details = ", ".join(f"{name} {value}" for name, value in act.details.items())
        texts = map(clean, (act.who, act.what, act.target, act.result, act.why, details))
        table.add_row(show_moment(one.at), *texts)
    return table
