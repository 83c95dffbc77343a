"""Proves that nothing of an erased job is left, once its messages are gone, and looks once more a day later.

No reading of a queue shows a message that is hidden or scheduled. So the proof waits until the halt of its messages is
over, and for the time in which a result is sent once more. It also waits for a submission that hides on its room's
queue. Until then, and while anything is found, each check removes what has come since.
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Final

from azure.core.exceptions import ResourceNotFoundError
from azure.storage.queue import QueueClient

from shared.azure import expecting_an_answer
from shared.clock import Clock
from shared.grammar import room_of
from shared.ledger import Job, JobState, Ledger, change, note_proof
from shared.parked import read_claimed_job, read_message
from shared.pending import Pending, Pointer
from shared.pipeline.removal.remains import CONTAINERS, TABLES, Remains
from shared.telemetry import events, tell
from shared.topology import POISON_SUFFIX, URGENT, is_work_queue, submission_queue, work_queues_of

#: A result that is sent once more comes within this time.
PASSES: Final = timedelta(minutes=15)
#: Behind a submission that fails, others wait for so long: its count says that some are there, a peek does not show them.
HIDES: Final = timedelta(minutes=70)
AGAIN: Final = timedelta(minutes=5)
#: An erasure that is not proven by then needs a person.
UNPROVEN_AFTER: Final = timedelta(minutes=90)
SECOND_CHECK_AFTER: Final = timedelta(days=1)
#: The note of the pointer to a job of which nothing was found.
_SECOND: Final = "second check"
#: Messages that one peek shows.
_FRONT: Final = 32


@dataclass(frozen=True, slots=True, kw_only=True)
class Erasures:
    """Follows pointers to erased jobs. One per process."""

    ledger: Ledger
    pending: Pending
    remains: Remains
    #: Reads the jobs whose messages are taken out of the work queues.
    read_halted: Callable[[], Collection[str]]
    #: Reads when the oldest result that waits was put.
    read_results: Callable[[], datetime | None]
    queue: Callable[[str], QueueClient]
    work_queues: int
    clock: Clock

    def follow(self, pointer: Pointer, until: float) -> None:
        """Remove what is there, and prove that nothing is, or come again. A pointer without an erased job goes."""
        job, now = self.ledger.read(pointer.id), self.clock.now()
        if job is not None and job.state is JobState.ERASED:
            for _ in self.remains.remove(job):
                if self.clock.monotonic() >= until:
                    return
            is_second = pointer.note == _SECOND
            if not self._prove(job, now, looks=2 if is_second else 1):
                # The later pointer first: no erased job may be that the tick cannot find.
                self.pending.add(replace(pointer, due=max(now + AGAIN, (job.erased_at or now) + PASSES)))
            elif is_second:
                self.remains.list.forget_night(job)
            else:
                self.pending.add(replace(pointer, due=now + SECOND_CHECK_AFTER, note=_SECOND))
        self.pending.remove(pointer)

    def _prove(self, job: Job, now: datetime, looks: int) -> bool:
        """Note that nothing is left, if that is so."""
        waits, looked = self._look_at_queues(job, now)
        left = {**waits, **self.remains.find(job)}
        if left:
            if now - (job.erased_at or now) >= UNPROVEN_AFTER:
                words = ", ".join(f"{number} {place}" for place, number in left.items())
                tell(events.ERASE_UNPROVEN, job=job.job, left=words)
            return False
        places = {"tables": len(TABLES), "containers": len(CONTAINERS), "queues": looked}
        counts = {**places, "found": 0, "looks": looks}
        change(self.ledger, job.job, lambda found: note_proof(found, counts, now), tried="note that nothing is left")
        return True

    def _look_at_queues(self, job: Job, now: datetime) -> tuple[Mapping[str, int], int]:
        """Return the messages that may still bring something of the job, by place, and the number of queues."""
        waits: dict[str, int] = {}
        erased_at = job.erased_at or now
        names = self._queues_of(job)
        for name in names:
            mine, number = self._count(name, job.job)
            is_room = name == submission_queue(room_of(job.job))
            hides = is_room and number > 0 and now - erased_at < HIDES
            if mine or hides:
                waits[f"messages on {name}"] = mine or number
        oldest = self.read_results()
        if now - erased_at < PASSES or (oldest is not None and oldest <= erased_at):
            waits["results on their way"] = 1
        if job.job in self.read_halted():
            waits["halts of its messages"] = 1
        return waits, len(names) + 1

    def _queues_of(self, job: Job) -> list[str]:
        work = {job.lane} if job.lane else work_queues_of(job.job, max(1, job.chunks), self.work_queues)
        submissions = submission_queue(room_of(job.job))
        poison = {f"{name}{POISON_SUFFIX}" for name in {*work, submissions} if name != URGENT}
        return sorted({*work, URGENT, submissions, *poison})

    def _count(self, name: str, job: str) -> tuple[int, int]:
        """Return the job's messages at the front of a queue, and how many it has, hidden ones too."""
        queue, source = self.queue(name), name.removesuffix(POISON_SUFFIX)
        with expecting_an_answer(f"look at queue {name!r}"):
            try:
                number = queue.get_queue_properties().approximate_message_count or 0
                front = queue.peek_messages(_FRONT) if number else []
            except ResourceNotFoundError:
                # A room's queue, and the work queues of today, have no poison queue.
                return 0, 0
        if is_work_queue(source):
            messages = (read_message(one.content.encode()) for one in front)
            return sum(getattr(one, "job", None) == job for one in messages), number
        claims = (read_claimed_job(source, one.content.encode(), one.id) for one in front)
        return sum(claimed == job for claimed in claims), number
