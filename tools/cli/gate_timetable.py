"""`sluice gate open --every`: sets the timetable of a gate, or ends it."""

import json
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Final

import typer

from shared.app import Stores
from shared.errors import ScheduleRefusedError
from shared.gate import Timetable, TimetableRow, is_of_timetable
from shared.operating import TimetableResult
from shared.scaling import InstanceRequest, WarmChoice
from shared.settings import Settings
from tools.cli import gate_view as view
from tools.cli.moments import describe_plan, show_moment
from tools.cli.options import WRONG_CALL, connected, end
from tools.cli.settings_file import load as load_settings
from tools.cli.warm import HOW_TO_CARRY_OUT, HOW_TO_WARM, choice_of

#: Of --every: ends the timetable.
OFF: Final = "off"
#: Days on which the clock changes, of those that a timetable meets.
_MOST_DAYS: Final = 4


@dataclass(frozen=True, slots=True)
class Wanted:
    """A timetable as it was typed."""

    gate: str
    every: str
    zone: str
    minutes: float | None
    by: str
    why: str


def refuse(gate: str, every: str, zone: str, at: datetime | None, seed: str) -> str:
    """Return why a gate cannot have such a timetable, or an empty text."""
    if not every:
        return f"gate {gate!r}: --zone goes with --every" if zone else ""
    if at is not None:
        return f"gate {gate!r}: --at is one opening, --every is many: choose one of the two"
    if seed:
        return f"gate {gate!r}: a lottery has one opening, which is done by hand: leave out --every"
    if every == OFF:
        return f"gate {gate!r}: --every off ends the timetable, whose zone is known: leave out --zone" if zone else ""
    return "" if zone else f"gate {gate!r}: --every needs --zone, for instance --zone Europe/Berlin or --zone UTC"


def change(wanted: Wanted, settings: Path | None, *, is_sure: bool, as_json: bool) -> None:
    """Set the timetable, or end it, and say when the gate opens."""
    gate = wanted.gate
    with connected(settings) as connections:
        stores = Stores(connections)
        if wanted.every == OFF:
            row, done = None, stores.build_timetabler(None).end(gate, by=wanted.by, why=wanted.why)
            lines = _end_lines(gate, done)
        else:
            choice = choice_of(Settings.parse(load_settings(settings)))
            row = TimetableRow(
                line=" ".join(wanted.every.split()),
                zone=wanted.zone,
                minutes=wanted.minutes,
                by=wanted.by,
                why=wanted.why,
                set_at=stores.clock.now(),
            )
            try:
                timetable = Timetable.of(row, row.set_at)
                if not is_sure:
                    typer.confirm(_question(stores, gate, timetable), abort=True, err=True)
                done = stores.build_timetabler(choice).set(gate, row)
            except ScheduleRefusedError as error:
                end(f"gate {gate!r}: {error}", WRONG_CALL)
            lines = _set_lines(gate, timetable, done)
            lines += _warm_lines(row, done, choice)
        document = view.timetable_outcome(gate, done, stores.held.summary(gate), row)
    typer.echo(json.dumps(document) if as_json else "\n".join(lines))
    if done.unsignalled and not as_json:
        typer.echo(f"sluice: {done.unsignalled}", err=True)


def _question(stores: Stores, gate: str, timetable: Timetable) -> str:
    held = stores.held.summary(gate)
    return (
        f"{timetable.words}: each time this starts all that {gate} holds then, and cannot be undone. It holds "
        f"{held.count} now. Go on?"
    )


def _set_lines(gate: str, timetable: Timetable, done: TimetableResult) -> list[str]:
    lines = [f"{gate} opens {timetable.words}, each time once" + ("" if done.is_changed else ": it was so already")]
    planned = done.after.scheduled
    if planned is None:
        lines.append("no opening is planned now: the next one was cancelled, or comes into the plan within a minute")
    elif is_of_timetable(planned):
        lines.append(f"next: {show_moment(planned.at)} UTC")
    else:
        lines.append(f"next: {describe_plan(planned)} UTC, planned by {planned.by}; the timetable goes on after it")
    if days := timetable.changes_of_clock(timetable.row.set_at)[:_MOST_DAYS]:
        lines.append(f"the clock changes: {', '.join(days)}: each of its times comes once on each day")
    return lines


def _warm_lines(row: TimetableRow, done: TimetableResult, choice: WarmChoice | None) -> list[str]:
    if row.minutes is None:
        return []
    if choice is None:
        return [HOW_TO_WARM]
    planned, lines = done.after.scheduled, []
    if planned is not None and is_of_timetable(planned):
        begin = show_moment(planned.at - InstanceRequest().lead)
        lines = [f"instances are warmed from {begin} UTC on, and before each opening to come"]
    return lines if choice.identity else [*lines, HOW_TO_CARRY_OUT]


def _end_lines(gate: str, done: TimetableResult) -> list[str]:
    lines = [f"{gate} has no timetable any more" if done.is_changed else f"{gate} had no timetable"]
    if planned := done.after.scheduled:
        lines.append(f"it opens at {describe_plan(planned)} UTC all the same, planned by {planned.by}")
    return lines
