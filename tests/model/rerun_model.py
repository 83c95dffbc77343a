"""A job that runs again, as a state machine of storage requests, searched through every interleaving.

A person may pause the job, and has it run again. Messages and results of the run before may come at any time, and twice.
A chunk may be parked, and its replay sent in either run. A settler and a finisher read, decide and write later, by the ETag
of what they read. The process of the rerun may end before it puts the messages of the new run. What is decided is decided
by the ledger: `pause`, `rerun`, `settle`, `list_open`, `check_balance`, `finish`.

A job that was made from others, one of which moved, has no plan until it gets the newest lines, and then a chunk less.

Counts: the job's counts are not those of the rows that count.
Mixed: the job is finished with a row of the run before, or without one of its chunks.
Replaced: the totals of the run before are gone.
Stuck: everybody ends here, ticks put what is open again, and the job does not end at its last run.
"""

from dataclasses import dataclass, replace
from functools import cache
from typing import NamedTuple

from shared.grammar import run_partition
from shared.ledger.job_decisions import check_balance, finish, list_open, pause
from shared.ledger.job_reruns import refuse_rerun, rerun, takes_newest
from shared.ledger.records import FINISHED, ChunkRow, ChunkState, Job, JobState, PlanBlob, Portion, Sources, Totals
from shared.ledger.settlement import result_blob, settle
from shared.messages import PortionMessage, Result
from tests.model.ledger_model import NEVER_PAUSES, NOW
from tests.model.search import walk

DONE, PARKED = "done", "parked"
IDLE = ("idle",)
#: Rounds of ticks after which a job has ended.
ENOUGH = 6


@dataclass(frozen=True)
class Rules:
    """How the real thing works; each other value is a bug that somebody might write."""

    #: A row of a run before counts as none.
    rows_by_run: bool = True
    #: A result of a run before is dropped.
    results_by_run: bool = True
    #: A worker takes a chunk as done by a row of its message's revision or a later one.
    done_by_revision: bool = True
    #: The tick puts a chunk again whose row is of a run before.
    open_by_run: bool = True
    #: The counts begin anew.
    counts_anew: bool = True
    #: A rerun is a new revision.
    raises_revision: bool = True
    #: Its totals have a partition of their own.
    has_partition: bool = True
    #: The finish adds up the rows of the last run alone.
    finish_by_run: bool = True
    #: A settler writes by the version that it read.
    has_etag: bool = True


@dataclass(frozen=True)
class Scope:
    """Who takes part. The acts: `pause`, `rerun`, and `newest`, a rerun of a job whose sources have moved."""

    acts: tuple = ("rerun",)
    chunks: int = 2
    #: The chunk that may be parked. None: none is.
    parks: int | None = 0
    replays: int = 1
    #: Whether a message may be delivered once more, and how many messages or results may be lost.
    doubles: bool = True
    losses: int = 1


class Core(NamedTuple):
    """What the job's row says."""

    state: JobState = JobState.RUNNING
    revision: int = 1
    run_from: int = 0
    halts: int = 0
    cursor: int = 0
    done: int = 0
    parked: int = 0
    accepted_items: int = 0
    parked_items: int = 0
    #: How many chunks its newest plan has less than its first one, and whether it waits for that plan.
    fewer: int = 0
    waits: bool = False


class State(NamedTuple):
    """One point of one history."""

    acts: tuple
    core: Core
    #: For each chunk: no row, or its revision and how it ended.
    rows: tuple
    #: (chunk, revision, whether it is put again); (chunk, revision, how it ended); open entries.
    messages: frozenset
    results: frozenset = frozenset()
    entries: frozenset = frozenset()
    settler: tuple = IDLE
    finisher: tuple = IDLE
    #: Whether the messages of the new run are still to be put.
    puts: bool = False
    replays: int = 0
    losses: int = 0
    #: By partition of the totals: the revision, and the rows that it merged.
    totals: frozenset = frozenset()
    #: The totals that must not change any more.
    former: frozenset = frozenset()


@cache
def _job(core, chunks):
    totals = Totals(Portion(core.accepted_items), parked=Portion(core.parked_items, unknown=core.parked))
    number = 0 if core.waits else chunks - core.fewer
    return Job(
        job="j", content_hash="", workload="w", accepted_at=NOW, started_at=NOW, chunks=number, items=number,
        plan=None if core.waits else PlanBlob("p", "e"), waits=("s",), from_jobs=Sources(1, {}), used={"s": 1},
        state=core.state, revision=core.revision, run_from=core.run_from, halts=core.halts,
        dispatch_cursor=core.cursor, done=core.done, parked_chunks=core.parked, totals=totals,
    )  # fmt: skip


def _core(job, fewer=0):
    return Core(
        job.state, job.revision, job.run_from, job.halts, job.dispatch_cursor, job.done, job.parked_chunks,
        job.totals.accepted.items, job.totals.parked.items, fewer, job.plan is None,
    )  # fmt: skip


def _row(chunk, revision, end):
    totals = Totals(Portion(1)) if end == DONE else Totals(parked=Portion(1, unknown=1))
    state = ChunkState.DONE if end == DONE else ChunkState.PARKED
    return ChunkRow(
        job="j", chunk=chunk, state=state, revision=revision, settled_at=NOW, totals=totals, hash="0" * 64, etag="e"
    )


def _stored(rows):
    return {chunk: _row(chunk, *row) for chunk, row in enumerate(rows) if row is not None}


def _result(chunk, revision, end):
    if end == PARKED:
        return Result(job="j", chunk=chunk, revision=revision, parked=PortionMessage(items=1, sums=None), reason="odd")
    return Result(
        job="j", chunk=chunk, revision=revision, blob=result_blob("j", revision, chunk), hash="0" * 64,
        accepted=PortionMessage(items=1),
    )  # fmt: skip


@cache
def _settled(rules, core, rows, result):
    """Return the row of the job and its chunks after a result."""
    job, stored, made = _job(core, len(rows)), _stored(rows), _result(*result)
    if not rules.rows_by_run:
        job = replace(job, run_from=0) if made.revision >= core.run_from else job
    if not rules.results_by_run:
        job = replace(job, run_from=0)
        stored = {chunk: row for chunk, row in stored.items() if row.revision >= core.run_from}
    found = settle(job, stored, [made], NOW, NEVER_PAUSES)
    after = list(rows)
    for row in found.rows:
        after[row.chunk] = (row.revision, DONE if row.state is ChunkState.DONE else PARKED)
    return _core(replace(found.job, run_from=core.run_from), core.fewer), tuple(after)


@cache
def _rerun(rules, core, chunks, newest):
    job = _job(core, chunks)
    found = rerun(job, NOW, newest=newest and takes_newest(job, {"s": replace(job, revision=2)}))
    if not rules.counts_anew:
        found = replace(found, done=core.done, totals=replace(found.totals, accepted=Portion(core.accepted_items)))
    if not rules.raises_revision:
        found = replace(found, revision=core.revision, run_from=core.revision)
    return _core(found, core.fewer)


@cache
def _may_run_again(core, chunks):
    return not refuse_rerun(_job(core, chunks))


@cache
def _finished(rules, core, revision, rows):
    """Return the row after a finish of these rows at this revision."""
    job = _job(core, len(rows))
    counting = (row for row in _stored(rows).values() if job.counts(row) or not rules.finish_by_run)
    added = sum((row.totals for row in counting), Totals())
    return _core(finish(job, revision, check_balance(job, added), NOW), core.fewer)


class Model:
    """The steps of one scope, under one set of rules."""

    def __init__(self, scope, rules):
        self._scope, self._rules = scope, rules

    def first(self):
        """Return the state of a job of which all chunks were put."""
        chunks = self._scope.chunks
        messages = frozenset((chunk, 1, False) for chunk in range(chunks))
        scope = self._scope
        return State(
            scope.acts, Core(cursor=chunks), (None,) * chunks, messages, replays=scope.replays, losses=scope.losses
        )

    def look(self, state):
        """Return the harm of a state, and those that follow."""
        return self._judge(state), list(self._follow(state))

    def _follow(self, state):
        yield from self._act(state)
        if state.core.waits and state.core.state is JobState.HELD:
            yield self._plan(state)
        if state.puts:
            # Its process may also end here: then `_judge` has the tick put them.
            yield self._put(state)
        for message in state.messages:
            yield from self._work(state, message)
            if state.losses:
                yield state._replace(messages=state.messages - {message}, losses=state.losses - 1)
        for result in state.results if state.losses else ():
            yield state._replace(results=state.results - {result}, losses=state.losses - 1)
        yield from self._settle(state)
        yield from self._finish(state)
        if state.replays:
            for chunk, revision in state.entries:
                again = state._replace(replays=state.replays - 1, messages=state.messages | {(chunk, revision, True)})
                yield again

    def _act(self, state):
        if not state.acts:
            return
        act, rest, chunks = state.acts[0], state.acts[1:], self._scope.chunks
        if act == "pause":
            paused = pause(_job(state.core, chunks), "ann", "why")
            yield state._replace(acts=rest, core=_core(paused, state.core.fewer))
        elif _may_run_again(state.core, chunks):
            former = state.totals if state.core.state in FINISHED else frozenset()
            core = _rerun(self._rules, state.core, chunks, act == "newest")
            yield state._replace(acts=rest, core=core, puts=not core.waits, former=state.former | former)

    def _plan(self, state):
        """Give a job that waits its newest plan, with which it starts."""
        core = state.core._replace(state=JobState.PLANNING, waits=False, fewer=1)
        return state._replace(core=core, puts=True)

    def _put(self, state):
        core, chunks = state.core, self._scope.chunks - state.core.fewer
        if core.state not in {JobState.PLANNING, JobState.DISPATCHING}:
            return state._replace(puts=False)
        messages = frozenset((chunk, core.revision, False) for chunk in range(chunks))
        noted = core._replace(cursor=chunks, state=JobState.RUNNING)
        return state._replace(puts=False, core=noted, messages=state.messages | messages)

    def _work(self, state, message):
        """Run a message, or drop it. It is delivered once more, or not."""
        chunk, revision, again = message
        gone = state._replace(messages=state.messages - {message})
        if again and self._is_done(state.rows[chunk], revision):
            yield gone
            return
        for end in (DONE, PARKED) if chunk == self._scope.parks and not again else (DONE,):
            # Who gets it once more looks first.
            kept = gone._replace(messages=gone.messages | {(chunk, revision, True)})
            for after in (kept, gone) if self._scope.doubles else (gone,):
                made = after._replace(results=after.results | {(chunk, revision, end)})
                yield made._replace(entries=made.entries | {(chunk, revision)}) if end == PARKED else made

    def _is_done(self, row, revision):
        return row is not None and row[1] == DONE and (row[0] >= revision or not self._rules.done_by_revision)

    def _settle(self, state):
        if state.settler == IDLE:
            for result in state.results:
                yield state._replace(settler=("write", result, state.core, state.rows))
            return
        _, result, core, rows = state.settler
        idle = state._replace(settler=IDLE)
        yield idle
        if (core, rows) == (state.core, state.rows) or not self._rules.has_etag:
            after, written = _settled(self._rules, core, rows, result)
            yield idle._replace(core=after, rows=written, results=state.results - {result})

    def _finish(self, state):
        if state.finisher == IDLE:
            if state.core.state is JobState.FINISHING:
                yield state._replace(finisher=("publish", state.core.revision, state.core.run_from, state.rows))
            return
        step, revision, run_from, rows = state.finisher
        idle = state._replace(finisher=IDLE)
        yield idle
        if step == "publish":
            totals = self._published(state.totals, revision, run_from, rows)
            if totals is not None:
                yield state._replace(finisher=("end", revision, run_from, rows), totals=totals)
        else:
            yield idle._replace(core=_finished(self._rules, state.core, revision, rows))

    def _published(self, totals, revision, run_from, rows):
        """Return the totals after a finish wrote them behind the fence. None: a later revision has it."""
        partition = run_partition("j", run_from if self._rules.has_partition else 0)
        known = {name: found for name, *found in totals}
        if partition in known and known[partition][0] > revision:
            return None
        return frozenset((name, *found) for name, found in {**known, partition: (revision, rows)}.items())

    def _judge(self, state):
        core, chunks = state.core, self._scope.chunks - state.core.fewer
        counting = [row for row in state.rows if row is not None and row[0] >= core.run_from]
        ends = [end for _, end in counting]
        if (core.done, core.parked) != (ends.count(DONE), ends.count(PARKED)):
            return "counts"
        if core.state in FINISHED and (core.state is JobState.UNBALANCED or len(counting) < chunks):
            return "mixed"
        if not state.former <= state.totals:
            return "replaced"
        return self._come_to_rest(state)

    def _come_to_rest(self, state):
        """Have everybody end, and those that come after them work in peace, with ticks that put again what is open."""
        state = state._replace(settler=IDLE, finisher=IDLE)
        for _ in range(ENOUGH):
            for result in sorted(state.results):
                core, rows = _settled(self._rules, state.core, state.rows, result)
                state = state._replace(core=core, rows=rows, results=state.results - {result})
            core = state.core
            if core.state is JobState.FINISHING:
                state = state._replace(core=_finished(self._rules, core, core.revision, state.rows))
            if state.core.state in FINISHED | {JobState.PAUSED}:
                return ""
            if state.core.waits:
                state = self._plan(state)
            if state.core.state in {JobState.PLANNING, JobState.DISPATCHING}:
                state = self._put(state)
            for message in sorted(state.messages):
                *_, state = self._work(state, message)
            job = _job(state.core, self._scope.chunks)
            stored = _stored(state.rows).values()
            ended = {row.chunk for row in stored if job.counts(row) or not self._rules.open_by_run}
            again = {(chunk, job.revision, True) for chunk in list_open(job, ended)}
            state = state._replace(messages=state.messages | again)
        return "stuck"


def search(scope, rules=Rules()):
    """Walk through every state of the scope."""
    model = Model(scope, rules)
    return walk(model.first(), lambda state: state, model.look)
