"""What the blob of a sequence says, and what may follow it: values and pure functions, no storage.

A sequence is the next free number and the events that led to it, newest last. Every write appends exactly one event,
so the count of events is the age of the sequence, and the nonce of the last one proves who wrote it.
"""

import json
from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final

from shared.errors import SequenceCorruptError, SequenceExhaustedError
from shared.ids.history import (
    LIMIT,
    NOTHING_TOLD,
    NodeReport,
    SequenceWrite,
    Signature,
    WriteKind,
    encode_event,
    event_of,
    whole_number,
)

FORMAT: Final = 1
#: How many events the blob keeps at least, once it has them; the same number is spilled to the log at a time.
KEPT: Final = 64


@dataclass(frozen=True, slots=True)
class Sequence:
    """The content of a sequence's blob."""

    next: int
    #: How many events have moved to the log.
    spilled: int
    events: tuple[SequenceWrite, ...]

    @property
    def writes(self) -> int:
        """How many writes led here."""
        return self.spilled + len(self.events)

    @property
    def at(self) -> datetime:
        """When its last writer wrote it, by that writer's clock."""
        return self.events[-1].by.at

    @property
    def is_unused(self) -> bool:
        """Whether nobody has reserved a number yet."""
        return self.writes == 1 and self.events[0].kind is WriteKind.CREATED

    def find_write(self, write: int) -> SequenceWrite | None:
        """Return the event of the given write, counted from 0, if the blob still holds it."""
        place = write - self.spilled
        return self.events[place] if 0 <= place < len(self.events) else None

    def contains(self, earlier: "Sequence") -> bool:
        """Whether this can have grown out of `earlier`: not older, and its last write still stands where it stood."""
        if self.writes < earlier.writes:
            return False
        then = self.find_write(earlier.writes - 1)
        return then is None or then.by.nonce == earlier.events[-1].by.nonce

    def encode(self) -> bytes:
        """Return the bytes to store, one event a line for whoever opens the blob."""
        events = ",\n".join(encode_event(event) for event in self.events)
        head = f'{{"v": {FORMAT}, "next": {self.next}, "spilled": {self.spilled}, "events": [\n'
        return f"{head}{events}\n]}}\n".encode()


def create(first: int, by: Signature) -> Sequence:
    """Return a sequence of which nothing is reserved."""
    return Sequence(first, 0, (SequenceWrite(WriteKind.CREATED, first, first, by),))


def reserve(sequence: Sequence, size: int, by: Signature, account: NodeReport = NOTHING_TOLD) -> Sequence:
    """Return the sequence after a node took the next `size` numbers."""
    start, stop = sequence.next, sequence.next + size
    if stop > LIMIT:
        raise SequenceExhaustedError(
            f"a range of {size} after {start - 1} passes the last 64-bit number {LIMIT}; begin a new sequence"
        )
    return _after(sequence, SequenceWrite(WriteKind.RESERVED, start, stop, by, account))


def close(sequence: Sequence, unused: Iterable[range], left: Iterable[range], by: Signature) -> Sequence:
    """Return the sequence after a node ended: what is still its top goes back, the rest is left for good.

    The unused ranges are proven to be the node's own and touch no number twice, so one that ends at the next free
    number is the top, and nobody can have taken a number above it.
    """
    spans = merge(unused)
    top = next((span for span in spans if span.stop == sequence.next), range(sequence.next, sequence.next))
    kept_from_all = (*(span for span in spans if span is not top), *left)
    return _after(sequence, SequenceWrite(WriteKind.CLOSED, top.start, top.stop, by, NodeReport(left=kept_from_all)))


def merge(spans: Iterable[range]) -> tuple[range, ...]:
    """Return the same numbers in as few ranges as can be, in order."""
    joined: list[range] = []
    for span in sorted((span for span in spans if span), key=lambda span: span.start):
        if joined and joined[-1].stop == span.start:
            joined[-1] = range(joined[-1].start, span.stop)
        else:
            joined.append(span)
    return tuple(joined)


def resume(sequence: Sequence, at_least: int, logged: tuple[int, int], by: Signature) -> Sequence:
    """Return the sequence after a person stepped over all numbers that may have been given below `at_least`.

    `logged` is where the log ends: the next write, and the next free number then.
    """
    write, start = logged
    stop = max(start, at_least)
    # Where the log goes on after what this blob has spilled, it tells a history that the blob has lost.
    kept = sequence.events if write == sequence.spilled else ()
    return Sequence(stop, write, (*kept, SequenceWrite(WriteKind.RESUMED, start, stop, by)))


def is_full(sequence: Sequence) -> bool:
    """Whether the oldest events must move to the log before the next write."""
    return len(sequence.events) >= 2 * KEPT


def without_spilled(sequence: Sequence) -> Sequence:
    """Return the sequence without the events that the log has."""
    return replace(sequence, spilled=sequence.spilled + KEPT, events=sequence.events[KEPT:])


def _after(sequence: Sequence, event: SequenceWrite) -> Sequence:
    return Sequence(event.after, sequence.spilled, (*sequence.events, event))


def parse(value: bytes, name: str) -> Sequence:
    """Return what the bytes say, or raise SequenceCorruptError with what is wrong with them."""
    try:
        document = json.loads(value)
        _check_format(document["v"])
        events = tuple(event_of(fields) for fields in document["events"])
        return _check(Sequence(whole_number(document["next"]), whole_number(document["spilled"]), events))
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as problem:
        found = f"no {problem}" if isinstance(problem, KeyError) else str(problem)
        raise SequenceCorruptError(
            f"blob {name!r} is not a sequence of ids: {found}; it begins with {value[:40]!r}. "
            "No id is given from it: restore its latest version, or resume it above every id in use"
        ) from problem


def _check_format(found: object) -> None:
    if found != FORMAT:
        raise ValueError(f"its format is {found!r}, this program knows {FORMAT}")


def _check(sequence: Sequence) -> Sequence:
    """Each event begins where the one before it ended, and the last one ends at the next free number."""
    if not sequence.events:
        raise ValueError("it has no events")
    reached = sequence.events[0].before
    for event in sequence.events:
        if event.before != reached:
            raise ValueError(f"{event.kind} {event.start} to {event.stop} does not follow {reached}")
        reached = event.after
    if reached != sequence.next:
        raise ValueError(f"next is {sequence.next} but its last event ends at {reached}")
    return sequence
