"""The catalogue of metrics, which `docs/appendix/telemetry.md` shows as a table.

Metrics count work, which may be done twice. The exact outcome of a job is in the ledger.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final


class Instrument(StrEnum):
    """The aggregation of a metric's values."""

    #: The values are added up.
    COUNTER = "counter"
    #: The values are counted by size.
    HISTOGRAM = "histogram"


@dataclass(frozen=True, slots=True, kw_only=True)
class Metric:
    """One entry in the catalogue of metrics."""

    name: str
    kind: Instrument
    #: In the notation of UCUM, with the counted things in braces.
    unit: str
    #: The names of the attributes that separate the values.
    attributes: tuple[str, ...] = ()
    meaning: str
    #: The operator's action when a value looks wrong.
    remedy: str


SUBMISSIONS: Final = Metric(
    name="sluice.submissions",
    kind=Instrument.COUNTER,
    unit="{submission}",
    attributes=("outcome",),
    meaning="submissions by outcome: dispatched, held, duplicate",
    remedy="many duplicates: a publisher repeats accepted submissions; ask its owner why it does not see the success",
)
CHUNKS: Final = Metric(
    name="sluice.chunks",
    kind=Instrument.COUNTER,
    unit="{chunk}",
    attributes=("workload", "outcome"),
    meaning="deliveries of chunks by outcome: done, found (the result existed already), parked, halted",
    remedy="many found: messages are redelivered, because the work takes longer than they are hidden; parked: see the alert",
)
CHUNK_SECONDS: Final = Metric(
    name="sluice.chunk.duration",
    kind=Instrument.HISTOGRAM,
    unit="s",
    attributes=("workload",),
    meaning="from the begin of a chunk's work until its result is stored",
    remedy="near 30 s: use smaller chunks (SLUICE_CHUNK_ITEMS), or check the service that the workload waits for",
)
TRANSACTIONS: Final = Metric(
    name="sluice.transactions",
    kind=Instrument.COUNTER,
    unit="{transaction}",
    attributes=("workload", "outcome"),
    meaning="transactions that chunks processed, accepted or rejected",
    remedy="many rejected: read the reasons in a job's output, and ask its publisher",
)
CLOSE_LOOKS: Final = Metric(
    name="sluice.transactions.close_looks",
    kind=Instrument.COUNTER,
    unit="{transaction}",
    attributes=("workload",),
    meaning="transactions that were parsed one by one, because their layout was not among the last ones seen",
    remedy="as many as transactions, and chunks are slow: the publisher should write its keys in one order, or longer files",
)
SETTLED: Final = Metric(
    name="sluice.settle.results",
    kind=Instrument.HISTOGRAM,
    unit="{result}",
    meaning="results that one table transaction credited",
    remedy="always one although many chunks end: the bus delivers one by one; check maxMessageBatchSize",
)
RACES: Final = Metric(
    name="sluice.settle.races",
    kind=Instrument.COUNTER,
    unit="{transaction}",
    meaning="table transactions that were refused because another settler was first",
    remedy="as many as settled groups: allow fewer instances of settle_results",
)
DIFFERING: Final = Metric(
    name="sluice.settle.differing",
    kind=Instrument.COUNTER,
    unit="{result}",
    meaning="results that were dropped because another run of their chunk was credited with a different one",
    remedy="any: make the workload give the same partial for the same transactions",
)
JOBS: Final = Metric(
    name="sluice.jobs",
    kind=Instrument.COUNTER,
    unit="{job}",
    attributes=("workload", "state"),
    meaning="finished revisions of jobs, by state",
    remedy="unbalanced, completed_with_parked: `sluice jobs show JOB`",
)
JOB_SECONDS: Final = Metric(
    name="sluice.job.duration",
    kind=Instrument.HISTOGRAM,
    unit="s",
    attributes=("workload",),
    meaning="from a job's first chunk on its queue until its outputs are written",
    remedy="longer than before: `sluice tune show` names the term that binds the decision",
)
JOB_WAITED: Final = Metric(
    name="sluice.job.wait",
    kind=Instrument.HISTOGRAM,
    unit="s",
    attributes=("workload",),
    meaning="from the acceptance of a job until its first chunk is put, its gate included",
    remedy="long without a gate: the tick or accept_submission does not run; search for failing instances",
)
RELEASE_LAG: Final = Metric(
    name="sluice.release.lag",
    kind=Instrument.HISTOGRAM,
    unit="s",
    attributes=("seen_by",),
    meaning="from the opening of a gate until its held work was put",
    remedy="seen by poll only: signals do not arrive; check `sluice gate status GATE` and the Service Bus namespace",
)
FIRST_CHUNK_DELAY: Final = Metric(
    name="sluice.first_chunk.delay",
    kind=Instrument.HISTOGRAM,
    unit="s",
    attributes=("seen_by",),
    meaning="from the opening of a gate until the first chunk behind it began",
    remedy="much longer than sluice.release.lag: chunks wait on their queues; `sluice tune show` names the term that binds",
)
METRICS: Final = tuple(found for found in globals().values() if isinstance(found, Metric))
