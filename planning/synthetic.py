"""A day that nobody recorded: bursts of chunks as a billing office sends them, made from a seed; pure.

Labelled synthetic wherever it is shown. Long jobs at night and at noon, medium ones spread over the working hours, and
small ones at any time, with hours between in which nothing comes at all.
"""

import random
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final

from shared.concurrency import Stretch, Trace, TraceHeader

#: The seed of the tables in the documentation.
SEED: Final = 20261120
DAY: Final = datetime(2026, 11, 20, tzinfo=UTC)
#: Messages that a dispatch puts in a second.
PUT_RATE: Final = 500.0


@dataclass(frozen=True, slots=True)
class Kind:
    """Jobs of one size: how many, in which hours, of how many chunks."""

    number: int
    hours: tuple[float, float]
    chunks: tuple[int, int]


KINDS: Final = (
    Kind(3, (1, 4), (1500, 4000)),
    Kind(1, (12, 13), (800, 1500)),
    Kind(45, (7, 19), (20, 300)),
    Kind(60, (0, 24), (1, 15)),
)
#: Seconds of work for a chunk, least and most.
WORK: Final = (0.2, 1.0)


def bursty_day(seed: int = SEED) -> Trace:
    """Return the day of this seed."""
    chance = random.Random(seed)  # noqa: S311 - a day like another, hides nothing
    stretches = {}
    for kind in KINDS:
        for _ in range(kind.number):
            at = DAY + timedelta(milliseconds=round(chance.uniform(*kind.hours) * 3_600_000))
            chunks = chance.randint(*kind.chunks)
            stretches[at] = Stretch(
                at=at, seconds=round(chunks / PUT_RATE, 3), arrived=chunks, latency=round(chance.uniform(*WORK), 3)
            )
    note = f"{len(stretches)} jobs, {sum(one.arrived for one in stretches.values())} chunks"
    return Trace(TraceHeader(what="synthetic", seed=seed, note=note), [stretches[at] for at in sorted(stretches)])
