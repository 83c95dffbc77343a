"""The optimistic loop over one blob, and the log of its older events.

The loop reads, decides, and writes if no other process wrote since. A page is the content of the blob. A book never
starts a used page anew and never follows a page that lost its own history. It never reports a change as made before a
read or an accepted write has proven it.

The log holds the events that no longer fit the blob, 64 per blob of its own. Block n holds the events from write n to
n + 63. No writer can change these any more, so every writer writes the same bytes.

Order of writes: the block, then the blob without its events. A crash in between leaves them in both places.
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
