"""The urgent lane's row and messages, with a dispatch that puts twice, a tick, drains, and time that passes.

The decisions are the code's own. A minute is the least time; a put comes within one of the check before it.
"""

from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

from shared.concurrency.fleet import ANNOUNCED_FOR, LaneRow, may_forget, must_announce
from tests.model.search import walk

NOON = datetime(2026, 11, 20, 12, tzinfo=UTC)
LAST_MINUTE = 14
PUTS = 2


@dataclass(frozen=True)
class Rules:
    """The protocol; a false one is a bug that the search has to find."""

    announces_first: bool = True
    announces_in_time: bool = True
    waits_for_puts: bool = True
    removes_what_it_read: bool = True


@dataclass(frozen=True)
class State:
    """Minutes for moments. A row is (until, number of its write)."""

    minute: int = 0
    row: tuple | None = None
    writes: int = 0
    messages: int = 0
    #: The dispatch: its next step, the row that it knows, the minute of its check, and its puts so far.
    step: str = "check"
    known: tuple | None = None
    checked: int = 0
    puts: int = 0
    #: The tick: its next step, the row and minute of its reading, and the depth that it saw.
    tick: str = "read"
    seen: tuple | None = None
    seen_at: int = 0
    depth: int = 0


def at(minute):
    """Return a moment."""
    return NOON + timedelta(minutes=minute)


def lane(row):
    """Return a row as the code has it."""
    return LaneRow(at(row[0])) if row else None


def harm(state, rules):
    """Say what is wrong: a message waits, and no task asks the lane."""
    about_to = not rules.announces_first and state.step == "check"
    return "stranded" if state.messages and not state.row and not about_to else ""


def following(state, rules):
    """Yield every state that one step of anyone leads to."""
    if state.minute < LAST_MINUTE and not (state.step == "put" and state.minute > state.checked):
        yield replace(state, minute=state.minute + 1)
    if state.messages and state.row:
        yield replace(state, messages=state.messages - 1)
    yield from _dispatch(state, rules)
    yield from _tick(state, rules)


def _dispatch(state, rules):
    if state.puts == PUTS:
        return
    if state.step == "check":
        # What it knows of the row may be as old as it likes, or just read.
        for known in {state.known, state.row}:
            wants = known is None if not rules.announces_in_time else must_announce(lane(known), at(state.minute))
            checked = replace(state, step="put", known=known, checked=state.minute)
            yield _announced(checked) if wants and rules.announces_first else checked
        return
    yield replace(state, step="check", messages=state.messages + 1, puts=state.puts + 1)
    # Its process ends before the put, or the put is refused.
    yield replace(state, step="check", puts=state.puts + 1)


def _announced(state):
    row = (state.minute + int(ANNOUNCED_FOR.total_seconds() // 60), state.writes + 1)
    return replace(state, row=row, writes=row[1], known=row)


def _tick(state, rules):
    if state.tick == "read" and state.row:
        yield replace(state, tick="look", seen=state.row, seen_at=state.minute)
    elif state.tick == "look":
        yield replace(state, tick="remove", depth=state.messages)
    elif state.tick == "remove":
        row = lane(state.seen) if rules.waits_for_puts else LaneRow(NOON)
        done = replace(state, tick="read", seen=None, seen_at=0, depth=0)
        is_same = state.row == state.seen or not rules.removes_what_it_read
        yield replace(done, row=None) if may_forget(row, state.depth, at(state.seen_at)) and is_same else done


def search(rules=None):
    """Search every state for harm."""
    held = rules or Rules()
    return walk(State(), lambda state: state, lambda state: (harm(state, held), list(following(state, held))))
