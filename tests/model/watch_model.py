"""A job's need in the watch, as a state machine that is searched through every history of its scope.

Processes pause, resume, end and replay the job, each by a commit of its row. By the marks of the row, a commit knows
whether the need has begun or ended, and its process writes that into the watch afterwards: without reading, in any order
with the others, or never, if it is killed. A tick reads the row, then writes the need again, and is killed at any moment.
When it finds that the job has ended, it drops the pointer that led to it, unless a slow process may still write. A replay
leaves a pointer of its own before its commit.

Left: nobody writes any more, no pointer leads to the job, and the watch differs from its row.
Stuck: nobody writes any more, a tick looks at the job alone, and the watch differs still.
"""

from dataclasses import dataclass, replace
from functools import cache
from typing import NamedTuple

from shared.ledger.job_needs import find_changed, list_marked, mark_needs, needs_of
from shared.ledger.records import CLOSED, Job, JobState
from shared.watch import NeedKind
from tests.model.ledger_model import NOW
from tests.model.search import walk

RUNNING = Job(job="j", content_hash="", workload="", accepted_at=NOW, state=JobState.RUNNING, chunks=2, done=1)
#: Which states follow a state.
AFTER = {
    JobState.RUNNING: (JobState.PAUSED, JobState.COMPLETE),
    JobState.PAUSED: (JobState.RUNNING,),
    JobState.COMPLETE: (JobState.RUNNING,),
}


@dataclass(frozen=True)
class Rules:
    """How the real thing works; each other value is a bug that somebody might write."""

    #: The tick writes the need again.
    tells_at_a_look: bool = True
    #: A kind that has ended stays marked.
    marks_what_ended: bool = True
    #: The tick keeps the pointer while a slow process may still write.
    waits_for_the_slow: bool = True
    #: A replay points to the job again.
    points_at_a_replay: bool = True


@dataclass(frozen=True)
class Scope:
    """How much happens."""

    commits: int = 6
    kills: int = 3


class State(NamedTuple):
    """One point of one history."""

    state: JobState = JobState.RUNNING
    marks: str | None = None
    #: Whether the watch has the need.
    is_watched: bool = False
    #: The writes that commits still owe: whether each writes the need, or removes it.
    owed: tuple = ()
    #: After the tick has read: whether it writes the need, removes it or neither, and whether it drops the pointer.
    looked: tuple | None = None
    pointers: int = 1
    commits: int = 0
    kills: int = 0


def row_of(state):
    """Return the job's row."""
    return replace(RUNNING, state=state.state, needs=state.marks, parked_chunks=1)


def has_need(state):
    """Check whether the row has the need."""
    return NeedKind.PAUSED in needs_of(row_of(state), NOW)


def _commit(rules, state, following):
    before = state.marks
    row = replace(row_of(state), state=following)
    marks = mark_needs(row)
    if not rules.marks_what_ended:
        marks = " ".join(word for word in (marks or "").split() if not word.startswith("-")) or None
    is_replay = state.state in CLOSED and rules.points_at_a_replay
    after = state._replace(
        state=following, marks=marks, commits=state.commits + 1, pointers=state.pointers + int(is_replay)
    )
    owes = find_changed(before, marks) or (["x-paused"] if before and not marks else [])
    return after._replace(owed=tuple(sorted((*after.owed, *(has_need(after) for _ in owes)))))


def _read(rules, state):
    may_drop = state.state in CLOSED and not (rules.waits_for_the_slow and state.owed)
    kinds = list_marked(mark_needs(row_of(state))) if rules.tells_at_a_look else []
    return state._replace(looked=(has_need(state) if kinds else None, may_drop))


def _write(state):
    writes, drops = state.looked
    watched = state.is_watched if writes is None else writes
    return state._replace(is_watched=watched, looked=None, pointers=state.pointers - int(drops))


def following(rules, scope, state):
    """Yield what may happen next."""
    if state.commits < scope.commits:
        for after in AFTER[state.state]:
            yield _commit(rules, state, after)
    for number, writes in enumerate(state.owed):
        rest = state._replace(owed=(*state.owed[:number], *state.owed[number + 1 :]))
        yield rest._replace(is_watched=writes)
        if state.kills < scope.kills:
            yield rest._replace(kills=state.kills + 1)
    if state.looked is not None:
        yield _write(state)
        if state.kills < scope.kills:
            yield state._replace(looked=None, kills=state.kills + 1)
    elif state.pointers:
        yield _read(rules, state)


def harm_of(rules, state):
    """Return what is wrong where everybody is done."""
    if state.owed or state.looked is not None:
        return ""
    if not state.pointers:
        return "left" if state.is_watched != has_need(state) else ""
    return "stuck" if _write(_read(rules, state)).is_watched != has_need(state) else ""


@cache
def search(scope, rules=None):
    """Walk through every history."""
    chosen = rules or Rules()
    return walk(State(), lambda state: state, lambda state: (harm_of(chosen, state), following(chosen, scope, state)))
