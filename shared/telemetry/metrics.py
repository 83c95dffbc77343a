"""The catalogue of metrics; `docs/operating.md` shows it as a table.

They count work, which may be done twice; what came of a job is in the ledger, exactly.

One metric, in the words of the catalogue.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final


class Instrument(StrEnum):
    """What becomes of the values of a metric."""

    #: They are added up.
    COUNTER = "counter"
    #: They are counted by how large they are.
    HISTOGRAM = "histogram"


@dataclass(frozen=True, slots=True, kw_only=True)
class Metric:
    """A number that the app tells."""

    name: str
    kind: Instrument
    #: As UCUM writes it; what is counted stands in braces.
    unit: str
    #: What the values are told apart by.
    attributes: tuple[str, ...] = ()
    meaning: str
    #: What a person does when it looks wrong.
    remedy: str


SUBMISSIONS: Final = Metric(
    name="sluice.submissions",
    kind=Instrument.COUNTER,
    unit="{submission}",
    attributes=("outcome",),
    meaning="submissions by what became of them: dispatched, held, duplicate",
    remedy="many duplicates: a publisher sends again what was accepted; ask why it hears of no success",
)
CHUNKS: Final = Metric(
    name="sluice.chunks",
    kind=Instrument.COUNTER,
    unit="{chunk}",
    attributes=("workload", "outcome"),
    meaning="chunks by what became of a delivery: done, found (its result was there already), parked",
    remedy="many found: deliveries come twice, so work takes longer than its message is hidden; parked: see the alert",
)
CHUNK_SECONDS: Final = Metric(
    name="sluice.chunk.duration",
    kind=Instrument.HISTOGRAM,
    unit="s",
    attributes=("workload",),
    meaning="from the begin of a chunk's work until its result is stored",
    remedy="near 30 s: smaller chunks (SLUICE_CHUNK_ITEMS), or the workload waits for a service of its own",
)
TRANSACTIONS: Final = Metric(
    name="sluice.transactions",
    kind=Instrument.COUNTER,
    unit="{transaction}",
    attributes=("workload", "outcome"),
    meaning="transactions that chunks worked on, accepted or rejected",
    remedy="many rejected: look at the reasons in a job's output, and ask its publisher",
)
CLOSE_LOOKS: Final = Metric(
    name="sluice.transactions.close_looks",
    kind=Instrument.COUNTER,
    unit="{transaction}",
    attributes=("workload",),
    meaning="transactions that were read one by one, since their layout was not one of those seen last",
    remedy="as many as transactions, and chunks are slow: have the publisher write its keys in one order, or write longer files",
)
SETTLED: Final = Metric(
    name="sluice.settle.results",
    kind=Instrument.HISTOGRAM,
    unit="{result}",
    meaning="results that one table transaction credited",
    remedy="always one although many chunks end: the bus delivers one by one; look at maxMessageBatchSize",
)
RACES: Final = Metric(
    name="sluice.settle.races",
    kind=Instrument.COUNTER,
    unit="{transaction}",
    meaning="table transactions that were refused because another settler was first",
    remedy="as many as settled groups: fewer instances of settle_results",
)
JOBS: Final = Metric(
    name="sluice.jobs",
    kind=Instrument.COUNTER,
    unit="{job}",
    attributes=("workload", "state"),
    meaning="revisions of jobs by how they were finished",
    remedy="unbalanced, completed_with_parked: `sluice jobs show JOB`",
)
JOB_SECONDS: Final = Metric(
    name="sluice.job.duration",
    kind=Instrument.HISTOGRAM,
    unit="s",
    attributes=("workload",),
    meaning="from a job's first chunk on its queue until its outputs are written",
    remedy="longer than it was: `sluice tune show`, and what binds the decision",
)
JOB_WAITED: Final = Metric(
    name="sluice.job.wait",
    kind=Instrument.HISTOGRAM,
    unit="s",
    attributes=("workload",),
    meaning="from the acceptance of a job until its first chunk is put, its gate included",
    remedy="long without a gate: the tick or accept_submission does not come; look for failing instances",
)
RELEASE_LAG: Final = Metric(
    name="sluice.release.lag",
    kind=Instrument.HISTOGRAM,
    unit="s",
    attributes=("seen_by",),
    meaning="from the opening of a gate until its held work was put",
    remedy="seen by poll only: signals do not arrive; `sluice gate status GATE` and the namespace say why",
)
METRICS: Final = tuple(found for found in globals().values() if isinstance(found, Metric))
