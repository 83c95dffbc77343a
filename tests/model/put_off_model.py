"""A chunk whose transactions wait for a service, searched through all interleavings of two deliveries of it at once.

Each delivery reads the outcome so far, calls those that are left, and writes what it came to, by the version that it read. It
may be killed before any of its requests. The service answers by chance, and some deliveries fall into an outage. Which are
called and what becomes of them is decided by `shared.pipeline.failing.put_off` itself.

From every state the service then never answers for those that failed, and that must end.
"""

from dataclasses import dataclass
from enum import Enum, auto
from functools import cache
from itertools import chain, combinations
from typing import NamedTuple

from shared.pipeline.failing.put_off import Waits, choose_due, judge_left
from shared.workloads import Left
from tests.model.search import replaced, spelt, walk

#: The transactions, of which the last one is always answered, but for an outage.
ALL, SOUND = (1, 2, 3), 3
#: The tries of one that waits.
MOST = 2
#: All that waits is due at the next delivery.
NOW, LATER = 0.0, 10.0**6
ENOUGH = 40


class Bug(Enum):
    """A mistake that a person could make, and that the search must find."""

    #: The outcome is written over that of another delivery.
    NO_VERSION = auto()
    #: An outage counts as a try.
    OUTAGE_COUNTS = auto()
    #: The outcome has no tries.
    FORGETS_TRIES = auto()
    #: The message goes back before the outcome is written, so that a kill between loses the message.
    GIVES_UP_THE_MESSAGE = auto()


@dataclass(frozen=True)
class Scope:
    """How much may happen, and the mistake."""

    kills: int = 1
    outages: int = 1
    bug: Bug | None = None


class Kept(NamedTuple):
    """The outcome so far: who is left, with the tries, and a version."""

    left: tuple
    version: int

    @property
    def passed(self):
        """Those whose answer it has."""
        return frozenset(ALL) - {number for number, _ in self.left}


class Worker(NamedTuple):
    """A delivery. `step` is its next request."""

    step: str = "idle"
    seen: Kept | None = None
    #: What is left, and whether those that failed are to be parked.
    left: tuple = ()
    is_spent: bool = False


IDLE = Worker()


class State(NamedTuple):
    """One point of one history."""

    kept: Kept | None = None
    messages: int = 2
    workers: tuple = (IDLE, IDLE)
    #: "done", or those that are parked.
    end: object = None
    #: How often each failed while the service answered others, up to MOST; and whose answers were kept once.
    tries: tuple = (0, 0, 0)
    answered: frozenset = frozenset()
    kills: int = 0
    outages: int = 0


def search(scope):
    """Walk through every reachable state."""
    start = State(kills=scope.kills, outages=scope.outages)
    return walk(start, _canonical, lambda state: (_harm(scope, state), _following(scope, state)))


def _canonical(state):
    """Return the state with versions counted from 0, and its workers in order."""
    versions = sorted({one.version for one in (state.kept, *(worker.seen for worker in state.workers)) if one})
    return state._replace(
        kept=_renumber(state.kept, versions),
        workers=tuple(sorted((one._replace(seen=_renumber(one.seen, versions)) for one in state.workers), key=spelt)),
    )


def _renumber(kept, versions):
    return kept and kept._replace(version=versions.index(kept.version))


def _harm(scope, state):
    if state.kept is not None and not state.answered <= state.kept.passed:
        return "a kept answer is lost"
    if state.end not in {None, "done"} and any(state.tries[number - 1] < MOST for number in state.end):
        return "an outage parked a transaction"
    after = state._replace(workers=(IDLE, IDLE), kills=0, outages=0)
    if scope.bug is not Bug.GIVES_UP_THE_MESSAGE or after.messages:
        after = after._replace(messages=1)
    for _ in range(ENOUGH):
        if after.end is not None:
            return ""
        following = list(_moves(scope, after, fails=[frozenset(ALL) - {SOUND}]))
        if not following:
            return "the chunk is stuck"
        after = following[0]
    return "the chunk never ends"


def _following(scope, state):
    yield from _moves(scope, state, fails=_subsets(frozenset(ALL) - {SOUND}))
    if state.kills:
        for index, worker in enumerate(state.workers):
            if worker != IDLE:
                back = state._replace(kills=state.kills - 1)
                if scope.bug is not Bug.GIVES_UP_THE_MESSAGE:
                    back = back._replace(messages=min(2, state.messages + 1))
                yield back._replace(workers=replaced(back.workers, index, IDLE))


def _moves(scope, state, *, fails):
    if state.end is not None:
        return
    for index, worker in enumerate(state.workers):
        for after, then in _STEPS[worker.step](scope, state, worker, fails):
            yield after._replace(workers=replaced(after.workers, index, then))


def _idle(_scope, state, _worker, _fails):
    if state.messages:
        yield state._replace(messages=state.messages - 1), Worker("call", seen=state.kept)


def _call(scope, state, worker, fails):
    before = dict(worker.seen.left) if worker.seen else dict.fromkeys(ALL, 0)
    called = choose_due({number: Waits(times) for number, times in before.items()}, LATER, MOST)
    for failing in fails:
        yield _called(scope, state, worker, before, called & failing, is_outage=False)
    if state.outages:
        yield _called(scope, state._replace(outages=state.outages - 1), worker, before, called, is_outage=True)


def _called(scope, state, worker, before, failed, *, is_outage):
    if not is_outage:
        tries = tuple(min(MOST, state.tries[one - 1] + (one in failed)) for one in ALL)
        state = state._replace(tries=tries)
    if not failed:
        return state, worker._replace(step="end")
    counted = is_outage and scope.bug is not Bug.OUTAGE_COUNTS
    left, is_spent = _judged(tuple(sorted(before.items())), frozenset(failed), counted)
    return state, worker._replace(step="write", left=left, is_spent=is_spent)


@cache
def _judged(before, failed, is_outage):
    """Let the app judge a delivery."""
    outcome = judge_left(
        [Left(number, TimeoutError()) for number in sorted(failed)],
        {number: Waits(times) for number, times in before},
        {},
        ended=1,
        has_called=True,
        is_outage=is_outage,
        rest=0.0,
        since=0,
        now=NOW,
        most=MOST,
        put_off=0,
    )
    return tuple(sorted((number, waits.times) for number, waits in outcome.left.items())), outcome.is_spent


def _write(scope, state, worker, _fails):
    then = worker._replace(step="end" if worker.is_spent else "give")
    if state.kept != worker.seen and scope.bug is not Bug.NO_VERSION:
        # Another delivery wrote since.
        yield state, then
        return
    left = tuple((number, 0) for number, _ in worker.left) if scope.bug is Bug.FORGETS_TRIES else worker.left
    version = max((one.version for one in (state.kept, *(one.seen for one in state.workers)) if one), default=-1) + 1
    kept = Kept(left, version)
    yield state._replace(kept=kept, answered=state.answered | kept.passed), then


def _give(_scope, state, _worker, _fails):
    yield state._replace(messages=min(2, state.messages + 1)), IDLE


def _end(_scope, state, worker, _fails):
    parked = frozenset(number for number, _ in worker.left)
    yield state._replace(end=parked or "done"), IDLE


_STEPS = {"idle": _idle, "call": _call, "write": _write, "give": _give, "end": _end}


def _subsets(those):
    return list(map(frozenset, chain.from_iterable(combinations(sorted(those), n) for n in range(len(those) + 1))))
