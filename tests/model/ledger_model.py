"""The ledger's protocol as a state machine of storage requests, deciding by the ledger's own functions.

One step is one request (or one crash, or one lost reply). A step touches one job and at most one worker, so what can
happen next is worked out once for each pair of a job's state and a worker's state, and whole states are only numbers:
that is what makes a million of them affordable.

Messages are delivered as if each were new: nothing may depend on a count of deliveries that a bus could lose.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import Enum, auto
from functools import cache
from typing import NamedTuple

from shared.ledger.job_decisions import check_balance, finish
from shared.ledger.records import ChunkRow, ChunkState, Job, JobState, PlanBlob, Portion, Totals
from shared.ledger.settlement import result_blob, settle
from shared.messages import PortionMessage, Result
from shared.parked.poison_policy import PoisonPolicy

NOW = datetime(2026, 11, 21, tzinfo=UTC)
NEVER_PAUSES = PoisonPolicy(pause_share=1.0, pause_chunks=100)


class Bug(Enum):
    """A mistake that somebody could make, and that the search must find."""

    #: Two settlers that read the same version both write.
    NO_ETAG = auto()
    #: A chunk's row is written over whatever is there.
    NO_ROW_CONDITION = auto()
    #: The rows are written in a second request.
    ROWS_IN_A_SECOND_WRITE = auto()
    #: The rows are written first, the job in a second request.
    JOB_IN_A_SECOND_WRITE = auto()
    #: After a lost reply the same credit is added to what is read then.
    ADDED_AGAIN_AFTER_A_LOST_REPLY = auto()
    #: The messages are removed before their results are written.
    REMOVED_BEFORE_THE_EFFECT = auto()
    #: The pointer to the finish message is written after the state that it points to.
    POINTER_AFTER_THE_STATE = auto()
    #: A replay after the last chunk keeps the revision.
    REVISION_KEPT = auto()
    #: The totals are written whatever revision has written before.
    NO_FENCE = auto()
    #: A finisher ends whatever revision the job has by then.
    END_OF_ANY_REVISION = auto()
    #: The event is sent after the state and stored nowhere.
    EVENT_NOT_STORED = auto()
    #: The event is forgotten before it is sent.
    EVENT_FORGOTTEN_FIRST = auto()


class Core(NamedTuple):
    """What the job's row says."""

    state: JobState = JobState.RUNNING
    revision: int = 1
    done: int = 0
    parked: int = 0
    accepted_items: int = 0
    parked_items: int = 0


class Stored(NamedTuple):
    """Everything in storage and on queues that belongs to one job."""

    version: int
    core: Core
    #: For each chunk: no row, "parked" or "done".
    rows: tuple[str, ...]
    #: For each message of the script: on its queue, locked, or gone.
    messages: tuple[str, ...]
    #: Revisions of which a finish message is on its queue.
    finish: tuple[int, ...] = ()
    #: Pointers to finish messages, by revision; to the outbox.
    pointers: frozenset[int] = frozenset()
    outbox: bool = False
    #: Events that are stored, and revisions that were told.
    events: frozenset[int] = frozenset()
    told: frozenset[int] = frozenset()
    #: Which revision has the totals, and which chunks are in them.
    totals: tuple[int, frozenset[int]] = (0, frozenset())
    #: Outputs by revision, each written once.
    outputs: tuple[tuple[int, frozenset[int]], ...] = ()

    def done_chunks(self) -> frozenset[int]:
        """The chunks that have a done row."""
        return frozenset(n for n, row in enumerate(self.rows) if row == "done")


class Settling(NamedTuple):
    """A worker that settles; `step` is its next request."""

    batch: tuple[int, ...]
    step: str = "read"
    version: int = 0
    core: Core = Core()
    known: tuple[str, ...] | None = None
    is_unsure: bool = False
    pointed: int = 0


class Finishing(NamedTuple):
    """A worker that finishes a revision."""

    revision: int
    step: str = "read"
    done: frozenset[int] = frozenset()


Worker = Settling | Finishing | None


@dataclass(frozen=True)
class Script:
    """What a job's chunks send: (chunk, "done" or "parked"); what follows a parked one is its replay."""

    chunks: int
    messages: tuple[tuple[int, str], ...]

    def start(self) -> Stored:
        """Return the job as it is when all its chunks are on their way."""
        first = {}
        for number, (chunk, _) in enumerate(self.messages):
            first.setdefault(chunk, number)
        state = tuple("queued" if number in first.values() else "later" for number in range(len(self.messages)))
        return Stored(1, Core(), ("",) * self.chunks, state)


class Next(NamedTuple):
    """What a step leads to, and what it used up of the faults and of the duplicates."""

    label: str
    job: Stored
    worker: Worker
    faults: int = 0
    duplicates: int = 0


def has_written(worker: Settling | Finishing) -> bool:
    """Whether the end of this worker makes a difference: before its first write, it is as if it had never begun."""
    if isinstance(worker, Finishing):
        return worker.step not in {"read", "merge", "publish"}
    return bool(worker.pointed) or worker.is_unsure or worker.step not in {"read", "look", "write", "point"}


# The ledger's own decisions, on records that are made of the model's.


@cache
def _job(core: Core, chunks: int) -> Job:
    return Job(
        job="j",
        content_hash="",
        workload="",
        accepted_at=NOW,
        state=core.state,
        items=chunks,
        chunks=chunks,
        plan=PlanBlob("p", "e"),
        revision=core.revision,
        done=core.done,
        parked_chunks=core.parked,
        dispatch_cursor=chunks,
        totals=Totals(accepted=Portion(core.accepted_items), parked=Portion(core.parked_items)),
    )


def _core(job: Job) -> Core:
    return Core(
        job.state, job.revision, job.done, job.parked_chunks, job.totals.accepted.items, job.totals.parked.items
    )


def _row(chunk: int, state: str) -> ChunkRow:
    tally = Portion(1)
    return ChunkRow(
        job="j",
        chunk=chunk,
        state=ChunkState(state),
        revision=1,
        settled_at=NOW,
        totals=Totals(accepted=tally) if state == "done" else Totals(parked=tally),
        hash="0" * 64 if state == "done" else None,
        etag="e",
    )


def _result(chunk: int, state: str) -> Result:
    if state == "parked":
        return Result(job="j", chunk=chunk, revision=1, parked=PortionMessage(items=1), reason="why")
    blob = result_blob("j", 1, chunk)
    return Result(job="j", chunk=chunk, revision=1, accepted=PortionMessage(items=1), blob=blob, hash="0" * 64)


class Decided(NamedTuple):
    """The ledger's decision about one batch."""

    core: Core
    inserts: tuple[tuple[int, str], ...]
    replaces: tuple[tuple[int, str], ...]
    finish_due: bool


@cache
def decided(script: Script, core: Core, known: tuple[str, ...] | None, batch: tuple[int, ...]) -> Decided:
    """Let the ledger settle a batch."""
    rows = {n: _row(n, state) for n, state in enumerate(known or ()) if state}
    results = [_result(*script.messages[number]) for number in batch]
    made = settle(_job(core, script.chunks), rows, results, NOW, NEVER_PAUSES)
    assert not made.refused, "nothing in the model is forged"
    parts = [tuple((row.chunk, row.state.value) for row in rows) for rows in (made.inserts, made.replaces)]
    return Decided(_core(made.job), parts[0], parts[1], made.finish_due)


@cache
def ended(core: Core, revision: int, chunks: int) -> Core:
    """Let the ledger end a job at a revision."""
    job = _job(core, chunks)
    return _core(finish(job, revision, check_balance(job, job.totals), NOW))


class Protocol:
    """What each worker may do next."""

    def __init__(self, script: Script, bug: Bug | None = None) -> None:
        self.script, self.bug = script, bug

    def environment(self, job: Stored) -> Iterator[Next]:
        """Yield what happens without a worker: replays, and the tick that follows pointers."""
        for number, (chunk, _) in enumerate(self.script.messages):
            if job.messages[number] == "later" and job.rows[chunk] == "parked":
                yield Next("replay", self._message(job, number, "queued"), None)
        for revision in sorted(job.pointers):
            # A pointer whose state may still come is put off.
            ended = job.core.done + job.core.parked == len(job.rows)
            if revision < job.core.revision or (revision == job.core.revision and ended):
                due = job.core.state is JobState.FINISHING and job.core.revision == revision
                sent = _put(job, revision) if due else job
                yield Next("tick: finish", sent._replace(pointers=job.pointers - {revision}), None)
        if job.outbox and (job.events or job.core.state is not JobState.FINISHING):
            yield Next("tick: outbox", self._told(job), None)

    def steps(self, job: Stored, worker: Worker) -> Iterator[Next]:
        """Yield what a worker may do on this job, every fault included."""
        if worker is None:
            yield from self._take(job)
            return
        if has_written(worker):
            yield Next("crash", self._released(job, worker), None, faults=1)
        if isinstance(worker, Settling):
            yield from getattr(self, f"_settle_{worker.step}")(job, worker)
        else:
            yield from getattr(self, f"_finish_{worker.step}")(job, worker)

    def _take(self, job: Stored) -> Iterator[Next]:
        queued = tuple(number for number, state in enumerate(job.messages) if state == "queued")
        for batch in {queued, *((number,) for number in queued)} - {()}:
            locked = job
            for number in batch:
                locked = self._message(locked, number, "locked")
            yield Next("take results", locked, Settling(tuple(sorted(batch))))
        for revision in sorted(set(job.finish)):
            left = list(job.finish)
            left.remove(revision)
            yield Next("take finish", job._replace(finish=tuple(left)), Finishing(revision))

    def _released(self, job: Stored, worker: Worker) -> Stored:
        if isinstance(worker, Finishing):
            return _put(job, worker.revision)
        for number in worker.batch if isinstance(worker, Settling) else ():
            if job.messages[number] == "locked":
                job = self._message(job, number, "queued")
        return job

    # Settling.

    def _settle_read(self, job: Stored, worker: Settling) -> Iterator[Next]:
        must_look = worker.known is not None or job.core.parked or job.core.state is not JobState.RUNNING
        seen = worker._replace(version=job.version, core=job.core, step="look" if must_look else "decide", known=None)
        if self.bug is Bug.REMOVED_BEFORE_THE_EFFECT:
            for number in worker.batch:
                job = self._message(job, number, "gone")
        yield Next("read job", job, seen if must_look else self._after_decision(seen))

    def _settle_look(self, job: Stored, worker: Settling) -> Iterator[Next]:
        yield Next("read rows", job, self._after_decision(worker._replace(known=job.rows)))

    def _after_decision(self, worker: Settling) -> Settling:
        made = decided(self.script, worker.core, worker.known, worker.batch)
        if not made.inserts and not made.replaces:
            waits = worker.is_unsure and worker.core.state is JobState.FINISHING
            return Settling(worker.batch, "send" if waits else "remove", pointed=worker.pointed)
        needs = made.finish_due and worker.pointed != made.core.revision
        early = needs and self.bug is not Bug.POINTER_AFTER_THE_STATE
        return worker._replace(step="point" if early else "write")

    def _settle_point(self, job: Stored, worker: Settling) -> Iterator[Next]:
        revision = self._wanted(worker).core.revision
        pointed = job._replace(pointers=job.pointers | {revision})
        after = "send" if self.bug is Bug.POINTER_AFTER_THE_STATE else "write"
        yield Next("write pointer", pointed, worker._replace(step=after, pointed=revision))

    def _wanted(self, worker: Settling) -> Decided:
        return decided(self.script, worker.core, worker.known, worker.batch)

    def _settle_write(self, job: Stored, worker: Settling) -> Iterator[Next]:
        made = self._wanted(worker)
        again = Settling(worker.batch, known=(), is_unsure=worker.is_unsure, pointed=worker.pointed)
        if not self._is_allowed(job, worker, made):
            yield Next("lose race", job, again)
            return
        written = self._written(job, made)
        late = self.bug is Bug.POINTER_AFTER_THE_STATE and made.finish_due
        step = ("point" if late else "send") if made.finish_due else "remove"
        # What it knew does not matter any more; only with a write to come it still does.
        after = worker._replace(step=step) if late or self.bug else Settling(worker.batch, step, pointed=worker.pointed)
        if self.bug is Bug.ROWS_IN_A_SECOND_WRITE:
            yield Next("write job", written._replace(rows=job.rows), after._replace(step="rows", known=written.rows))
        elif self.bug is Bug.JOB_IN_A_SECOND_WRITE:
            yield Next("write rows", job._replace(rows=written.rows), worker._replace(step="job"))
        else:
            yield Next("write", written, after)
        unsure = again._replace(is_unsure=True)
        if self.bug is Bug.ADDED_AGAIN_AFTER_A_LOST_REPLY:
            unsure = unsure._replace(known=None)
        yield Next("write, reply lost", written, unsure, faults=1)

    def _is_allowed(self, job: Stored, worker: Settling, made: Decided) -> bool:
        if job.version != worker.version and self.bug is not Bug.NO_ETAG:
            return False
        if self.bug in {Bug.NO_ROW_CONDITION, Bug.ADDED_AGAIN_AFTER_A_LOST_REPLY}:
            return True
        free = all(not job.rows[chunk] for chunk, _ in made.inserts)
        return free and all(job.rows[chunk] == "parked" for chunk, _ in made.replaces)

    def _written(self, job: Stored, made: Decided) -> Stored:
        rows = list(job.rows)
        for chunk, state in (*made.inserts, *made.replaces):
            rows[chunk] = state
        core = made.core
        if self.bug is Bug.REVISION_KEPT:
            core = core._replace(revision=job.core.revision)
        return job._replace(version=job.version + 1, core=core, rows=tuple(rows))

    def _settle_rows(self, job: Stored, worker: Settling) -> Iterator[Next]:
        due = self._wanted(worker._replace(known=None)).finish_due
        yield Next("write rows", job._replace(rows=worker.known), worker._replace(step="send" if due else "remove"))

    def _settle_job(self, job: Stored, worker: Settling) -> Iterator[Next]:
        made = self._wanted(worker)
        if job.version != worker.version:
            yield Next("lose race", job, worker._replace(step="read", known=()))
            return
        written = job._replace(version=job.version + 1, core=made.core)
        yield Next("write job", written, worker._replace(step="send" if made.finish_due else "remove"))

    def _settle_send(self, job: Stored, worker: Settling) -> Iterator[Next]:
        revision = worker.pointed or job.core.revision
        yield Next(
            "send finish",
            _put(job, revision),
            Settling(worker.batch, "unpoint" if worker.pointed else "remove", pointed=worker.pointed),
        )

    def _settle_unpoint(self, job: Stored, worker: Settling) -> Iterator[Next]:
        left = job._replace(pointers=job.pointers - {worker.pointed})
        yield Next("remove pointer", left, Settling(worker.batch, "remove"))

    def _settle_remove(self, job: Stored, worker: Settling) -> Iterator[Next]:
        removed = job
        for number in worker.batch:
            removed = self._message(removed, number, "gone")
        yield Next("remove messages", removed, None)
        yield Next("removed, delivered again", self._released(job, worker), None, duplicates=1)

    # Finishing.

    def _finish_read(self, job: Stored, worker: Finishing) -> Iterator[Next]:
        if job.core.state is JobState.FINISHING and job.core.revision == worker.revision:
            yield Next("read job", job, worker._replace(step="merge"))
        else:
            is_finished = job.core.state not in {JobState.RUNNING, JobState.FINISHING}
            yield Next("read job", job, worker._replace(step="tell" if is_finished and job.events else "remove"))

    def _finish_merge(self, job: Stored, worker: Finishing) -> Iterator[Next]:
        yield Next("read results", job, worker._replace(step="publish", done=job.done_chunks()))

    def _finish_publish(self, job: Stored, worker: Finishing) -> Iterator[Next]:
        there = dict(job.outputs)
        outputs = tuple(sorted(({worker.revision: worker.done} | there).items()))
        yield Next("write outputs", job._replace(outputs=outputs), worker._replace(step="total"))

    def _finish_total(self, job: Stored, worker: Finishing) -> Iterator[Next]:
        revision, _ = job.totals
        if revision > worker.revision and self.bug is not Bug.NO_FENCE:
            yield Next("fenced off", job, Finishing(worker.revision, "remove"))
            return
        # Of two finishers of one revision the first one's rows stay, as the fence passes them over.
        totals = job.totals if revision == worker.revision else (worker.revision, worker.done)
        yield Next("write totals", job._replace(totals=totals), Finishing(worker.revision, "point"))

    def _finish_point(self, job: Stored, worker: Finishing) -> Iterator[Next]:
        yield Next("point to outbox", job._replace(outbox=True), worker._replace(step="end"))

    def _finish_end(self, job: Stored, worker: Finishing) -> Iterator[Next]:
        revision = job.core.revision if self.bug is Bug.END_OF_ANY_REVISION else worker.revision
        core = ended(job.core, revision, self.script.chunks)
        if core == job.core:
            yield Next("read job", job, worker._replace(step="remove"))
            return
        events = job.events if self.bug is Bug.EVENT_NOT_STORED else job.events | {core.revision}
        written = job._replace(version=job.version + 1, core=core, events=events)
        yield Next("end job", written, worker._replace(step="tell"))
        yield Next("end job, reply lost", written, worker._replace(step="tell"), faults=1)

    def _finish_tell(self, job: Stored, worker: Finishing) -> Iterator[Next]:
        if self.bug is Bug.EVENT_NOT_STORED:
            yield Next("send event", job._replace(told=job.told | {worker.revision}), worker._replace(step="remove"))
        elif self.bug is Bug.EVENT_FORGOTTEN_FIRST:
            forgotten = job._replace(events=frozenset(), outbox=False)
            yield Next("forget event", forgotten, worker._replace(step="late", done=job.events))
        else:
            yield Next("send event", job._replace(told=job.told | job.events), worker._replace(step="forget"))

    def _finish_late(self, job: Stored, worker: Finishing) -> Iterator[Next]:
        yield Next("send event", job._replace(told=job.told | worker.done), worker._replace(step="remove"))

    def _finish_forget(self, job: Stored, worker: Finishing) -> Iterator[Next]:
        # Only what was sent is forgotten, and the pointer after it.
        yield Next("forget event", job._replace(events=job.events - job.told), worker._replace(step="unpoint"))

    def _finish_unpoint(self, job: Stored, worker: Finishing) -> Iterator[Next]:
        yield Next("remove pointer", job._replace(outbox=bool(job.events)), worker._replace(step="remove"))

    def _finish_remove(self, job: Stored, worker: Finishing) -> Iterator[Next]:
        yield Next("remove message", job, None)
        yield Next("removed, delivered again", _put(job, worker.revision), None, duplicates=1)

    def _told(self, job: Stored) -> Stored:
        stays = job.core.state is JobState.FINISHING
        return job._replace(told=job.told | job.events, events=frozenset(), outbox=stays)

    def _message(self, job: Stored, number: int, state: str) -> Stored:
        messages = list(job.messages)
        messages[number] = state
        return job._replace(messages=tuple(messages))


def _put(job: Stored, revision: int) -> Stored:
    # While one is on its queue, an equal one adds nothing: one that is being worked on is not on its queue.
    if revision in job.finish:
        return job
    return job._replace(finish=tuple(sorted((*job.finish, revision))))


def violation(script: Script, job: Stored) -> str:
    """Say which invariant a state breaks, or nothing."""
    core, done, parked = job.core, len(job.done_chunks()), job.rows.count("parked")
    if (core.done, core.parked) != (done, parked):
        return f"the job counts {core.done} done and {core.parked} parked, its rows {done} and {parked}"
    if (core.accepted_items, core.parked_items) != (done, parked):
        return "the job's totals are not the sum of its rows"
    if core.state in {JobState.COMPLETE, JobState.COMPLETED_WITH_PARKED}:
        if dict(job.outputs).get(core.revision) != job.done_chunks():
            return f"the outputs of revision {core.revision} are not what is done"
        if job.totals != (core.revision, job.done_chunks()):
            return f"the totals are of revision {job.totals[0]}, the job is at {core.revision}"
    if core.state is JobState.UNBALANCED:
        return "the job does not add up"
    return ""


def unfinished(job: Stored) -> str:
    """Say what is missing of a job about which nothing can happen any more, or nothing."""
    if any(row != "done" for row in job.rows):
        return "a chunk was never counted"
    if job.core.state is not JobState.COMPLETE:
        return f"the job is {job.core.state.value} for ever"
    if job.core.revision not in job.told:
        return "nobody was told that the job is complete"
    return ""
