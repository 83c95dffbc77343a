"""The trace: what came to the work queues and when, one JSON line a stretch of time, for replay and forecasts.

The first line is the header; the format is in docs/concurrency.md. Times only move forward: a line that is written
twice, because the reply to its first writing was lost, is read once.
"""

from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import Final, TypeVar

import msgspec

from shared.errors import TraceRefusedError

VERSION: Final = 1


class Header(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The first line."""

    trace: int = VERSION
    #: "recorded", or "synthetic" with the seed that it can be made from again.
    what: str = "recorded"
    seed: int | None = None
    note: str = ""


class Stretch(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What happened from `at` on, for `seconds`; what arrived is spread over them evenly, all at once over none."""

    at: datetime
    seconds: float = 0.0
    arrived: int = 0
    drained: int = 0
    #: At its end.
    depth: int = 0
    tasks: int = 0
    oldest_age: float | None = None
    #: Seconds of work for one message.
    latency: float | None = None
    cpu: float | None = None
    in_flight: int | None = None


class Trace(msgspec.Struct, frozen=True):
    """A header and its stretches."""

    header: Header
    stretches: list[Stretch]


_Part = TypeVar("_Part", Header, Stretch)
_encoder = msgspec.json.Encoder()


def line(part: Header | Stretch) -> bytes:
    """Return one line of a trace."""
    return _encoder.encode(part) + b"\n"


def write(trace: Trace) -> bytes:
    """Return the trace as it is stored."""
    return b"".join([line(trace.header), *map(line, trace.stretches)])


def read(lines: Iterable[bytes | str]) -> Trace:
    """Return a trace; raises TraceRefusedError with the line that is none."""
    numbered = ((number, text) for number, text in enumerate(lines, 1) if text.strip())
    header = _decoded(next(numbered, (1, b"")), Header)
    if header.trace != VERSION:
        raise TraceRefusedError(f"the trace has version {header.trace}, this is version {VERSION}")
    return Trace(header, list(_forward(_decoded(one, Stretch) for one in numbered)))


def _decoded(numbered: tuple[int, bytes | str], kind: type[_Part]) -> _Part:
    number, text = numbered
    try:
        return msgspec.json.decode(text, type=kind)
    except msgspec.DecodeError as error:
        raise TraceRefusedError(f"line {number} is no {kind.__name__.lower()} of a trace: {error}") from error


def _forward(stretches: Iterator[Stretch]) -> Iterator[Stretch]:
    last: datetime | None = None
    for stretch in stretches:
        if last is None or stretch.at > last:
            yield stretch
            last = stretch.at
