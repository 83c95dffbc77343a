"""The optimistic loop over one blob, and the log of its older events.

The loop reads, decides, and writes if no other process wrote since. A page is the content of the blob. A book never
starts a used page anew and never follows a page that lost its own history. It never reports a change as made before a
read or an accepted write has proven it.

The log holds the events that no longer fit the blob, 64 per blob of its own. Block n holds the events from write n to
n + 63. No writer can change these any more, so every writer writes the same bytes.

Order of writes: the block, then the blob without its events. A crash in between leaves them in both places.

Reserves ranges of a sequence for one node, and proves for each whether it is the node's own.

The size of a range comes from the measured rate and the conflicts; that part is pure.
"""

import math
import secrets
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Final, Generic, Protocol, Self, TypeVar

from shared.azure import OptimisticStore, Snapshot
from shared.errors import ContentionError, SequenceLostError, SequenceRestoredError, StorageUnavailableError
from shared.ids import sequence
from shared.ids.sequence import KEPT, LIMIT, NodeReport, Sequence, SequenceWrite, Signature, encode_event, parse_events
from shared.retry import Retry


def block(store: OptimisticStore, first_write: int) -> OptimisticStore:
    """Return the store of the block that begins with the given write."""
    return store.beside(f"log/{first_write:012}")


def spill(store: OptimisticStore, sequence: Sequence) -> None:
    """Write the sequence's oldest events to its log. Safe to repeat, from any process."""
    value = "".join(f"{encode_event(event)}\n" for event in sequence.events[:KEPT]).encode()
    target = block(store, sequence.spilled)
    if target.try_write(value, None):
        return
    found = target.read()
    if found is None or found.value != value:
        raise SequenceRestoredError(_behind_its_log(store, sequence))


def refuse_a_page_behind_its_log(store: OptimisticStore, sequence: Sequence) -> None:
    """Raise if the log holds events that the blob has not spilled yet: the blob is then an older version.

    A full page is the exception: a writer that spilled and has not written the blob yet leaves exactly this block.
    """
    if len(sequence.events) < 2 * KEPT and block(store, sequence.spilled).read() is not None:
        raise SequenceRestoredError(_behind_its_log(store, sequence))


def end(store: OptimisticStore, sequence: Sequence) -> tuple[int, int]:
    """Return the write after the last one in the log, or in the spilled part, and the next free number there."""
    write, reached = sequence.spilled, sequence.next
    while found := block(store, write).read():
        *_, last = parse_events(found.value)
        write, reached = write + KEPT, last.after
    return write, reached


def encode_write(store: OptimisticStore, write: int) -> SequenceWrite | None:
    """Return the event of a write that has moved to the log. None: the log no longer holds it."""
    found = block(store, write - write % KEPT).read()
    return tuple(parse_events(found.value))[write % KEPT] if found else None


def read_log(store: OptimisticStore, spilled: int, first_write: int = 0) -> Iterator[SequenceWrite]:
    """Yield the spilled events from the given block on, oldest first. Deleted blocks are skipped."""
    for write in range(first_write, spilled, KEPT):
        found = block(store, write).read()
        if found is not None:
            yield from parse_events(found.value)


def _behind_its_log(store: OptimisticStore, sequence: Sequence) -> str:
    return (
        f"blob {store.name!r} ends at write {sequence.writes} of {sequence.at:%Y-%m-%d %H:%M:%S} UTC, but its log holds "
        f"other events after write {sequence.spilled}: an older version was put back, and ids given since would "
        "repeat. Restore its latest version, or resume it above every id in use"
    )


#: A blob beside the page, written after the page exists and before its first use. So a missing page is new without the
#: marker, and lost with it.
MARKER: Final = "started"
#: The most time between the last entry of a page and the storage's own time of the write. Azure refuses requests whose
#: clock is 15 minutes off. So a later write is not a generator's but a restore, a copy or an editor.
LARGEST_SKEW: Final = timedelta(minutes=15)
#: Pauses in seconds before each further attempt, with a random part. A refusal means that another process succeeded, so
#: a crowd gets through without long pauses, which would only delay the losers. They grow slowly, for a crowd of unknown
#: size and for an outage.
WRITES: Final = Retry(attempts=25, at_once=0, first=0.05, growth=1.3, longest=0.5)


class Page(Protocol):
    """The content of a blob, as a value."""

    @property
    def writes(self) -> int:
        """Return the number of writes up to this page."""
        ...

    @property
    def at(self) -> datetime:
        """Return the time of the last write, by its writer's clock."""
        ...

    @property
    def is_unused(self) -> bool:
        """Return whether no number was reserved from it yet."""
        ...

    def contains(self, earlier: Self) -> bool:
        """Return whether this page can be a later version of `earlier`."""
        ...

    def encode(self) -> bytes:
        """Return the bytes to store."""
        ...


AnyPage = TypeVar("AnyPage", bound=Page)


@dataclass(frozen=True, slots=True)
class _Held(Generic[AnyPage]):
    page: AnyPage
    etag: str


class Book(Generic[AnyPage]):
    """One page in one store, as this process knows it. Used by one thread at a time."""

    def __init__(
        self,
        store: OptimisticStore,
        parse: Callable[[bytes, str], AnyPage],
        blank: Callable[[], AnyPage],
    ) -> None:
        self._store, self._parse, self._blank = store, parse, blank
        #: The newest page known to be stored, to compare with later reads.
        self._seen: AnyPage | None = None
        #: A page that a write may build on without a read before it.
        self._held: _Held[AnyPage] | None = None
        #: Whether the last page read was the one this book wrote. A lone writer needs one request per change. Beside
        #: other writers, a write without a read before it would nearly always be refused, and cost three requests.
        self._is_alone = True

    def amend(self, change: Callable[[AnyPage], AnyPage], retry: Retry) -> AnyPage:
        """Store the changed page and return it. If `change` returns its argument, nothing is written.

        A write with an unknown outcome is followed by a read, so `change` must search its page for its own earlier
        work.
        """
        failure: StorageUnavailableError | None = None
        attempts = 0
        for attempts in retry.tries():  # noqa: B007  # used in the error below
            try:
                stored = self._try(change)
            except StorageUnavailableError as error:
                failure = error
                continue
            if stored is not None:
                return stored
        tried = f"changing {self._store.name!r} failed {attempts} times"
        if failure is not None:
            raise StorageUnavailableError(f"{tried}; the last failure: {failure}") from failure
        raise ContentionError(f"{tried}: other processes wrote first each time; use fewer processes or larger ranges")

    def _try(self, change: Callable[[AnyPage], AnyPage]) -> AnyPage | None:
        # Forgotten until the write is known to have succeeded: after an exception, the next attempt must read first.
        held, self._held = self._held if self._is_alone else None, None
        held = held or self._read()
        changed = change(held.page)
        if changed is held.page:
            self._held = held
            return changed
        etag = self._store.try_write(changed.encode(), held.etag)
        if etag is None:
            return None
        self._seen, self._held = changed, _Held(changed, etag)
        return changed

    def _read(self) -> _Held[AnyPage]:
        snapshot = self._store.read() or self._read_again() or self._begin()
        page = self._parse(snapshot.value, self._store.name)
        self._refuse_another_history(page, snapshot)
        if page.is_unused:
            # The maker of the page may have died before the marker. Either answer means that the marker exists now.
            self._store.beside(MARKER).try_write(b"{}\n", None)
        self._is_alone = self._seen is None or page.writes == self._seen.writes
        self._seen = page
        return _Held(page, snapshot.etag)

    def _read_again(self) -> Snapshot | None:
        """Read once more if the page must exist, by its marker or an earlier read: it may be newer than the first read."""
        if self._seen is None and self._store.beside(MARKER).read() is None:
            return None
        snapshot = self._store.read()
        if snapshot is None:
            raise SequenceLostError(
                f"blob {self._store.name!r} is gone although it was used: its marker {MARKER!r} exists, or this process read "
                "it before. It is not started anew, ids would repeat: undelete it, or resume it above every id in use"
            )
        return snapshot

    def _begin(self) -> Snapshot:
        self._store.try_write(self._blank().encode(), None)
        snapshot = self._store.read()
        if snapshot is None:
            raise SequenceLostError(
                f"blob {self._store.name!r} was deleted right after it was made; find the program that deletes it"
            )
        return snapshot

    def _refuse_another_history(self, page: AnyPage, snapshot: Snapshot) -> None:
        found = f"blob {self._store.name!r} does not hold the history that was written"
        remedy = "ids given since would repeat: restore its latest version, or resume it above every id in use"
        if self._seen is not None and not page.contains(self._seen):
            raise SequenceRestoredError(
                f"{found}: this process saw write {self._seen.writes} of {self._seen.at:%Y-%m-%d %H:%M:%S} UTC, "
                f"which is not in the {page.writes} writes found now; {remedy}"
            )
        if snapshot.modified - page.at > LARGEST_SKEW:
            raise SequenceRestoredError(
                f"{found}: its last write says {page.at:%Y-%m-%d %H:%M:%S} UTC, but the storage wrote it at "
                f"{snapshot.modified:%Y-%m-%d %H:%M:%S} UTC; {remedy}"
            )


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
            taken = page.find_write(attempt.write) or encode_write(self._store, attempt.write)
            if taken is not None and taken.by.nonce == attempt.nonce:
                self._proven.append(attempt.numbers)
        return self._proven.pop() if self._proven else None

    def _prepare(self, page: Sequence) -> Sequence:
        """Return the page with room for one more event."""
        if not self._is_compared_with_log:
            refuse_a_page_behind_its_log(self._store, page)
            self._is_compared_with_log = True
        if not sequence.is_full(page):
            return page
        spill(self._store, page)
        return sequence.without_spilled(page)
