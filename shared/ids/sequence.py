"""The content of a sequence's blob and its legal changes: values and pure functions, no storage.

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
    NOTHING_REPORTED,
    NodeReport,
    SequenceWrite,
    Signature,
    WriteKind,
    encode_event,
    event_of,
    whole_number,
)
from shared.versions import check_version

FORMAT: Final = 1
#: The least number of events that the blob keeps, once it has them, and the number that is spilled at a time.
KEPT: Final = 64


@dataclass(frozen=True, slots=True)
class Sequence:
    """The content of a sequence's blob."""

    next: int
    #: The number of events that have moved to the log.
    spilled: int
    events: tuple[SequenceWrite, ...]

    @property
    def writes(self) -> int:
        """Return the number of writes up to this content."""
        return self.spilled + len(self.events)

    @property
    def at(self) -> datetime:
        """Return the time of the last write, by its writer's clock."""
        return self.events[-1].by.at

    @property
    def is_unused(self) -> bool:
        """Return whether no number was reserved yet."""
        return self.writes == 1 and self.events[0].kind is WriteKind.CREATED

    def find_write(self, write: int) -> SequenceWrite | None:
        """Return the event of the given write, counted from 0, if the blob still holds it."""
        place = write - self.spilled
        return self.events[place] if 0 <= place < len(self.events) else None

    def contains(self, earlier: "Sequence") -> bool:
        """Return whether this can be a later version of `earlier`: not older, and the last write of `earlier` is in it."""
        if self.writes < earlier.writes:
            return False
        then = self.find_write(earlier.writes - 1)
        return then is None or then.by.nonce == earlier.events[-1].by.nonce

    def encode(self) -> bytes:
        """Return the bytes to store: one event per line, readable for a person."""
        events = ",\n".join(encode_event(event) for event in self.events)
        head = f'{{"v": {FORMAT}, "next": {self.next}, "spilled": {self.spilled}, "events": [\n'
        return f"{head}{events}\n]}}\n".encode()


def create(first: int, by: Signature) -> Sequence:
    """Return a sequence without reservations."""
    return Sequence(first, 0, (SequenceWrite(WriteKind.CREATED, first, first, by),))


def reserve(sequence: Sequence, size: int, by: Signature, report: NodeReport = NOTHING_REPORTED) -> Sequence:
    """Return the sequence after a node took the next `size` numbers."""
    start, stop = sequence.next, sequence.next + size
    if stop > LIMIT:
        raise SequenceExhaustedError(
            f"a range of {size} after {start - 1} passes the last 64-bit number {LIMIT}; begin a new sequence"
        )
    return _after(sequence, SequenceWrite(WriteKind.RESERVED, start, stop, by, report))


def close(sequence: Sequence, unused: Iterable[range], left: Iterable[range], by: Signature) -> Sequence:
    """Return the sequence after a node ended: the range at its top goes back, the other ranges are left for good.

    The unused ranges are proven to be the node's own and have no number twice. So one that ends at the next free number
    is the top, and no other node can have taken a number above it.
    """
    spans = merge(unused)
    top = next((span for span in spans if span.stop == sequence.next), range(sequence.next, sequence.next))
    kept_from_all = (*(span for span in spans if span is not top), *left)
    return _after(sequence, SequenceWrite(WriteKind.CLOSED, top.start, top.stop, by, NodeReport(left=kept_from_all)))


def merge(spans: Iterable[range]) -> tuple[range, ...]:
    """Return the same numbers in the fewest ranges, in order."""
    joined: list[range] = []
    for span in sorted((span for span in spans if span), key=lambda span: span.start):
        if joined and joined[-1].stop == span.start:
            joined[-1] = range(joined[-1].start, span.stop)
        else:
            joined.append(span)
    return tuple(joined)


def resume(sequence: Sequence, at_least: int, logged: tuple[int, int], by: Signature) -> Sequence:
    """Return the sequence after a person stepped over all numbers below `at_least` that may have been given.

    `logged` is the end of the log: the next write, and the next free number at that point.
    """
    write, start = logged
    stop = max(start, at_least)
    # A log that goes on after the spilled part of this blob has a history that the blob has lost.
    kept = sequence.events if write == sequence.spilled else ()
    return Sequence(stop, write, (*kept, SequenceWrite(WriteKind.RESUMED, start, stop, by)))


def is_full(sequence: Sequence) -> bool:
    """Return whether the oldest events must move to the log before the next write."""
    return len(sequence.events) >= 2 * KEPT


def without_spilled(sequence: Sequence) -> Sequence:
    """Return the sequence without the events that the log has."""
    return replace(sequence, spilled=sequence.spilled + KEPT, events=sequence.events[KEPT:])


def _after(sequence: Sequence, event: SequenceWrite) -> Sequence:
    return Sequence(event.after, sequence.spilled, (*sequence.events, event))


def parse(value: bytes, name: str) -> Sequence:
    """Return the sequence stored in the bytes, or raise SequenceCorruptError with the fault found, or NewerVersionError."""
    try:
        document = json.loads(value)
        check_version("sequence", document["v"], f"blob {name!r}")
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
    """Return the sequence if each event begins where the previous one ended, and the last one at the next free number."""
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
