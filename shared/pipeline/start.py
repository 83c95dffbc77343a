"""The start stage: dispatches a job whose row says that it may start, and holds any other one behind its gate.

The reader of a gate records the reading in the job's row before anything is put on a queue. So a hint alone starts no
job, and a job that met an open gate continues however soon the gate is closed.

The order: pointer; note in the row; chunks and cursor; then the held row goes. After a crash in between, the held row or
the pointer leads back to the job. A job that waits has no pointer: `leave_to_gate` removes it after the held row is there.

Lost chunks are put again from the ledger and the plan alone. A few are put at once. More than that wait for their turn,
as the rest of a job does: a flood of lost chunks must not delay another room.

The order: the place of the first one in the job's row, then its ready row, then a call. After a crash in between, the job
is silent as before, and the next tick writes its ready row again.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from enum import Enum
from math import inf
from threading import Lock
from typing import Final, Protocol

from shared.clock import Clock
from shared.concurrency import VIEW_SECONDS, Following
from shared.errors import ContentionError
from shared.gate import HeldEntry, OneMark, Reading, must_dispatch
from shared.grammar import room_of
from shared.ledger import (
    Job,
    Ledger,
    PlanBlob,
    PlanText,
    change,
    counting,
    first_turn,
    is_noted_ahead,
    list_open,
    may_dispatch,
    may_feed,
    may_start,
    next_look,
    next_warning,
    note_ahead,
    note_gate_passed,
    note_lost,
    note_put_again,
    note_turn,
    record_plan,
)
from shared.messages import DispatchMessage, encode
from shared.parked import FailedAttempt, chunk_of_key
from shared.pending import DEADLINE_POINTER, DISPATCH_POINTER, JOB_POINTER, PendingTable, Pointer
from shared.pipeline.dispatch import CURSOR_EVERY, Dispatcher, wake_nobody
from shared.pipeline.feeding.fair import FEW
from shared.pipeline.feeding.feed import must_call
from shared.pipeline.feeding.ready import ReadyJob, ReadyTable
from shared.pipeline.plan import Plan
from shared.signals import CallFeeder
from shared.telemetry import events, tell
from shared.topology import submission_queue

#: Lost chunks of a job that are put again at once. More than these wait for their turn.
MOST_AT_ONCE: Final = CURSOR_EVERY
SUBMISSIONS: Final = submission_queue()


class HoldingGates(Protocol):
    """The gates, as a job meets them."""

    def reading(self, gate: str) -> Reading:
        """Return the gate's epoch and whether it is open."""
        ...

    def keep(self, entry: HeldEntry) -> HeldEntry:
        """Write the held row, or return the existing one."""
        ...

    def forget(self, entry: HeldEntry) -> None:
        """Remove the held row of work that was dispatched."""
        ...


class Ids(Protocol):
    """The source of a job's ids."""

    def next_ids(self, count: int) -> range:
        """Return a block of adjoining ids."""
        ...


class JobGates(Protocol):
    """The gates, as planning a job reads them."""

    def reading(self, gate: str) -> Reading:
        """Return the gate's epoch and whether it is open."""
        ...


@dataclass(frozen=True, slots=True)
class Planning:
    """Numbers planned jobs, and asks their gates."""

    ids: Ids
    gates: JobGates

    def prepare(self, plan: Plan, stored: PlanBlob | PlanText, gate: str | None) -> Callable[[Job], Job]:
        """Draw the ids and read the gate. Return the function that notes them with the plan in a row."""
        # When two processes accept the same submission, the slower one leaves a gap. The sequence's log explains it.
        first_id = self.ids.next_ids(plan.items).start
        reading = None if gate is None else self.gates.reading(gate)

        def note(job: Job) -> Job:
            planned = record_plan(job, stored, len(plan.chunks), plan.items, first_id)
            return planned if reading is None else note_gate_passed(planned, reading)

        return note


def point_to_start(job: str, deadline: datetime | None, now: datetime, overdue: timedelta) -> Pointer:
    """Return the pointer to a job of which no chunk was put until now."""
    return Pointer(JOB_POINTER, next_look(deadline, now, overdue), job, note=note_turn(first_turn(now, deadline)))


def leave_to_gate(pending: PendingTable, job: Job, pointer: Pointer, now: datetime) -> None:
    """Remove the pointer to a job whose held row is there: from now on the gate leads to it.

    With a deadline, a pointer at the time of its next warning takes the place.
    """
    if (due := next_warning(job, now)) is not None:
        pending.add(Pointer(DEADLINE_POINTER, due, job.job))
    pending.remove(pointer)


@dataclass(slots=True, kw_only=True)
class DirectPuts:
    """The chunks that this process may put without waiting. Several threads may use it.

    A small job makes no request for it: the fleet works off as many in the meantime. In a rush of them the depth is read
    for each few, since their chunks take less time than all that surrounds these.
    """

    following: Following
    #: Reads the depth of all work queues.
    depth: Callable[[], int]
    clock: Clock
    _left: float = field(default=0.0, init=False)
    #: The messages that small jobs may put.
    _small: float = field(default=0.0, init=False)
    _at: float = field(default=-inf, init=False)
    _lock: Lock = field(default_factory=Lock, init=False)

    def take(self, chunks: int, room: str) -> int:
        """Return how many of so many chunks of a room may be put now, and count them as put.

        None of a limited room: the feeder alone knows how many of its chunks have not ended. What its limit holds back
        keeps no other room waiting.
        """
        self.following.look()
        if self.following.waiting() or self.following.is_limited(room):
            return 0
        pace, now = self.following.pace(), self.clock.monotonic()
        most, most_small = pace.count_direct(), pace.count_small()
        # Its chunks and its finish message.
        small = chunks + 1 if chunks < FEW else 0
        with self._lock:
            # In each second, the tasks of four seconds work off a quarter.
            passed = max(0.0, now - self._at) / 4
            self._left = min(most, self._left + passed * most)
            self._small = min(most_small, self._small + passed * most_small)
            self._at = now
            if chunks > self._left or small > self._small:
                depth = self.depth()
                self._left, self._small = max(0, most - depth), max(0, most_small - depth)
            if small > self._small:
                return 0
            taken = min(chunks, int(self._left))
            self._left -= taken
            self._small -= small
        return taken


class Placed(Enum):
    """Where a planned job is."""

    #: All of its chunks are on the work queues.
    PUT = "put"
    #: It may start, and the rest of its chunks waits for its turn.
    WAITS = "waits"
    #: It waits behind its gate.
    HELD = "held"


@dataclass(frozen=True, slots=True, kw_only=True)
class Starter:
    """The start stage. One per process."""

    ledger: Ledger
    gates: HoldingGates
    dispatcher: Dispatcher
    #: How much may be put at once, where what does not fit waits, and who puts that.
    direct: DirectPuts
    ready: ReadyTable
    call_feeder: CallFeeder
    pending: PendingTable
    clock: Clock
    #: How long a started job may be silent before the tick looks at it.
    overdue: timedelta
    #: Reads the notes of a job's messages that failed or wait.
    list_failures: Callable[[str], Iterable[FailedAttempt]]
    #: Looks at a job that waits for others. It may take until the moment, by the monotonic clock.
    look_at_waiting: Callable[[Job, float | None], object] = lambda _job, _until: None
    #: Goes on with a job that grows, whose row may be newer.
    go_on_growing: Callable[[Job, float | None], object] = lambda _job, _until: None

    def start(self, job: Job, *, is_new: bool = False, until: float | None = None) -> Placed:
        """Dispatch a planned job that may start, or have it wait for its turn or its gate. Safe to repeat.

        `is_new`: the caller has just planned it, so no other process can have begun to dispatch it.
        """
        if job.again_from is not None and may_feed(job):
            self._wait(job, again=True)
            return Placed.WAITS
        if is_noted_ahead(job):
            if is_new:
                self.dispatcher.put_noted(job)
                return Placed.PUT
            # Who wrote its row may have died before the put.
            return self._repeat(job, self._list_open(job))[0]
        has_begun, row = may_start(job) and not is_new, None
        if not may_start(job):
            job, row = self._at_its_gate(job)
        if not may_start(job):
            return Placed.HELD
        placed = self._place(job, again=has_begun, until=until)
        if row is not None:
            self.gates.forget(row)
        return placed

    def note_place(self, job: Job) -> Job:
        """Return a planned job as its new row says it: all of it was put, if it may be put at once.

        A job with a deadline may have a lane of its own, which is chosen later.
        """
        if job.deadline is not None or not may_dispatch(job):
            return job
        if self.direct.take(job.chunks, room_of(job.job)) < job.chunks:
            return job
        return note_ahead(job, self.clock.now())

    def _place(
        self,
        job: Job,
        *,
        again: bool,
        until: float | None,
        mark: OneMark | None = None,
        dispatcher: Dispatcher | None = None,
    ) -> Placed:
        """Put what there is room for. What is left waits for its turn, in a row that is written before anything goes."""
        if not may_dispatch(job):
            return Placed.PUT
        left = job.chunks - job.dispatch_cursor
        most = self.direct.take(left, room_of(job.job))
        if most or not left:
            if (dispatcher or self.dispatcher).dispatch(job, most=most, again=again, until=until, mark=mark):
                return Placed.PUT
            if job.stretches and most == left and (until is None or self.clock.monotonic() < until):
                # All that was known is put, and who added more has left it to this dispatch.
                grown = self.ledger.read(job.job) or job
                return self._place(grown, again=False, until=until, dispatcher=dispatcher)
            job, again = replace(job, dispatch_cursor=job.dispatch_cursor + most), False
        self._wait(job, again=again)
        return Placed.WAITS

    def _wait(self, job: Job, *, again: bool) -> None:
        """Write the ready row of a job, and call a feeder if none lives."""
        self.ready.add(ReadyJob.of(job, is_again=again))
        # A reading from after the write, or hardly before it.
        if must_call(self.direct.following.view_feed(VIEW_SECONDS)):
            self.call_feeder()

    def _at_its_gate(self, job: Job) -> tuple[Job, HeldEntry | None]:
        gate = job.gate or ""
        if job.held_epoch is None:
            job = self._meet(job, gate)
        if may_start(job) or job.held_epoch is None:
            return job, None
        row = self.gates.keep(
            HeldEntry(
                gate=gate,
                id=job.job,
                epoch=job.held_epoch,
                queue=SUBMISSIONS,
                message=_hold_id(job.job),
                held_at=self.clock.now(),
                deadline=job.deadline,
                chunks=job.chunks,
            )
        )
        # Before the row existed the gate may have been opened, served and closed again, and no release would find it.
        return self._meet(job, gate), row

    def _meet(self, job: Job, gate: str) -> Job:
        reading = self.gates.reading(gate)
        if must_dispatch(reading.epoch if job.held_epoch is None else job.held_epoch, reading):
            # Before its row says that it may start: another process may have left the job to its gate, without a pointer.
            self.pending.add(point_to_start(job.job, job.deadline, self.clock.now(), self.overdue))
        return self._note_gate_passed(job, reading)

    def _note_gate_passed(self, job: Job, gate: Reading) -> Job:
        written = change(
            self.ledger,
            job.job,
            lambda found: note_gate_passed(found, gate),
            tried=f"record the reading of gate {job.gate!r}",
            known=job,
        )
        if written is None:
            raise ContentionError(f"could not record the reading of gate {job.gate!r}: job {job.job!r} is gone")
        return written

    def is_job(self, entry: HeldEntry) -> bool:
        """Check whether a held entry is a job, which is started here and put on no queue."""
        return (entry.queue, entry.message) == (SUBMISSIONS, _hold_id(entry.id))

    @contextmanager
    def begin(self, entries: Sequence[HeldEntry], coming: Sequence[HeldEntry]) -> Iterator[None]:
        """Enter around the start of several held jobs: write their pointers, and wake tasks once for all of them.

        `coming`: these, and those that this release starts after them.
        """
        now = self.clock.now()
        self.pending.add_all([point_to_start(one.id, one.deadline, now, self.overdue) for one in entries])
        if here := _count_chunks(entries):
            with self.dispatcher.waking(here, _count_chunks(coming)):
                yield
        else:
            yield

    def carry_out(self, entry: HeldEntry, gate: Reading, until: float, mark: OneMark) -> bool:
        """Start a held job by this reading of its gate, within `begin`. False: it may not start by it."""
        with counting():
            job = self.ledger.read(entry.id)
            if job is None or job.gate != entry.gate:
                tell(events.HELD_STRANGE, gate=entry.gate, entry=entry.id)
                return True
            has_begun = may_start(job)
            job = self._note_gate_passed(job, gate)
            # A long one wakes tasks for each of its batches; `begin` woke them for all others.
            dispatcher = self.dispatcher if _is_long(job.chunks) else replace(self.dispatcher, waking=wake_nobody)
            if not may_start(job):
                return False
            self._place(job, again=has_begun, until=until, mark=mark, dispatcher=dispatcher)
            return True

    def go_on(self, job_id: str, until: float | None = None) -> None:
        """Continue with a job that a hint or a pointer names. Its row and its gate decide."""
        with counting():
            job = self.ledger.read(job_id)
            if job is not None and job.plan is not None:
                self.start(job, until=until)
                if job.growing:
                    self.go_on_growing(replace(job, etag=""), until)
            elif job is not None and job.awaits_others:
                self.look_at_waiting(job, until)

    def put_again(self, job: Job) -> Job:
        """Put the lost chunks of a silent job again, or have them wait for their turn. Return the job's current row."""
        now, chunks = self.clock.now(), self._list_open(job)
        if chunks and not (chunks := self._leave_out_waiting(job, chunks, now)):
            return job
        placed, job, put_until = self._repeat(job, chunks)
        silent = now - (job.progressed_at or job.accepted_at)
        tell(events.JOB_OVERDUE, job=job.job, chunks=len(chunks), silent_seconds=round(silent.total_seconds()))
        if placed is Placed.WAITS:
            # The feeder notes what it puts.
            return job
        noted = change(
            self.ledger,
            job.job,
            lambda found: note_put_again(found, now, put_until, halts=job.halts),
            tried="note the chunks that were put again",
            known=job,
        )
        return noted or job

    def _leave_out_waiting(self, job: Job, chunks: list[int], now: datetime) -> list[int]:
        """Leave out chunks whose hidden message waits for a service. One request."""
        if job.halts:
            # It may have been dropped since.
            return chunks
        waiting = {
            chunk_of_key(one.key)
            for one in self.list_failures(job.job)
            if one.due is not None and one.due + self.overdue > now
        }
        return [chunk for chunk in chunks if chunk not in waiting]

    def _list_open(self, job: Job) -> list[int]:
        return list_open(job, {row.chunk for row in self.ledger.rows(job.job) if job.counts(row)})

    def _repeat(self, job: Job, chunks: Sequence[int]) -> tuple[Placed, Job, datetime | None]:
        """Put a few chunks again, or note where the many begin. Return when storage inserted the last one, too."""
        if len(chunks) <= MOST_AT_ONCE:
            return Placed.PUT, job, self.dispatcher.put_again(job, chunks)
        noted = change(
            self.ledger,
            job.job,
            lambda found: note_lost(found, chunks[0]),
            tried="note the chunks that are to be put again",
            known=job,
        )
        if noted is not None and may_feed(noted):
            self._wait(noted, again=True)
        return Placed.WAITS, noted or job, None

    def leave_to_tick(self, job_id: str) -> None:
        """Have the next tick continue this dispatch."""
        self.pending.add(Pointer(DISPATCH_POINTER, self.clock.now(), job_id))


def _count_chunks(entries: Sequence[HeldEntry]) -> int:
    return sum(entry.chunks for entry in entries if not _is_long(entry.chunks))


def _is_long(chunks: int) -> bool:
    return chunks > CURSOR_EVERY


def _hold_id(job: str) -> str:
    """Return the message in the held row of a job, in the form that earlier versions put on a queue."""
    return encode(DispatchMessage(job=job)).decode()
