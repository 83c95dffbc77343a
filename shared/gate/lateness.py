"""Sums receipts up: how their delays are spread, and which nodes are late."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import timedelta

from shared.gate.receipts import Receipt


@dataclass(frozen=True, slots=True)
class Spread:
    """How some delays are spread, in seconds."""

    number: int
    p50: float
    p99: float


def spread(delays: Iterable[timedelta]) -> Spread | None:
    """Return how the delays are spread, or None without any."""
    lags = sorted(delay.total_seconds() for delay in delays)
    return Spread(len(lags), percentile(lags, 50), percentile(lags, 99)) if lags else None


def percentile(ordered: Sequence[float], percent: int) -> float:
    """Return the nearest-rank percentile of sorted values."""
    return ordered[max(0, -(-len(ordered) * percent // 100) - 1)]


def stragglers(receipts: Iterable[Receipt], epoch: int) -> dict[str, str]:
    """Return the stragglers of an epoch by node, each with the reason.

    A straggler saw the epoch late, or saw the epoch before it and not this one.
    """
    found = list(receipts)
    present = {receipt.node: receipt for receipt in found if receipt.epoch == epoch}
    before = {receipt.node for receipt in found if receipt.epoch == epoch - 1}
    late = {node: f"{row.lag.total_seconds():.1f} s late" for node, row in sorted(present.items()) if row.is_late}
    return late | dict.fromkeys(sorted(before - set(present)), f"saw epoch {epoch - 1}, not {epoch}")
