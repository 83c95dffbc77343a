"""Jobs that wait for others as a state machine of atomic requests: walkers, ends of the others, hints and the pointer.

The waiter's row says how far it has come. A walker reads the other's row, decides by `add_waiter` and `judge_predecessor`, and
writes by the row's ETag; the end of the other is one write, and then a hint for each name in that row. Hints may be lost.
Walkers may end before any step, any number of times. A predecessor that was passed may be buried.

Stuck: everybody ends here, all others are complete, nothing is on its way, the one pointer is gone, and the waiter has not
started. Slow: nobody ends early, no hint is lost, all is quiet, and yet the waiter waits for its pointer. Early: it has
started while another was not complete.
"""

from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from typing import NamedTuple

from shared.ledger.job_decisions import bury
from shared.ledger.precedence import Passage, add_waiter, judge_predecessor
from shared.ledger.records import Job, JobState
from tests.model.search import replaced, spelt, walk

NOON = datetime(2026, 11, 20, 12, tzinfo=UTC)


@dataclass(frozen=True)
class Rules:
    """How the real thing works; each other value is a bug that somebody might write."""

    #: The name is written by the ETag of the row that was judged.
    writes_conditionally: bool = True
    #: A name that is there already says nothing about the end.
    believes_the_state: bool = True
    #: The pointer is there before the row, and stays until the job has started.
    keeps_its_pointer: bool = True
    #: Who ends a job sends the hints from the row that it wrote.
    hints_from_the_written_row: bool = True
    #: A buried job says in which state it had ended.
    tombstones_say_how: bool = True
    #: A row begins with the names that were left before it.
    rows_begin_with_names: bool = True


@dataclass(frozen=True)
class Scope:
    """How many jobs are waited for; `is_quiet`: no walker ends early, and no hint is lost."""

    others: int = 2
    walkers: int = 2
    is_quiet: bool = False
    #: Whether the others are accepted only later.
    is_first: bool = False


class Other(NamedTuple):
    """A job that is waited for: its state, whether the name is in its row, and the version of the row.

    Without a state it was not accepted yet, and a row of names stands for it.
    """

    state: JobState | None = JobState.RUNNING
    is_named: bool = False
    ended: str | None = None
    version: int = 0
    #: By the bug: the names that its ender has read, before it writes. -1: it has read none.
    ending: int = -1


class State(NamedTuple):
    """One point of one history."""

    others: tuple
    #: Each is at a place, with what it has read there, if it has. None: it rests.
    walkers: tuple
    at: int = 0
    started: bool = False
    pointer: bool = True
    hints: int = 1


@cache
def row_of(state, is_named, ended):
    """Return the row of a job that is waited for."""
    names = ("waiter",) if is_named else ()
    known = {"content_hash": "0", "workload": "w", "accepted_at": NOON, "waiters": names, "ended": ended}
    return Job(job="other", state=state, **known)


def _row(other):
    return None if other.state is None else row_of(other.state, other.is_named, other.ended)


def first_state(scope):
    """The waiter's row is there, and its first walk is due: that of its acceptance."""
    return State((Other(None if scope.is_first else JobState.RUNNING),) * scope.others, (None,) * scope.walkers)


def ends(rules, state, index):
    """Yield what a request of whoever accepts, ends or buries a job can lead to."""

    def going_on(other, hints=0):
        others = replaced(state.others, index, other._replace(version=other.version + 1, ending=-1))
        return state._replace(others=others, hints=min(2, state.hints + hints))

    other = state.others[index]
    if other.state is None:
        is_named = other.is_named and rules.rows_begin_with_names
        yield going_on(other._replace(state=JobState.RUNNING, is_named=is_named))
    elif other.state is JobState.COMPLETE:
        buried = bury(_row(other))
        yield going_on(other._replace(state=buried.state, ended=buried.ended if rules.tombstones_say_how else None))
    elif other.state is JobState.RUNNING and other.ending < 0 and not rules.hints_from_the_written_row:
        yield state._replace(others=replaced(state.others, index, other._replace(ending=int(other.is_named))))
    elif other.state is JobState.RUNNING:
        yield going_on(
            other._replace(state=JobState.COMPLETE), max(other.ending, int(other.is_named and other.ending < 0))
        )


def begins(rules, scope, state, number):
    """Yield how a walker begins: by a hint, or by the pointer. A hint may be lost."""
    if state.started:
        return
    begun = replaced(state.walkers, number, (state.at, None))
    if state.hints:
        yield state._replace(walkers=begun, hints=state.hints - 1)
    if state.hints and not scope.is_quiet:
        yield state._replace(hints=state.hints - 1)
    if state.pointer and not scope.is_quiet:
        yield state._replace(walkers=begun, pointer=rules.keeps_its_pointer)


def walks(rules, scope, state, number):
    """Yield what one request of a walker can lead to. It may end before each."""
    at, read = state.walkers[number]
    if not scope.is_quiet:
        yield state._replace(walkers=replaced(state.walkers, number, None))
    if at == scope.others:
        yield state._replace(walkers=replaced(state.walkers, number, None), started=True, at=at)
    elif read is None:
        yield state._replace(walkers=replaced(state.walkers, number, (at, state.others[at])))
    else:
        yield _writes(rules, state, number)


def _writes(rules, state, number):
    """Return the state after a walker decided by what it has read, and wrote the name if it must."""
    at, read = state.walkers[number]
    other = state.others[at]
    judged = _row(read)
    wanted = judged and add_waiter(judged, "waiter", is_source=False)
    is_written = wanted is not judged if judged else not read.is_named
    if is_written and other.version != read.version and rules.writes_conditionally:
        # Refused: it reads again.
        return state._replace(walkers=replaced(state.walkers, number, (at, None)))
    if is_written:
        named = other._replace(is_named=True, version=other.version + 1)
        state = state._replace(others=replaced(state.others, at, named))
    is_passed = judge_predecessor(judged).standing is Passage.PASSED
    if is_passed or (judged is not None and bool(judged.waiters) and not rules.believes_the_state):
        return state._replace(walkers=replaced(state.walkers, number, (at + 1, None)))
    return state._replace(walkers=replaced(state.walkers, number, None), at=max(state.at, at))


def judge(scope, state):
    """Return the harm of a state, or nothing."""
    have_ended = all(other.state not in {None, JobState.RUNNING} for other in state.others)
    if state.started:
        return "" if have_ended else "early"
    if not have_ended or state.hints or any(state.walkers):
        return ""
    is_broken = any(judge_predecessor(_row(other)).standing is Passage.BROKEN for other in state.others)
    if not state.pointer or is_broken:
        return "stuck"
    return "slow" if scope.is_quiet else ""


def search(scope, rules=None):
    """Walk through every state of a scope."""
    known = rules or Rules()

    def look(state):
        if harm := judge(scope, state):
            return harm, []
        following = [one for index in range(scope.others) for one in ends(known, state, index)]
        for number, walker in enumerate(state.walkers):
            step = begins if walker is None else walks
            following += step(known, scope, state, number)
        return "", following

    return walk(first_state(scope), _name_alike, look)


def _name_alike(state):
    """Walkers are one program."""
    return state._replace(walkers=tuple(sorted(state.walkers, key=spelt)))
