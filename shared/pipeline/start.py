"""The start stage: dispatches a job whose row says that it may start, and holds any other one behind its gate.

The reader of a gate records the reading in the job's row before anything is put on a queue. So a hint alone starts no
job, and a job that met an open gate continues however soon the gate is closed.

The order: note in the row; chunks and cursor; then the held row goes. After a crash in between, the held row leads back
to the job, and without one the job's pointer does.
"""

from dataclasses import dataclass
from typing import Final, Protocol

from shared.clock import Clock
from shared.errors import ContentionError, SignalNotSentError
from shared.gate import TAKES_FOR, HeldEntry, OneMark, Reading
from shared.ledger import Job, Ledger, change, counting, may_start, note_gate_passed
from shared.messages import DispatchMessage, encode
from shared.pending import DISPATCH_POINTER, PendingTable, Pointer
from shared.pipeline.dispatch import Dispatcher
from shared.pipeline.put_again import PutAgain
from shared.telemetry import events, tell
from shared.topology import submission_queue

SUBMISSIONS: Final = submission_queue()


class HoldingGates(Protocol):
    """The gates, as a job meets them."""

    def reading(self, gate: str) -> Reading:
        """Return the gate's epoch and whether it is open."""
        ...

    def keep(self, gate: str, entry_id: str, queue: str, message: str, epoch: int) -> HeldEntry:
        """Write the held row, or return the existing one."""
        ...

    def forget(self, entry: HeldEntry) -> None:
        """Remove the held row of work that was dispatched."""
        ...


class Hints(Protocol):
    """Signals another invocation to continue with a job."""

    def send_job(self, job: str) -> None:
        """Send the hint, or raise SignalNotSentError."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Starter:
    """The start stage. One per process."""

    ledger: Ledger
    gates: HoldingGates
    dispatcher: Dispatcher
    again: PutAgain
    hints: Hints
    pending: PendingTable
    clock: Clock

    def start(self, job: Job, *, is_new: bool = False, until: float | None = None) -> bool:
        """Dispatch a planned job that may start. False: it waits behind its gate. Safe to repeat.

        `is_new`: the caller has just planned it, so no other process can have begun to dispatch it.
        """
        has_begun, row = may_start(job) and not is_new, None
        if not may_start(job):
            job, row = self._at_its_gate(job)
        if not may_start(job):
            return False
        if not self.dispatcher.dispatch(job, again=has_begun, until=until):
            self.hand_over(job.job)
        elif row is not None:
            self.gates.forget(row)
        return True

    def _at_its_gate(self, job: Job) -> tuple[Job, HeldEntry | None]:
        gate = job.gate or ""
        if job.held_epoch is None:
            job = self._note_gate_passed(job, self.gates.reading(gate))
        if may_start(job) or job.held_epoch is None:
            return job, None
        row = self.gates.keep(gate, job.job, SUBMISSIONS, _hold_id(job.job), job.held_epoch)
        # Before the row existed the gate may have been opened, served and closed again, and no release would find it.
        return self._note_gate_passed(job, self.gates.reading(gate)), row

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

    def carry_out(self, entry: HeldEntry, gate: Reading, until: float, mark: OneMark) -> bool:
        """Start a held job by this reading of its gate. False: not all of its chunks were put yet."""
        with counting():
            job = self.ledger.read(entry.id)
            if job is None or job.gate != entry.gate:
                tell(events.HELD_STRANGE, gate=entry.gate, entry=entry.id)
                return True
            has_begun = may_start(job)
            job = self._note_gate_passed(job, gate)
            return may_start(job) and self.dispatcher.dispatch(job, again=has_begun, until=until, mark=mark)

    def go_on(self, job_id: str, until: float | None = None) -> None:
        """Continue with a job that a hint names. Its row and its gate decide, not the hint."""
        with counting():
            job = self.ledger.read(job_id)
            if job is not None and job.plan is not None:
                if job.again_from is not None:
                    job = self.put_again(job, until)
                self.start(job, until=until)

    def put_again(self, job: Job, until: float | None = None) -> Job:
        """Put the job's silent chunks again, and have another invocation continue when the time is up."""
        end = self.clock.monotonic() + TAKES_FOR.total_seconds() if until is None else until
        job, is_done = self.again.put(job, end)
        if not is_done:
            self.hand_over(job.job)
        return job

    def hand_over(self, job_id: str) -> None:
        """Have another invocation continue this dispatch. If no hint can be sent, the tick does it."""
        try:
            self.hints.send_job(job_id)
        except SignalNotSentError:
            self.pending.add(Pointer(DISPATCH_POINTER, self.clock.now(), job_id))


def _hold_id(job: str) -> str:
    """Return the message in the held row of a job, in the form that earlier versions put on a queue."""
    return encode(DispatchMessage(job=job)).decode()
