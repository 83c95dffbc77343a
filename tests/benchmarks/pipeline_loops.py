"""The work itself in a plain loop, without queues: as a person writes it by hand, and with this project's decoder."""

import json
import time
from bisect import bisect_left
from collections.abc import Callable, Sequence
from decimal import Decimal
from statistics import median
from typing import Final

import msgspec

from shared.workloads.billing import PLANS, Billing, UsageRecord
from tests.benchmarks.pipeline_measure import file_of

ITEMS: Final = 100_000
RUNS: Final = 3


def by_hand(lines: Sequence[bytes]) -> object:
    """Rate and add up as a script does that has no library: dictionaries and decimals, nothing checked."""
    owed: dict[tuple[str, str], Decimal] = {}
    for line in lines:
        usage = json.loads(line)
        plan, quantity = PLANS[usage["plan"]], Decimal(usage["quantity"])
        each, base = plan.lines[bisect_left(plan.ends, quantity)]
        key = usage["account"], plan.currency
        owed[key] = owed.get(key, 0) + (quantity * each + base).quantize(plan.unit)
    return owed


def typed(lines: Sequence[bytes]) -> object:
    """Rate and add up with a typed decoder and the workload's own code, everything at once."""
    billing, decode = Billing(), msgspec.json.Decoder(UsageRecord).decode
    charges = billing.map_many(list(map(decode, lines)), ())
    return billing.combine([charge for charge in charges if isinstance(charge, tuple)])


LOOPS: Final[dict[str, Callable[[Sequence[bytes]], object]]] = {"json": by_hand, "msgspec": typed}


def microseconds() -> dict[str, float]:
    """Return the CPU of a transaction in each loop, medians."""
    lines = file_of(ITEMS).read_bytes().splitlines()
    return {name: median(_timed(loop, lines) for _ in range(RUNS)) for name, loop in LOOPS.items()}


def _timed(loop: Callable[[Sequence[bytes]], object], lines: Sequence[bytes]) -> float:
    began = time.process_time()
    loop(lines)
    return (time.process_time() - began) / len(lines) * 1e6
