"""Takes ranges of a sequence for one node, and knows for each whether it is the node's own."""

import secrets
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime

from shared.ids import log, sequence
from shared.ids.book import Book
from shared.ids.event import LIMIT, Account, Signature
from shared.ids.sequence import Sequence
from shared.ids.store import OptimisticStore
from shared.retry import Retry


@dataclass(frozen=True, slots=True)
class _Attempt:
    """A write that may or may not have taken effect."""

    nonce: str
    numbers: range
    #: Which write of the sequence it would be.
    write: int


@dataclass(frozen=True, slots=True)
class Reserved:
    """A range that is the node's own, and how many attempts were refused on the way to it."""

    numbers: range
    conflicts: int


class Reservations:
    """Reserves ranges under one node's name; used by one thread at a time."""

    def __init__(self, store: OptimisticStore, node: str, now: Callable[[], datetime], first_id: int = 1) -> None:
        if not 0 <= first_id <= LIMIT:
            raise ValueError(f"first_id is {first_id}, expected 0 to {LIMIT}")
        self.node = node
        self._store, self._now = store, now
        self._book = Book(store, sequence.parse, lambda: sequence.created(first_id, self._sign()))
        self._attempts: list[_Attempt] = []
        self._proven: list[range] = []
        self._left: tuple[range, ...] = ()
        self._is_compared_with_log = False

    def reserve(self, size: int, account: Account, retry: Retry) -> Reserved:
        """Return a range that is proven to be this node's own; an earlier one whose proof came late may be smaller."""
        # Kept until an accepted write has told them.
        self._left += account.left
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
            changed = sequence.reserve(self._prepared(page), size, by, Account(account.open, self._left))
            self._attempts.append(_Attempt(by.nonce, changed.events[-1].numbers, page.writes))
            return changed

        page = self._book.amend(change, retry)
        if own:
            return Reserved(own[-1], tries - 1)
        # Accepted, so every other attempt of ours was written on a version that is no longer there.
        self._attempts.clear()
        self._left = ()
        return Reserved(page.events[-1].numbers, tries - 1)

    def close(self, unused: tuple[range, ...], left: tuple[range, ...], retry: Retry) -> None:
        """Give back what is still the top of the sequence, and write down what is left for good."""
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
            return sequence.close(self._prepared(page), own, self._left, by)

        self._book.amend(change, retry)

    def _sign(self) -> Signature:
        # Stored to the millisecond, so compared to the millisecond.
        now = self._now().astimezone(UTC)
        return Signature(self.node, secrets.token_hex(8), now.replace(microsecond=now.microsecond // 1000 * 1000))

    def _settle(self, page: Sequence) -> range | None:
        """Learn what became of earlier attempts, and return one that is proven to have succeeded, once."""
        for attempt in tuple(self._attempts):
            # Its place is not taken yet: the write may still be on its way.
            if attempt.write >= page.writes:
                continue
            self._attempts.remove(attempt)
            taken = page.written_as(attempt.write) or log.written_as(self._store, attempt.write)
            if taken is not None and taken.by.nonce == attempt.nonce:
                self._proven.append(attempt.numbers)
        return self._proven.pop() if self._proven else None

    def _prepared(self, page: Sequence) -> Sequence:
        """Return the page ready to take one more event."""
        if not self._is_compared_with_log:
            log.refuse_a_page_behind_its_log(self._store, page)
            self._is_compared_with_log = True
        if not sequence.is_full(page):
            return page
        log.spill(self._store, page)
        return sequence.without_spilled(page)
