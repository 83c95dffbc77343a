"""Requests the finish of a job whose last chunk has ended. The request survives a crash of its sender.

The order: a pointer, then the state that the request follows from, then the message, then the pointer goes.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Final

from shared.clock import Clock
from shared.ledger import Job, JobState
from shared.messages import Finish, FinishStep, Segment, Shard, encode
from shared.pending import FINISH_POINTER, JOB_POINTER, Pending, Pointer
from shared.pipeline.dispatch import Overtaking, Waking, wake_nobody
from shared.topology import work_queue_of

#: Segments and shards of which each has an instance of its own: each takes a tenth of a second and more.
APART: Final = 4
#: Longer than any settler needs between its pointer and its message.
GRACE: Final = timedelta(minutes=3)


class FinishCall:
    """Sends finish messages. `send` takes a queue's name and a message. `waking` is entered around it.

    `work_queues`: a caller that does not know their number uses the first queue, which every installation has.
    `slot_tasks`: messages that one instance takes at a time when it is woken.
    """

    def __init__(  # noqa: PLR0913 - the parts of the stage, each of which a test replaces
        self,
        send: Callable[[str, str], object],
        pending: Pending,
        clock: Clock,
        waking: Waking = wake_nobody,
        *,
        work_queues: int = 1,
        lane: Overtaking | None = None,
        slot_tasks: int = 1,
    ) -> None:
        self._send, self._pending, self._clock, self._waking = send, pending, clock, waking
        self._work_queues, self._lane, self._slot_tasks = work_queues, lane, slot_tasks

    def point(self, job: str, revision: int) -> Pointer:
        """Leave a pointer, before the state that it points to: the writer may crash right after that state."""
        if revision > 1:
            # The tick no longer checks a finished job. A replay opens it again, and its finish message may be lost too.
            self._pending.add(Pointer(JOB_POINTER, self._clock.now() + GRACE, job))
        return self._pending.add(Pointer(FINISH_POINTER, self._clock.now() + GRACE, _id(job, revision)))

    def send(self, job: Job) -> None:
        """Send the message for the job's revision. A second one finds that the first was handled."""
        self._put(job, [Finish(job=job.job, revision=job.revision)])

    def send_segments(self, job: Job, segments: Sequence[int], *, again: bool) -> None:
        """Send the messages of these segments. Those that are sent again may be merged already.

        They go where the finish message goes, so that the turn of this queue tells whether they are lost.
        """
        asked = [Segment(job=job.job, revision=job.revision, segment=number, again=again) for number in segments]
        self._put(job, asked)

    def send_shards(self, job: Job, shards: Sequence[int]) -> None:
        """Send the messages of these shards. One that is written already finds its blob."""
        self._put(job, [Shard(job=job.job, revision=job.revision, shard=number) for number in shards])

    def _put(self, job: Job, messages: Sequence[FinishStep]) -> None:
        lane = job.lane if self._lane else None
        queue = work_queue_of(job.job, 0, self._work_queues, lane)
        if self._lane and lane:
            self._lane.announce()
        # One message alone has its instance by any permit.
        apart = min(len(messages), APART) * self._slot_tasks if len(messages) > 1 else 1
        with self._waking(len(messages), max(len(messages), apart)):
            for message in messages:
                self._send(queue, encode(message).decode())

    def forget_pointer(self, pointer: Pointer) -> None:
        """Remove the pointer of a request whose message is on its queue."""
        self._pending.remove(pointer)

    def repeat(self, pointer: Pointer, job: Job | None) -> None:
        """Follow a due pointer: its writer may have crashed before it sent the message."""
        if job is not None and self._may_still_come(pointer, job):
            # Its writer may be delayed between pointer and state. Removed now, the pointer would be missing later.
            self._pending.add(replace(pointer, due=self._clock.now() + GRACE))
        elif job is not None and job.state is JobState.FINISHING and pointer.id == _id(job.job, job.revision):
            self.send(job)
        self._pending.remove(pointer)

    def _may_still_come(self, pointer: Pointer, job: Job) -> bool:
        number = pointer.id.rpartition(":")[2]
        if job.state is JobState.BURIED or not number.isdecimal():
            return False
        return int(number) > job.revision or (int(number) == job.revision and not job.has_ended)


def _id(job: str, revision: int) -> str:
    return f"{job}:{revision}"
