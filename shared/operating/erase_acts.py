"""Erases jobs: their rows say who, when and why, and everything of their transactions is removed.

The order: audit, pointers, the job's row, its halt row, and then all that is there. After a crash behind the row the tick
goes on by the pointer. It proves later that nothing is left.
"""

from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from math import inf

from shared.clock import Clock
from shared.errors import ActStaleError, JobStateError
from shared.grammar import check_blob
from shared.ledger import CLOSED, Job, JobState, Ledger, Written, counting, erase, stop
from shared.operating.audit import ActKey, AuditedAct, AuditTable
from shared.operating.descent import list_made_from
from shared.pending import ERASE_POINTER, OUTBOX_POINTER, PendingTable, Pointer
from shared.pipeline import GRACE, SECOND_CHECK_AFTER, Halts, Remains, event_of


@dataclass(frozen=True, slots=True, kw_only=True)
class JobEraser:
    """Erases jobs for a person. `seen` and `named`: see JobOperator."""

    ledger: Ledger
    halts: Halts
    pending: PendingTable
    audit: AuditTable
    remains: Remains
    wake_waiters: Callable[[Job], object]
    clock: Clock

    def check(self, job_id: str, also: Collection[str] = ()) -> Job:
        """Return the job, or raise JobStateError if others were made from it that are not to be erased `also`."""
        job = self.ledger.read(job_id)
        if job is None:
            raise JobStateError(f"could not erase job {job_id!r}: it is not known")
        made = (one for one in list_made_from(self.ledger, job) if one.state is not JobState.ERASED)
        if left := [one.job for one in made if one.job not in also]:
            raise JobStateError(
                f"could not erase job {job_id!r}: {', '.join(left)} was made from its output: name it too, or erase it first"
            )
        return job

    def erase(  # noqa: PLR0913 - each is a part of the act
        self,
        job_id: str,
        *,
        by: str,
        why: str,
        also: Collection[str] = (),
        file: str | None = None,
        seen: str | None = None,
        named: ActKey | None = None,
        seconds: float = inf,
    ) -> Job:
        """Erase the job and return its row. An open one is stopped by the same write. An erased one is removed again.

        `also`: other jobs that are erased with it. `file`: the publisher's file, for a job whose row names none.
        `seconds`: how long this call removes; then the tick goes on.
        """
        now, until = self.clock.now(), self.clock.monotonic() + seconds
        if file is not None:
            check_blob(file)

        def decide(job: Job) -> Job | Written:
            if seen is not None and job.etag != seen:
                raise ActStaleError(
                    f"job {job.job!r} was changed since you saw it: it is {job.state.value}; nothing was done"
                )
            return _decide(job, by, why, now, file)

        job = self.check(job_id, also)
        if decide(job) is not job:
            self.halts.check_room(job_id)
        with self.audit.record(AuditedAct(by, "job erase", job_id, why), named) as command:
            erased = job if job.state is JobState.ERASED else self._write(job, decide, now)
            for _ in self.remains.remove(erased):
                if self.clock.monotonic() >= until:
                    break
            command.result = erased.state.value
        return erased

    def _write(self, job: Job, decide: Callable[[Job], Job | Written], now: datetime) -> Job:
        kinds = [ERASE_POINTER] if job.state in CLOSED else [ERASE_POINTER, OUTBOX_POINTER]
        self.pending.add_all([Pointer(kind, now + GRACE, job.job) for kind in kinds])
        with counting():
            erased = self.halts.change(job, decide, tried="erase the job") or job
        if self.clock.now() >= now + GRACE:
            # The tick may have removed it as a pointer to nothing.
            self.pending.add(Pointer(ERASE_POINTER, self.clock.now(), job.job))
        self.wake_waiters(erased)
        return erased


def _decide(job: Job, by: str, why: str, now: datetime, file: str | None) -> Job | Written:
    if job.state is JobState.ERASED:
        return job
    known = replace(job, file=job.file or file)
    erased = erase(known, by, why, now)
    if job.state in CLOSED:
        return erased
    # Its consumers hear of its end, as of any job that is stopped.
    return Written(erased, messages=[event_of(stop(job, by, why, now))])


def describe_proof(job: Job) -> str:
    """Return how far it is proven that nothing of an erased job is left."""
    if job.erased_at is None:
        return ""
    erased = f"erased {_time(job.erased_at)} by {job.by}"
    if job.proven_at is None or job.proof is None:
        return f"{erased}; proof follows when its queues are empty: sluice jobs show {job.job}"
    looked = ", ".join(f"{job.proof[name]} {name}" for name in ("tables", "containers", "queues"))
    second = (
        "second check done"
        if job.proof["looks"] > 1
        else f"second check on {job.proven_at + SECOND_CHECK_AFTER:%Y-%m-%d}"
    )
    return f"{erased}, proven {_time(job.proven_at)}: {looked} looked at, {job.proof['found']} found; {second}"


def _time(moment: datetime) -> str:
    return f"{moment.astimezone(UTC):%Y-%m-%d %H:%M:%S}"
