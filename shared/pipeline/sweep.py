"""The pipeline's part of the tick: follows due pointers, sends lost messages again and warns of deadlines.

Any message may be lost, even whole queues: the ledger knows which chunks are missing. They are put again when the job was
silent for too long and its queues have handed out what was put for it. A job whose messages wait costs nothing: its
pointer stays, and its row is not read. While results wait for settlers, nothing is put again. A finished job loses its pointer and is not checked again.

`warn` logs the risk to a deadline before it is missed: each kind of risk once per job, and none without a deadline.

`Stranded` finds messages on the work queues that no instance was woken for, although no job is open.

By push, an instance wakes for a permit only. The tick tops permits up while a job is open. A message that is put for
no open job has a pointer that counts as one. Beside that, the depths are read once an hour.

`QueueFronts` reads the watermarks of the work queues: one request per queue, and at most once per tick.

A tick without a due job reads none. While a watermark is unknown, a pointer keeps since when: its due time.

`WaitingResults` tells the tick whether results wait for settlers: then a job's chunks are silent because they are not credited yet.

The tick asks before it puts chunks again. Else settlers that stand still for a while would have all that waits for
them computed again.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from itertools import chain
from typing import Any, Final

from azure.storage.queue import QueueClient

from shared.azure import FAILURES, Connections, date_of, expecting_an_answer, looking, read_front
from shared.clock import LOST_RACES, Clock
from shared.errors import NewerVersionError
from shared.ledger import (
    CLOSED,
    FRONT,
    KEPT,
    SEALED,
    Fronted,
    Fronts,
    Job,
    JobState,
    Ledger,
    Silence,
    Turn,
    Watermark,
    change,
    commit,
    counting,
    is_overdue,
    is_waiting,
    judge_silence,
    may_dispatch,
    next_look,
    note_missing_plan,
    note_put_again,
    note_turn,
    note_warning,
    over_since,
    read_progress,
    read_turn,
    read_watermark,
    turn_of,
)
from shared.pending import (
    DEADLINE_POINTER,
    DISPATCH_POINTER,
    FINISH_POINTER,
    FRONT_POINTER,
    JOB_POINTER,
    RETENTION_POINTER,
    Followers,
    PendingTable,
    Pointer,
    point_at_work,
)
from shared.pipeline.dispatch import FinishCall
from shared.pipeline.lineage.stretching import Stretching
from shared.pipeline.removal.cleanup import Retention
from shared.pipeline.results import QUEUE
from shared.pipeline.start import Placed, Starter, leave_to_gate, point_to_start
from shared.telemetry import describe_error, events, place, tell

#: Seconds for which a reading counts: less than from tick to tick, and longer than a tick follows jobs.
_COUNTS_FOR: Final = 45.0
#: Jobs that a reading's tick looks at for nothing. The bound keeps the cost of a backlog apart from its length.
FRUITLESS: Final = 10


@dataclass(slots=True)
class FrontReading:
    """The watermarks of one tick, and how many more jobs it may look at for nothing."""

    fronts: Fronts
    at: float
    fruitless_left: int = FRUITLESS


@dataclass(slots=True)
class QueueFronts:
    """The fronts of all work queues. One per process."""

    queues: Sequence[QueueClient]
    pending: PendingTable
    clock: Clock
    #: The urgent lane. Its front is read only for a job on it. None: no task asks it.
    lane: QueueClient | None = None
    _lane: FrontReading | None = field(default=None, init=False)
    _reading: FrontReading | None = field(default=None, init=False)
    _unknown: dict[str, list[Pointer]] = field(default_factory=dict, init=False)

    def read(self) -> FrontReading:
        """Return the reading of this tick, and make it first if it is too old."""
        now = self.clock.monotonic()
        if self._reading is None or now - self._reading.at >= _COUNTS_FOR:
            names = [str(queue.queue_name) for queue in self.queues]
            # First as unknown: if storage does not answer, not every due job should ask it in turn.
            self._reading = FrontReading(Fronts(dict.fromkeys(names, Watermark(None)), len(names)), now)
            known = {name: notes for name, notes in self._unknown.items() if name != self._lane_name}
            self._unknown = {name: notes for name, notes in self._unknown.items() if name == self._lane_name}
            marks = {name: self._read(name, queue, known) for name, queue in zip(names, self.queues, strict=True)}
            self._reading = FrontReading(Fronts(marks, len(names)), now)
            for note in chain.from_iterable(known[name] for name in known.keys() - marks.keys()):
                self.pending.remove(note)
        return self._reading

    @property
    def _lane_name(self) -> str | None:
        return str(self.lane.queue_name) if self.lane else None

    def of(self, job: Job) -> Fronts:
        """Return the watermarks of the queues that may have messages of this job."""
        name = self._lane_name
        if self.lane is None or name is None or job.lane != name:
            return self.read().fronts
        now = self.clock.monotonic()
        if self._lane is None or now - self._lane.at >= _COUNTS_FOR:
            known, self._unknown = self._unknown, {}
            self._lane = FrontReading(Fronts({name: Watermark(None)}, 1, name), now)
            self._lane = FrontReading(Fronts({name: self._read(name, self.lane, known)}, 1, name), now)
        return self._lane.fronts

    def recall(self, pointers: Sequence[Pointer]) -> None:
        """Take the pointers that say since when a watermark is unknown. Must come before the jobs of a tick."""
        if pointers:
            # Also without a due job: a note must not outlast what it notes.
            self._unknown = {one.id: [note for note in pointers if note.id == one.id] for one in pointers}
            self._reading = None
            self.read()

    def _read(self, name: str, queue: QueueClient, known: dict[str, list[Pointer]]) -> Watermark:
        replies: list[Any] = []
        with expecting_an_answer(f"peek into queue {name!r}"), looking() as look:
            found = queue.peek_messages(FRONT, raw_response_hook=replies.append)
            look.has_found = bool(found)
        now = self.clock.of_reply(date_of(replies[-1]) if replies else None)
        front = [Fronted(one.inserted_on or now, one.dequeue_count or 0) for one in found]
        notes = known.get(name, [])
        mark = read_watermark(front, now, min((note.due for note in notes), default=None))
        is_known = read_watermark(front, now).moment is not None
        if is_known:
            for note in notes:
                self.pending.remove(note)
        elif not notes:
            self.pending.add(Pointer(FRONT_POINTER, now, name))
        return mark


@dataclass(slots=True)
class WaitingResults:
    """The front of the queue of results. One per process."""

    connections: Connections
    clock: Clock
    #: Since when the oldest result waits. None: none does.
    _since: datetime | None = field(default=None, init=False)
    _is_known: bool = field(default=False, init=False)
    _read_at: float | None = field(default=None, init=False)

    def are_behind(self, patience: timedelta) -> bool:
        """Check whether the oldest result waits for longer than this, or cannot be seen, by one peek in a tick.

        While the bus does not answer, no result can be credited. So to compute one again would be in vain.
        """
        now = self.clock.monotonic()
        if self._read_at is None or now - self._read_at >= _COUNTS_FOR:
            self._read(patience)
            self._read_at = now
        return not self._is_known or (self._since is not None and self.clock.now() - self._since > patience)

    def _read(self, patience: timedelta) -> None:
        self._is_known, self._since = False, None
        try:
            self._since = read_front(self.connections, QUEUE)
        except FAILURES as error:
            tell(events.RESULTS_UNSEEN, error=describe_error(error))
            return
        self._is_known = True
        if self._since is not None and self.clock.now() - self._since > patience:
            waiting = self.clock.now() - self._since
            tell(events.RESULTS_BEHIND, waiting_seconds=round(waiting.total_seconds()))


#: Settlers write the row of a running job. A warning that is not noted now is repeated at the next check.
_NOT_URGENT: Final = replace(LOST_RACES, give_up=True)


def warn(ledger: Ledger, job: Job, now: datetime) -> Job:
    """Log a new risk to the job's deadline, and return the job's current row."""
    progress = read_progress(job, now)
    risk = progress.risk
    if risk is None or note_warning(job, risk) is job:
        return job
    # Log before recording: a crash in between repeats the warning rather than losing it.
    tell(
        events.JOB_LATE,
        job=job.job,
        risk=risk.value,
        deadline=job.deadline,
        predicted=progress.predicted,
        state=job.state.value,
    )
    noted = change(
        ledger, job.job, lambda found: note_warning(found, risk), tried="record a warning", known=job, retry=_NOT_URGENT
    )
    return noted or job


#: What it means that a job without a chunk on a queue was silent. A starter may have crashed before the first put.
_SILENCE: Final = {Placed.PUT: Silence.LOST, Placed.WAITS: Silence.WAITS, Placed.HELD: None}


@dataclass(frozen=True, slots=True, kw_only=True)
class Sweep:
    """The followers of pointers to jobs. One per process."""

    ledger: Ledger
    pending: PendingTable
    starter: Starter
    stretching: Stretching
    fronts: QueueFronts
    results: WaitingResults
    finish: FinishCall
    retention: Retention
    clock: Clock
    overdue: timedelta

    def register(self, followers: Followers) -> None:
        """Register a follower for each kind of pointer to a job."""
        followers.register(JOB_POINTER, self._alone(self._look_at), means_open=True)
        followers.register(DEADLINE_POINTER, self._alone(self._warn_of_held))
        followers.register(FINISH_POINTER, self._alone(self._repeat_finish), means_open=True)
        followers.register(DISPATCH_POINTER, self._alone(self._go_on))
        followers.register(RETENTION_POINTER, self._alone(self._end_retention))

    def _alone(self, follow: Callable[[Pointer, float], object]) -> Callable[[Pointer, float], None]:
        """Return a follower that takes no pointer after the tick's time. A failed pointer is logged and stays due."""

        def follow_alone(pointer: Pointer, until: float) -> None:
            if self.clock.monotonic() >= until:
                return
            try:
                follow(pointer, until)
            except NewerVersionError:
                raise
            except Exception as error:  # noqa: BLE001 - a fault of one job is no reason to fail the tick
                tell(events.JOB_NEGLECTED, pointer=pointer.id, error=describe_error(error), at=place(error))

        return follow_alone

    def _repeat_finish(self, pointer: Pointer, _until: float) -> None:
        self.finish.repeat(pointer, self.ledger.read(pointer.id.rpartition(":")[0]))

    def _go_on(self, pointer: Pointer, until: float) -> None:
        self.starter.go_on(pointer.id, until)
        self.pending.remove(pointer)

    def _end_retention(self, pointer: Pointer, until: float) -> None:
        self.retention.follow(pointer, until)

    def _look_at(self, pointer: Pointer, until: float) -> None:
        noted = read_turn(pointer.note)
        is_queued = noted is not None and noted.over_since is None
        reading = self.fronts.read() if noted is not None and is_queued else None
        if reading and noted and not (reading.fruitless_left and reading.fronts.is_over(pointer.id, noted)):
            # Its messages wait on their queues. So its pointer stays, and its row is not read.
            return
        job = self.ledger.read(pointer.id)
        is_watched = True
        if job is not None and job.state is not JobState.BURIED:
            job, is_watched = self._warn(job)
        if job is not None and job.state in KEPT:
            self.retention.begin(job)
        if job is None or job.state in CLOSED:
            # The row that was to follow the pointer never came, or the job needs no more checks.
            if job is not None:
                # The process that ended it may have died before it wrote that into the list.
                self.ledger.tell_list(job)
                self._look_once_more(job, is_watched=is_watched)
            self.pending.remove(pointer)
            return
        with counting():
            silence, job = self._look_after(job, noted, until)
        if silence is None:
            leave_to_gate(self.pending, job, pointer, self.clock.now())
            return
        if reading and silence is not Silence.LOST:
            reading.fruitless_left -= 1
        self._point_again(pointer, job, silence, noted)

    def _list_paused(self, job: Job) -> Job:
        """Write a paused job into the list again. No news of it follow that would mend a write that was lost."""
        if job.listed_open:
            self.ledger.tell_list(job)
            return job
        # An instance of before paused it: by this write it comes to those under way.
        noted = change(
            self.ledger,
            job.job,
            lambda found: replace(found, listed_at=None),
            tried="list it as paused",
            known=job,
            retry=_NOT_URGENT,
        )
        return noted or job

    def _warn_of_held(self, pointer: Pointer, _until: float) -> None:
        job, now = self.ledger.read(pointer.id), self.clock.now()
        if job is None or job.state is not JobState.HELD:
            # A pointer of its own leads to a job that was released.
            self.pending.remove(pointer)
            return
        job, is_watched = self._warn(job)
        if is_watched:
            leave_to_gate(self.pending, job, pointer, now)

    def _warn(self, job: Job) -> tuple[Job, bool]:
        """Warn of its deadline, and write its needs again. Return its row, and whether storage took the needs."""
        now = self.clock.now()
        if job.state is JobState.PAUSED:
            job = self._list_paused(job)
        # A stopped job cannot be late any more.
        warned = job if job.state in SEALED else warn(self.ledger, job, now)
        is_in_time = read_progress(warned, now).risk is None
        return warned, self.ledger.tell_needs(warned, is_in_time=is_in_time)

    def _look_once_more(self, job: Job, *, is_watched: bool) -> None:
        """Point again at a job that has ended if a slow process may still write that one of its needs began."""
        now = self.clock.now()
        may_be_slow = job.needs is not None and job.finished_at is not None and now - job.finished_at < self.overdue
        if may_be_slow or not is_watched:
            self.pending.add(Pointer(JOB_POINTER, now + self.overdue, job.job))

    def _point_again(self, pointer: Pointer, job: Job, silence: Silence, noted: Turn | None) -> None:
        now, turn = self.clock.now(), turn_of(job)
        if is_waiting(job) and silence is Silence.WAITS and job.deadline is None:
            # It waits for its turn. By this note it counts among the fruitless looks of a tick, which are bounded.
            self.pending.add(point_to_start(job.job, None, now, self.overdue))
            self.pending.remove(pointer)
            return
        if turn is not None and silence is Silence.IN_WORK:
            turn = turn._replace(over_since=over_since(turn, noted, now))
        elif job.deadline is not None or job.again_from is not None or is_waiting(job):
            turn = None
        note = note_turn(turn)
        if turn is not None and silence is Silence.WAITS:
            # In its place: a later due time would only delay the check.
            self.pending.add(replace(pointer, note=note))
            return
        # The new pointer before the old one goes: no job may exist that the tick cannot find.
        self.pending.add(Pointer(JOB_POINTER, next_look(job.deadline, now, self.overdue), job.job, note=note))
        self.pending.remove(pointer)

    def _look_after(  # noqa: C901 - one branch for each thing that a job may wait for
        self, job: Job, noted: Turn | None, until: float
    ) -> tuple[Silence | None, Job]:
        """Do what the job needs. Return the meaning of its silence, None if it waits behind its gate, and its row."""
        now = self.clock.now()
        is_silent = is_overdue(job, now, self.overdue)
        if job.deadline is not None and job.state is not JobState.HELD and not is_silent:
            # The deadline brought this check forward; the job's worker may still be running.
            return Silence.SHORT, job
        if job.plan is None:
            self._look_for_plan(job, now)
            return Silence.LOST, job
        if is_waiting(job):
            # Its submission or its held row may be lost, or its starter may have crashed. All may be well, too.
            return _SILENCE[self.starter.start(job, until=until)], job
        if job.growing:
            job = self.stretching.look(job, until)
        if not is_silent:
            return Silence.SHORT, job
        silence = judge_silence(job, noted, self.fronts.of(job), now, self.overdue)
        if silence is Silence.LOST and self._may_wait_for_settlers(job):
            silence = Silence.IN_WORK
        if silence is Silence.LOST and (job.state is JobState.FINISHING or job.ended_chunks < job.dispatch_cursor):
            job = self._repeat(job, now)
        if may_dispatch(job) and job.again_from is None:
            # Its dispatcher crashed, or it waits for its turn and its row is written once more.
            self.starter.start(job, until=until)
        return silence, job

    def _may_wait_for_settlers(self, job: Job) -> bool:
        """Check whether the silent chunks of a job may have results that are not credited yet."""
        return job.state is not JobState.FINISHING and self.results.are_behind(self.overdue / 2)

    def _repeat(self, job: Job, now: datetime) -> Job:
        """Send what the job waits for again, and note it in the job's row."""
        if job.state is not JobState.FINISHING:
            if job.again_from is None:
                return self.starter.put_again(job)
            # They wait for their turn, and their ready row is written once more.
            self.starter.start(job)
            return job
        self.finish.send(job)
        noted = change(
            self.ledger,
            job.job,
            lambda found: note_put_again(found, now, None, halts=job.halts),
            tried="note the finish message that was sent again",
            known=job,
            retry=_NOT_URGENT,
        )
        return noted or job

    def _look_for_plan(self, job: Job, now: datetime) -> None:
        if not is_overdue(job, now, self.overdue):
            return
        # Only its publisher has the transactions. If the submission is accepted after all, that removes the problem.
        tell(events.JOB_PLANLESS, job=job.job, silent_seconds=round((now - job.accepted_at).total_seconds()))
        if (noted := note_missing_plan(job)) is not job and commit(self.ledger, noted) is None:
            tell(events.JOB_MOVED, job=job.job)


#: The minute of each hour at which the depths are read. Not that of the poison queues.
HOURLY_AT: Final = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Stranded:
    """The looks at the work queues while no job is open. One per process."""

    #: Reads the depth of one work queue, by its name.
    depths: Mapping[str, Callable[[], int]]
    pending: PendingTable
    clock: Clock

    def follow(self, pointer: Pointer, _until: float) -> None:
        """Follow a pointer to a work queue: it stays until the queue is empty."""
        read = self.depths.get(pointer.id)
        if read is not None and read():
            # The later pointer first: no message may be there that the tick cannot find.
            point_at_work(self.pending, self.clock, pointer.id)
        self.pending.remove(pointer)

    def find(self) -> bool:
        """Check once an hour whether a work queue has messages. Called while no job is open."""
        if self.clock.now().minute != HOURLY_AT:
            return False
        found = {name: depth for name, read in self.depths.items() if (depth := read())}
        if found:
            tell(events.WORK_STRANDED, queues=sorted(found), messages=sum(found.values()))
        return bool(found)
