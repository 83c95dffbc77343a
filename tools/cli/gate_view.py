"""How `sluice gate` shows gates: tables for people, one documented JSON shape for programs."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from rich.table import Table

from shared.gate import (
    FirstChunk,
    GateState,
    HeldSummary,
    Receipt,
    Roll,
    SeenBy,
    Spread,
    TimetableRow,
    change_fields,
    describe_timetable,
    spread,
    stragglers,
    timestamp,
)
from shared.operating import (
    GATES,
    ForecastNote,
    GateActResult,
    Happened,
    Overview,
    TimetableResult,
    describe_check,
    describe_duration,
    describe_gate,
)
from tools.cli.lists import make_list
from tools.cli.moments import describe_plan, show_moment
from tools.cli.screen import Screen, clean

#: A person sees the last changes on one screen; --json has all that the blob keeps.
LAST_SHOWN = 10


def gate_document(gate: str, state: GateState, held: HeldSummary) -> dict[str, object]:
    """Return the gate as JSON has it, the same in every command."""
    plan = state.scheduled
    return {
        "gate": gate,
        "state": "open" if state.is_open else "closed",
        "epoch": state.epoch,
        "opened_by": state.opened_by,
        "why": state.why,
        "at": timestamp(state.at),
        "once": state.once,
        "scheduled": plan and {"at": timestamp(plan.at), "once": plan.once, "by": plan.by, "why": plan.why},
        "held": {"count": held.count, "oldest": timestamp(held.oldest)},
    }


def outcome_document(gate: str, outcome: GateActResult, held: HeldSummary) -> dict[str, object]:
    """Return the effect of a command as JSON."""
    document = gate_document(gate, outcome.after, held)
    return {**document, "changed": outcome.is_changed, "unsignalled": outcome.unsignalled}


def timetable_fields(row: TimetableRow | None) -> dict[str, object]:
    """Return the timetable of a gate: null if it has none."""
    found = row and {
        "every": row.line,
        "zone": row.zone,
        "minutes": row.minutes,
        "by": row.by,
        "why": row.why,
        "set_at": timestamp(row.set_at),
    }
    return {"timetable": found}


def timetable_outcome(
    gate: str, done: TimetableResult, held: HeldSummary, row: TimetableRow | None
) -> dict[str, object]:
    """Return the effect of an act on a timetable as JSON."""
    document = gate_document(gate, done.after, held) | timetable_fields(row)
    return {**document, "changed": done.is_changed, "unsignalled": done.unsignalled}


def roll_fields(roll: Roll | None) -> dict[str, object]:
    """Return the roll in the answer to an opening: null if the gate held no orders."""
    found = {"order": roll.order, "orders": len(roll.places), "sha256": roll.sha256} if roll else None
    return {"roll": found}


@dataclass(frozen=True, slots=True)
class Status:
    """Everything about one gate."""

    row: Overview
    #: Those of its last epoch and of the one before.
    receipts: list[Receipt]
    #: Those of all its epochs.
    first_chunks: list[FirstChunk]
    timetable: TimetableRow | None = None
    #: The forecast of the last opening, and what happened.
    checked: tuple[ForecastNote, Happened] | None = None

    @property
    def spreads(self) -> dict[SeenBy, Spread]:
        """The lags of the nodes for the last epoch, by the way they saw it."""
        return _by_way((receipt.how, receipt.lag) for receipt in self.receipts if receipt.epoch == self.row.state.epoch)

    @property
    def delays(self) -> dict[SeenBy, Spread]:
        """The delays of the first chunks of all epochs, by the way the releaser saw the opening."""
        return _by_way((found.how, found.delay) for found in self.first_chunks)

    @property
    def first_chunk(self) -> FirstChunk | None:
        """That of the last epoch, or None if no chunk that it released has begun."""
        return next((found for found in self.first_chunks if found.epoch == self.row.state.epoch), None)

    @property
    def stragglers(self) -> dict[str, str]:
        """Nodes that are late or missing for the last epoch, with the reason."""
        return stragglers(self.receipts, self.row.state.epoch)


def _by_way(delays: Iterable[tuple[SeenBy, timedelta]]) -> dict[SeenBy, Spread]:
    every = list(delays)
    found = {how: spread(delay for seen_by, delay in every if seen_by is how) for how in SeenBy}
    return {how: one for how, one in found.items() if one}


def status_document(status: Status) -> dict[str, object]:
    """Return everything about a gate as JSON has it."""
    return {
        **gate_document(status.row.gate, status.row.state, status.row.held),
        **timetable_fields(status.timetable),
        "receipts": {how.value: _spread_fields(found) for how, found in status.spreads.items()},
        "first_chunk": status.first_chunk and _first_chunk_fields(status.first_chunk),
        "first_chunks": {
            how.value: {"openings": found.number, **_percentiles(found)} for how, found in status.delays.items()
        },
        "stragglers": status.stragglers,
        **check_fields(status.checked),
        "changes": [change_fields(change) for change in status.row.state.changes],
    }


def check_fields(checked: tuple[ForecastNote, Happened] | None) -> dict[str, object]:
    """Return the forecast of the last opening and its outcome, as JSON has them."""
    if checked is None:
        return {"forecast": None, "happened": None}
    note, happened = checked
    return {
        "forecast": {
            "jobs": note.jobs,
            "ends": timestamp(note.ends),
            "amount": str(note.amount),
            "currency": note.currency,
        },
        "happened": {
            "jobs": happened.jobs,
            "ended": happened.ended,
            "ended_at": timestamp(happened.ended_at),
            "amount": str(happened.amount),
        },
    }


def overview_document(rows: Iterable[Overview], timetables: Mapping[str, TimetableRow]) -> dict[str, object]:
    """Return all gates as JSON has them."""
    return {"gates": [_overview_fields(row) | timetable_fields(timetables.get(row.gate)) for row in rows]}


def _overview_fields(row: Overview) -> dict[str, object]:
    fields = {**gate_document(row.gate, row.state, row.held), "never_opened": row.state.epoch == 0}
    return {**fields, "state": "unreadable", "problem": row.problem} if row.problem else fields


def _spread_fields(found: Spread) -> dict[str, object]:
    return {"nodes": found.number, **_percentiles(found)}


def _percentiles(found: Spread) -> dict[str, object]:
    return {"p50": round(found.p50, 3), "p99": round(found.p99, 3)}


def _first_chunk_fields(found: FirstChunk) -> dict[str, object]:
    seconds = round(found.delay.total_seconds(), 3)
    return {"seconds": seconds, "how": found.how.value, "node": found.node, "at": timestamp(found.began_at)}


def _first_chunk_words(found: FirstChunk) -> str:
    return f"began {found.delay.total_seconds():.3f} s after the opening, which was seen by {found.how.value}"


def show_overview(screen: Screen, rows: list[Overview], timetables: Mapping[str, TimetableRow], now: datetime) -> None:
    """Print all gates, and name those that hold work but were never opened."""
    screen.show(make_list("Gates", GATES, rows, now))
    for gate, timetable in timetables.items():
        screen.print(clean(f"{gate} opens {describe_timetable(timetable, now)}"))
    for row in rows:
        if row.problem:
            screen.print(clean(row.problem))
        if row.holds_in_silence:
            screen.print(
                f"{row.held.count} held behind {row.gate} for {age(row.held.oldest, now)}, and it was never opened: "
                f"check its spelling, or type: sluice gate open {row.gate}",
                markup=False,
            )


def show_status(screen: Screen, status: Status, now: datetime) -> None:
    """Print everything about one gate."""
    gate, state = status.row.gate, status.row.state
    screen.print(f"{gate} is {describe_gate(state)} at epoch {state.epoch}", markup=False)
    if state.at:
        checked = f": {describe_check(*status.checked)}" if status.checked else ""
        screen.print(
            clean(f"last opened {show_moment(state.at)} UTC by {state.opened_by}{_because(state.why)}{checked}")
        )
    if state.scheduled:
        screen.print(clean(f"opens at {describe_plan(state.scheduled)} UTC, planned by {state.scheduled.by}"))
    _show_timetable(screen, status.timetable, now)
    screen.print(f"held: {status.row.held.count}{_oldest(status.row.held, now)}", markup=False)
    for how, found in status.spreads.items():
        screen.print(f"seen by {how.value}: {found.number} nodes, p50 {found.p50:.3f} s, p99 {found.p99:.3f} s")
    if status.first_chunk:
        screen.print(f"first chunk: {_first_chunk_words(status.first_chunk)}")
    for how, found in status.delays.items():
        screen.print(
            f"first chunks by {how.value}: {found.number} openings, p50 {found.p50:.3f} s, p99 {found.p99:.3f} s"
        )
    for node, why in status.stragglers.items():
        screen.print(clean(f"straggler {node}: {why}"))
    if state.changes:
        screen.show(_history(state))


def _show_timetable(screen: Screen, row: TimetableRow | None, now: datetime) -> None:
    if row:
        screen.print(clean(f"timetable: {describe_timetable(row, now)}, set by {row.by}{_because(row.why)}"))


def _history(state: GateState) -> Table:
    table = Table("when (UTC)", "what", "epoch", "by", "why", title="Last changes")
    for change in state.changes[:LAST_SHOWN]:
        table.add_row(show_moment(change.at), change.what.value, str(change.epoch), clean(change.by), clean(change.why))
    return table


def _because(why: str) -> str:
    return f": {why}" if why else ""


def _oldest(waiting: HeldSummary, now: datetime) -> str:
    return f", the oldest waits {age(waiting.oldest, now)}" if waiting.count else ""


def age(since: datetime | None, now: datetime) -> str:
    """Return for how long, in the two largest units."""
    return "-" if since is None else describe_duration((now - since).total_seconds())
