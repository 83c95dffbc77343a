"""Every order of two submissions, their feed calls and two feeders of which two processes are killed at any step.

A submission is accepted: the ready row of its job is written, perhaps a feeder is called, and the submission is deleted. A
killed process has its submission delivered again. A call is a message with a lock: that of a killed process comes again.
Who gets a call leases the right to feed, or finds it leased. What each of them does then is decided by
`shared.pipeline.feeding.feed` itself. The tick is left out.

Stranded: a job waits for its turn, and nothing is left that would bring a feeder.
Restless: calls go on although nothing waits.
"""

from dataclasses import dataclass
from datetime import timedelta
from typing import NamedTuple

from shared.concurrency import FED_FOR, VIEW_SECONDS, FeedRow
from shared.pipeline.feeding.feed import CALLS_AGAIN, comes_again, leaves_call, must_call
from tests.golden.values import NOON
from tests.model.search import replaced, walk

#: Last calls in a row, with nothing between them, of a protocol that comes to rest.
MOST_IDLE = 4
LIVES, OVER = (FeedRow(until=NOON + left, since=NOON, by="one") for left in (FED_FOR, timedelta()))
ROWS = {"": None, "lives": LIVES, "over": OVER}


@dataclass(frozen=True)
class Rules:
    """How the real thing works; each other value is a bug that somebody might write."""

    has_last_call: bool = True
    removes_row_of_dead: bool = True
    #: A view of the row is younger than the last call.
    is_view_young: bool = VIEW_SECONDS < CALLS_AGAIN
    completes_at_the_end: bool = True
    taken_call_comes_again: bool = True
    deletes_submission_last: bool = True
    calls_after_row: bool = True
    submissions: int = 2
    kills: int = 2


class Writer(NamedTuple):
    """One submission: at which step its process is, and whether it saw a feeder's row that held."""

    step: str = "queued"
    saw: bool = False


class Feeder(NamedTuple):
    """One process with a call: its step, and whether it wrote a row or found one."""

    step: str
    has_row: bool = False


class State(NamedTuple):
    """All that is anywhere."""

    writers: tuple
    #: Jobs that wait for their turn.
    ready: tuple
    row: str = ""
    #: Whether the row's writer lives.
    is_row_alive: bool = False
    #: "free", the number of a feeder, or "dead" until the lease of a killed one ends.
    lease: str = "free"
    #: Calls that can be received, that are scheduled, and whose holder died.
    calls: int = 0
    later: int = 0
    locked: int = 0
    feeders: tuple = (None, None)
    kills: int = 0
    idle: int = 0


def steps_of(rules):
    """Return the order in which a submission's process writes."""
    first, second = ("write", "call") if rules.calls_after_row else ("call", "write")
    return ("see", first, second, "delete") if rules.deletes_submission_last else ("see", "delete", first, second)


def written(rules, state, at):
    """Return the state after the next step of a writer."""
    writer, order = state.writers[at], steps_of(rules)
    step = order[0] if writer.step == "queued" else writer.step
    after = order[order.index(step) + 1] if step != order[-1] else "done"
    is_gone = step == "delete" or "delete" in order[: order.index(step)]
    moved = state._replace(writers=replaced(state.writers, at, Writer(after, writer.saw)))
    if step == "see":
        lives = ROWS[state.row] is LIVES
        moved = moved._replace(writers=replaced(state.writers, at, Writer(after, lives)))
    elif step == "write":
        moved = moved._replace(ready=replaced(state.ready, at, 1), idle=0)
    elif step == "call" and must_call(LIVES if writer.saw else None):
        moved = moved._replace(calls=state.calls + 1)
    return moved, is_gone


def fed(rules, state, at):  # noqa: C901, PLR0912 - one branch for each step
    """Yield the states after the next step of a feeder."""
    feeder = state.feeders[at]
    others = state._replace(feeders=replaced(state.feeders, at, None))

    def go(step, moved=state, has_row=feeder.has_row):
        return moved._replace(feeders=replaced(moved.feeders, at, Feeder(step, has_row)))

    row = ROWS[state.row]
    if feeder.step == "lease":
        if state.lease == "free":
            yield go("look", state._replace(lease=str(at)), has_row=row is not None)
        elif rules.taken_call_comes_again and comes_again(row, NOON):
            yield others._replace(later=state.later + 1)
        elif state.lease != "dead":
            # A call that comes again stays until the lease of a dead one is over.
            yield others
    elif feeder.step == "look":
        if any(state.ready):
            yield go("put", state._replace(row="lives", is_row_alive=True), has_row=True)
        else:
            removes = leaves_call(row if feeder.has_row else None) and (rules.removes_row_of_dead or state.is_row_alive)
            yield go("remove" if removes else "release")
    elif feeder.step == "put":
        for job, waits in enumerate(state.ready):
            if waits:
                yield go("look", state._replace(ready=replaced(state.ready, job, 0), idle=0))
        # Its time is up.
        yield go("hand over", state._replace(lease="free", is_row_alive=False))
    elif feeder.step == "hand over":
        yield others._replace(calls=state.calls + 1)
    elif feeder.step == "remove":
        yield go("last call", state._replace(row="", is_row_alive=False))
    elif feeder.step == "last call":
        yield go("release", state._replace(later=state.later + rules.has_last_call, idle=state.idle + 1))
    elif feeder.step == "release":
        yield others._replace(lease="free")


def killed(rules, state, at):
    """Return the state after the kill of a feeder."""
    feeder = state.feeders[at]
    return (
        state._replace(
            feeders=replaced(state.feeders, at, None),
            lease="dead" if state.lease == str(at) else state.lease,
            is_row_alive=state.is_row_alive and state.lease != str(at),
            locked=state.locked + rules.completes_at_the_end,
            kills=state.kills - 1,
        )
        if feeder
        else state
    )


def passes(state):
    """Yield what time alone does."""
    if state.lease == "dead":
        yield state._replace(lease="free")
    if state.row == "lives" and not state.is_row_alive:
        yield state._replace(row="over")


def received(rules, state):
    """Yield the states after a call was received, of those that can be."""
    free = next((at for at, one in enumerate(state.feeders) if one is None), None)
    if free is None:
        return
    took = state._replace(feeders=replaced(state.feeders, free, Feeder("lease")))
    if state.calls:
        yield took._replace(calls=state.calls - 1)
    # A scheduled call is later than any view that is younger than it. So is one whose lock has ended.
    is_seen = any(one.saw and one.step in ("write", "call") for one in state.writers)
    if state.later and not (rules.is_view_young and is_seen):
        yield took._replace(later=state.later - 1)
    if state.locked and not (rules.is_view_young and is_seen):
        yield took._replace(locked=state.locked - 1)


def successors(rules, state):
    """Yield what may come next."""
    for at, writer in enumerate(state.writers):
        if writer.step == "done":
            continue
        moved, is_gone = written(rules, state, at)
        yield moved
        if writer.step != "queued" and state.kills:
            back = Writer(
                "done" if is_gone and "delete" in steps_of(rules)[: steps_of(rules).index(writer.step)] else "queued"
            )
            yield state._replace(writers=replaced(state.writers, at, back), kills=state.kills - 1)
    for at, feeder in enumerate(state.feeders):
        if feeder is not None:
            yield from fed(rules, state, at)
            if state.kills:
                yield killed(rules, state, at)
    yield from received(rules, state)
    yield from passes(state)


def harm(state):
    """Return what is wrong in a state, or nothing."""
    if state.idle > MOST_IDLE:
        return "restless"
    is_quiet = not (state.calls or state.later or state.locked or any(state.feeders))
    are_done = all(one.step == "done" for one in state.writers)
    return "stranded" if any(state.ready) and is_quiet and are_done else ""


def search(rules=Rules()):
    """Walk through every reachable state, and stop at the first harm."""
    start = State((Writer(),) * rules.submissions, (0,) * rules.submissions, kills=rules.kills)

    def look(state):
        found = harm(state)
        return found, () if found else successors(rules, state)

    return walk(start, lambda state: state, look)
