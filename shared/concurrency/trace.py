"""The trace: the arrivals on the work queues over time, one JSON line per stretch of time, for replay and forecasts.

The first line is the header. The format is in docs/concurrency.md. Times only move forward, so a line that was written
twice, because the reply to its first write was lost, is read once.

`Recorder` writes the trace: at most one appended line per tick, in one blob per day.
"""

from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import Final, TypeVar

import msgspec
from azure.core.exceptions import ResourceExistsError, ResourceNotFoundError
from azure.storage.blob import ContainerClient

from shared.azure import expecting_an_answer
from shared.decoding import decode
from shared.errors import TraceRefusedError

VERSION: Final = 1


class TraceHeader(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The first line."""

    trace: int = VERSION
    #: "recorded", or "synthetic" with the random seed from which it can be made again.
    what: str = "recorded"
    seed: int | None = None
    note: str = ""


class Stretch(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The traffic from `at` on, for `seconds`. The arrivals are spread evenly over them, or all come at once if it is 0."""

    at: datetime
    seconds: float = 0.0
    arrived: int = 0
    drained: int = 0
    #: The depth at its end.
    depth: int = 0
    tasks: int = 0
    oldest_age: float | None = None
    #: Seconds of work for one message.
    latency: float | None = None
    cpu: float | None = None
    payload_bytes: float | None = None
    in_flight: int | None = None


class Trace(msgspec.Struct, frozen=True):
    """A header and its stretches."""

    header: TraceHeader
    stretches: list[Stretch]


_Part = TypeVar("_Part", TraceHeader, Stretch)
_encoder = msgspec.json.Encoder()


def line(part: TraceHeader | Stretch) -> bytes:
    """Return one line of a trace."""
    return _encoder.encode(part) + b"\n"


def write(trace: Trace) -> bytes:
    """Encode the trace in its stored form."""
    return b"".join([line(trace.header), *map(line, trace.stretches)])


def read(lines: Iterable[bytes | str]) -> Trace:
    """Read a trace, or raise TraceRefusedError naming the invalid line."""
    numbered = ((number, text) for number, text in enumerate(lines, 1) if text.strip())
    header = _decode_line(next(numbered, (1, b"")), TraceHeader)
    if header.trace != VERSION:
        raise TraceRefusedError(f"the trace has version {header.trace}, this Sluice reads version {VERSION}")
    return Trace(header, list(_forward(_decode_line(pair, Stretch) for pair in numbered)))


_WORDS: Final = {TraceHeader: "header", Stretch: "stretch"}


def _decode_line(numbered: tuple[int, bytes | str], kind: type[_Part]) -> _Part:
    number, text = numbered
    try:
        return decode(text, kind)
    except msgspec.DecodeError as error:
        raise TraceRefusedError(f"line {number} is not a valid {_WORDS[kind]} of a trace: {error}") from error


def _forward(stretches: Iterator[Stretch]) -> Iterator[Stretch]:
    last: datetime | None = None
    for stretch in stretches:
        if last is None or stretch.at > last:
            yield stretch
            last = stretch.at


#: In the container `settings`.
FOLDER: Final = "traces"


def name_of(day: datetime) -> str:
    """Return the name of a day's trace."""
    return f"{FOLDER}/{day:%Y-%m-%d}.ndjson"


class Recorder:
    """The traces of one installation."""

    def __init__(self, container: ContainerClient) -> None:
        self._container = container

    def record(self, stretch: Stretch) -> None:
        """Append a stretch to the trace of its day. Makes one request, four for the first stretch of a day."""
        blob = self._container.get_blob_client(name_of(stretch.at))
        with expecting_an_answer("append to the trace of the day"):
            try:
                blob.append_block(line(stretch))
            except ResourceNotFoundError:
                # Another tick may begin the day's trace between the two requests: its header is the same.
                self._begin(name_of(stretch.at))
                blob.append_block(line(stretch))

    def _begin(self, name: str) -> None:
        blob = self._container.get_blob_client(name)
        try:
            blob.create_append_blob(if_none_match="*")
        except ResourceExistsError:
            return
        blob.append_block(line(TraceHeader()))

    def read(self, day: datetime) -> bytes | None:
        """Read a day's trace in its stored form, or return None without one."""
        with expecting_an_answer(f"read the trace of {day:%Y-%m-%d}"):
            try:
                return self._container.get_blob_client(name_of(day)).download_blob().readall()
            except ResourceNotFoundError:
                return None
