"""A command: what one stream asks of another. Commands to one receiver travel together, in bundles.

A command has no reply of its own: the receiver's events are the reply, and name its sender and its generation.

Events on their way: one message holds events of several streams, each stream with the range of its versions.

A sender that is not sure sends a range again, perhaps grouped in another way. So no consumer goes by message ids: it
drops, stream by stream, what it has seen, by the range.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, Literal, TypeVar
from uuid import UUID, uuid5
from zlib import crc32

from msgspec import DecodeError, Struct

from shared.errors import NewerVersionError
from shared.messages import read_inside
from shared.processes.homes import Event
from shared.versions import check_message, make_decoder

#: Commands in one bundle. Their receiver saves what they change in one transaction of a table, of 98 events at most.
MOST_COMMANDS: Final = 98
_IDS: Final = UUID("5b0f2c8e-0a5e-5b43-9d51-1f2f6a0f4c11")


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """A command to the aggregate `to`, such as `seats-conf1`. A second time is harmless: its generation tells."""

    kind: str
    to: str
    body: Mapping[str, Any]
    #: The sender's count of what it asked about the same thing. The receiver keeps the highest and skips the others.
    generation: int = 0
    #: After this time the receiver refuses the command and counts it. None: it is obeyed however late it comes.
    not_after: datetime | None = None
    #: The commit of its sender's home that stored it. The runtime gives it, and by it the id: see `command_id`.
    version: int = 0
    id: str = ""
    #: 1 for the first sending. A receiver that fails sends a copy with the next number, for later.
    attempt: int = 1


def command_id(home: str, version: int, position: int) -> str:
    """Return the id of a command by the commit that stored it. However often it is sent, it is the same."""
    return str(uuid5(_IDS, f"{home} {version} {position}"))


def bundle_id(ids: list[str]) -> str:
    """Return the id of a message by those of its parts. One part alone gives the message its own."""
    return ids[0] if len(ids) == 1 else str(uuid5(_IDS, " ".join(ids)))


class _Commands(Struct, frozen=True, tag_field="kind", tag="commands"):
    commands: list[Command]
    v: Literal[1] = 1


class _Wrapper(Struct, frozen=True):
    sluice: _Commands


_decoder: Final = make_decoder(_Wrapper)


def decode_commands(body: bytes) -> list[Command]:
    """Return the commands of a bundle. Raises only msgspec.DecodeError."""
    return read_inside(_decoder.decode, body).commands


#: The sessions of a topic of many small streams. A view of these streams has as many partitions.
EVENT_SHARDS: Final = 16


@dataclass(frozen=True, slots=True)
class EventRange:
    """The public events of one stream from version `first` to `last`, in order. Private events leave gaps."""

    home: str
    first: int
    last: int
    events: tuple[Event, ...]


def shard_of(home: str, shards: int = EVENT_SHARDS) -> int:
    """Return the shard of a stream, which depends on its name alone."""
    return crc32(home.encode()) % shards


class _Events(Struct, frozen=True, tag_field="kind", tag="events"):
    streams: list[EventRange]
    v: Literal[1] = 1


class _EventWrapper(Struct, frozen=True):
    sluice: _Events


_event_decoder: Final = make_decoder(_EventWrapper)


def decode_events(body: bytes) -> list[EventRange]:
    """Return the ranges of a message in their order. Raises only msgspec.DecodeError."""
    return read_inside(_event_decoder.decode, body).streams


_Bundle = TypeVar("_Bundle")


def read_known(
    decode: Callable[[bytes], _Bundle], bodies: Sequence[bytes]
) -> tuple[list[_Bundle], NewerVersionError | None]:
    """Return the bundles, and the error of one that a newer app sent, for the end: the others do not wait for it.

    Raises msgspec.DecodeError for one that no version sent.
    """
    found: list[_Bundle] = []
    newer = None
    for body in bodies:
        try:
            found.append(decode(body))
        except DecodeError:
            try:
                check_message(body, "a message of the bus")
            except NewerVersionError as error:
                newer = error
                continue
            raise
    return found, newer


def split_range(whole: EventRange, most: int) -> Iterator[EventRange]:
    """Yield the range in parts of `most` events."""
    first = whole.first
    for begin in range(0, len(whole.events), most):
        some = whole.events[begin : begin + most]
        last = whole.last if begin + most >= len(whole.events) else some[-1].version
        yield EventRange(whole.home, first, last, some)
        first = last + 1
