"""Cuts the ranges of large files: each worker reads one, frames its lines, and writes them as a stretch of the job.

The order: frames, the blob that lists them, the message of a later range, and then the stretches are taken. Of two workers on
one range, the first blob counts. After a crash the message comes again, and finds what is there. The tick puts messages that
were lost.

The file is read in the version that was found at acceptance. Another version refuses the range, unless its content is known
to be the same.
"""

from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from typing import Final, Protocol

from shared.clock import Clock
from shared.errors import RefusedError
from shared.grammar import name_of, room_of
from shared.ledger import (
    CLOSED,
    Job,
    JobState,
    Ledger,
    change,
    counting,
    find_last_step,
    is_next,
    list_uncut,
    note_put_again,
    refuse_stretch,
)
from shared.memory import Memory
from shared.messages import FileRange, encode
from shared.payload import WORK, CutRange, Intake, Limits, Payload, PayloadStores, StoredBlob, StretchStore, of_range
from shared.pipeline.dispatch import Waking
from shared.pipeline.plan import ChunkSizes
from shared.pipeline.start import Placed
from shared.refusals import Reason
from shared.telemetry import events, tell
from shared.topology import work_queue_of

#: Seconds for which a worker takes stretches before it leaves the others to the next tick.
TAKES_SECONDS: Final = 20.0


@dataclass(frozen=True, slots=True, kw_only=True)
class RangeCall:
    """Puts the messages of ranges. One per process."""

    ledger: Ledger
    #: What was cut, by the internal id of its job.
    cuts: StretchStore
    put: Callable[[str, str], object]
    waking: Waking
    work_queues: int
    clock: Clock

    def begin(self, job: Job, *, is_new: bool) -> None:
        """Put the messages of the first ranges. Of a job that was accepted before, some may be there."""
        if job.ranges is not None:
            there = set[int]() if is_new else self.cuts.list_numbers(job.job)
            self._send(job, list_uncut(job, there), again=not is_new)

    def go_on(self, job: Job, stretch: int, *, was_there: bool) -> None:
        """Put the message of the range whose turn comes with this one, unless it is cut already."""
        following = None if job.ranges is None else job.ranges.next_to(stretch)
        if following is not None and not (was_there and self.cuts.find(job.job, following)):
            self._send(job, [following], again=was_there)

    def repeat(self, job: Job) -> Job:
        """Put the messages of a silent job again. From the second time on, the job says what it waits for."""
        now, is_second = self.clock.now(), job.nudged_at is not None and job.nudged_at > find_last_step(job)
        lost = list_uncut(job, self.cuts.list_numbers(job.job))
        if not lost or lost[0] != job.stretches:
            return job
        self._send(job, lost, again=True)
        why = (
            f"range {job.stretches} of its file is not cut, and its message was put again: look for it among the parked "
            f"ones, or end the job: sluice jobs stop {job.job}"
        )

        def note(found: Job) -> Job:
            nudged = note_put_again(found, now, None, halts=found.halts)
            return refuse_stretch(nudged, job.stretches, why) if is_second else nudged

        return change(self.ledger, job.job, note, tried="note the ranges that were put again", known=job) or job

    def _send(self, job: Job, stretches: Collection[int], *, again: bool) -> None:
        if not stretches:
            return
        with self.waking(len(stretches), len(stretches)):
            for stretch in stretches:
                message = FileRange(job=job.job, stretch=stretch, again=again)
                self.put(work_queue_of(job.job, stretch, self.work_queues), encode(message).decode())


class TakeStretches(Protocol):
    """Takes the stretches that are there."""

    def follow(self, job: Job, until: float | None) -> Job:
        """Take them up to the end, or to the first one that is missing."""
        ...


class StartAgain(Protocol):
    """Puts what lies above the cursor of a job."""

    def start(self, job: Job, *, until: float | None) -> Placed:
        """Dispatch the job, or have it wait."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class RangeCutter:
    """Cuts ranges. One per process."""

    ledger: Ledger
    stores: PayloadStores
    sizes: ChunkSizes
    limits: Limits
    call: RangeCall
    stretching: TakeStretches
    starter: StartAgain
    clock: Clock
    memory: Memory = field(default_factory=lambda: Memory(WORK))

    def cut(self, message: FileRange) -> None:
        """Cut one range of a job that still grows, and take it if its turn has come."""
        with counting():
            job, stretch = self.ledger.read(message.job), message.stretch
            if job is None or job.ranges is None or not job.growing or job.state in CLOSED:
                return
            was_there = self.call.cuts.find(job.job, stretch) is not None
            if not was_there:
                self.call.cuts.put(job.job, stretch, self._cut(job, stretch).encode())
            if job.state is not JobState.PAUSED:
                self.call.go_on(job, stretch, was_there=was_there)
            # After the write: see `is_next`.
            grown, until = self.ledger.read(job.job), self.clock.monotonic() + TAKES_SECONDS
            if grown is None or not (was_there or is_next(grown, stretch)):
                return
            if was_there:
                # A run of this message may have died before it put the chunks that it took.
                self.starter.start(grown, until=until)
                grown = self.ledger.read(job.job) or grown
            self.stretching.follow(grown, until)

    def refuse(self, message: FileRange, error: Exception) -> None:
        """Say why a range is not cut. Its message is parked."""
        reason = error.reason if isinstance(error, RefusedError) else type(error).__name__
        tell(events.STRETCH_REFUSED, job=message.job, stretch=message.stretch, reason=str(reason))
        why = f"range {message.stretch} is not cut: {error}"
        change(
            self.ledger,
            message.job,
            lambda found: refuse_stretch(found, message.stretch, why),
            tried="note why a range is not cut",
        )

    def _cut(self, job: Job, stretch: int) -> CutRange:
        with self.memory.hold(of_range()):
            payload = self._read(job, stretch)
        return CutRange() if payload is None else CutRange(sha256=payload.content_sha256, frames=payload.index.frames)

    def _read(self, job: Job, stretch: int) -> Payload | None:
        if job.ranges is None or job.file is None:
            return None
        intake = Intake(room_of(job.job), self.stores, self.limits, self.sizes.least)
        name, bytes_ = name_of(job.job), job.ranges.bytes_of(stretch)
        blob = StoredBlob(job.file, job.ranges.etag, job.ranges.size, job.ranges.md5)
        try:
            return intake.cut_range(name, blob, *bytes_)
        except RefusedError as refused:
            same = intake.find_same(blob) if refused.reason == Reason.PAYLOAD_REPLACED else None
            if same is None:
                raise
            return intake.cut_range(name, same, *bytes_)
