"""The log of a sequence: events that no longer fit its blob, 64 to a blob of their own.

Block n holds the events from write n to n + 63, which no writer can change any more, so whoever writes it writes the
same bytes. It is written before the events leave the sequence's blob: a crash between leaves them in both places.
"""

from collections.abc import Iterator

from shared.errors import SequenceRestoredError
from shared.ids.event import Event, encode_event, parse_events
from shared.ids.sequence import KEPT, Sequence
from shared.ids.store import OptimisticStore


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


def written_as(store: OptimisticStore, write: int) -> Event | None:
    """Return the event of a write that has moved to the log, or None when the log no longer holds it."""
    found = block(store, write - write % KEPT).read()
    return tuple(parse_events(found.value))[write % KEPT] if found else None


def read_log(store: OptimisticStore, spilled: int, first_write: int = 0) -> Iterator[Event]:
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
