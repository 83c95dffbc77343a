"""Events on their way: one message holds events of several streams, each stream with the range of its versions.

A sender that is not sure sends a range again, perhaps grouped in another way. So no consumer goes by message ids: it
drops, stream by stream, what it has seen, by the range.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final
from zlib import crc32

from msgspec import Struct

from shared.decoding import make_decoder
from shared.eventsourcing import Event
from shared.messages import read_inside

#: The sessions of a topic of many small streams. A view of these streams has as many partitions.
SHARDS: Final = 16


@dataclass(frozen=True, slots=True)
class EventRange:
    """The public events of one stream from version `first` to `last`, in order. Private events leave gaps."""

    home: str
    first: int
    last: int
    events: tuple[Event, ...]


def shard_of(home: str, shards: int = SHARDS) -> int:
    """Return the shard of a stream, which depends on its name alone."""
    return crc32(home.encode()) % shards


class _Events(Struct, frozen=True, tag_field="kind", tag="events"):
    streams: list[EventRange]


class _Wrapper(Struct, frozen=True):
    sluice: _Events


_decoder: Final = make_decoder(_Wrapper)


def decode_events(body: bytes) -> list[EventRange]:
    """Return the ranges of a message in their order. Raises only msgspec.DecodeError."""
    return read_inside(_decoder.decode, body).streams


def split_range(whole: EventRange, most: int) -> Iterator[EventRange]:
    """Yield the range in parts of `most` events."""
    first = whole.first
    for begin in range(0, len(whole.events), most):
        some = whole.events[begin : begin + most]
        last = whole.last if begin + most >= len(whole.events) else some[-1].version
        yield EventRange(whole.home, first, last, some)
        first = last + 1
