"""Reserves ranges of a sequence for one node, and proves for each whether it is the node's own.

The size of a range comes from the measured rate and the conflicts; that part is pure.
"""

import math
import secrets
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Final, Self

from shared.azure import OptimisticStore
from shared.ids import book, sequence
from shared.ids.book import Book
from shared.ids.history import LIMIT, NodeReport, Signature
from shared.ids.sequence import Sequence
from shared.retry import Retry

#: Seconds after which the measured rate forgets. A burst at the start is averaged over them too, so that ten ids in a
#: microsecond do not count as ten million per second.
MEMORY: Final = 0.5
#: The weight of the newest refill's conflicts in the pressure.
_WEIGHT: Final = 0.5
#: A range is at most this multiple of the one before: a process that ends soon after a cold start wastes few numbers.
_GROWTH: Final = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizing:
    """The bounds of a range.

    Up to `range_size`, a range lasts for `patience`: a node holds so many numbers only to save requests. A node that
    would use them up within `horizon` gets numbers for one `horizon` instead, up to `largest`.
    """

    first: int = 10
    range_size: int = 1000
    largest: int = 1_000_000
    patience: timedelta = timedelta(seconds=20)
    horizon: timedelta = timedelta(seconds=2)

    @classmethod
    def up_to(cls, range_size: int) -> Self:
        """Return the usual bounds for this range size."""
        usual = cls()
        return cls(first=min(usual.first, range_size), range_size=range_size, largest=max(usual.largest, range_size))

    def __post_init__(self) -> None:
        if not 1 <= self.first <= self.range_size <= self.largest:
            raise ValueError(
                f"first {self.first}, range_size {self.range_size} and largest {self.largest} must rise from 1 or more"
            )
        if not timedelta(0) < self.horizon <= self.patience:
            raise ValueError(f"horizon {self.horizon} must be above zero and at most patience {self.patience}")


@dataclass(frozen=True, slots=True)
class IdDemand:
    """Measurements so far."""

    #: Ids per second.
    rate: float = 0.0
    #: Refused writes per reservation, a moving average.
    pressure: float = 0.0
    #: Size of the range before, 0 for none.
    previous: int = 0

    def after_drawing(self, count: int, seconds: float) -> "IdDemand":
        """Return the demand after `count` ids were drawn, evenly, in the last `seconds`."""
        kept = math.exp(-max(seconds, 0.0) / MEMORY)
        # For zero seconds: the limit of (1 - kept) / seconds.
        share = (1 - kept) / seconds if seconds > 0 else 1 / MEMORY
        return replace(self, rate=self.rate * kept + count * share)

    def after_refill(self, size: int, conflicts: int) -> "IdDemand":
        """Return the demand after a range was reserved."""
        pressure = self.pressure * (1 - _WEIGHT) + conflicts * _WEIGHT
        return replace(self, previous=size, pressure=pressure)


def next_size(demand: IdDemand, sizing: Sizing) -> int:
    """Return the size of the next range."""
    if demand.previous == 0:
        return sizing.first
    saving = min(demand.rate * sizing.patience.total_seconds(), sizing.range_size)
    needed = demand.rate * sizing.horizon.total_seconds()
    # Twice the conflicts halve the number of writers that meet at the blob.
    wanted = max(saving, needed) * (1 + demand.pressure)
    grown = demand.previous * _GROWTH * (1 + demand.pressure)
    return int(max(sizing.first, min(wanted, grown, sizing.largest)))


def low_mark(demand: IdDemand, sizing: Sizing) -> int:
    """Return the number of ids left at which the next range is fetched: half a horizon's, at most a whole range."""
    ahead = demand.rate * sizing.horizon.total_seconds() / 2
    return int(min(demand.previous, max(demand.previous // 4, ahead)))


@dataclass(frozen=True, slots=True)
class _Attempt:
    """A write that may or may not have taken effect."""

    nonce: str
    numbers: range
    #: Its place among the writes of the sequence, from 0.
    write: int


@dataclass(frozen=True, slots=True)
class Reserved:
    """A range that is the node's own, and the number of refused attempts before it."""

    numbers: range
    conflicts: int


class Reservations:
    """Reserves ranges under one node's name. Used by one thread at a time."""

    def __init__(self, store: OptimisticStore, node: str, now: Callable[[], datetime], first_id: int = 1) -> None:
        if not 0 <= first_id <= LIMIT:
            raise ValueError(f"first_id is {first_id}, expected 0 to {LIMIT}")
        self.node = node
        self._store, self._now = store, now
        self._book = Book(store, sequence.parse, lambda: sequence.create(first_id, self._sign()))
        self._attempts: list[_Attempt] = []
        self._proven: list[range] = []
        self._left: tuple[range, ...] = ()
        self._is_compared_with_log = False

    def reserve(self, size: int, report: NodeReport, retry: Retry) -> Reserved:
        """Return a range that is proven to be this node's own. It may be an earlier, smaller one that was proven late."""
        # Kept until an accepted write has reported them.
        self._left += report.left
        tries = 0
        own: list[range] = []

        def change(page: Sequence) -> Sequence:
            nonlocal tries
            tries += 1
            proven = self._settle(page)
            if proven is not None:
                own.append(proven)
                return page
            by = self._sign()
            changed = sequence.reserve(self._prepare(page), size, by, NodeReport(report.open, self._left))
            self._attempts.append(_Attempt(by.nonce, changed.events[-1].numbers, page.writes))
            return changed

        page = self._book.amend(change, retry)
        if own:
            return Reserved(own[-1], tries - 1)
        # Accepted, so every other attempt of ours was based on a version that no longer exists.
        self._attempts.clear()
        self._left = ()
        return Reserved(page.events[-1].numbers, tries - 1)

    def close(self, unused: tuple[range, ...], left: tuple[range, ...], retry: Retry) -> None:
        """Give back the numbers at the top of the sequence, and record the others as left for good."""
        own = list(unused)
        self._left += left
        nonces: set[str] = set()

        def change(page: Sequence) -> Sequence:
            if any(event.by.nonce in nonces for event in page.events):
                return page
            proven = self._settle(page)
            if proven is not None:
                own.append(proven)
            by = self._sign()
            nonces.add(by.nonce)
            return sequence.close(self._prepare(page), own, self._left, by)

        self._book.amend(change, retry)

    def _sign(self) -> Signature:
        # Stored to the millisecond, so compared to the millisecond.
        now = self._now().astimezone(UTC)
        return Signature(self.node, secrets.token_hex(8), now.replace(microsecond=now.microsecond // 1000 * 1000))

    def _settle(self, page: Sequence) -> range | None:
        """Find the outcome of earlier attempts. Return a range that is proven to be ours, each once, or None."""
        for attempt in tuple(self._attempts):
            # Its place is free: the write may still be on its way.
            if attempt.write >= page.writes:
                continue
            self._attempts.remove(attempt)
            taken = page.find_write(attempt.write) or book.encode_write(self._store, attempt.write)
            if taken is not None and taken.by.nonce == attempt.nonce:
                self._proven.append(attempt.numbers)
        return self._proven.pop() if self._proven else None

    def _prepare(self, page: Sequence) -> Sequence:
        """Return the page with room for one more event."""
        if not self._is_compared_with_log:
            book.refuse_a_page_behind_its_log(self._store, page)
            self._is_compared_with_log = True
        if not sequence.is_full(page):
            return page
        book.spill(self._store, page)
        return sequence.without_spilled(page)
