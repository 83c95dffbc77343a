"""`sluice now`: what needs a person, as the first page of the console says it. One request, so the app may be down."""

import json
from datetime import UTC
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table

from shared.app import Stores
from shared.operating import AuditedAct
from shared.watch import Need, NeedKind, Standing, name_kind
from tools.cli.options import PROBLEM_FOUND, ByOption, JsonOption, SettingsOption, WhyOption, connected, end
from tools.cli.screen import Screen, clean

DoneOption = Annotated[
    str,
    typer.Option(
        "--done", metavar="JOB", help="Take this job off the list; the tick puts one back that is open and in need."
    ),
]


def now(
    by: ByOption,
    *,
    done: DoneOption = "",
    why: WhyOption = "",
    settings: SettingsOption = None,
    as_json: JsonOption = False,
) -> None:
    """List what needs a person, the grave ones first: jobs that are paused, late or failed. Status 1: one is grave."""
    if done:
        _take_off(done, by, why, settings)
    with connected(settings) as connections:
        standing = Stores(connections).watch.read()
    if as_json:
        needs = [_document(need) for need in standing.needs]
        typer.echo(json.dumps({"needs": needs, "more": [name_kind(kind) for kind in standing.more]}))
    elif standing.needs:
        Screen().show(_table(standing))
    else:
        typer.echo("nothing needs a person")
    if any(need.is_grave for need in standing.needs):
        raise typer.Exit(PROBLEM_FOUND)


def _take_off(job: str, by: str, why: str, settings: Path | None) -> None:
    with connected(settings) as connections:
        stores = Stores(connections)
        if stores.ledger.read(job) is None:
            end(f"there is no job {job!r}: nothing was done")
        with stores.audit.record(AuditedAct(by, "need done", job, why)) as act:
            for kind in NeedKind:
                stores.watch.end(kind, job, stores.clock.now())
            act.result = "taken off the list"


def _document(need: Need) -> dict[str, Any]:
    return {
        "kind": need.words,
        "about": need.about,
        "found": need.found,
        "remedy": need.remedy,
        "grave": need.is_grave,
        "since": need.since and need.since.isoformat(),
        "at": need.at.isoformat(),
    }


def _table(standing: Standing) -> Table:
    more = ", ".join(name_kind(kind) for kind in standing.more)
    caption = f"there are more of: {more} (sluice jobs list)" if more else None
    table = Table("job", "kind", "found", "since (UTC)", "what to do", title="What needs a person", caption=caption)
    for need in standing.needs:
        since = f"{need.since.astimezone(UTC):%Y-%m-%d %H:%M:%S}" if need.since else ""
        kind = need.words if need.is_grave else f"{need.words} (notice)"
        table.add_row(*map(clean, (need.about, kind, need.found, since, need.remedy)))
    return table
