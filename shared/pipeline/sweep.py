"""The pipeline's part of the tick: follows due pointers, sends lost messages again and warns of deadlines.

Any message may be lost, even whole queues: the ledger knows which chunks are missing. They are put again when the job was
silent for too long and its queues have handed out what was put for it. A job whose messages wait costs nothing: its
pointer stays, and its row is not read. While results wait for settlers, nothing is put again. A finished job loses its pointer and is not checked again.

`warn` logs the risk to a deadline before it is missed: each kind of risk once per job, and none without a deadline.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Final

from shared.clock import Clock
from shared.errors import NewerVersionError
from shared.ledger import (
    CLOSED,
    FINISHED,
    Job,
    JobState,
    Ledger,
    Silence,
    Turn,
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
    turn_of,
)
from shared.pending import (
    DEADLINE_POINTER,
    DISPATCH_POINTER,
    FINISH_POINTER,
    JOB_POINTER,
    RETENTION_POINTER,
    Followers,
    PendingTable,
    Pointer,
)
from shared.pipeline.finish_request import FinishCall
from shared.pipeline.fronts import QueueFronts
from shared.pipeline.retention import Retention
from shared.pipeline.start import Starter, leave_to_gate
from shared.pipeline.waiting_results import WaitingResults
from shared.retry import LOST_RACES
from shared.telemetry import describe_error, events, place, tell

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


@dataclass(frozen=True, slots=True, kw_only=True)
class Sweep:
    """The followers of pointers to jobs. One per process."""

    ledger: Ledger
    pending: PendingTable
    starter: Starter
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
            except NewerVersionError as error:
                tell(events.NEWER_VERSION, found=str(error))
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
        if job is not None and job.state is not JobState.BURIED:
            job = warn(self.ledger, job, self.clock.now())
        if job is not None and job.state in FINISHED:
            self.retention.begin(job)
        if job is None or job.state in CLOSED:
            # The row that was to follow the pointer never came, or the job needs no more checks.
            if job is not None:
                # The process that ended it may have died before it wrote that into the list.
                self.ledger.tell_list(job)
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

    def _warn_of_held(self, pointer: Pointer, _until: float) -> None:
        job, now = self.ledger.read(pointer.id), self.clock.now()
        if job is None or job.state is not JobState.HELD:
            # A pointer of its own leads to a job that was released.
            self.pending.remove(pointer)
            return
        leave_to_gate(self.pending, warn(self.ledger, job, now), pointer, now)

    def _point_again(self, pointer: Pointer, job: Job, silence: Silence, noted: Turn | None) -> None:
        now, turn = self.clock.now(), turn_of(job)
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

    def _look_after(self, job: Job, noted: Turn | None, until: float) -> tuple[Silence | None, Job]:
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
            return (Silence.LOST if self.starter.start(job, until=until) else None), job
        if not is_silent:
            return Silence.SHORT, job
        silence = judge_silence(job, noted, self.fronts.of(job), now, self.overdue)
        if silence is Silence.LOST and self._may_wait_for_settlers(job):
            silence = Silence.IN_WORK
        if silence is Silence.LOST:
            job = self._repeat(job, now, until)
        if may_dispatch(job):
            # Its dispatcher crashed. The rest of its chunks was never put, so it waits for no turn.
            self.starter.start(job, until=until)
        return silence, job

    def _may_wait_for_settlers(self, job: Job) -> bool:
        """Check whether the silent chunks of a job may have results that are not credited yet."""
        return job.state is not JobState.FINISHING and self.results.are_behind(self.overdue / 2)

    def _repeat(self, job: Job, now: datetime, until: float) -> Job:
        """Send what the job waits for again, and note it in the job's row."""
        if job.state is not JobState.FINISHING:
            return self.starter.put_again(job, until)
        self.finish.send(job)
        noted = change(
            self.ledger,
            job.job,
            lambda found: note_put_again(found, now, None),
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
