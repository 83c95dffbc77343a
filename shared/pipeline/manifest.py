"""What a revision's outputs are, in one small file beside them: written last, so that its presence says all is there."""

from collections.abc import Iterable, Mapping

from msgspec import Struct, field

from shared.ledger.amounts import texts
from shared.ledger.balance import Balance
from shared.ledger.records import Job, Tally
from shared.pipeline.messages import VERSION
from shared.pipeline.outputs import Part


class Ended(Struct, frozen=True):
    """Items and sums that ended in one way; the sums of `unknown` chunks are missing."""

    items: int
    sums: Mapping[str, str]
    unknown: int


class Manifest(Struct, frozen=True, kw_only=True):
    """The content of manifest.json; nothing in it depends on when or how often it was made."""

    job: str
    revision: int
    workload: str
    state: str
    items: int
    declared: Mapping[str, str]
    accepted: Ended
    rejected: Ended
    parked: Ended
    #: Declared sums that nobody can prove.
    unproven: list[str] = field(default_factory=list)
    #: Rows in the table of totals that have this revision.
    totals: int
    parts: list[Part]
    v: int = VERSION


def manifest_of(job: Job, found: Balance, totals: int, parts: Iterable[Part]) -> Manifest:
    """Return the manifest of a job that adds up."""
    return Manifest(
        job=job.job,
        revision=job.revision,
        workload=job.workload,
        state=found.state.value,
        items=job.items,
        declared=texts(job.declared),
        accepted=_ended(job.totals.accepted),
        rejected=_ended(job.totals.rejected),
        parked=_ended(job.totals.parked),
        unproven=list(found.unproven),
        totals=totals,
        parts=list(parts),
    )


def _ended(tally: Tally) -> Ended:
    return Ended(tally.items, texts(tally.sums), tally.unknown)
