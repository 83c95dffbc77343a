"""Reads what a person asks about one job: how far it is, what is tried again, what waits, and why it is slow.

An open job costs four requests and up to two for each of its queues; an ended job costs two.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import islice
from typing import Final

from azure.storage.queue import QueueServiceClient

from shared.azure import expecting_an_answer
from shared.ledger import FINISHED, Job, JobList, JobState, Ledger, Listed
from shared.parked import DOOR, Attempts, Entry, FailedAttempt, ParkedTable, chunk_of_key
from shared.refusals import Reason
from shared.topology import work_queues_of

#: Stands for the state or the story of a job that an earlier version wrote. `sluice jobs reindex` finds the state.
NOT_RECORDED: Final = "not recorded"
#: Entries at the door that are looked through for a list of jobs: those of one request.
MOST_AT_THE_DOOR: Final = 1000
#: A job is accepted before it gets its numbers: mostly a moment, longer where its plan was made late.
ACCEPTED_BEFORE: Final = timedelta(days=1)
#: Between the clocks of two processes.
SKEW: Final = timedelta(minutes=5)
#: Open jobs that are read in search of a number.
MOST_READ: Final = 10
#: Queues of a job that are looked at.
MOST_QUEUES: Final = 16
#: States in which chunks may lie on the work queues.
_WORKING: Final = frozenset({JobState.DISPATCHING, JobState.RUNNING, JobState.FINISHING})
_CLOSED: Final = FINISHED | {JobState.BURIED}


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
    #: Submissions of this id that were parked at acceptance, also where an earlier one was accepted.
    refused: Sequence[Entry] = field(default=())


@dataclass(frozen=True, slots=True, kw_only=True)
class JobReader:
    """Reads a job from storage, so the app may be down."""

    ledger: Ledger
    attempts: Attempts
    parked: ParkedTable
    queues: QueueServiceClient
    #: The number of work queues of the installation.
    work_queues: int

    def look(self, job_id: str) -> JobLook:
        """Read the job and everything around it."""
        job, refused = self.ledger.read(job_id), self.list_refused(job_id)
        if job is None or job.state in _CLOSED:
            return JobLook(job, refused=refused)
        return JobLook(job, self._list_retried(job), self._read_queues(job), refused)

    def list_refused(self, job_id: str) -> list[Entry]:
        """Return the open entries at the door that claim the job. One request."""
        return list(self.parked.claiming(job_id))

    def list_door(self) -> list[Entry]:
        """Return the open entries at the door, up to MOST_AT_THE_DOOR. One request."""
        return list(islice(self.parked.entries(DOOR), MOST_AT_THE_DOOR))

    def list_failing(self, jobs: Iterable[Listed]) -> set[str]:
        """Return those of the jobs whose messages fail and are tried again. One request, and none if all have ended."""
        is_open = {one.job for one in jobs if one.state not in _CLOSED}
        return is_open & self.attempts.list_failing() if is_open else set()

    def _list_retried(self, job: Job) -> list[FailedAttempt]:
        found = self.attempts.list_failures(job.job)
        chunks = {chunk for one in found if (chunk := chunk_of_key(one.key)) is not None}
        # A message that was put a second time may have ended its chunk: the notes of the first one stay.
        ended = self.ledger.rows_of(job.job, chunks) if chunks else {}
        return [one for one in found if chunk_of_key(one.key) not in ended]

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
    """Return the job that has the transaction with this number, drawn in this time. Mostly one request, at most 16.

    The list has the numbers of jobs that were held or ended. Of other open ones the latest rows are read.
    """
    since, before = between[0] - ACCEPTED_BEFORE, between[1] + SKEW
    if (job := jobs.find_numbered(number, since, before)) is not None:
        return job
    unknown = [one.job for one in jobs.find_open() if one.first_id is None and since <= one.accepted_at < before]
    for name in unknown[:MOST_READ]:
        found = ledger.read(name)
        if found is not None and found.id_base is not None and 0 <= number - found.id_base < found.items:
            return name
    return None


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
    if job is None or job.state in _CLOSED:
        return []
    if job.state is JobState.HELD:
        return [f"it waits behind gate {job.gate}: sluice gate status {job.gate}"]
    if job.state is JobState.PLANNING:
        return [job.problem or "its plan is being made"]
    if job.state is JobState.PAUSED:
        return [f"it is paused ({job.problem or 'too many of its chunks are parked'}): sluice jobs resume {job.job}"]
    return [*_explain_retries(look.retried), *_explain_queues(look.queues, now)]


def _explain_retries(retried: Sequence[FailedAttempt]) -> list[str]:
    if not retried:
        return []
    worst = max(retried, key=lambda one: one.deliveries)
    said = (
        f"{len(retried)} of its messages failed and are tried again; {worst.key} failed at delivery {worst.deliveries} "
        f"with {worst.kind} at {worst.place}"
    )
    return [said]


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
