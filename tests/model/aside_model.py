"""A chunk whose transactions fail by chance: set aside, credited, replayed and extended, searched through all interleavings.

Two workers take messages of the chunk, and of its replay. Each may be killed before any of its requests, and the bus may lose
what is on it. The ledger's own decision credits the results. A transaction may end its process instead: then the chunk, and later
its replay, run in a process of their own. Nothing is kept between two tries, for no count depends on it.

After every state the cause is mended, and people replay until nothing is open any more.
"""

from dataclasses import dataclass
from datetime import UTC, datetime
from enum import Enum, auto
from functools import cache
from hashlib import sha256
from itertools import chain, combinations
from typing import NamedTuple

from shared.ledger import settle
from shared.ledger.records import ChunkRow, ChunkState, Job, JobState, PlanBlob, Portion, Totals
from shared.messages import PortionMessage, Result
from tests.model.search import replaced, spelt, walk

NOW = datetime(2026, 11, 20, 12, tzinfo=UTC)
#: The transactions that may fail, and all of the chunk.
FAILING = frozenset({"a", "b"})
ITEMS = 3
#: Until the cause is mended, this one ends its process, where the scope says so. After so many deaths the chunk runs alone.
KILLER, DEATHS = "b", 2
ENOUGH = 40


class Bug(Enum):
    """A mistake that somebody could make, and that the search must find."""

    #: The result goes, then the entry is written.
    RESULT_FIRST = auto()
    #: A result that extends another takes the place of any.
    EXTENDS_ANY = auto()
    #: A run of the chunk in which nothing fails closes the open entry, which its own result does not need.
    PASSING_RUN_CLOSES = auto()
    #: The effect of a replay is that the chunk is done.
    LANDED_WHEN_DONE = auto()
    #: A result that extends another has the lines of those alone that passed now.
    LINES_REPLACED = auto()
    #: What a process died of is replayed in one that works on other chunks, too.
    REPLAYED_BESIDE = auto()


@dataclass(frozen=True)
class Scope:
    """How much may happen, and the mistake."""

    kills: int = 1
    losses: int = 1
    replays: int = 2
    has_killer: bool = False
    bug: Bug | None = None


class Made(NamedTuple):
    """A result: those that it sets aside, the result that it extends, and those of which it has a line."""

    aside: frozenset
    extends: "Made | None" = None
    lines: frozenset = frozenset()


class Worker(NamedTuple):
    """Somebody who took a message; `step` is its next request."""

    step: str = "idle"
    is_aside: bool = False
    #: What it read of the row, and what failed in its run.
    row: Made | None = None
    failed: frozenset = frozenset()


IDLE = Worker()


class State(NamedTuple):
    """One point of one history."""

    #: Messages of the chunk, and of its replay.
    chunks: int = 1
    replays: int = 0
    bus: tuple = ()
    row: Made | None = None
    #: None, "open", "replayed" or "done".
    entry: str | None = None
    #: All that was ever credited as accepted.
    accepted: frozenset = frozenset()
    workers: tuple = (IDLE, IDLE)
    kills: int = 0
    losses: int = 0
    left: int = 0
    #: Processes that died of the chunk, and whether one died of its replay.
    deaths: int = 0
    has_died_again: bool = False


def search(scope):
    """Walk through every reachable state."""
    start = State(kills=scope.kills, losses=scope.losses, left=scope.replays)
    return walk(start, _canonical, lambda state: (_harm(scope, state), _following(scope, state)))


def _canonical(state):
    return state._replace(workers=tuple(sorted(state.workers, key=spelt)), bus=tuple(sorted(state.bus, key=spelt)))


def _harm(scope, state):
    if state.row is not None:
        if state.row.aside & state.accepted:
            return "what was accepted is taken back"
        if state.row.aside and state.entry not in {"open", "replayed"}:
            return "a transaction is set aside, and no entry is open"
        if state.row.lines != FAILING - state.row.aside:
            return "an accepted transaction has no line"
    if state.has_died_again:
        return "a process died of what was set aside"
    return _stuck(scope, state)


def _stuck(scope, state):
    """Let all workers end, mend the cause, and replay."""
    after = state._replace(workers=(IDLE, IDLE), chunks=1, kills=0, losses=0)
    for _ in range(ENOUGH):
        if after.row is not None and not after.row.aside and after.entry in {None, "done"} and not after.bus:
            return ""
        after = after._replace(left=1)
        # A person replays last, and again what has no effect.
        moves = list(_moves(scope, after, fails=False)) or list(_replay(scope, after, again=True))
        if not moves:
            return "the chunk is stuck"
        after = moves[0]
    return "the chunk is stuck"


def _following(scope, state):
    yield from _moves(scope, state, fails=True)
    yield from _replay(scope, state, again=False)
    if state.losses and state.bus:
        yield state._replace(bus=(), losses=state.losses - 1)
    in_work = any(worker != IDLE for worker in state.workers)
    if state.row is None and not (state.chunks or state.bus or in_work):
        # The tick puts it again.
        yield state._replace(chunks=1)
    if state.kills:
        for index, worker in enumerate(state.workers):
            if worker != IDLE:
                back = _returned(state, worker)._replace(kills=state.kills - 1)
                yield back._replace(workers=replaced(back.workers, index, IDLE))
                # Its lease is lost, and it goes on.
                yield back


def _moves(scope, state, *, fails):
    for number, made in enumerate(state.bus):
        yield _credited(scope, state._replace(bus=state.bus[:number] + state.bus[number + 1 :]), made)
    for index, worker in enumerate(state.workers):
        for after, then in _STEPS[worker.step](scope, state, worker, fails):
            yield after._replace(workers=replaced(after.workers, index, then))


def _returned(state, worker):
    if worker.is_aside:
        return state._replace(replays=min(2, state.replays + 1))
    return state._replace(chunks=1)


# Workers.


def _idle(_scope, state, _worker, _fails):
    if state.chunks:
        yield state._replace(chunks=state.chunks - 1), Worker("look")
    if state.replays:
        yield state._replace(replays=state.replays - 1), Worker("ask", is_aside=True)


def _look(_scope, state, worker, _fails):
    """A chunk that is done is not run."""
    yield state, (IDLE if state.row is not None else worker._replace(step="run"))


def _ask(_scope, state, worker, _fails):
    """What is set aside is what the credited result lists. An entry that is open again, or closed, has ended this message."""
    if state.entry != "replayed" or (state.row is not None and not state.row.aside):
        yield state, IDLE
    elif state.row is None:
        yield _returned(state, worker), IDLE
    else:
        yield state, worker._replace(step="run", row=state.row)


def _run(scope, state, worker, fails):
    could = worker.row.aside if worker.is_aside else FAILING
    if scope.has_killer and fails and KILLER in could:
        if not _is_alone(scope, state, worker):
            yield _died(state, worker), IDLE
            return
        # Its own process tells what it died of.
        for failed in _subsets(could - {KILLER}):
            yield state, worker._replace(step="parks", failed=failed | {KILLER})
        return
    for failed in _subsets(could) if fails else [frozenset()]:
        yield state, worker._replace(step="parks" if failed else "send", failed=failed)


def _is_alone(scope, state, worker):
    if worker.is_aside:
        return scope.bug is not Bug.REPLAYED_BESIDE
    return state.deaths >= DEATHS


def _died(state, worker):
    if worker.is_aside:
        return _returned(state, worker)._replace(has_died_again=True)
    return _returned(state, worker)._replace(deaths=state.deaths + 1)


def _parks(scope, state, worker, _fails):
    """Look at the row once more."""
    is_over = state.row is not None and (not state.row.aside if worker.is_aside else True)
    first = "send" if scope.bug is Bug.RESULT_FIRST else "entry"
    yield state, (IDLE if is_over else worker._replace(step=first))


def _entry(scope, state, worker, _fails):
    after = state._replace(entry="open")
    yield after, (IDLE if scope.bug is Bug.RESULT_FIRST else worker._replace(step="send"))


def _send(scope, state, worker, _fails):
    then = IDLE
    if scope.bug is Bug.RESULT_FIRST and worker.failed:
        then = worker._replace(step="entry")
    if worker.is_aside and worker.failed == worker.row.aside:
        yield state, then
        return
    if scope.bug is Bug.PASSING_RUN_CLOSES and not worker.is_aside and not worker.failed and state.entry == "open":
        state = state._replace(entry="done")
    lines = (worker.row.aside if worker.is_aside else FAILING) - worker.failed
    if worker.is_aside and scope.bug is not Bug.LINES_REPLACED:
        lines |= worker.row.lines
    made = Made(worker.failed, worker.row, lines)
    # The same one twice is no other state.
    yield state._replace(bus=(*state.bus, made) if made not in state.bus else state.bus), then


_STEPS = {"idle": _idle, "look": _look, "ask": _ask, "run": _run, "parks": _parks, "entry": _entry, "send": _send}


def _subsets(those):
    return map(frozenset, chain.from_iterable(combinations(sorted(those), n) for n in range(len(those) + 1)))


# People.


def _has_landed(scope, state):
    return state.row is not None and (not state.row.aside or scope.bug is Bug.LANDED_WHEN_DONE)


def _replay(scope, state, *, again):
    if state.entry not in {"open", "replayed"}:
        return
    if _has_landed(scope, state):
        # Read first: what has its effect is closed unsent.
        yield state._replace(entry="done")
    elif state.left and (state.entry == "open" or again):
        yield state._replace(entry="replayed", replays=min(2, state.replays + 1), left=state.left - 1)


# The ledger's own decision, on records that are made of the model's.


def _credited(scope, state, made):
    row = state.row
    if scope.bug is Bug.EXTENDS_ANY and made.extends is not None and row is not None:
        row = made.extends
    found = _settled(row, made)
    if found is row:
        return state
    return state._replace(row=found, accepted=state.accepted | (FAILING - found.aside))


@cache
def _settled(row, made):
    """Let the ledger settle one result, and return the row that is there then."""
    known = {} if row is None else {0: _row(row)}
    job = Job(
        job="j",
        content_hash="",
        workload="w",
        accepted_at=NOW,
        state=JobState.RUNNING,
        chunks=2,
        items=2 * ITEMS,
        plan=PlanBlob("p", "e"),
        done=len(known),
        dispatch_cursor=2,
    )
    done = settle(job, known, [_result(made)], NOW)
    assert not done.refused, "nothing in the model is forged"
    return made if done.rows else row


def _result(made):
    return Result(
        job="j",
        chunk=0,
        revision=1,
        content="in the message",
        hash=_hash(made),
        length=100,
        extends=None if made.extends is None else _hash(made.extends),
        accepted=PortionMessage(items=ITEMS - len(made.aside)),
        parked=PortionMessage(items=len(made.aside)),
    )


def _row(made):
    totals = Totals(accepted=Portion(ITEMS - len(made.aside)), parked=Portion(len(made.aside)))
    return ChunkRow(
        job="j", chunk=0, state=ChunkState.DONE, revision=1, settled_at=NOW, totals=totals, hash=_hash(made), etag="e"
    )


@cache
def _hash(made):
    return sha256(f"{sorted(made.aside)}{made.extends and _hash(made.extends)}".encode()).hexdigest()
