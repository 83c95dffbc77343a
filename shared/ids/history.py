"""One write to a sequence, and its stored form: one line of JSON."""

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any, Final

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
