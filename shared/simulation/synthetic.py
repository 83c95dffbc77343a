"""A synthetic day: bursts of chunks as a billing office sends them, made from a random seed.

It is labelled synthetic wherever it is shown. Long jobs come at night and at noon, medium ones during the working hours,
and small ones at any time. Between them are hours without any job.
"""

import random
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final

from shared.concurrency import Stretch, Trace, TraceHeader

#: The random seed of the tables in the documentation.
SEED: Final = 20261120
DAY: Final = datetime(2026, 11, 20, tzinfo=UTC)
#: Messages that a dispatch puts per second.
PUT_RATE: Final = 500.0


@dataclass(frozen=True, slots=True)
class Kind:
    """Jobs of one size: their number, their hours and their chunks."""

    number: int
    hours: tuple[float, float]
    chunks: tuple[int, int]


KINDS: Final = (
    Kind(3, (1, 4), (1500, 4000)),
    Kind(1, (12, 13), (800, 1500)),
    Kind(45, (7, 19), (20, 300)),
    Kind(60, (0, 24), (1, 15)),
)
#: The least and the most seconds of work per chunk.
WORK: Final = (0.2, 1.0)


def bursty_day(seed: int = SEED) -> Trace:
    """Make the day of this random seed."""
    chance = random.Random(seed)  # noqa: S311 - makes an example, hides nothing
    stretches = {}
    for kind in KINDS:
        for _ in range(kind.number):
            at = DAY + timedelta(milliseconds=round(chance.uniform(*kind.hours) * 3_600_000))
            chunks = chance.randint(*kind.chunks)
            stretches[at] = Stretch(
                at=at, seconds=round(chunks / PUT_RATE, 3), arrived=chunks, latency=round(chance.uniform(*WORK), 3)
            )
    note = f"{len(stretches)} jobs, {sum(stretch.arrived for stretch in stretches.values())} chunks"
    return Trace(TraceHeader(what="synthetic", seed=seed, note=note), [stretches[at] for at in sorted(stretches)])
