"""The proof that what went in came out: in = accepted + rejected + parked, in items and in every declared sum; pure."""

from collections.abc import Iterator
from dataclasses import dataclass

from shared.ledger.amounts import plus
from shared.ledger.records import Job, JobState, Totals
from shared.payload.decimals import ZERO


@dataclass(frozen=True, slots=True)
class Balance:
    """How a job adds up."""

    state: JobState
    #: One sentence for each thing that does not add up.
    problems: tuple[str, ...] = ()
    #: Declared sums that nobody can prove, because some transactions could not be read.
    unproven: tuple[str, ...] = ()

    @property
    def problem(self) -> str | None:
        """The problems in one line, or None."""
        return "; ".join(self.problems) or None


def balance(job: Job, rows: Totals | None = None) -> Balance:
    """Return the state in which a job whose chunks have all ended may finish.

    `rows` are the totals added up anew from the chunk rows; they must be the job's own.
    """
    problems = [*_items(job), *_rows(job, rows)]
    unproven = tuple(sorted(job.declared)) if job.totals.has_unknown_sums else ()
    if not unproven:
        problems.extend(_sums(job))
    if problems:
        return Balance(JobState.UNBALANCED, tuple(problems), unproven)
    has_parked = job.parked_chunks > 0 or job.totals.parked.items > 0
    return Balance(JobState.COMPLETED_WITH_PARKED if has_parked else JobState.COMPLETE, (), unproven)


def _items(job: Job) -> Iterator[str]:
    if not job.has_ended:
        yield f"{job.chunks - job.ended_chunks} of {job.chunks} chunks have not ended"
    if job.totals.items != job.items:
        yield f"{job.items} items went in, {job.totals.items} came out ({_ways(job)})"


def _ways(job: Job) -> str:
    totals = job.totals
    return f"{totals.accepted.items} accepted, {totals.rejected.items} rejected, {totals.parked.items} parked"


def _sums(job: Job) -> Iterator[str]:
    totals = job.totals
    found = plus(plus(totals.accepted.sums, totals.rejected.sums), totals.parked.sums)
    for name, declared in sorted(job.declared.items()):
        if found.get(name, ZERO) != declared:
            yield f"the sum of {name!r} was declared as {declared:f}, found {found.get(name, ZERO):f}"


def _rows(job: Job, rows: Totals | None) -> Iterator[str]:
    if rows is not None and rows != job.totals:
        yield f"the chunk rows add up to {rows.items} items and other sums than the job's {job.totals.items} items"
