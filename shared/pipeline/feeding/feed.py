"""The feeder: puts the chunks of jobs that wait for their turn, so that no room's flood delays another room.

A job that does not fit on the queues becomes a ready row, and a call on the bus starts a feeder where none is. One feeds
at a time, by a lease. In each round it looks at the rooms with news and at the work queues. It puts as many chunks as the
window has free, in the order that `Ring` chooses.

The order of writes: the row of the fleet says that a feeder lives, before the first put. Cursors are noted each hundred
chunks. A ready row goes when all of its job was put. With none left the row of the fleet goes, then one more call is
scheduled, then the lease goes. A writer that saw that row a moment ago has sent no call, and that last call finds its job. A
feeder that dies has its call delivered again, and its successor finds its row. Up to a hundred chunks of each job may be
put and not noted, so they are put again with the mark that says so.

Lost chunks of a job go before the rest of it, from the place in its row on. That place is noted as a cursor is.
"""

import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from contextvars import copy_context
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from math import ceil, inf
from threading import Event, Lock
from typing import Final, Protocol

from shared.clock import Clock
from shared.concurrency import FED_FOR, VIEW_SECONDS, FeedRow, FleetPace, FleetTable, Following
from shared.dequeue import PATIENCE, Renewals, SlotLease, stays_for
from shared.errors import StorageUnavailableError
from shared.grammar import room_of
from shared.ledger import Job, Ledger, counting, list_open, may_feed
from shared.messages import ChunkMessage
from shared.pipeline.dispatch import CURSOR_EVERY, Dispatcher, Throttle
from shared.pipeline.feeding.fair import (
    FEW,
    HUNGRY,
    LEAST_WINDOW,
    SHORTEST_REST,
    Choice,
    Ring,
    Served,
    Terms,
    WaitingJob,
    agree_terms,
    count_hidden,
    next_look,
    next_rest,
    next_window,
    spread_hidden,
)
from shared.pipeline.feeding.ready import MOST_ROWS, ReadyJob, ReadyTable
from shared.pipeline.feeding.unended import Unended
from shared.pipeline.plan import AnyPlan, Speed
from shared.signals import CallFeeder
from shared.telemetry import describe_error, events, place, tell
from shared.topology import LOOKS_EVERY

#: Seconds until a call comes that has no work now. A view of the feeder's row is never so old, so the writer of a ready
#: row that sent no call by such a view has written it before.
CALLS_AGAIN: Final = 15.0
#: Seconds between two writes of the feeder's row, two wakes, and two notes of a cursor.
NOTED_EVERY: Final = 5.0
#: Seconds between two rounds at least, however long the puts of one take.
LEAST_PAUSE: Final = SHORTEST_REST / 2
#: Seconds that the puts of a round take. A room that comes meanwhile waits for their end.
PUTS_TAKE: Final = 1.0
#: Chunk messages that are kept enclosed, of all jobs: 64 KiB each.
MOST_KEPT: Final = 1_000


class Fed(StrEnum):
    """The outcome of a feed call."""

    #: Nothing waits any more, or nothing did.
    EMPTY = "empty"
    #: The time was up, or its process ends. It sent another call.
    HANDED_OVER = "handed over"
    #: Another process feeds.
    TAKEN = "taken"
    #: Its lease may have ended. Another call comes.
    LOST = "lost"
    #: Storage did not answer. Another call comes.
    UNANSWERED = "unanswered"


def must_call(seen: FeedRow | None) -> bool:
    """Check whether the writer of a ready row calls a feeder: by a view younger than `VIEW_SECONDS`, none lives."""
    return seen is None


def comes_again(row: FeedRow | None, now: datetime) -> bool:
    """Check whether a call that finds the lease taken comes again: who has it may be dead, or about to end."""
    return row is None or row.until <= now


def leaves_call(row: FeedRow | None) -> bool:
    """Check whether a feeder that finds nothing removes a row and leaves a call. If each feeder left one, calls would never end."""
    return row is not None


class FedQueue(Protocol):
    """A work queue, as the feeder looks at it."""

    def depth(self) -> int:
        """Return how many messages it has, the hidden ones too."""
        ...

    def peek(self) -> int:
        """Return how many messages could be received now, at most 32."""
        ...


@dataclass(slots=True)
class _Underway:
    """A job that the feeder puts: its plan, and the messages that are enclosed and not put yet."""

    job: Job
    plan: AnyPlan
    #: The chunks to put: lost ones that are put again, then those from the cursor on.
    chunks: Sequence[int]
    #: How many of these are lost ones.
    lost: int
    #: The place up to which chunks may have been put, and not noted.
    again_to: int
    noted_at: float
    #: How many of its chunks were put, and how many of these are noted.
    at: int = 0
    noted: int = 0
    put_until: datetime | None = None
    #: Whether the job was halted since it was read.
    is_halted: bool = False
    messages: list[ChunkMessage] = field(default_factory=list)
    throttle: Throttle = field(default_factory=Throttle)

    @property
    def left(self) -> int:
        """How many chunks it still has to put."""
        return len(self.chunks) - self.at

    @property
    def put(self) -> int:
        """How many chunks do not wait for their turn: they have ended, or are on the queues."""
        return len(self.plan.chunks) - self.left

    @property
    def next(self) -> int:
        """The first chunk that was not put."""
        return self.chunks[self.at] if self.left else len(self.plan.chunks)


@dataclass(slots=True)
class _Room:
    """The jobs of a room, the oldest first."""

    etag: str
    jobs: dict[str, ReadyJob]
    #: Whether these are all.
    is_whole: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Feeder:
    """Follows feed calls. One per process."""

    ledger: Ledger
    ready: ReadyTable
    dispatcher: Dispatcher
    fleet: FleetTable
    following: Following
    lease: Callable[[], SlotLease | None]
    call: CallFeeder
    queues: Sequence[FedQueue]
    #: Reads the measured speed of a workload.
    speed: Callable[[str], Speed | None]
    clock: Clock
    parallel: int
    patience: float = PATIENCE
    pause: Callable[[float], object] = time.sleep
    #: Once it is set, the feeder hands over.
    stop: Event = field(default_factory=Event)

    def follow(self, deliveries: int = 1) -> Fed:
        """Follow one call. Never raises: the bus would redeliver a failed call at once, ten times."""
        try:
            fed = self._follow(stays_for(deliveries))
        except Exception as error:  # noqa: BLE001 - whatever it is, another call tries again
            tell(events.FEEDER_FAILED, error=describe_error(error), at=place(error))
            fed = Fed.UNANSWERED
        if fed in {Fed.LOST, Fed.UNANSWERED}:
            self.call(CALLS_AGAIN)
        tell(events.FEEDER_FOLLOWED, outcome=fed.value)
        return fed

    def look(self) -> None:
        """Call a feeder if none lives. Called while a job waits for its turn, in case a call was lost."""
        if must_call(self.following.view_feed(VIEW_SECONDS)):
            self.call()

    def _follow(self, stays: float) -> Fed:
        until = self.clock.monotonic() + stays
        while (lease := self.lease()) is None and self.clock.monotonic() < until and not self.stop.is_set():
            # Its holder may be the dead one whose call this is.
            self.pause(LOOKS_EVERY)
        row = self.fleet.read().feed
        if lease is None:
            if comes_again(row, self.clock.now()):
                self.call(CALLS_AGAIN)
            return Fed.TAKEN
        try:
            with Renewals(self.clock) as renewals, renewals.keep_leased(lease):
                feeding = _Feeding(self, lease, row)
                fed = feeding.run()
            if fed is Fed.EMPTY and lease.is_held and leaves_call(feeding.row):
                self.fleet.forget_feed()
                self.call(CALLS_AGAIN)
        finally:
            # Before the next call goes out, or its receiver would find the lease taken.
            lease.release()
        if fed is Fed.HANDED_OVER:
            self.call()
        return fed


class _Feeding:
    """One life of a feeder: what it knows from round to round."""

    def __init__(self, feeder: Feeder, lease: SlotLease, row: FeedRow | None) -> None:
        self._feeder, self._lease = feeder, lease
        #: The row of the fleet: a dead one's, or its own.
        self.row = row
        #: What a dead one put last may not be noted.
        self._is_again = row is not None and not row.is_noted
        #: Whether another feeder was before it, so that jobs may have been put of which it knows nothing.
        self._succeeds = row is not None
        self._ring, self._window, self._served = Ring(), LEAST_WINDOW, Served()
        self._unended = Unended(feeder.ledger.read)
        #: Jobs of limited rooms of which all was put, and not all has ended.
        self._all_put: set[str] = set()
        self._rooms: dict[str, _Room] = {}
        self._underway: dict[str, _Underway] = {}
        self._done: list[ReadyJob] = []
        #: Measured seconds of a transaction, by workload.
        self._speeds: dict[str, float] = {}
        self._since, self._noted_at = feeder.clock.now(), -inf
        self._depth, self._depth_at, self._put = 0, feeder.clock.monotonic(), 0
        #: Whether tasks wait for the next round, and whether this one had no time for all that fits.
        self._is_dry = self._is_cut = False
        #: Chunks put in a second. A job of one chunk takes as many requests as one of a hundred.
        self._rate = inf
        #: Messages that hide after a failure, as the queues showed it.
        self._hidden = 0
        self._lock = Lock()

    def run(self) -> Fed:
        """Feed until nothing waits, the time is up, or the lease may have ended."""
        feeder = self._feeder
        until = feeder.clock.monotonic() + feeder.patience
        while self._lease.is_held:
            began = feeder.clock.monotonic()
            try:
                if not self._round():
                    return Fed.EMPTY
                if feeder.clock.monotonic() >= until or feeder.stop.is_set():
                    return self._hand_over()
            except StorageUnavailableError as error:
                tell(events.FEEDER_FAILED, error=describe_error(error), at=place(error))
            # From the begin of one round to that of the next: tasks take what is put while a round puts the rest.
            if not self._is_cut:
                self._rest(began)
        return Fed.LOST

    def _rest(self, began: float) -> None:
        """Rest until the next round is due, or until a room has come."""
        feeder, pace = self._feeder, self._pace()
        took = feeder.clock.monotonic() - began
        left = max(LEAST_PAUSE, next_rest(len(feeder.queues), pace, is_dry=self._is_dry) - took)
        part = min(left, max(LEAST_PAUSE, next_look(pace) - took))
        feeder.pause(part)
        while (left := left - part) > 0 and not self._has_come():
            feeder.pause(part := min(left, next_look(pace)))

    def _has_come(self) -> bool:
        """Check whether jobs wait in a room that had none."""
        try:
            found = self._feeder.ready.rooms()
        except StorageUnavailableError as error:
            tell(events.FEEDER_FAILED, error=describe_error(error), at=place(error))
            return False
        # A room without a job is forgotten by the next round, unless it has another ETag since.
        return any(
            (room := self._rooms.get(name)) is None or (not room.jobs and room.etag != etag)
            for name, etag in found.items()
        )

    def _hand_over(self) -> Fed:
        for one in list(self._underway.values()):
            self._note(one)
        self._remove_done()
        rows = (row for room in self._rooms.values() for row in room.jobs.values())
        self._write_row(self._list_waiting(), is_noted=not any(self._may_be_put(row) for row in rows))
        return Fed.HANDED_OVER

    def _may_be_put(self, row: ReadyJob) -> bool:
        """Check whether chunks of a job may be on the queues that its row does not note."""
        if (underway := self._underway.get(row.job)) is not None:
            return underway.left > 0 and underway.at < underway.again_to
        return self._is_again and row.accepted_at <= self._since

    def _pace(self) -> FleetPace:
        return self._feeder.following.pace()

    def _round(self) -> bool:
        """Put what there is room for. False: no job waits any more."""
        self._feeder.following.look()
        self._look_at_rooms()
        if not any(room.jobs for room in self._rooms.values()):
            return not self._forget_pointer()
        self._look_at_limits()
        # Else they would be chosen once more.
        self._remove_done()
        waiting = self._list_waiting()
        is_due, left = self._note_row(waiting), sum(job.left for jobs in waiting.values() for job in jobs)
        self._is_cut = False
        if left:
            free, most = self._count_free(), max(LEAST_WINDOW // 2, self._rate * PUTS_TAKE)
            choices = self._ring.choose(waiting, ceil(min(free, most)), self._agree_terms(waiting))
            self._is_cut = free > most and sum(one.chunks for one in choices) >= most
            # Rounds in which nothing may be put are no reason to hurry.
            self._is_dry = self._is_dry and bool(choices)
            # Tasks that find nothing go, also while puts are slower than they.
            wakes = is_due or choices
            with self._feeder.dispatcher.waking(self._window, self._depth + left) if wakes else nullcontext():
                self._put_chosen(choices)
        for one in list(self._underway.values()):
            if self._feeder.clock.monotonic() - one.noted_at >= NOTED_EVERY:
                self._note(one)
        self._remove_done()
        return True

    def _look_at_rooms(self) -> None:
        """Read the jobs of the rooms with news, and forget rooms in which none is left."""
        ready, found = self._feeder.ready, self._feeder.ready.rooms()
        for name in self._rooms.keys() - found.keys():
            del self._rooms[name]
        for name, etag in found.items():
            room = self._rooms.get(name)
            is_known = room is not None and room.etag == etag
            if room is not None and is_known and room.jobs:
                continue
            if room is not None and is_known and room.is_whole:
                ready.forget_room(name, etag)
                continue
            rows = {one.job: one for one in ready.read(name)}
            if room is not None:
                # A row that was written again may mean more to put.
                self._all_put -= {job for job, row in room.jobs.items() if job in rows and rows[job].etag != row.etag}
            self._rooms[name] = _Room(etag, rows, len(rows) < MOST_ROWS)

    def _forget_pointer(self) -> bool:
        """Remove the pointer if no room is left. False: a room is left."""
        ready = self._feeder.ready
        pointer = ready.read_pointer()
        if ready.rooms():
            return False
        if pointer is not None:
            ready.forget_pointer(pointer)
        return True

    def _list_waiting(self) -> dict[str, list[WaitingJob]]:
        """Return the jobs of each room, and which of them are predicted to miss their deadlines."""
        rows = {name: [*room.jobs.values()] for name, room in self._rooms.items() if room.jobs}
        found = {name: [self._weigh(one) for one in jobs] for name, jobs in rows.items()}
        before = self._depth + sum(one.left for jobs in found.values() for one in jobs)
        for name, jobs in rows.items():
            for row, one in zip(jobs, found[name], strict=True):
                one.is_urgent = self._is_urgent(row, before)
        return found

    def _weigh(self, one: ReadyJob) -> WaitingJob:
        underway = self._underway.get(one.job)
        # Its row may be older than a stretch that it got since.
        put, left = (underway.put, underway.left) if underway else (one.cursor, one.chunks - one.cursor)
        left = 0 if one.job in self._all_put else max(1, left)
        return WaitingJob(one.job, left, put, self._count_seconds(one))

    def _is_urgent(self, one: ReadyJob, before: int) -> bool:
        if (underway := self._underway.get(one.job)) is not None:
            return underway.job.lane is not None
        return one.deadline is not None and self._feeder.following.is_late(one.deadline, before)

    def _agree_terms(self, waiting: Mapping[str, Sequence[WaitingJob]]) -> dict[str, Terms]:
        following = self._feeder.following
        rooms = [name for name, jobs in waiting.items() if any(one.left for one in jobs)]
        beyond = {name: self._unended.count(name) for name in rooms}
        resting = spread_hidden(self._hidden, following.resting())
        return agree_terms(rooms, following.shares(), self._window, resting, beyond)

    def _look_at_limits(self) -> None:
        """Count the chunks of limited rooms that are on the queues. Let jobs go of which none is."""
        shares = self._feeder.following.shares()
        for name, room in self._rooms.items():
            if (most := shares.of(name).most) is None:
                over = set(self._all_put)
            else:
                inherited = (row for row in room.jobs.values() if row.cursor or self._is_inherited(row))
                self._all_put.update(self._unended.learn(inherited))
                is_full = self._unended.count(name) >= most
                is_over = is_full or self._all_put >= room.jobs.keys()
                over = set(self._unended.look(name)) if is_over else set()
            for job in self._all_put & over & room.jobs.keys():
                self._all_put.discard(job)
                self._end(room.jobs[job])

    def _is_inherited(self, row: ReadyJob) -> bool:
        return self._succeeds and row.accepted_at <= self._since

    def _count_seconds(self, one: ReadyJob) -> float:
        """Return the seconds of a chunk: by other jobs of its workload, or as the fleet takes them on average."""
        if one.workload not in self._speeds:
            speed = self._feeder.speed(one.workload)
            self._speeds[one.workload] = speed.milliseconds / 1000 / speed.items if speed else 0.0
        measured = self._speeds[one.workload] * one.items / max(1, one.chunks)
        return measured or self._pace().chunk

    def _count_free(self) -> int:
        """Return how many messages the window has room for, by the work queues as they are now."""
        queues, now, pace = self._feeder.queues, self._feeder.clock.monotonic(), self._pace()
        depth, visible = sum(queue.depth() for queue in queues), sum(queue.peek() for queue in queues)
        ended = max(0, self._depth + self._put - depth) / max(SHORTEST_REST, now - self._depth_at)
        # Of processes that have reported nothing, the next round would come late.
        self._is_dry = visible < HUNGRY and pace.seconds is None
        rest = next_rest(len(queues), pace, is_dry=self._is_dry)
        self._window = next_window(self._window, visible=visible, ended=ended, pace=pace, rest=rest)
        self._depth, self._depth_at, self._put = depth, now, 0
        # A failed message is hidden for a while, and no task has it.
        resting = sum(self._feeder.following.resting().values())
        self._hidden = count_hidden(resting, depth=depth, visible=visible, pace=pace)
        return self._window - depth + self._hidden

    def _put_chosen(self, choices: Sequence[Choice]) -> None:
        chunks, first = Counter[str](), Counter[str]()
        for choice in choices:
            chunks[choice.job] += choice.chunks
            first[choice.job] += choice.chunks * choice.is_first
        rows = {one.job: one for room in self._rooms.values() for one in room.jobs.values()}
        # A job that came is read before its first put, and the messages of others are ready: they would pass it.
        came = [job for job, number in chunks.items() if number <= FEW and job not in self._underway]
        sooner = [job for job in came if first[job]]
        began, put = self._feeder.clock.monotonic(), self._put
        for jobs in (sooner, [job for job in came if not first[job]], [job for job in chunks if job not in came]):
            with ThreadPoolExecutor(self._feeder.parallel) as pool:
                # Each in a copy of this context, so that its requests are counted for its job.
                for job in jobs:
                    pool.submit(copy_context().run, self._try_put, rows[job], chunks[job], first[job])
        if (took := self._feeder.clock.monotonic() - began) > 0 and self._put > put:
            self._rate = (self._put - put) / took

    def _try_put(self, row: ReadyJob, chunks: int, first: int) -> None:
        """Put chunks of one job. A fault of its own is no reason to stop the others."""
        try:
            with counting():
                self._put_of(row, chunks, first)
        except StorageUnavailableError as error:
            tell(events.FEEDER_FAILED, error=describe_error(error), at=place(error))
        except Exception as error:  # noqa: BLE001 - its row goes, and the tick looks after the job
            tell(events.JOB_NEGLECTED, pointer=row.job, error=describe_error(error), at=place(error))
            self._end(row)

    def _put_of(self, row: ReadyJob, chunks: int, first: int) -> None:
        """Put so many chunks of a job. Tasks take the first of them before what is on the queues already."""
        underway = self._underway.get(row.job)
        if underway is None or underway.is_halted:
            underway = self._open(row)
        if underway is None:
            self._end(row)
            return
        end = min(underway.at + chunks, len(underway.chunks))
        if first:
            self._put_up_to(row, underway, min(underway.at + first, end), is_first=True)
        self._put_up_to(row, underway, end)
        if not underway.left:
            self._note(underway)
        if underway.is_halted and may_feed(underway.job):
            # It was paused and resumed meanwhile: its messages are dropped, and it is read anew.
            self._forget(row)
        elif not underway.left:
            self._end_put(row, underway)
        elif not may_feed(underway.job):
            # It was paused meanwhile. A resume writes its row again.
            self._end(row)

    def _put_up_to(self, row: ReadyJob, underway: _Underway, end: int, *, is_first: bool = False) -> None:
        """Put up to this place in the chunks of a job, or stop where a note says that it is halted."""
        while underway.at < end:
            if not underway.messages:
                underway.messages = self._prepare(underway)
            part = underway.messages[: end - underway.at]
            try:
                underway.throttle, put_until = self._feeder.dispatcher.put(
                    underway.job, part, underway.throttle, is_first=is_first
                )
            except StorageUnavailableError:
                # A put without an answer may have taken effect, so these messages are made again, with the mark.
                underway.again_to, underway.messages = max(underway.again_to, underway.at + len(part)), []
                raise
            underway.put_until = put_until or underway.put_until
            underway.at, underway.messages = underway.at + len(part), underway.messages[len(part) :]
            with self._lock:
                self._put += len(part)
                self._note_put(row, underway, len(part))
            # The lost ones have a place of their own in the row, so they are noted apart from the others.
            if underway.at - underway.noted >= CURSOR_EVERY or underway.at == underway.lost:
                self._note(underway)
                if underway.is_halted or not may_feed(underway.job):
                    break

    def _prepare(self, underway: _Underway) -> list[ChunkMessage]:
        """Return the messages of the next hundred chunks: of lost ones, or of others."""
        dispatcher, is_lost = self._feeder.dispatcher, underway.at < underway.lost
        most = underway.lost if is_lost else len(underway.chunks)
        batch = underway.chunks[underway.at : min(underway.at + CURSOR_EVERY, most)]
        if is_lost:
            return dispatcher.prepare_lost(underway.job, underway.plan, batch)
        return dispatcher.prepare(underway.job, underway.plan, batch, again=underway.at < underway.again_to)

    def _open(self, row: ReadyJob) -> _Underway | None:
        """Read a job before its first put. None: nothing of it is to be put."""
        feeder = self._feeder
        job = feeder.ledger.read(row.job)
        if job is None or not may_feed(job):
            return None
        if (opened := feeder.dispatcher.open(job)) is None:
            return None
        job, plan = opened
        if ran := job.totals.items:
            self._speeds[job.workload] = job.milliseconds / 1000 / ran
        is_again = row.is_again or (self._is_again and row.accepted_at <= self._since)
        now = feeder.clock.monotonic()
        lost = list[int]()
        if job.again_from is not None:
            lost = list_open(job, {one.chunk for one in feeder.ledger.rows(job.job) if job.counts(one)})
        if job.again_from is not None and not lost:
            # All of them have ended meanwhile.
            job = feeder.dispatcher.note_lost(job, None, None)
        rest = range(job.dispatch_cursor, len(plan.chunks))
        # A dead one noted each hundred, and the lost ones apart.
        again_to = len(lost) + CURSOR_EVERY if is_again else 0
        underway = _Underway(job, plan, [*lost, *rest] if lost else rest, len(lost), again_to, now)
        with self._lock:
            self._underway[row.job] = underway
            self._limit_messages(underway)
        return underway

    def _limit_messages(self, but: _Underway) -> None:
        """Forget enclosed messages of other jobs where there are too many: they are read again."""
        kept = sum(len(one.messages) for one in self._underway.values())
        for one in self._underway.values():
            if kept <= MOST_KEPT:
                return
            if one is not but:
                kept, one.messages = kept - len(one.messages), []

    def _note(self, underway: _Underway) -> None:
        """Note in the job's row how far it was put: up to the next lost chunk, or up to the cursor."""
        dispatcher, halts = self._feeder.dispatcher, underway.job.halts
        if underway.noted < min(underway.at, underway.lost):
            left = underway.next if underway.at < underway.lost else None
            underway.job = dispatcher.note_lost(underway.job, left, underway.put_until)
        if underway.at > max(underway.noted, underway.lost) or not underway.plan.chunks:
            underway.job = dispatcher.note(underway.job, underway.next, underway.put_until)
        if ran := underway.job.totals.items:
            self._speeds[underway.job.workload] = underway.job.milliseconds / 1000 / ran
        underway.noted, underway.noted_at = underway.at, self._feeder.clock.monotonic()
        underway.is_halted = underway.is_halted or underway.job.halts != halts

    def _note_put(self, row: ReadyJob, underway: _Underway, chunks: int) -> None:
        room = room_of(row.job)
        self._served.add(self._feeder.clock.monotonic(), room, chunks * self._count_seconds(row))
        if self._feeder.following.is_limited(room):
            self._unended.note(row.job, underway.put, underway.job.ended_chunks)

    def _end_put(self, row: ReadyJob, underway: _Underway) -> None:
        """Let a job go of which all was put. In a limited room it keeps its row until its chunks have ended."""
        if may_feed(underway.job):
            # The tick found chunks lost while the others were put: it is read anew.
            self._forget(row)
            return
        if not self._feeder.following.is_limited(room_of(row.job)) or not self._unended.awaits(underway.job):
            self._end(row)
            return
        with self._lock:
            self._underway.pop(row.job, None)
            self._all_put.add(row.job)
            self._unended.note(row.job, underway.put, underway.job.ended_chunks)

    def _forget(self, row: ReadyJob) -> None:
        with self._lock:
            self._underway.pop(row.job, None)

    def _end(self, row: ReadyJob) -> None:
        with self._lock:
            self._underway.pop(row.job, None)
            self._done.append(row)

    def _remove_done(self) -> None:
        """Remove the rows of jobs that had their turn, after the note of their last cursor."""
        if self._done:
            self._feeder.ready.remove(self._done)
            for row in self._done:
                if (room := self._rooms.get(room_of(row.job))) is not None:
                    room.jobs.pop(row.job, None)
            self._done = []

    def _note_row(self, waiting: Mapping[str, Sequence[WaitingJob]]) -> bool:
        """Write the row of the fleet if it is due. Return whether it was."""
        now = self._feeder.clock.monotonic()
        if now - self._noted_at < NOTED_EVERY:
            return False
        self._noted_at = now
        self._write_row(waiting, is_noted=False)
        return True

    def _write_row(self, waiting: Mapping[str, Sequence[WaitingJob]], *, is_noted: bool) -> FeedRow:
        now = self._feeder.clock.now()
        left = {name: [one.left for one in jobs if one.left] for name, jobs in waiting.items()}
        chunks = {name: sum(found) for name, found in left.items() if found}
        most = {
            name: one.most
            for name, one in self._agree_terms(waiting).items()
            if self._feeder.following.is_limited(name)
        }
        oldest = [row.accepted_at for room in self._rooms.values() for row in room.jobs.values()]
        self.row = FeedRow(
            until=now + FED_FOR,
            since=self._since,
            by=self._feeder.following.name,
            waiting=chunks,
            limited={name: chunks[name] - int(limit) for name, limit in most.items() if limit < chunks[name]},
            jobs={name: len(found) for name, found in left.items() if found},
            served=self._served.sum_up(self._feeder.clock.monotonic()),
            window=self._window,
            depth=self._depth,
            oldest=min(oldest, default=None),
            is_noted=is_noted,
        )
        self._feeder.fleet.note_feed(self.row)
        return self.row
