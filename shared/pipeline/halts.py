"""Takes the chunk messages of a job out of the work queues, once a person has paused or stopped it, or the app has paused it.

A message cannot be deleted where it lies. So the fleet has a row for the job, with a number, and every process drops the
chunk messages with a lower one when it receives them. It reads these rows with the decision about concurrency, every ten
seconds while it has work. A resume of the job puts all its open chunks again, with a number that is not lower. A row
that is missing, late or lost costs only work.

The order: pointer, job's row, halt row; and away: halt row, pointer. A crash in between leaves a halt row that the tick
writes, or a pointer to nothing. A halt row before the job's row would drop messages that no resume puts again.
"""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Final

from shared.clock import LOST_RACES, Clock, Retry
from shared.concurrency import Fleet, FleetTable
from shared.errors import TooManyHaltsError
from shared.ledger import Fronts, Job, JobState, Ledger, Turn, Written, change, is_halted, over_since, read_turn
from shared.pending import HALT_POINTER, Pending, Pointer
from shared.telemetry import events, tell

#: Longer than any writer needs between its pointer and the halt row.
GRACE: Final = timedelta(minutes=3)
#: After the queues have handed out all messages, for so long one may still be hidden, or be put by a slow process.
DRAINS: Final = timedelta(minutes=10)
#: Halt rows at a time. Every process reads them, and a page of the fleet's rows has a thousand.
MOST_HALTS: Final = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class Halts:
    """Writes and removes halt rows. One per process."""

    ledger: Ledger
    fleet: FleetTable
    pending: Pending
    clock: Clock

    def check_room(self, job: str) -> Fleet:
        """Raise TooManyHaltsError if no further job can be halted now, else return the fleet. One request."""
        fleet = self.fleet.read()
        if job not in fleet.halts and len(fleet.halts) >= MOST_HALTS:
            found = f"{len(fleet.halts)} jobs are being halted"
            raise TooManyHaltsError(f"{found}, try again in some minutes; nothing was done")
        return fleet

    def change(
        self, job: Job, decide: Callable[[Job], Job | Written], *, tried: str, retry: Retry = LOST_RACES
    ) -> Job | None:
        """Change a job by a decision that may halt it. Return its row, None if it is gone."""
        pointer = self.point(job.job)
        written = change(self.ledger, job.job, decide, tried=tried, known=job, retry=retry)
        if written is not None and written.halts > job.halts:
            self.put(written, pointer)
        return written

    def point(self, job: str) -> Pointer:
        """Leave a pointer, before the row that it points to."""
        return self.pending.add(Pointer(HALT_POINTER, self.clock.now() + GRACE, job))

    def put(self, job: Job, pointer: Pointer) -> None:
        """Write the halt row of a job whose row has its number."""
        if self.clock.now() >= pointer.due:
            # The tick may have removed it as a pointer to nothing, and a halt row needs one.
            self.point(job.job)
        self.fleet.halt(job.job, job.halts)

    def lift(self, job: str) -> None:
        """Remove the halt row of a job that goes on, or whose messages are gone."""
        self.fleet.lift(job)


@dataclass(frozen=True, slots=True, kw_only=True)
class HaltFollower:
    """Follows pointers to halted jobs. One per process."""

    halts: Halts
    #: Reads the watermarks of a job's queues.
    fronts: Callable[[Job], Fronts]

    def follow(self, pointer: Pointer, _until: float) -> None:
        """Write a halt row that is missing. Remove it when the job goes on, or when its messages were handed out."""
        halts, pending, now = self.halts, self.halts.pending, self.halts.clock.now()
        job = halts.ledger.read(pointer.id)
        if job is not None and is_halted(job):
            number, _, note = pointer.note.partition(" ")
            noted = read_turn(note) if number == str(job.halts) else None
            if noted is None:
                # From now on: what was put for this number was put until then.
                halts.fleet.halt(job.job, job.halts)
                _tell_halted(job)
            turn = noted or Turn(now, job.chunks)
            is_over = self.fronts(job).is_over(job.job, turn)
            since = over_since(turn, noted, now) if is_over else None
            if since is None or now - since < DRAINS:
                note = f"{job.halts} {turn._replace(over_since=since)}"
                pending.add(Pointer(HALT_POINTER, now + GRACE, job.job, note=note))
                pending.remove(pointer)
                return
        halts.lift(pointer.id)
        pending.remove(pointer)


def _tell_halted(job: Job) -> None:
    """Log the halt once for each number, apart from a crash."""
    tell(events.MESSAGES_HALTED, job=job.job, state=job.state.value, halts=job.halts)
    if job.state is JobState.STOPPED:
        ways = job.totals
        tell(
            events.JOB_STOPPED,
            job=job.job,
            by=job.by,
            accepted=ways.accepted.items,
            rejected=ways.rejected.items,
            parked=ways.parked.items,
            not_run=job.not_run,
        )
