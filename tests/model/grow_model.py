"""A job that grows by stretches, as a state machine of storage requests, searched through every interleaving.

A publisher writes stretches of one chunk each, then the end, and drops a message after each. Followers take messages: each
reads the job's row, then adds the next stretch by a write, and puts the chunks where the row of that write says so. A
dispatcher that cannot put more leaves a ready row to the feeder. Any of them may be killed at any step, and a message may be
lost. A person pauses and resumes. What is decided is decided by the ledger: `take_stretch`, `end_growth`, `advance_cursor`,
`settle`, `pause`, `resume`.

Early: the job finishes before its end is declared, or with chunks that have not ended.
Twice: a chunk is put twice, and nobody was killed and no job paused.
Stuck: nothing is under way, and the job has not ended; after a kill or a loss, not even by the tick.
Taken: a paused job gets a stretch or a message.
"""

from dataclasses import dataclass, replace
from functools import cache
from typing import NamedTuple

from shared.ledger.growth import Planned, end_growth, may_take, take_stretch
from shared.ledger.job_decisions import advance_cursor, list_open, may_dispatch, may_feed, note_put_again, pause, resume
from shared.ledger.records import ChunkRow, ChunkState, Job, JobState, PlanBlob
from shared.ledger.settlement import result_blob, settle
from shared.messages import PortionMessage, Result
from tests.model.ledger_model import NOW
from tests.model.search import replaced, spelt, walk

IDLE = ("idle",)
LOOK = ("look",)
PLACE = ("place",)
PLAN = PlanBlob("p", "e")


@dataclass(frozen=True)
class Rules:
    """How the real thing works; each other value is a bug that somebody might write."""

    #: Chunks that have ended are not the end while the job grows.
    waits_for_end: bool = True
    #: Who puts a stretch is decided on the row of its write: "write", "read", "all" or "none".
    decides_by: str = "write"
    #: Who put what it knew reads the row once more.
    goes_on: bool = True
    #: The feeder removes the ready row that it read, and no later one.
    removes_by_etag: bool = True
    #: A paused job takes nothing.
    stops_at_pause: bool = True
    #: A growing job that is resumed is dispatched, not running.
    resumes_to_dispatch: bool = True


@dataclass(frozen=True)
class Scope:
    """Who takes part, and how often something fails."""

    stretches: int = 2
    followers: int = 2
    acts: tuple = ()
    kills: int = 0
    losses: int = 0
    has_feeder: bool = True


class Row(NamedTuple):
    """The job's row."""

    state: JobState = JobState.PLANNING
    cursor: int = 0
    chunks: int = 1
    stretches: int = 1
    is_growing: bool = True
    again: int | None = None
    halts: int = 0


class State(NamedTuple):
    """One point of one history."""

    acts: tuple
    followers: tuple
    kills: int
    losses: int
    row: Row = Row()
    #: What the publisher has written; one more than the stretches: the end, too.
    written: int = 1
    has_hint: bool = False
    #: Whether a resume left a pointer.
    has_pointer: bool = False
    #: The version of the ready row, 0 for none, and the last one.
    ready: int = 0
    version: int = 0
    feeder: tuple = IDLE
    messages: frozenset = frozenset()
    put: frozenset = frozenset()
    results: frozenset = frozenset()
    ended: frozenset = frozenset()
    is_twice: bool = False
    is_taken: bool = False


@cache
def _job(row, ended):
    return Job(
        job="j", content_hash="", workload="w", accepted_at=NOW, started_at=NOW, plan=PLAN, chunks=row.chunks,
        items=row.chunks, state=row.state, dispatch_cursor=row.cursor, again_from=row.again, halts=row.halts,
        done=len(ended), growing=row.is_growing, stretches=row.stretches, chain=f"c{row.stretches}",
    )  # fmt: skip


def _row(job):
    return Row(
        job.state, job.dispatch_cursor, job.chunks, job.stretches, job.growing, job.again_from, job.halts
    )  # fmt: skip


@cache
def _settled(rules, row, ended, chunk):
    stored = {
        one: ChunkRow(job="j", chunk=one, state=ChunkState.DONE, revision=1, settled_at=NOW, hash="0" * 64)
        for one in ended
    }
    result = Result(
        job="j", chunk=chunk, revision=1, blob=result_blob("j", 1, chunk), hash="0" * 64,
        accepted=PortionMessage(items=1),
    )  # fmt: skip
    known = _job(row if rules.waits_for_end else row._replace(is_growing=False), ended)
    after = _row(settle(known, stored, [result], NOW).job)
    return after._replace(is_growing=row.is_growing), ended | {chunk}


@cache
def _may_take(rules, row, ended):
    seen = row if rules.stops_at_pause or row.state is not JobState.PAUSED else row._replace(state=JobState.DISPATCHING)
    return may_take(_job(seen, ended))


@cache
def _grown(rules, row, ended, number, stretches):
    """Return the row with what blob `number` brings, and whether its taker puts it. None: another one took it."""
    is_hidden = row.state is JobState.PAUSED and not rules.stops_at_pause
    job = _job(row._replace(state=JobState.DISPATCHING) if is_hidden else row, ended)
    if number == stretches:
        ended_job = end_growth(job, f"c{number}", None, {})
        return None if ended_job is job else (_row(ended_job), False)
    taken = take_stretch(job, Planned(number, f"c{number}", f"c{number + 1}", PLAN, 1, 1, 0))
    if taken is None:
        return None
    grown = _row(taken.job)
    return grown._replace(state=row.state) if is_hidden else grown, taken.is_to_be_put


@cache
def _noted(row, ended, cursor, halts):
    return _row(advance_cursor(_job(row, ended), cursor, NOW, NOW, halts=halts))


@cache
def _noted_lost(row, ended, began, left, halts):
    return _row(note_put_again(_job(row, ended), NOW, NOW, began=began, left=left, halts=halts))


@cache
def _resumed(rules, row, ended):
    found = resume(_job(row, ended), NOW)
    is_put = found.growing and found.dispatch_cursor >= found.chunks
    return _row(found if rules.resumes_to_dispatch or not is_put else replace(found, state=JobState.RUNNING))


@cache
def _paused(row, ended):
    return _row(pause(_job(row, ended), "ann", "why"))


class Model:
    """The steps of one scope, under one set of rules."""

    def __init__(self, scope, rules):
        self._scope, self._rules = scope, rules

    def first(self):
        """Return the state of a job whose first stretch was just planned: its acceptor dispatches it."""
        scope = self._scope
        followers = (PLACE, *[IDLE] * (scope.followers - 1))
        return State(scope.acts, followers, scope.kills, scope.losses)

    def look(self, state):
        """Return the harm of a state, and those that follow."""
        harm = self._judge(state)
        return harm, [] if harm else list(self._follow(state))

    def _follow(self, state):
        if state.written <= self._scope.stretches:
            yield state._replace(written=state.written + 1, has_hint=True)
        if state.has_hint and state.losses:
            yield state._replace(has_hint=False, losses=state.losses - 1)
        yield from self._act(state)
        for at, step in enumerate(state.followers):
            yield from self._go(state, at, step)
            if step != IDLE and state.kills:
                # Its message is delivered again.
                yield state._replace(
                    followers=replaced(state.followers, at, IDLE), kills=state.kills - 1, has_hint=True
                )
        if self._scope.has_feeder:
            yield from self._feed(state)
        for message in state.messages:
            gone = state._replace(messages=state.messages - {message})
            # What is dropped at a pause is put again by the resume.
            is_dropped = message[1] < state.row.halts
            yield gone if is_dropped else gone._replace(results=state.results | {message[0]})
        for chunk in state.results:
            yield self._settle(state, chunk)

    def _settle(self, state, chunk):
        results = state.results - {chunk}
        if chunk in state.ended:
            return state._replace(results=results)
        row, ended = _settled(self._rules, state.row, state.ended, chunk)
        return state._replace(row=row, ended=ended, results=results)

    def _act(self, state):
        if not state.acts:
            return
        act, rest = state.acts[0], state.acts[1:]
        if act == "pause":
            after = _paused(state.row, state.ended)
            if after != state.row:
                yield state._replace(acts=rest, row=after)
        elif state.row.state is JobState.PAUSED:
            yield state._replace(acts=rest, row=_resumed(self._rules, state.row, state.ended), has_pointer=True)

    def _put(self, state, chunk, halts):
        is_twice = chunk in state.put and not (self._scope.acts or self._scope.kills or self._scope.losses)
        return state._replace(
            messages=state.messages | {(chunk, halts)}, put=state.put | {chunk}, is_twice=state.is_twice or is_twice
        )

    def _go(self, state, at, step):  # noqa: C901, PLR0912 - one branch for each step
        def be(now, of=state):
            return of._replace(followers=replaced(of.followers, at, now))

        row = state.row
        match step:
            case ("idle",):
                if state.has_hint:
                    yield be(LOOK, state._replace(has_hint=False))
                if state.has_pointer:
                    yield be(("go on",), state._replace(has_pointer=False))
            case ("go on",):
                if may_feed(_job(row, state.ended)) and row.again is not None:
                    yield be(LOOK, self._wait(state))
                else:
                    yield be(PLACE)
            case ("look",):
                is_next = _may_take(self._rules, row, state.ended) and state.written > row.stretches
                was_put = row.cursor >= row.chunks and row.state is JobState.DISPATCHING
                yield be(("take", row.stretches, was_put) if is_next else IDLE)
            case ("take", number, was_put):
                grown = _grown(self._rules, row, state.ended, number, self._scope.stretches)
                if grown is None:
                    yield be(LOOK)
                    return
                after, is_mine = grown
                by = self._rules.decides_by
                is_to_be_put = {"write": is_mine, "read": was_put, "all": number < self._scope.stretches}.get(by, False)
                is_taken = row.state is JobState.PAUSED
                moved = state._replace(row=after, is_taken=state.is_taken or is_taken)
                yield be(PLACE if is_to_be_put else LOOK, moved)
            case ("place",):
                if not may_dispatch(_job(row, state.ended)):
                    yield be(LOOK)
                    return
                yield be(("put", row.cursor, row.chunks, row.halts))
                if self._scope.has_feeder:
                    yield be(LOOK, self._wait(state))
            case ("put", chunk, last, halts):
                yield be(("note", chunk + 1, last, halts), self._put(state, chunk, halts))
            case ("note", cursor, last, halts):
                after = _noted(row, state.ended, cursor, halts)
                moved = state._replace(row=after)
                if after.halts != halts or not may_dispatch(_job(after, state.ended)):
                    yield be(LOOK, moved)
                elif cursor < last:
                    yield be(("put", after.cursor, last, halts), moved)
                else:
                    yield be(PLACE if self._rules.goes_on else LOOK, moved)

    def _wait(self, state):
        return state._replace(ready=state.version + 1, version=state.version + 1)

    def _feed(self, state):  # noqa: C901, PLR0912 - one branch for each step
        step, row = state.feeder, state.row
        if step != IDLE and state.kills:
            yield state._replace(feeder=IDLE, kills=state.kills - 1)
        match step:
            case ("idle",):
                if state.ready:
                    yield state._replace(feeder=("open", state.ready))
            case ("open", version):
                job = _job(row, state.ended)
                if not may_feed(job):
                    yield state._replace(feeder=("remove", version))
                    return
                lost = tuple(list_open(job, state.ended)) if row.again is not None else ()
                after = row
                if row.again is not None and not lost:
                    after = _noted_lost(row, state.ended, row.again, None, row.halts)
                rest = tuple(range(row.cursor, row.chunks)) if may_dispatch(job) else ()
                yield state._replace(row=after, feeder=("put", version, lost, rest, row.halts))
            case ("put", version, lost, rest, halts):
                if not lost and not rest:
                    yield self._end_feed(state, version)
                    return
                put = self._put(state, (lost or rest)[0], halts)
                yield put._replace(feeder=("note", version, lost, rest, halts))
            case ("note", version, lost, rest, halts):
                if lost:
                    left = lost[1] if len(lost) > 1 else None
                    after, lost = _noted_lost(row, state.ended, lost[0] if row.again is None else row.again, left, halts), lost[1:]  # fmt: skip
                else:
                    after, rest = _noted(row, state.ended, rest[0] + 1, halts), rest[1:]
                moved = state._replace(row=after)
                if after.halts != halts or not may_feed(_job(after, state.ended)):
                    yield self._end_feed(moved, version)
                else:
                    yield moved._replace(feeder=("put", version, lost, rest, halts))
            case ("remove", version):
                is_gone = version == state.ready or not self._rules.removes_by_etag
                yield state._replace(ready=0 if is_gone else state.ready, feeder=IDLE)

    def _end_feed(self, state, version):
        """Return the state after all that the feeder knew was put: a job of which more is to be put is read anew."""
        if may_feed(_job(state.row, state.ended)):
            return state._replace(feeder=IDLE)
        return state._replace(feeder=("remove", version))

    def _judge(self, state):
        row, whole = state.row, self._scope.stretches
        if row.state is JobState.FINISHING and (row.is_growing or len(state.ended) < whole):
            return "early"
        if state.is_twice:
            return "twice"
        if state.is_taken:
            return "taken"
        is_still = all(one == IDLE for one in state.followers) and state.feeder == IDLE and not state.acts
        is_empty = not (state.has_hint or state.has_pointer or state.ready or state.messages or state.results)
        if is_still and is_empty and state.written > whole and row.state is not JobState.FINISHING:
            return self._repair(state)
        return ""

    def _repair(self, state):
        """Have the tick look at a job with which nothing goes on. It is needed after a kill or a loss alone."""
        if state.kills == self._scope.kills and state.losses == self._scope.losses:
            return "stuck"
        row, ended = state.row, state.ended
        while True:
            before = row, ended
            while may_take(_job(row, ended)) and row.stretches < state.written:
                grown = _grown(self._rules, row, ended, row.stretches, self._scope.stretches)
                row = grown[0]
            if may_dispatch(_job(row, ended)):
                row = _noted(row, ended, row.chunks, row.halts)
            for chunk in range(row.cursor):
                if chunk not in ended:
                    row, ended = _settled(self._rules, row, ended, chunk)
            if (row, ended) == before:
                return "" if row.state is JobState.FINISHING else "stuck"


def search(scope, rules=Rules()):
    """Walk through every state of the scope."""
    model = Model(scope, rules)
    return walk(model.first(), _order, model.look)


def _order(state):
    """Return the one state that stands for those that differ in names alone."""
    versions = sorted({one for one in (state.ready, *state.feeder[1:2]) if isinstance(one, int) and one})
    names = {one: at + 1 for at, one in enumerate(versions)}
    feeder = state.feeder
    if len(feeder) > 1:
        feeder = (feeder[0], names[feeder[1]], *feeder[2:])
    # A version that nobody has is as good as none.
    return state._replace(
        ready=names.get(state.ready, 0),
        version=len(versions),
        feeder=feeder,
        followers=tuple(sorted(state.followers, key=spelt)),
    )
