"""The content of a sequence's blob and its legal changes: values and pure functions, no storage.

A sequence is the next free number and the events that led to it, newest last. Every write appends exactly one event,
so the count of events is the age of the sequence, and the nonce of the last one proves who wrote it.

One write to a sequence, and its stored form: one line of JSON.
"""

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any, Final

from shared.errors import SequenceCorruptError, SequenceExhaustedError
from shared.versions import check_version

#: Ids fit a signed 64-bit column.
LIMIT: Final = 2**63 - 1


class WriteKind(StrEnum):
    """The kind of change that a write made to the sequence."""

    CREATED = "created"
    #: The numbers from start up to stop belong to the node.
    RESERVED = "reserved"
    #: The node ended, and gave the numbers from start up to stop back.
    CLOSED = "closed"
    #: A person stepped over the numbers from start up to stop after a loss or a restore.
    RESUMED = "resumed"


@dataclass(frozen=True, slots=True)
class Signature:
    """The node of a write, its nonce and its time."""

    node: str
    nonce: str
    at: datetime


@dataclass(frozen=True, slots=True)
class NodeReport:
    """A node's report about its earlier reservations: all numbers that are neither open nor left were handed out."""

    #: Still to be handed out.
    open: tuple[range, ...] = ()
    #: Never to be handed out.
    left: tuple[range, ...] = ()


NOTHING_REPORTED: Final = NodeReport()


@dataclass(frozen=True, slots=True)
class SequenceWrite:
    """One write to the sequence."""

    kind: WriteKind
    start: int
    stop: int
    by: Signature
    report: NodeReport = NOTHING_REPORTED

    @property
    def numbers(self) -> range:
        """Return the numbers of this write."""
        return range(self.start, self.stop)

    @property
    def before(self) -> int:
        """Return the next free number before this write."""
        return self.stop if self.kind is WriteKind.CLOSED else self.start

    @property
    def after(self) -> int:
        """Return the next free number after this write."""
        return self.start if self.kind is WriteKind.CLOSED else self.stop


def encode_event(event: SequenceWrite) -> str:
    """Return the event as one line of JSON."""
    fields: dict[str, Any] = {
        "did": event.kind,
        "start": event.start,
        "stop": event.stop,
        "node": event.by.node,
        "nonce": event.by.nonce,
        "at": event.by.at.isoformat(timespec="milliseconds"),
    }
    if event.report.open:
        fields["open"] = [[span.start, span.stop] for span in event.report.open]
    if event.report.left:
        fields["left"] = [[span.start, span.stop] for span in event.report.left]
    return json.dumps(fields)


def parse_events(value: bytes) -> Iterator[SequenceWrite]:
    """Yield the events of one block of the log."""
    for line in value.splitlines():
        yield event_of(json.loads(line))


def event_of(fields: dict[str, Any]) -> SequenceWrite:
    """Return the event with these fields, or raise ValueError, KeyError or TypeError."""
    at = datetime.fromisoformat(fields["at"])
    by = Signature(_text(fields["node"]), _text(fields["nonce"]), at.astimezone(UTC))
    report = NodeReport(_spans(fields.get("open", ())), _spans(fields.get("left", ())))
    event = SequenceWrite(
        WriteKind(fields["did"]), whole_number(fields["start"]), whole_number(fields["stop"]), by, report
    )
    if event.stop < event.start:
        raise ValueError(f"an event ends at {event.stop}, before its start {event.start}")
    return event


def _spans(pairs: Iterable[Iterable[Any]]) -> tuple[range, ...]:
    return tuple(range(whole_number(start), whole_number(stop)) for start, stop in pairs)


def whole_number(value: object) -> int:
    """Return the value, or raise ValueError if it cannot be an id or a count."""
    if type(value) is not int or not 0 <= value <= LIMIT:
        raise ValueError(f"{value!r} is not a number from 0 to {LIMIT}")
    return value


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{value!r} is not a text")
    return value


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
