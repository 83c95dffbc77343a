"""The optimistic loop: read, decide, write if nobody wrote since; and know for certain what was written.

A page is what one blob says. A book never starts a used page anew, never follows a page that lost its own history,
and never tells its caller that a change is made before a read or an accepted write has proven it.

The log of a sequence: events that no longer fit its blob, 64 to a blob of their own.

Block n holds the events from write n to n + 63, which no writer can change any more, so whoever writes it writes the
same bytes. It is written before the events leave the sequence's blob: a crash between leaves them in both places.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final, Generic, Protocol, Self, TypeVar

from shared.azure import OptimisticStore, Snapshot
from shared.errors import ContentionError, SequenceLostError, SequenceRestoredError, StorageUnavailableError
from shared.ids.history import SequenceWrite, encode_event, parse_events
from shared.ids.sequence import KEPT, Sequence
from shared.retry import Retry


def block(store: OptimisticStore, first_write: int) -> OptimisticStore:
    """Return the store of the block that begins with the given write."""
    return store.beside(f"log/{first_write:012}")


def spill(store: OptimisticStore, sequence: Sequence) -> None:
    """Write the sequence's oldest events to its log; harmless when another writer has done so."""
    value = "".join(f"{encode_event(event)}\n" for event in sequence.events[:KEPT]).encode()
    target = block(store, sequence.spilled)
    if target.try_write(value, None):
        return
    found = target.read()
    if found is None or found.value != value:
        raise SequenceRestoredError(_behind_its_log(store, sequence))


def refuse_a_page_behind_its_log(store: OptimisticStore, sequence: Sequence) -> None:
    """Raise when the log has what the blob has yet to spill: then the blob is an older version of itself.

    A writer that spilled and has not written yet leaves just this block, and only of a full page.
    """
    if len(sequence.events) < 2 * KEPT and block(store, sequence.spilled).read() is not None:
        raise SequenceRestoredError(_behind_its_log(store, sequence))


def end(store: OptimisticStore, sequence: Sequence) -> tuple[int, int]:
    """Return the write after the last one in the log, and the next free number there; the sequence's own if later."""
    write, reached = sequence.spilled, sequence.next
    while found := block(store, write).read():
        *_, last = parse_events(found.value)
        write, reached = write + KEPT, last.after
    return write, reached


def encode_write(store: OptimisticStore, write: int) -> SequenceWrite | None:
    """Return the event of a write that has moved to the log, or None when the log no longer holds it."""
    found = block(store, write - write % KEPT).read()
    return tuple(parse_events(found.value))[write % KEPT] if found else None


def read_log(store: OptimisticStore, spilled: int, first_write: int = 0) -> Iterator[SequenceWrite]:
    """Yield the spilled events from the given block on, oldest first; blocks that were deleted are passed over."""
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


#: Written beside a page once it exists and before it is first used: without it, a page that is not there is new;
#: with it, one that is not there is lost.
MARKER: Final = "started"
#: How much later than its own last entry says the storage may have written a page. Azure refuses requests whose clock
#: is 15 minutes off, so more than that was written by something else than a generator: a restore, a copy, an editor.
LARGEST_SKEW: Final = timedelta(minutes=15)
#: Seconds before the second attempt, longer with each one up to the longest, then a random part of it. A refusal means
#: that somebody succeeded, so a crowd gets through without long pauses, which would only make its losers wait; they
#: grow slowly, for the crowd whose size nobody knows and for the outage.
WRITES: Final = Retry(attempts=25, at_once=0, first=0.05, growth=1.3, longest=0.5)


class Page(Protocol):
    """What a blob says, as a value."""

    @property
    def writes(self) -> int:
        """How many writes led here."""
        ...

    @property
    def at(self) -> datetime:
        """When its last writer wrote it, by that writer's clock."""
        ...

    @property
    def is_unused(self) -> bool:
        """Whether nothing was given from it yet."""
        ...

    def contains(self, earlier: Self) -> bool:
        """Whether this can have grown out of `earlier`."""
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
    """One page in one store, as this process knows it; used by one thread at a time."""

    def __init__(
        self,
        store: OptimisticStore,
        parse: Callable[[bytes, str], AnyPage],
        blank: Callable[[], AnyPage],
    ) -> None:
        self._store, self._parse, self._blank = store, parse, blank
        #: The newest page known to be stored, to compare with whatever is read later.
        self._seen: AnyPage | None = None
        #: What a write may rest on without reading first.
        self._held: _Held[AnyPage] | None = None
        #: Whether the last page read was the one this book wrote: alone, one request a change is enough; in company
        #: a write without a read before it would nearly always be refused, and cost three.
        self._is_alone = True

    def amend(self, change: Callable[[AnyPage], AnyPage], retry: Retry) -> AnyPage:
        """Store the changed page and return it; `change` may return the page it was given, then nothing is written.

        A write whose fate is unknown is followed by a read, so `change` must look for its own earlier work in the
        page it is given.
        """
        failure: StorageUnavailableError | None = None
        attempts = 0
        for attempts in retry.tries():  # noqa: B007  # told in the error below
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
        raise ContentionError(f"{tried}: others wrote first each time; fewer processes or larger ranges would help")

    def _try(self, change: Callable[[AnyPage], AnyPage]) -> AnyPage | None:
        # Forgotten until the write is known to have succeeded: an exception on the way leaves nothing to build on.
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
            # Whoever made the page may have died before the marker; either answer means that it is there now.
            self._store.beside(MARKER).try_write(b"{}\n", None)
        self._is_alone = self._seen is None or page.writes == self._seen.writes
        self._seen = page
        return _Held(page, snapshot.etag)

    def _read_again(self) -> Snapshot | None:
        """Read once more if the marker says that the page exists: it may have been made since the first read."""
        if self._seen is None and self._store.beside(MARKER).read() is None:
            return None
        snapshot = self._store.read()
        if snapshot is None:
            raise SequenceLostError(
                f"blob {self._store.name!r} is gone although it was used (its marker {MARKER!r} or this process says "
                "so). It is not started anew, ids would repeat: undelete it, or resume it above every id in use"
            )
        return snapshot

    def _begin(self) -> Snapshot:
        self._store.try_write(self._blank().encode(), None)
        snapshot = self._store.read()
        if snapshot is None:
            raise SequenceLostError(f"blob {self._store.name!r} vanished right after it was made; find what deletes it")
        return snapshot

    def _refuse_another_history(self, page: AnyPage, snapshot: Snapshot) -> None:
        found = f"blob {self._store.name!r} holds another history than the one that was written"
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
