"""Gates: all of them, and one with its history and the nodes that saw its last opening."""

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from difflib import get_close_matches
from functools import partial
from typing import Any, Final

from werkzeug.exceptions import NotFound

from capabilities.console.acts import read_form
from capabilities.console.visit import Page, Visit
from shared.errors import ActStaleError, ScheduleRefusedError
from shared.gate import GateState, HeldSummary, describe_timetable, is_name, stragglers
from shared.operating import GATES, Overview, describe_check, describe_gate

#: Seconds for which a page takes the gates that another one has read.
_OPENED, _LOOKED = 2.0, 10.0
#: Jobs that a forecast names.
_MOST_SHOWN: Final = 20


def show_gates(visit: Visit) -> Page:
    """Show every gate with the work behind it."""
    rows = visit.view.snapshot.gates(_LOOKED if visit.is_look else _OPENED)
    values = {"gates": rows, "columns": GATES}
    return Page(title="Gates", section="gates", template="gates.html", values=values, looks_again=True)


def show_gate(visit: Visit, gate: str) -> Page:
    """Show one gate: what waits behind it, its changes, and who saw its last opening how late."""
    if not is_name(gate):
        raise NotFound(f"{gate!r} is no name of a gate")
    stores = visit.view.stores
    state, held = stores.gates.read(gate), stores.held.summary(gate)
    receipts = stores.receipts.of_epochs(gate, max(0, state.epoch - 1))
    first = next((one for one in stores.first_chunks.history(gate) if one.epoch == state.epoch), None)
    values: dict[str, Any] = {
        "row": Overview(gate, state, held),
        "words": describe_gate(state),
        "first_chunk": first,
        "receipts": [one for one in receipts if one.epoch == state.epoch],
        "stragglers": stragglers(receipts, state.epoch),
    }
    title = f"Gate {gate}"
    values["unknown"] = values["meant"] = None
    if not (state.epoch or state.scheduled or held.count):
        names = stores.gate_reader().list_names()
        values |= {"unknown": gate not in names, "meant": next(iter(get_close_matches(gate, names, 1)), None)}
    values["seen"] = _say_seen(state, held)
    timetable = stores.timetables.read().get(gate)
    values["timetable"] = timetable and (describe_timetable(timetable, visit.now), timetable)
    return Page(
        title=title, section="gates", template="gate.html", values=values, looks_again=True, acts="gate_acts.html"
    )


def show_forecast(visit: Visit, gate: str) -> Page:
    """Show what opening the gate would start, above its forms. It writes nothing."""
    shown, stores = show_gate(visit, gate), visit.view.stores
    found = stores.gate_forecaster.forecast(gate, visit.view.prices, visit.now)
    values = {**shown.values, "found": found, "most": _MOST_SHOWN, "currency": visit.view.prices.currency}
    checked = stores.forecast_check.check(gate, shown.values["row"].state, visit.view.prices)
    values["checked"] = checked and describe_check(*checked)
    return replace(shown, title=f"Opening {gate}", template="forecast.html", values=values, looks_again=False)


def open_gate(visit: Visit, gate: str) -> Page | str:
    """Open a gate as the person saw it, and go to its page."""
    stores, once = visit.view.stores, visit.fields.get("once") == "yes"
    noted = stores.gate_forecaster.note(gate, stores.held.summary(gate), visit.view.prices, visit.now)
    return _act(visit, gate, "open_gate", partial(stores.gate_operator.open, gate, once=once, forecast=noted))


def plan_opening(visit: Visit, gate: str) -> Page | str:
    """Plan an opening at a time in UTC, in place of the one that was planned, and go to the gate's page."""
    typed = visit.fields.get("opens", "")
    try:
        at = datetime.fromisoformat(typed).replace(tzinfo=UTC)
    except ValueError:
        said = f"{typed[:40]!r} is no time such as 2026-11-30T23:59: nothing was done"
        return replace(show_gate(visit, gate), status=400, notice=said)
    once = visit.fields.get("once") == "yes"
    return _act(visit, gate, "plan", partial(visit.view.stores.gate_operator.schedule, gate, at, once=once))


def close_gate(visit: Visit, gate: str) -> Page | str:
    """Close a gate as the person saw it, and go to its page."""
    return _act(visit, gate, "close_gate", partial(visit.view.stores.gate_operator.close, gate))


def _act(visit: Visit, gate: str, name: str, do: Callable[..., object]) -> Page | str:
    posted = read_form(visit.fields, visit.person, visit.link(name, gate=gate), visit.now)
    stores = visit.view.stores
    state, held = stores.gates.read(gate), stores.held.summary(gate)
    now_seen = _say_seen(state, held)
    if now_seen != posted.seen:
        # A second click finds the gate as the first one left it.
        stores.audit.check_new(posted.named)
        said = f"you saw gate {gate} {posted.seen}; now it is {now_seen}: nothing was done, so decide again"
        return replace(show_gate(visit, gate), status=409, notice=said)
    try:
        do(by=posted.who, why=posted.why, seen=state.reading, named=posted.named)
    except (ActStaleError, ScheduleRefusedError) as error:
        return replace(show_gate(visit, gate), status=409, notice=str(error))
    return visit.link("gate", gate=gate)


def _say_seen(state: GateState, held: HeldSummary) -> str:
    planned = f", to open at {state.scheduled.at:%Y-%m-%d %H:%M:%S} UTC" if state.scheduled else ""
    return f"{'open' if state.is_open else 'closed'} at epoch {state.epoch} with {held.count} held{planned}"
