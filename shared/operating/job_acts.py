"""Pauses, stops and reruns jobs, and resumes a paused one after a person has seen why.

Reads what a person asks about one job: how far it is, what is tried again, what waits, and why it is slow.

An open job costs four requests, one more while not all of its chunks are put, and up to two for each of its queues; an
ended job costs two.

Reads the outputs of a job as lines: its output, its rejected transactions with their reasons, its totals.

The parts are streamed and unpacked as they come, so a job of any size can be read.

Puts an operator's rules in force, audited.
"""

import json
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from itertools import chain, islice
from typing import IO, Any, Final, cast

from azure.data.tables import EntityProperty
from azure.storage.blob import ContainerClient
from azure.storage.queue import QueueServiceClient

from shared.azure import expecting_an_answer
from shared.clock import Clock
from shared.concurrency import FleetTable, Rules, RulesBlob, Shares, parse
from shared.errors import ActStaleError, JobStateError, SignalNotSentError
from shared.grammar import room_of
from shared.ledger import (
    CLOSED,
    TOMBSTONES,
    ChunkRow,
    ChunkState,
    Job,
    JobList,
    JobState,
    Ledger,
    Listed,
    Wanted,
    Written,
    change,
    counting,
    describe_growth,
    may_feed,
    pause,
    refuse_rerun,
    rerun,
    resume,
    stop,
    takes_newest,
)
from shared.operating.audit import ActKey, AuditedAct, AuditTable
from shared.operating.descent import describe_sources, describe_waiting, list_made_from
from shared.operating.forecast import DETAIL, ForecastNote, Happened, check_rerun, forecast_rerun, read_note
from shared.parked import (
    ACCEPT,
    DOOR,
    Attempts,
    Entry,
    EntryState,
    FailedAttempt,
    ParkedTable,
    chunk_of_key,
    is_aside_key,
)
from shared.pending import DISPATCH_POINTER, JOB_POINTER, OUTBOX_POINTER, WAIT_POINTER, PendingTable, Pointer
from shared.pipeline import GRACE, FinishCall, Halts, Outputs, ReadyTable, TotalsTable, event_of, read_results
from shared.refusals import Reason
from shared.signals import Signals
from shared.topology import work_queues_of
from shared.usage import load as load_prices
from shared.zstd import ZstdFile


@dataclass(frozen=True, slots=True, kw_only=True)
class JobOperator:
    """Pauses, resumes, stops and reruns jobs for a person. `seen`: only if the job's row has this ETag, else raise ActStaleError.

    `named`: see AuditTable.record.
    """

    ledger: Ledger
    halts: Halts
    finish: FinishCall
    pending: PendingTable
    audit: AuditTable
    parked: ParkedTable
    hints: Signals
    wake_waiters: Callable[[Job], object]
    clock: Clock

    def pause(self, job_id: str, *, by: str, why: str, seen: str | None = None, named: ActKey | None = None) -> Job:
        """Pause the job and return it. Raise JobStateError for one that cannot pause. A paused one stays unchanged.

        About ten seconds later none of its chunks begins. Those in work end, and their results count.
        """

        def decide(job: Job) -> Job:
            _check_seen(job, seen)
            if refused := refuse_pause(job):
                raise JobStateError(f"could not pause job {job_id!r}: {refused}")
            return pause(job, by, why)

        # Refused before anything is written: a process that dies in between must leave nothing behind.
        job = self._find(job_id, "pause")
        if decide(job) is job:
            return job
        self.halts.check_room(job_id)
        with self.audit.record(AuditedAct(by, "job pause", job_id, why), named) as command, counting():
            paused = self.halts.change(job, decide, tried="pause the job")
            command.result = "gone" if paused is None else paused.state.value
        return paused or job

    def stop(self, job_id: str, *, by: str, why: str, seen: str | None = None, named: ActKey | None = None) -> Job:
        """End the job for good and return it. Raise JobStateError for one that has ended. A stopped one stays unchanged.

        Nothing is published, and its results count no more. The tick sends the event of its end, and begins its retention.
        """
        now = self.clock.now()

        def decide(job: Job) -> Job | Written:
            _check_seen(job, seen)
            if job.state in CLOSED - {JobState.STOPPED}:
                raise JobStateError(f"could not stop job {job_id!r}: it is {job.state.value}: it has ended")
            stopped = stop(job, by, why, now)
            # The event is stored with the state that it announces.
            return job if stopped is job else Written(stopped, messages=[event_of(stopped)])

        job = self._find(job_id, "stop")
        if decide(job) is job:
            return job
        self.halts.check_room(job_id)
        with self.audit.record(AuditedAct(by, "job stop", job_id, why), named) as command, counting():
            # A job that was held has no pointer to it.
            later = now + GRACE
            self.pending.add_all([Pointer(JOB_POINTER, now, job_id), Pointer(OUTBOX_POINTER, later, job_id)])
            stopped = self.halts.change(job, decide, tried="stop the job")
            command.result = "gone" if stopped is None else stopped.state.value
            if stopped is not None:
                self.wake_waiters(stopped)
        return stopped or job

    def resume(self, job_id: str, *, by: str, why: str, seen: str | None = None, named: ActKey | None = None) -> Job:
        """Resume the job and return it. Raise JobStateError for a job that is not paused."""
        with self.audit.record(AuditedAct(by, "job resume", job_id, why), named) as command:
            with counting():
                job = self._resume(job_id, seen)
            # A crash from here on is repaired by the pointers.
            if job.halts:
                self.halts.lift(job_id)
            if job.state is JobState.FINISHING:
                self.finish.send(job)
            else:
                # Where there is a bus, a worker goes on with it at once.
                with suppress(SignalNotSentError):
                    self.hints.send_job(job.job)
            command.result = job.state.value
        return job

    def rerun(  # noqa: PLR0913 - each is a part of the command
        self,
        job_id: str,
        *,
        by: str,
        why: str,
        revision: int | None = None,
        lines: bool | None = None,
        seen: str | None = None,
        named: ActKey | None = None,
    ) -> Job:
        """Run every chunk of the job again, with the code that is deployed, and return the job. Raise JobStateError if that cannot be.

        `revision`: only if the job is at this one, else raise ActStaleError; one that this began already stays unchanged.
        `lines`: see `rerun` of the ledger. The outputs of the run before stay, and its open parked entries are closed.
        A job that was made from others takes their newest revisions, as soon as these are complete. One request for each.
        """
        job, now = self._find(job_id, "rerun"), self.clock.now()
        newest = takes_newest(job, {name: self.ledger.read(name) for name in job.used})
        saw = job.revision if revision is None else revision

        def decide(job: Job) -> Job:
            if job.run_from == saw + 1:
                # Begun by this act, whose reply was lost, or by the same one before it.
                return job
            _check_seen(job, seen)
            if job.revision != saw:
                raise ActStaleError(f"job {job_id!r} is at revision {job.revision}, you saw {saw}; nothing was done")
            if refused := refuse_rerun(job):
                raise JobStateError(f"could not rerun job {job_id!r}: {refused}")
            return rerun(job, now, lines=lines, newest=newest)

        # Refused before anything is written.
        decide(job)
        fleet = self.halts.check_room(job_id)
        if before := fleet.of_before(_KNOW_RERUNS, now):
            raise JobStateError(
                f"could not rerun job {job_id!r}: {len(before)} processes of before {_KNOW_RERUNS} work now, and take the "
                "results of the run before for those of the new one: wait until they are gone; nothing was done"
            )
        foretold = forecast_rerun(job, fleet, load_prices(), now, newest=bool(newest))
        with self.audit.record(AuditedAct(by, "job rerun", job_id, why, foretold), named) as command, counting():
            # The tick looks at a job that has ended no more, and would take a pointer that is due for one to its end.
            later = Pointer(WAIT_POINTER if newest else JOB_POINTER, now + GRACE, job_id)
            self.pending.add_all([later] if newest else [Pointer(DISPATCH_POINTER, now, job_id), later])
            begun = self.halts.change(job, decide, tried="run the job again")
            command.result = "gone" if begun is None else f"revision {begun.revision}, {begun.state.value}"
            if begun is None:
                return job
            if begun.state is JobState.FINISHING:
                self.finish.send(begun)
            else:
                with suppress(SignalNotSentError):
                    self.hints.send_job(job_id)
            self._close_former(begun)
        return begun

    def _close_former(self, job: Job) -> None:
        """Close the entries that the runs before left: a replay of them has no effect any more."""
        note = f"its job ran again at revision {job.run_from}"
        for entry in list(self.parked.entries(job.job)):
            if entry.stage != ACCEPT and (entry.revision or 0) < job.run_from:
                self.parked.change(entry, replace(entry, state=EntryState.DISCARDED, note=note))

    def _resume(self, job_id: str, seen: str | None) -> Job:
        now = self.clock.now()

        def decide(job: Job) -> Job:
            _check_seen(job, seen)
            if job.state is not JobState.PAUSED:
                raise JobStateError(f"could not resume job {job_id!r}: it is {job.state.value}, expected paused")
            return resume(job, now)

        job = self._find(job_id, "resume")
        if (state := decide(job).state) is not JobState.FINISHING:
            # The next tick dispatches it, or has it wait for its gate or for others: then its pointer of before is gone.
            held = WAIT_POINTER if job.awaits_others else JOB_POINTER
            self.pending.add(Pointer(held if state is JobState.HELD else DISPATCH_POINTER, now, job_id))
        return change(self.ledger, job_id, decide, tried="resume the job", known=job) or job

    def _find(self, job_id: str, act: str) -> Job:
        job = self.ledger.read(job_id)
        if job is None:
            raise JobStateError(f"could not {act} job {job_id!r}: it is not known")
        return job


def _check_seen(job: Job, seen: str | None) -> None:
    if seen is not None and job.etag != seen:
        raise ActStaleError(
            f"job {job.job!r} was changed since you saw it: it is {job.state.value}, {job.parked_chunks} of "
            f"{job.chunks} chunks are parked; nothing was done"
        )


def refuse_pause(job: Job) -> str:
    """Say why a person cannot pause the job, or nothing."""
    if job.state is JobState.FINISHING:
        return "it is finishing: none of its transactions runs any more"
    if job.state in CLOSED:
        return f"it is {job.state.value}: it has ended"
    return "it has no plan yet: try again in a moment" if job.plan is None and not job.waits else ""


#: Stands for the state or the story of a job that an earlier version wrote. `sluice jobs reindex` finds the state.
NOT_RECORDED: Final = "not recorded"
#: Entries at the door that are looked through for a list of jobs: those of one request.
MOST_AT_THE_DOOR: Final = 1000
#: A job is accepted before it gets its numbers: mostly a moment, longer where its plan was made late.
ACCEPTED_BEFORE: Final = timedelta(days=1)
#: Between the clocks of two processes.
SKEW: Final = timedelta(minutes=5)
#: Jobs without numbers in the list that are read in search of one, and lines of the list that are looked through for them.
MOST_READ, MOST_LISTED = 10, 1000
#: Queues of a job that are looked at.
MOST_QUEUES: Final = 16
#: States in which chunks may lie on the work queues.
_WORKING: Final = frozenset({JobState.DISPATCHING, JobState.RUNNING, JobState.FINISHING})


@dataclass(frozen=True, slots=True)
class QueueLook:
    """A queue: messages on it, and when the oldest one that waits was put."""

    queue: str
    messages: int
    oldest_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class JobLook:
    """A job with everything around it. `job` is None where none was accepted under this id."""

    job: Job | None
    #: Messages that failed and are tried again.
    retried: Sequence[FailedAttempt] = ()
    queues: Sequence[QueueLook] = ()
    #: How many older jobs of its room wait for their turn too. None: it does not wait for its turn.
    older: int | None = None
    #: Submissions of this id that were parked at acceptance, also where an earlier one was accepted.
    refused: Sequence[Entry] = field(default=())
    #: For whom it waits, and what it was made from, in words.
    waits: str = ""
    sources: Sequence[str] = ()
    #: The jobs that were made from it, or will be.
    made: Sequence[str] = ()
    #: The forecast of its last rerun, and what happened.
    checked: tuple[ForecastNote, Happened] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class JobReader:
    """Reads a job from storage, so the app may be down."""

    ledger: Ledger
    attempts: Attempts
    parked: ParkedTable
    queues: QueueServiceClient
    ready: ReadyTable
    audit: AuditTable
    #: The number of work queues of the installation.
    work_queues: int

    def look(self, job_id: str) -> JobLook:
        """Read the job and everything around it."""
        job, refused = self.ledger.read(job_id), self.list_refused(job_id)
        if job is None:
            return JobLook(None, refused=refused)
        made = [one.job for one in list_made_from(self.ledger, job)]
        sources, checked = list(describe_sources(self.ledger, job)), self._check_rerun(job)
        look = JobLook(job, refused=refused, sources=sources, made=made, checked=checked)
        if job.state in CLOSED:
            return look
        if job.awaits_others:
            return replace(look, waits=describe_waiting(self.ledger, job))
        retried, queues, older = self._list_retried(job), self._read_queues(job), self._count_older(job)
        return replace(look, retried=retried, queues=queues, older=older)

    def _check_rerun(self, job: Job) -> tuple[ForecastNote, Happened] | None:
        """Compare the forecast of a job's last rerun. One request for a job that ran again."""
        begun = next((one.at for one in job.story if job.run_from and one.revision == job.run_from), None)
        if begun is None:
            return None
        acts, result = self.audit.list_about(job.job, begun), f"revision {job.run_from},"
        note = next((read_note(one.details.get(DETAIL)) for one in acts if one.result.startswith(result)), None)
        return None if note is None else check_rerun(job, note, load_prices())

    def list_refused(self, job_id: str) -> list[Entry]:
        """Return the open entries at the door that claim the job. One request."""
        return list(self.parked.claiming(job_id))

    def list_door(self) -> list[Entry]:
        """Return the open entries at the door, up to MOST_AT_THE_DOOR. One request."""
        return list(islice(self.parked.entries(DOOR), MOST_AT_THE_DOOR))

    def list_failing(self, jobs: Iterable[Listed]) -> set[str]:
        """Return those of the jobs whose messages fail and are tried again. One request, and none if all have ended."""
        is_open = {one.job for one in jobs if one.state not in CLOSED}
        return is_open & self.attempts.list_failing() if is_open else set()

    def _list_retried(self, job: Job) -> list[FailedAttempt]:
        found = self.attempts.list_failures(job.job)
        chunks = {chunk for one in found if (chunk := chunk_of_key(one.key)) is not None}
        # A message that was put a second time may have ended its chunk: the notes of the first one stay.
        ended = self.ledger.rows_of(job.job, chunks) if chunks else {}
        return [
            one for one in found if not _is_over(one.key, {row.chunk: row for row in ended.values() if job.counts(row)})
        ]

    def _count_older(self, job: Job) -> int | None:
        if not may_feed(job):
            return None
        waiting = [one.job for one in self.ready.read(room_of(job.job))]
        return waiting.index(job.job) if job.job in waiting else None

    def _read_queues(self, job: Job) -> list[QueueLook]:
        if job.state not in _WORKING:
            return []
        names = {job.lane} if job.lane else work_queues_of(job.job, job.chunks, self.work_queues)
        return [read_queue(self.queues, name) for name in sorted(names)[:MOST_QUEUES]]


def read_queue(queues: QueueServiceClient, name: str) -> QueueLook:
    """Read the depth of a queue, which includes messages in work, and the oldest message that waits."""
    client = queues.get_queue_client(name)
    with expecting_an_answer(f"look at queue {name!r}"):
        messages = client.get_queue_properties().approximate_message_count or 0
        front = client.peek_messages(1) if messages else []
    return QueueLook(name, messages, front[0].inserted_on if front else None)


def find_job_of_number(jobs: JobList, ledger: Ledger, number: int, between: tuple[datetime, datetime]) -> str | None:
    """Return the job that has the transaction with this number, drawn in this time. Mostly one request, at most 40.

    The list has the numbers of jobs that were held, are under way or ended. Of other open ones, and of those in stretches,
    the latest rows are read.
    """
    since, before = between[0] - ACCEPTED_BEFORE, between[1] + SKEW
    if (job := jobs.find_numbered(number, since, before)) is not None:
        return job
    under_way, _ = jobs.list_open()
    for one in under_way:
        if one.first_id is not None and 0 <= number - one.first_id < one.items:
            return one.job
    months = jobs.page(Wanted(since=since, before=before), MOST_LISTED, has_news=False)
    for listed in (under_way, months.jobs):
        unknown = (one for one in listed if one.first_id is None and one.state not in TOMBSTONES)
        for one in islice((one for one in unknown if since <= one.accepted_at < before), MOST_READ):
            found = ledger.read(one.job)
            if found is not None and _has_number(ledger, found, number):
                return one.job
    return None


def _has_number(ledger: Ledger, job: Job, number: int) -> bool:
    """Check whether a job has the transaction with this number. The numbers of each of its stretches adjoin."""
    rows = ledger.stretches_of(job.job) if job.stretches > 1 else []
    first = rows[0].before if rows else job.items
    held = [(job.id_base, first), *((row.id_base, row.items) for row in rows)]
    return any(base is not None and 0 <= number - base < items for base, items in held)


def is_later(entry: Entry, job: Job | Listed) -> bool:
    """Check whether a submission was refused after the job of its id was accepted. Both have the app's times."""
    return entry.reason == Reason.CONFLICT or entry.last_at >= job.accepted_at


def group_later(jobs: Iterable[Job | Listed], entries: Iterable[Entry]) -> Mapping[str, list[Entry]]:
    """Return the later submissions under the ids of these jobs that were refused, by job."""
    known, found = {one.job: one for one in jobs}, defaultdict[str, list[Entry]](list)
    for entry in entries:
        job = known.get(entry.claimed)
        if job is not None and is_later(entry, job):
            found[job.job].append(entry)
    return found


def describe_refused(entry: Entry, job: Job | Listed) -> str:
    """Return the fate of another submission under the id of a job."""
    when = "a later" if is_later(entry, job) else "an earlier"
    what = "with other content was refused" if entry.reason == Reason.CONFLICT else f"was refused ({entry.reason})"
    return f"{when} submission {what} at {entry.last_at.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC and is parked"


def explain_pace(look: JobLook, now: datetime) -> list[str]:
    """Return why the job is not further, the gravest first. Empty: nothing holds it up, or it has ended."""
    job = look.job
    if job is None or job.state in CLOSED:
        return []
    if job.state is JobState.HELD and look.waits:
        return [look.waits]
    grows = [words] if (words := describe_growth(job)) else []
    if job.state is JobState.HELD:
        return [f"it waits behind gate {job.gate}: sluice gate status {job.gate}", *grows]
    waits = _explain_turn(job, look.older)
    if job.state is JobState.PLANNING:
        return waits or [job.problem or "its plan is being made"]
    if job.state is JobState.PAUSED:
        return [f"it is paused ({job.problem or 'too many of its chunks are parked'}): sluice jobs resume {job.job}"]
    return [*_explain_retries(look.retried), *grows, *waits, *_explain_queues(look.queues, now)]


def _is_over(key: str, ended: Mapping[int, ChunkRow]) -> bool:
    """Check whether the chunk of a message has ended. One with transactions that are set aside is done, and may be replayed."""
    chunk = chunk_of_key(key)
    if chunk is None or chunk not in ended:
        return False
    return not (is_aside_key(key) and ended[chunk].aside)


def _explain_turn(job: Job, older: int | None) -> list[str]:
    left = job.chunks - job.dispatch_cursor
    if older is None or (not left and job.again_from is None):
        return []
    chunks = f"{left:,} of its {job.chunks:,} chunks" if job.again_from is None else "chunks that were lost"
    said = f"{chunks} wait for their turn on the queues"
    jobs = "job" if older == 1 else "jobs"
    return [f"{said}, behind {older} older {jobs} of its room" if older else said]


def _explain_retries(retried: Sequence[FailedAttempt]) -> list[str]:
    if not retried:
        return []
    worst = max(retried, key=lambda one: one.deliveries)
    if worst.left:
        more = f", and {len(retried) - 1} more messages are tried again" if len(retried) > 1 else ""
        return [f"chunk {chunk_of_key(worst.key)}: {worst.words}{more}"]
    how = "failed and are tried again" if worst.due is None else "wait or are tried again"
    return [f"{len(retried)} of its messages {how}; {worst.key}, delivered {worst.deliveries} times: {worst.words}"]


def _explain_queues(queues: Sequence[QueueLook], now: datetime) -> list[str]:
    messages = sum(one.messages for one in queues)
    oldest = min((one.oldest_at for one in queues if one.oldest_at), default=None)
    if oldest is None:
        return [f"all {messages} messages on its queues are in work"] if messages else []
    waits = max(timedelta(), now - oldest).total_seconds()
    said = (
        f"{messages} messages are on its queues, of all jobs; the oldest that waits was put {waits:.0f} s ago: "
        "sluice tune show names the term that binds the number of tasks"
    )
    return [said]


#: States in which a job has outputs.
WRITTEN: Final = frozenset({JobState.COMPLETE, JobState.COMPLETED_WITH_PARKED})
#: Bytes unpacked at a time.
_STEP: Final = 1024 * 1024
_OWN: Final = frozenset({"PartitionKey", "RowKey"})


class OutputKind(StrEnum):
    """The kinds of lines that a job has made."""

    OUTPUT = "output"
    REJECTED = "rejected"
    LINES = "lines"
    TOTALS = "totals"
    PARKED = "parked"


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputReader:
    """Reads what the finish of a job wrote."""

    outputs: ContainerClient
    totals: TotalsTable
    ledger: Ledger
    results: ContainerClient

    def read(self, job: Job, kind: OutputKind) -> Iterator[bytes]:
        """Yield the bytes of newline-delimited JSON. One request for the list, and one for each part or page."""
        return self._read_totals(job) if kind is OutputKind.TOTALS else self._read_parts(job, kind)

    def read_rejected_so_far(self, job: Job) -> Iterator[bytes]:
        """Yield the rejected lines of the chunks that are done, of a job without outputs.

        One request for a thousand chunks, and one for each with a rejected line.
        """
        done = (one for one in self.ledger.rows(job.job) if one.state is ChunkState.DONE and job.counts(one))
        rows = (one for one in done if one.totals.rejected.items)
        for opened in read_results(self.results, rows):
            yield from opened.rejections

    def _read_parts(self, job: Job, kind: OutputKind) -> Iterator[bytes]:
        folder = f"{job.job}/{job.revision}"
        for part in Outputs(self.outputs, job.job, job.revision).parts():
            if part.name.startswith(f"{kind.value}-"):
                yield from self._unpack(f"{folder}/{part.name}")

    def _unpack(self, name: str) -> Iterator[bytes]:
        with expecting_an_answer(f"read output {name!r}"):
            # Not by the transport, which knows zstd only on some versions of Python.
            content = self.outputs.download_blob(name, decompress=False)
            with ZstdFile(cast("IO[bytes]", content)) as unpacked:
                while piece := unpacked.read(_STEP):
                    yield piece

    def list_totals(self, job: Job) -> Iterator[dict[str, Any]]:
        """Yield the totals of the job's revision, each with its account. One request for each page."""
        yield from map(read_total, self._list_totals(job))

    def _list_totals(self, job: Job) -> Iterator[Mapping[str, Any]]:
        if not job.run_from:
            return self.totals.rows(job.job, job.revision)
        manifest = Outputs(self.outputs, job.job, job.revision).find_manifest()
        partitions = manifest.totals_partitions if manifest else []
        return chain.from_iterable(self.totals.rows_of_partition(one, job.revision) for one in partitions)

    def _read_totals(self, job: Job) -> Iterator[bytes]:
        for row in self.list_totals(job):
            yield json.dumps(row).encode() + b"\n"


def read_total(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return the columns of a total as plain values, without its keys."""
    return {name: _plain(value) for name, value in row.items() if name not in _OWN}


def _plain(value: Any) -> Any:
    # A whole number beyond 32 bits comes as a value with its type.
    return value.value if isinstance(value, EntityProperty) else value


#: The first releases that follow rules with `shares`, and that know a rerun.
_KNOW_SHARES, _KNOW_RERUNS = "0.4.0", "0.5.0"


def put_rules(  # noqa: PLR0913 - each is a part of the command
    rules: RulesBlob,
    audit: AuditTable,
    text: str,
    *,
    by: str,
    why: str = "",
    rooms: Collection[str] | None = None,
    seen: str | None = None,
    named: ActKey | None = None,
) -> Rules:
    """Put rules in force and return them. The next tick with an open job follows them.

    `rooms`: see `lint`. `seen`: see RulesBlob.put. `named`: see AuditTable.record.
    """
    wanted = parse(text, rooms)
    with audit.record(AuditedAct(by, "rules put", f"version {wanted.version}", why), named) as command:
        rules.put(text, seen)
        command.result = "in force"
    return wanted


def warn_of_older_processes(wanted: Rules, fleet: FleetTable, now: datetime) -> list[str]:
    """Say which processes refuse these rules. One request, and none for rules without `shares`."""
    if wanted.shares == Shares() or not (before := fleet.read().of_before(_KNOW_SHARES, now)):
        return []
    refuse = f"processes of before {_KNOW_SHARES} work now ({len(before)}), and refuse `shares`"
    return [f"{refuse}. Until they are gone, a decision may follow the rules of before, or the built-in ones"]
