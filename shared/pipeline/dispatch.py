"""The dispatch stage: puts a job's chunks on the work queues, a hundred at a time, with a cursor that only moves forward.

Dispatch does not read the gate. The reader of the gate recorded in the job's row that it may start; only the row counts
here. A chunk that is put twice is run twice and counted once.

`Throttle` bounds the puts in flight: a few more after a batch that used all of them, half after storage pushed back.

`Enclosing` puts the bytes of chunks into their work messages where they fit: one read per hundred chunks. A thousand
transactions are some 30 KiB as stored and a message takes 64, so most workers have nothing left to fetch. A failed read
does not stop the dispatch: a message that names the payload is as good, and its worker finds the fault and parks the
chunk. Damaged bytes are never enclosed. Parking keeps the message, so a chunk parked with damaged bytes inside could
not be replayed after the payload was repaired.

`Waking` wakes instances around a put on the work queues, and `Overtaking` chooses the urgent lane before it.

`FinishCall` requests the finish of a job whose last chunk has ended. The request survives a crash of its sender. The
order: a pointer, then the state that the request follows from, then the message, then the pointer goes.
"""

import base64
import hashlib
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from contextvars import copy_context
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from itertools import groupby
from operator import attrgetter
from typing import Final, Protocol, cast

from azure.storage.queue import QueueMessage
from msgspec.structs import replace as with_fields

from shared.clock import LOST_RACES, Clock, Retry
from shared.concurrency import Following
from shared.errors import PlanLostError, RefusedError, StorageUnavailableError
from shared.gate import TAKES_FOR, OneMark
from shared.ledger import (
    BY_ITSELF,
    SEALED,
    Job,
    JobState,
    Ledger,
    advance_cursor,
    change,
    may_dispatch,
    may_feed,
    note_lane,
    note_put_again,
    pause,
)
from shared.memory import Memory
from shared.messages import NEVER_HALTED, ChunkMessage, Delivery, Finish, FinishStep, Segment, Shard, encode
from shared.payload import ANY_VERSION, WORK, Form, Limits, PayloadStores, StoredBlob, choose, most_rows, of_dispatch
from shared.pending import FINISH_POINTER, JOB_POINTER, Pending, Pointer
from shared.pipeline.halts import Halts
from shared.pipeline.plan import AnyPlan, PlanStore, read_plan
from shared.refusals import Reason, refuse
from shared.telemetry import SILENT, Piece, Telemetry, describe_error, events, tell
from shared.topology import URGENT, work_queue_of

#: Segments and shards of which each has an instance of its own: each takes a tenth of a second and more.
APART: Final = 4
#: Longer than any settler needs between its pointer and its message.
GRACE: Final = timedelta(minutes=3)


class Waking(Protocol):
    """Entered around a put on the work queues."""

    def __call__(
        self, messages: int, coming: int, payload_bytes: float | None = None, /
    ) -> AbstractContextManager[None]:
        """Enter for so many messages. `coming` counts them and those that this dispatch still has.

        `payload_bytes` is the mean of the stored bytes that their workers read. None: they are no chunks.
        """


def wake_nobody(_messages: int, _coming: int, _payload_bytes: float | None = None) -> AbstractContextManager[None]:
    """Send no permit: polling finds the messages."""
    return nullcontext()


@dataclass(frozen=True, slots=True, kw_only=True)
class Overtaking:
    """Chooses the lane of a job once, before its first message. The job's row keeps the choice for all later ones."""

    ledger: Ledger
    following: Following
    #: The messages that wait, some seconds ago at most.
    depth: Callable[[], int]

    def choose(self, job: Job) -> Job:
        """Return the job with its lane noted if it is predicted to miss its deadline behind the messages that wait."""
        if job.deadline is None or job.run_from or job.lane or job.dispatch_cursor:
            # A deadline was for the first run.
            return job
        waiting = self.depth()
        if not waiting or not self.following.is_late(job.deadline, waiting + job.chunks):
            # Without a backlog there is nothing to overtake.
            return job
        noted = change(
            self.ledger,
            job.job,
            lambda found: note_lane(found, URGENT),
            tried="note its lane",
            known=job,
        )
        return noted or job

    def announce(self) -> None:
        """Say that messages come on the lane, before they are put: no task asks the lane otherwise."""
        self.following.announce()


#: Below the ten connections that the library keeps for one service, times the instances that share a queue's limit.
LEAST, MOST, FIRST = 1, 32, 8
STEP: Final = 2


@dataclass(frozen=True, slots=True)
class Throttle:
    """The upper bound of puts in flight."""

    limit: int = FIRST

    def after(self, *, put: int, refused: int) -> "Throttle":
        """Return the throttle for the next batch."""
        if refused:
            return replace(self, limit=max(LEAST, self.limit // 2))
        # A batch smaller than the limit did not use all of it, so it is no reason to raise it.
        return replace(self, limit=min(MOST, self.limit + STEP)) if put >= self.limit else self

    def within(self, most: int) -> "Throttle":
        """Return the throttle within `most`, which follows the back-pressure on the whole fleet."""
        return self if self.limit <= most else replace(self, limit=max(LEAST, most))


class Enclosing:
    """Reads payloads and encloses their bytes in the messages of chunks."""

    def __init__(self, stores: PayloadStores, limits: Limits) -> None:
        self._stores, self._limits = stores, limits

    def __call__(self, messages: Sequence[ChunkMessage], /) -> list[ChunkMessage]:
        """Return the messages with their bytes if all fit. Their chunks follow each other in one payload, or in several."""
        return [one for _, some in groupby(messages, attrgetter("blob")) for one in self._enclose(list(some))]

    def _enclose(self, messages: Sequence[ChunkMessage]) -> list[ChunkMessage]:
        if not messages or not all(map(self._fits, messages)):
            return list(messages)
        start, end = _begin(messages[0]), _end(messages[-1])
        try:
            store = self._stores.holding(messages[0].job, is_kept=messages[0].is_kept)
            stored = store.read_touched(StoredBlob(messages[0].blob or "", ANY_VERSION, end), start, end - start)
        except (RefusedError, StorageUnavailableError):
            return list(messages)
        return [_with(one, memoryview(stored)[_begin(one) - start : _end(one) - start]) for one in messages]

    def _fits(self, message: ChunkMessage) -> bool:
        if message.blob is None:
            return False
        # With the mark `again` and the number, which a repeated put and a replay add.
        most = with_fields(message, blob=None, is_kept=False, inline="", again=True, halts=NEVER_HALTED)
        around = len(encode(most))
        return choose(_end(message) - _begin(message), around, self._limits) is Form.INLINE


def _begin(message: ChunkMessage) -> int:
    return message.frames[0][0]


def _end(message: ChunkMessage) -> int:
    offset, length, _, _ = message.frames[-1]
    return offset + length


def _with(message: ChunkMessage, stored: memoryview) -> ChunkMessage:
    start = _begin(message)
    frames = [(offset - start, length, items, sha256) for offset, length, items, sha256 in message.frames]
    if any(hashlib.sha256(stored[at : at + length]).hexdigest() != sha256 for at, length, _, sha256 in frames):
        return message
    return with_fields(message, blob=None, is_kept=False, frames=frames, inline=base64.b64encode(stored).decode())


#: Chunks between two writes of the cursor: upper bound of the chunks that a crash puts again.
CURSOR_EVERY: Final = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Dispatcher:
    """The dispatch stage. One per process."""

    ledger: Ledger
    plans: PlanStore
    enclose: Callable[[Sequence[ChunkMessage]], Sequence[ChunkMessage]]
    #: Puts a message on a queue, and returns when storage inserted it.
    send: Callable[[str, str], datetime]
    finish: Callable[[Job], None]
    #: Takes out what was put of a job whose plan is lost.
    halts: Halts
    clock: Clock
    work_queues: int
    #: Settlers write the same row while the job is being dispatched.
    retry: Retry = LOST_RACES
    #: Upper bound of one call's time, for callers that give no `until`.
    patience: timedelta = TAKES_FOR
    #: The current upper bound of puts in flight.
    most_puts: Callable[[], int] = lambda: MOST
    waking: Waking = wake_nobody
    #: None: no task asks the lane, so every job is spread over the work queues.
    lane: Overtaking | None = None
    #: Puts a message so that the tasks of this process take it first. None: they have no such memory.
    send_first: Callable[[str, str], datetime] | None = None
    telemetry: Telemetry = SILENT
    memory: Memory = field(default_factory=lambda: Memory(WORK))

    def dispatch(
        self,
        job: Job,
        *,
        most: int | None = None,
        again: bool = False,
        until: float | None = None,
        mark: OneMark | None = None,
    ) -> bool:
        """Put the remaining chunks, or so many of them. False: some are left, or the time was up.

        `again`: another process may have begun this dispatch and put chunks without recording them. `until`: the
        moment, by the monotonic clock, after which no further hundred is begun. `mark`: for the first message.
        """
        if not may_dispatch(job) or job.plan is None:
            return True
        end = self.clock.monotonic() + self.patience.total_seconds() if until is None else until
        # Ended chunks say the same as `again`: some chunks behind the cursor may have their result already. Those of a job
        # in stretches say nothing: its callers know.
        with (
            self._span(job, job.chunks - job.dispatch_cursor),
            self.memory.hold(of_dispatch(job.chunks, most_rows(job.chunks, job.items, Limits()))) as held,
        ):
            if (opened := self.open(job)) is None:
                return True
            job, plan = opened
            held.keep(of_dispatch(job.chunks, plan.rows))
            last = len(plan.chunks) if most is None else min(len(plan.chunks), job.dispatch_cursor + most)
            is_again = again or (job.ended_chunks > 0 and not job.stretches)
            try:
                return self._dispatch(job, plan, last, end, mark, again=is_again)
            except PlanLostError as error:
                # That of a later stretch, which is read when its first chunk is put.
                self._pause(job, error)
                return True

    def open(self, job: Job) -> tuple[Job, AnyPlan] | None:
        """Read the plan of a job, and choose its lane. None: the plan is lost, so the job is paused."""
        if job.plan is None:
            return None
        try:
            plan = read_plan(self.plans, self.ledger, job)
        except PlanLostError as error:
            self._pause(job, error)
            return None
        if self.lane is not None and job.deadline is not None:
            job = self.lane.choose(job)
        return job, plan

    def _pause(self, job: Job, error: PlanLostError) -> None:
        """Pause the job until an operator acts: a lost plan does not come back by itself."""
        is_mine = False

        def decide(found: Job) -> Job:
            nonlocal is_mine
            paused = pause(found, BY_ITSELF, str(error)) if may_feed(found) else found
            is_mine = paused is not found
            return paused

        self.halts.change(job, decide, tried="pause the job", retry=self.retry)
        if is_mine:
            tell(events.JOB_PAUSED, job=job.job, revision=job.revision, reason=describe_error(error))

    def put_again(self, job: Job, chunks: Sequence[int]) -> datetime | None:
        """Put silent chunks again. Return when storage inserted the last one, None without any."""
        return self._put_of(job, chunks, again=True)

    def put_noted(self, job: Job) -> None:
        """Put the chunks of a job whose row says already that they were put."""
        self._put_of(job, range(job.chunks), again=False)

    def _put_of(self, job: Job, chunks: Sequence[int], *, again: bool) -> datetime | None:
        if job.plan is None or not chunks:
            return None
        with self._span(job, len(chunks)), self.waking(len(chunks), len(chunks)):
            plan = read_plan(self.plans, self.ledger, job)
            return self.put(job, [self._message(job, plan, number, again=again) for number in chunks], Throttle())[1]

    def _span(self, job: Job, chunks: int) -> AbstractContextManager[object]:
        return self.telemetry.span(Piece.DISPATCH, job.trace, job=job.job, revision=job.revision, chunks=chunks)

    def _dispatch(  # noqa: PLR0913 - what is put, how far, until when, and how
        self, job: Job, plan: AnyPlan, last: int, end: float, mark: OneMark | None, *, again: bool
    ) -> bool:
        throttle, halts = Throttle(), job.halts
        # An empty range still has to be recorded: it ends a job whose plan has no chunks.
        while True:
            batch = range(job.dispatch_cursor, min(job.dispatch_cursor + CURSOR_EVERY, last))
            stored = sum(plan.chunks[number].stored for number in batch)
            with self.waking(len(batch), len(plan.chunks) - batch.start, stored / len(batch) if batch else None):
                messages = self.prepare(job, plan, batch, again=again)
                marked = mark.put_on_first(messages) if mark else messages
                (throttle, put_until), again = self.put(job, marked, throttle), False
            job = self.note(job, batch.stop, put_until)
            if job.halts != halts or not may_dispatch(job):
                # A resume has what is left of it put.
                return True
            # A job that grew meanwhile has more chunks than this plan.
            if job.dispatch_cursor >= last or self.clock.monotonic() >= end:
                return False

    def prepare(self, job: Job, plan: AnyPlan, chunks: Sequence[int], *, again: bool) -> list[ChunkMessage]:
        """Return the messages of chunks that follow each other, with their bytes where they fit."""
        return list(self.enclose([self._message(job, plan, number, again=again) for number in chunks]))

    def prepare_lost(self, job: Job, plan: AnyPlan, chunks: Sequence[int]) -> list[ChunkMessage]:
        """Return the messages of chunks that are put again: they do not follow each other, so workers read their bytes."""
        return [self._message(job, plan, number, again=True) for number in chunks]

    def _message(self, job: Job, plan: AnyPlan, number: int, *, again: bool) -> ChunkMessage:
        planned = plan.message(number, job.id_base or 0, job.revision, lines=job.lines)
        # While a job grows, its number of transactions is not known.
        sound = None if job.stretches else planned.sound
        return with_fields(planned, again=again, halts=job.halts, sound=sound, trace=self.telemetry.current())

    def put(
        self, job: Job, messages: Iterable[ChunkMessage], throttle: Throttle, *, is_first: bool = False
    ) -> tuple[Throttle, datetime | None]:
        """Put the messages. Return the throttle for the next ones, and when storage inserted the last of these.

        `is_first`: tasks of this process take them before what is on the queues.
        """
        left, put_at, lane = list(messages), set[datetime](), job.lane if self.lane else None
        send = (is_first and self.send_first) or self.send
        if self.lane and lane:
            self.lane.announce()
        while left:
            throttle = throttle.within(self.most_puts())
            with ThreadPoolExecutor(throttle.limit) as pool:
                # Each in a copy of this context, so that its requests are counted for this job.
                put = [pool.submit(copy_context().run, self._try_put, one, lane, send) for one in left]
                refused = [message for message, one in zip(left, put, strict=True) if one.result() is None]
            put_at.update(at for one in put if (at := one.result()) is not None)
            throttle = throttle.after(put=len(left) - len(refused), refused=len(refused))
            if len(refused) == len(left):
                raise StorageUnavailableError(
                    f"could not put any of {len(left)} chunks of job {left[0].job!r} on the work queues: "
                    "the dispatch is retried from its cursor"
                )
            # A put without an answer may have taken effect.
            left = [with_fields(one, again=True) for one in refused]
        return throttle, max(put_at, default=None)

    def _try_put(
        self, message: ChunkMessage, lane: str | None, send: Callable[[str, str], datetime]
    ) -> datetime | None:
        queue = work_queue_of(message.job, message.chunk, self.work_queues, lane)
        try:
            return send(queue, encode(message).decode())
        except StorageUnavailableError:
            return None

    def note(self, job: Job, cursor: int, put_until: datetime | None) -> Job:
        """Note that all chunks below the cursor were put, and request the finish if they have ended by then."""
        written = change(
            self.ledger,
            job.job,
            lambda found: advance_cursor(found, cursor, self.clock.now(), put_until, halts=job.halts),
            tried=f"record the dispatch up to chunk {cursor}",
            known=job,
            retry=self.retry,
        )
        if written is None:
            raise refuse(Reason.UNKNOWN_JOB, f"job {job.job!r} was removed while it was dispatched")
        if written.state is JobState.FINISHING and written.dispatch_cursor >= written.chunks:
            self.finish(written)
        return written

    def note_lost(self, job: Job, left: int | None, put_until: datetime | None) -> Job:
        """Note from which chunk on lost ones are still to be put again. None: all of them were."""
        now, began = self.clock.now(), job.again_from
        written = change(
            self.ledger,
            job.job,
            lambda found: note_put_again(found, now, put_until, began=began, left=left, halts=job.halts),
            tried="note the chunks that were put again",
            known=job,
            retry=self.retry,
        )
        if written is None:
            raise refuse(Reason.UNKNOWN_JOB, f"job {job.job!r} was removed while its chunks were put again")
        return written


@dataclass(frozen=True, slots=True)
class PutAhead:
    """Puts messages that the tasks of this process take first, where others wait on the queues."""

    put: Callable[[str, str], QueueMessage]
    #: Checks without a request whether others wait.
    is_due: Callable[[], object]
    #: Has the tasks of this process remember a message.
    note: Callable[[Delivery], object]

    def __call__(self, queue: str, message: str) -> datetime:
        """Put a message, and return when storage inserted it."""
        put = self.put(queue, message)
        if self.is_due():
            # By the receipt of the put.
            receipt = str(put.pop_receipt)
            self.note(Delivery(queue=queue, message_id=put.id, body=message.encode(), count=1, receipt=receipt))
        return cast("datetime", put.inserted_on)


class FinishCall:
    """Sends finish messages. `send` takes a queue's name and a message. `waking` is entered around it.

    `send_finish` takes the message of a whole finish, and may have it come before what waits longer. A job whose chunks
    have ended would wait again otherwise, behind the chunks of others.

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
        send_finish: Callable[[str, str], object] | None = None,
    ) -> None:
        self._send_finish = send_finish or send
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
        self._put(job, [Finish(job=job.job, revision=job.revision)], self._send_finish)

    def send_segments(self, job: Job, segments: Sequence[int], *, again: bool) -> None:
        """Send the messages of these segments. Those that are sent again may be merged already.

        They go where the finish message goes, so that the turn of this queue tells whether they are lost.
        """
        asked = [Segment(job=job.job, revision=job.revision, segment=number, again=again) for number in segments]
        self._put(job, asked, self._send)

    def send_shards(self, job: Job, shards: Sequence[int]) -> None:
        """Send the messages of these shards. One that is written already finds its blob."""
        self._put(job, [Shard(job=job.job, revision=job.revision, shard=number) for number in shards], self._send)

    def _put(self, job: Job, messages: Sequence[FinishStep], send: Callable[[str, str], object]) -> None:
        lane = job.lane if self._lane else None
        queue = work_queue_of(job.job, 0, self._work_queues, lane)
        if self._lane and lane:
            self._lane.announce()
        # One message alone has its instance by any permit.
        apart = min(len(messages), APART) * self._slot_tasks if len(messages) > 1 else 1
        with self._waking(len(messages), max(len(messages), apart)):
            for message in messages:
                send(queue, encode(message).decode())

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
        if job.state in SEALED or not number.isdecimal():
            return False
        return int(number) > job.revision or (int(number) == job.revision and not job.has_ended)


def _id(job: str, revision: int) -> str:
    return f"{job}:{revision}"
