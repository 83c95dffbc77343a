"""What is known of the work queues and of those who work on them when a decision is made; plain data."""

from dataclasses import dataclass
from enum import StrEnum


class Metric(StrEnum):
    """What a rule may look at."""

    #: Messages on the work queues, those in work included: the only count that storage gives.
    DEPTH = "depth"
    #: Seconds that the oldest visible message has waited.
    OLDEST_AGE = "oldest_age"
    #: Messages put a second, and messages done a second, since the sample before.
    ARRIVAL_RATE = "arrival_rate"
    DRAIN_RATE = "drain_rate"
    #: Cores that the busiest process uses: 1 is all that Python code of one process can have.
    CPU = "cpu"
    #: Seconds of work for one message.
    LATENCY = "latency"
    #: Hour of the day, UTC.
    HOUR = "hour"


@dataclass(frozen=True, slots=True, kw_only=True)
class Observation:
    """One look; None where nothing is known, which no condition of a rule is met by."""

    depth: int
    hour: int = 0
    oldest_age: float | None = None
    arrival_rate: float | None = None
    drain_rate: float | None = None
    cpu: float | None = None
    latency: float | None = None
    #: Messages in work in every process that tells; not for rules.
    in_flight: int | None = None

    def value(self, metric: Metric) -> float | None:
        """Return what is known of this metric."""
        found: float | None = getattr(self, metric.value)
        return found
