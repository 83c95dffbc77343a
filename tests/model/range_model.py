"""A file that is cut by ranges, as a state machine of storage requests, searched through every interleaving.

Each range has a message, and each worker that takes one reads the job's row, looks whether the range is cut, writes what it
cut, puts the message of a later range, and reads the row again. Where its turn has come, it takes the stretches that are
there, one write each, and puts the chunks where the row of that write says so. A worker may be killed at any step: its
message comes again. A message may be lost: then the tick puts those that are missing. A person may pause and resume. What is
decided is decided by the ledger: `is_next`, `list_uncut`, `take_stretch`, `end_growth`, `advance_cursor`.

Stuck: nothing is under way, and the job does not end; after a kill or a loss, not even by the tick.
Early: the job finishes before its last range is taken.
Wrong: a stretch is taken twice, or before one that comes first.
Twice: a chunk is put twice, and nobody was killed.
Ahead: more ranges are under way than may be.
"""

from dataclasses import dataclass, replace
from functools import cache
from typing import NamedTuple

from shared.ledger.growth import Planned, end_growth, is_next, list_uncut, may_take, take_stretch
from shared.ledger.job_decisions import advance_cursor, may_dispatch, pause, resume, state_after_dispatch
from shared.ledger.records import CLOSED, Job, JobState, PlanBlob
from tests.model.ledger_model import NOW
from tests.model.search import replaced, spelt, walk

IDLE = ("idle",)
PLAN = PlanBlob("p", "e")


@dataclass(frozen=True)
class Rules:
    """How the real thing works; each other value is a bug that somebody might write."""

    #: The worker reads the row after it wrote what it cut: "after" or "before".
    reads_row: str = "after"
    #: Stretches are taken in their order.
    takes_in_order: bool = True
    #: The last range ends the job by a write of its own; a range that is delivered again does so too.
    ends: bool = True
    #: The message of a later range is put before the stretches are taken.
    calls_first: bool = True
    #: The tick looks for ranges that are not cut.
    tick_repeats: bool = True


@dataclass(frozen=True)
class Scope:
    """Who takes part, and how often something fails."""

    ranges: int = 4
    #: The first one is cut by the acceptor, and has its stretch from the beginning.
    ahead: int = 2
    workers: int = 2
    #: Those that have no line.
    blank: frozenset = frozenset()
    acts: tuple = ()
    kills: int = 0
    losses: int = 0


class Row(NamedTuple):
    """The job's row."""

    state: JobState = JobState.DISPATCHING
    cursor: int = 1
    chunks: int = 1
    stretches: int = 1
    is_growing: bool = True


class State(NamedTuple):
    """One point of one history."""

    acts: tuple
    workers: tuple
    messages: frozenset
    kills: int
    losses: int
    row: Row = Row()
    cut: frozenset = frozenset({0})
    #: Stretches in the order in which they were taken.
    taken: tuple = (0,)
    is_twice: bool = False


class _Ahead(NamedTuple):
    """Stands for the ranges of the job, with a smaller window."""

    count: int
    ahead: int

    def ahead_of(self, taken):
        """Return those that may be under way."""
        return range(taken, min(self.count, taken + self.ahead))

    def next_to(self, number):
        """Return the one that this one calls."""
        return number + self.ahead if number + self.ahead < self.count else None


@cache
def _job(scope, row):
    return Job(
        job="j", content_hash="", workload="w", accepted_at=NOW, started_at=NOW, plan=PLAN, chunks=row.chunks,
        items=row.chunks, state=row.state, dispatch_cursor=row.cursor, growing=row.is_growing, stretches=row.stretches,
        chain=f"c{row.stretches}", ranges=_Ahead(scope.ranges, scope.ahead),
    )  # fmt: skip


def _row(job):
    return Row(job.state, job.dispatch_cursor, job.chunks, job.stretches, job.growing)


@cache
def _taken(scope, row, number):
    """Return the row with the next stretch, and whether its taker puts its chunks. None: another one took it."""
    job, has_lines = _job(scope, row), number not in scope.blank
    planned = Planned(number, f"c{row.stretches}", "c", PLAN if has_lines else None, int(has_lines), int(has_lines), 0)
    taken = take_stretch(job, planned)
    return None if taken is None else (_row(taken.job), taken.is_to_be_put)


class Model:
    """The steps of one scope, under one set of rules."""

    def __init__(self, scope, rules):
        self._scope, self._rules = scope, rules

    def first(self):
        """Return the state of a job that was just accepted: the messages of the first ranges are there."""
        scope = self._scope
        ahead = frozenset(list_uncut(_job(scope, Row()), {0}))
        return State(scope.acts, (IDLE,) * scope.workers, ahead, scope.kills, scope.losses)

    def look(self, state):
        """Return the harm of a state, and those that follow."""
        harm = self._judge(state)
        return harm, [] if harm else list(self._follow(state))

    def _follow(self, state):
        for number in state.messages:
            if state.losses:
                yield state._replace(messages=state.messages - {number}, losses=state.losses - 1)
        if state.acts:
            act, job = state.acts[0], _job(self._scope, state.row)
            after = pause(job, "ann", "why") if act == "pause" else resume(job, NOW)
            if after is not job and job.state is not JobState.FINISHING:
                yield state._replace(acts=state.acts[1:], row=_row(after))
        for at, step in enumerate(state.workers):
            yield from self._go(state, at, step)
            if step != IDLE and state.kills:
                # Its message is delivered again.
                workers = replaced(state.workers, at, IDLE)
                yield state._replace(workers=workers, kills=state.kills - 1, messages=state.messages | {step[1]})

    def _go(self, state, at, step):  # noqa: C901, PLR0912 - one branch for each step
        def be(now, of=state):
            return of._replace(workers=replaced(of.workers, at, now))

        row, scope, rules = state.row, self._scope, self._rules
        job = _job(scope, row)
        match step:
            case ("idle",):
                for number in state.messages:
                    yield be(("read", number), state._replace(messages=state.messages - {number}))
            case ("read", number):
                if not job.growing or job.state in CLOSED:
                    yield be(IDLE)
                    return
                seen = is_next(job, number)
                yield be(("find", number, row.state is JobState.PAUSED, seen))
            case ("find", number, is_paused, seen):
                was_there = number in state.cut
                yield be(("call" if was_there else "cut", number, is_paused, seen, was_there))
            case ("cut", number, is_paused, seen, was_there):
                yield be(("call", number, is_paused, seen, was_there), state._replace(cut=state.cut | {number}))
            case ("call", number, is_paused, seen, was_there):
                later = job.ranges.next_to(number)
                moved = state
                if later is not None and not is_paused and rules.calls_first and not (was_there and later in state.cut):
                    moved = state._replace(messages=state.messages | {later})
                yield be(("judge", number, seen, was_there), moved)
            case ("judge", number, seen, was_there):
                is_mine = is_next(job, number) if rules.reads_row == "after" else seen
                if was_there:
                    yield be(("place", number))
                else:
                    yield be(("take", number, row.stretches) if is_mine else IDLE)
            case ("take", number, found):
                yield from self._take(state, be, job, number, found)
            case ("place", number):
                if may_dispatch(job):
                    yield be(("put", number, row.cursor))
                else:
                    yield be(("take", number, row.stretches))
            case ("put", number, chunk):
                is_twice = chunk < row.cursor and not (scope.kills or scope.acts)
                after = _row(advance_cursor(job, chunk + 1, NOW, NOW))
                goes_on = may_dispatch(_job(scope, after))
                moved = state._replace(row=after, is_twice=state.is_twice or is_twice)
                yield be(("put", number, after.cursor) if goes_on else ("take", number, after.stretches), moved)

    def _take(self, state, be, job, number, found):
        rules, scope, row = self._rules, self._scope, state.row
        if not may_take(job):
            yield be(IDLE)
            return
        if found == scope.ranges:
            if not rules.ends:
                yield be(IDLE)
                return
            # Chunks end somewhere else; the job moves on by its cursor alone.
            ended = end_growth(job, f"c{found}", None, {})
            yield be(IDLE, state._replace(row=_row(ended)))
            return
        there = sorted(state.cut - set(state.taken)) if not rules.takes_in_order else [found] * (found in state.cut)
        if not there:
            yield be(IDLE)
            return
        taken = _taken(scope, row, found) if row.stretches == found else None
        if taken is None:
            yield be(("take", number, row.stretches))
            return
        after, is_to_be_put = taken
        moved = state._replace(row=after, taken=(*state.taken, there[0]))
        yield be(("put", number, after.cursor) if is_to_be_put else ("take", number, after.stretches), moved)

    def _judge(self, state):
        row, scope = state.row, self._scope
        if state.taken != tuple(range(len(state.taken))):
            return "wrong"
        if not row.is_growing and len(state.taken) < scope.ranges:
            return "early"
        if state.is_twice:
            return "twice"
        if len(state.messages - state.cut) > scope.ahead + scope.workers:
            return "ahead"
        is_still = all(one == IDLE for one in state.workers) and not state.messages and not state.acts
        return self._repair(state) if is_still and not self._is_over(row) else ""

    def _is_over(self, row):
        return not row.is_growing and row.cursor == row.chunks

    def _repair(self, state):
        """Have the tick look at a job with which nothing goes on. It is needed after a kill, a loss or a pause alone."""
        scope = self._scope
        if state.kills == scope.kills and state.losses == scope.losses and not scope.acts:
            return "stuck"
        job, cut = _job(scope, state.row), set(state.cut)
        for _ in range(4 * scope.ranges):
            while may_take(job) and (job.stretches in cut or job.stretches == scope.ranges):
                if job.stretches == scope.ranges:
                    job = end_growth(job, job.chain, None, {})
                    break
                job = _job(scope, _taken(scope, _row(job), job.stretches)[0])
            if may_dispatch(job):
                job = advance_cursor(job, job.chunks, NOW, NOW)
            job = _job(scope, _row(replace(job, state=state_after_dispatch(job))))
            if self._rules.tick_repeats:
                cut |= set(list_uncut(job, cut))
        return "" if self._is_over(_row(job)) else "stuck"


def search(scope, rules=Rules()):
    """Walk through every state of the scope."""
    model = Model(scope, rules)
    return walk(
        model.first(), lambda state: state._replace(workers=tuple(sorted(state.workers, key=spelt))), model.look
    )
