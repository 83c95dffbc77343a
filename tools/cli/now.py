"""`sluice now`: what needs a person, as the first page of the console says it, and what was at a moment of the past.

Two requests, so the app may be down.
"""

import json
import os
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Annotated, Any, Final

import typer
from rich.table import Table

from shared.app import Stores
from shared.capability import find_known
from shared.operating import AuditedAct, find_needs
from shared.watch import (
    KEPT,
    Need,
    NeedKind,
    PastMoment,
    Standing,
    is_kind_of_job,
    name_kind,
)
from tools.cli.moments import show_moment
from tools.cli.options import PROBLEM_FOUND, ByOption, JsonOption, SettingsOption, WhyOption, connected, end, moment
from tools.cli.screen import Screen, clean
from tools.cli.watchable import watchable

DoneOption = Annotated[
    str,
    typer.Option(
        "--done", metavar="JOB", help="Take this off the list; the tick puts back a job that is open and in need."
    ),
]

AtOption = Annotated[
    str, typer.Option("--at", metavar="MOMENT", help="What was then, for instance 2026-11-25T02:13Z. Kept for 35 days.")
]
_HOUR: Final = timedelta(hours=1)


@watchable
def now(  # noqa: PLR0913 - each is an option
    by: ByOption,
    *,
    done: DoneOption = "",
    at: AtOption = "",
    why: WhyOption = "",
    settings: SettingsOption = None,
    as_json: JsonOption = False,
) -> None:
    """List what needs a person, the grave ones first: jobs that are paused, late or failed. Status 1: one is grave."""
    if at:
        _show_then(moment(at), settings, as_json=as_json)
        return
    if done:
        _take_off(done, by, why, settings)
    with connected(settings) as connections:
        stores = Stores(connections)
        found = stores.watch.read(stores.clock.now() - _HOUR)
        parked = stores.parked_table.count_open()
    standing = replace(found, needs=find_needs(found, parked, stores.clock.of_reply(found.named)))
    if as_json:
        needs = [_document(need) for need in standing.needs]
        typer.echo(json.dumps({"needs": needs, "more": [name_kind(kind) for kind in standing.more]}))
    elif standing.needs:
        Screen().show(_table(standing))
    else:
        typer.echo("nothing needs a person")
    if any(need.is_grave for need in standing.needs):
        raise typer.Exit(PROBLEM_FOUND)


def _show_then(at: datetime, settings: Path | None, *, as_json: bool) -> None:
    with connected(settings) as connections:
        then = Stores(connections).watch.read_moment(at)
    if as_json:
        typer.echo(json.dumps(_then_document(then)))
        return
    typer.echo(f"at {show_moment(at)} UTC")
    if at < datetime.now(UTC) - KEPT:
        typer.echo(f"nothing is kept from longer ago than {KEPT.days} days")
    elif then.point is None:
        typer.echo("no tick is recorded in the hour before")
    if then.gap:
        typer.echo(f"no tick is recorded from {show_moment(then.gap.since)} to {show_moment(then.gap.until)}")
    if then.point and (point := then.point.point):
        typer.echo(
            f"the last tick, {show_moment(then.point.at)}: {point.depth:,} messages waited, {point.tasks:,} tasks were allowed, "
            f"{point.processes:,} processes worked, {point.failed:,} deliveries failed"
        )
    if then.stood:
        rows = [(one.about, one.words, show_moment(one.first)) for one in then.stood]
        _show_rows(("of", "kind", "since (UTC)"), rows, "What needed a person")
    if then.acts:
        acts = [(show_moment(one.at), one.what, one.target, one.who, one.result) for one in then.acts]
        _show_rows(("at (UTC)", "act", "of", "who", "result"), acts, "Acts within half an hour")


def _show_rows(heads: Sequence[str], rows: Sequence[Sequence[str]], title: str) -> None:
    table = Table(*heads, title=title)
    for row in rows:
        table.add_row(*map(clean, row))
    Screen().show(table)


def _then_document(then: PastMoment) -> dict[str, Any]:
    point = then.point.point if then.point else None
    return {
        "at": then.at.isoformat(),
        "point": None
        if then.point is None or point is None
        else {
            "at": then.point.at.isoformat(),
            "depth": point.depth,
            "tasks": point.tasks,
            "processes": point.processes,
            "failed": point.failed,
        },
        "no_tick": then.gap and {"since": then.gap.since.isoformat(), "until": then.gap.until.isoformat()},
        "needs": [{"kind": one.words, "about": one.about, "since": one.first.isoformat()} for one in then.stood],
        "acts": [
            {"at": one.at.isoformat(), "what": one.what, "target": one.target, "who": one.who, "result": one.result}
            for one in then.acts
        ],
    }


def _take_off(job: str, by: str, why: str, settings: Path | None) -> None:
    with connected(settings) as connections:
        stores = Stores(connections)
        kinds = {need.kind for need in stores.watch.read().needs if need.about == job}
        # More may stand than are read at once.
        kinds |= set(filter(is_kind_of_job, NeedKind)) if stores.ledger.read(job) else set()
        if not kinds:
            end(f"there is no job {job!r}, and nothing of this name needs a person: nothing was done")
        with stores.audit.record(AuditedAct(by, "need done", job, why)) as act:
            for kind in sorted(kinds):
                stores.watch.end(kind, job, stores.clock.now())
            act.result = "taken off the list"


def _find_remedy(need: Need) -> str:
    """Return the way out. Kinds of capabilities are looked for only where one of them stands."""
    found = (one for known in find_known(os.environ) for one in known.capability.needs if one.kind == need.kind)
    return need.remedy or next((one.remedy for one in found), "")


def _document(need: Need) -> dict[str, Any]:
    return {
        "kind": need.words,
        "about": need.about,
        "found": need.found,
        "remedy": _find_remedy(need),
        "grave": need.is_grave,
        "since": need.since and need.since.isoformat(),
        "at": need.at.isoformat(),
    }


def _table(standing: Standing) -> Table:
    more = ", ".join(name_kind(kind) for kind in standing.more)
    caption = f"there are more of: {more} (sluice jobs list)" if more else None
    table = Table("of", "kind", "found", "since (UTC)", "what to do", title="What needs a person", caption=caption)
    for need in standing.needs:
        since = show_moment(need.since) if need.since else ""
        kind = need.words if need.is_grave else f"{need.words} (notice)"
        table.add_row(*map(clean, (need.about, kind, need.found, since, _find_remedy(need))))
    return table
