"""Spans and metrics as the stages see them, and what they are while nobody collects any: nothing.

A span is one piece of work, in one process, with a begin and an end. All spans of a job are one trace: a context, as
the W3C writes it in its header `traceparent`, travels in the job's row and in the messages about its chunks.

One line of the log: a static name, then its fields as JSON.

The Functions host passes on the text of a log line and nothing else, so the fields are in the text:

    sluice.message.parked {"job":"nightly","key":"chunk:3:1","reason":"failed:KeyError", …}

Errors as a log may show them: what kind and where, and their words only where nobody else's are in them.

The catalogue of spans: the pieces of work that one trace of a job is made of.
"""

import logging
import re
import traceback
from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from enum import IntEnum, StrEnum
from pathlib import PurePath
from types import MappingProxyType
from typing import Any, Final, Protocol

import msgspec

from shared.errors import AttemptFailedError, SluiceError
from shared.telemetry.metrics import Metric

#: What log filters name; a host that knows functions puts its own category before it.
LOG: Final = logging.getLogger("sluice")
_encoder: Final = msgspec.json.Encoder(enc_hook=str)


class Severity(IntEnum):
    """How urgent an alert is, as Azure Monitor counts it."""

    #: Work stands still, or is lost until somebody acts.
    ERROR = 1
    #: Something heals by itself or waits for a person, and should not stay so.
    WARNING = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Alert:
    """When an event is a reason to call somebody."""

    severity: Severity
    #: A condition on the event's fields in the query language of Azure Monitor; empty: every such event.
    where: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class LogEvent:
    """One thing that the app tells, in the words of the catalogue."""

    name: str
    level: int
    #: Each of them is in every line of this event.
    fields: tuple[str, ...]
    meaning: str
    #: What a person does about it; empty: nothing.
    remedy: str = ""
    alert: Alert | None = None


class _Line:
    """The text of an event, made only when somebody writes it."""

    __slots__ = ("_event", "_fields")

    def __init__(self, event: LogEvent, fields: dict[str, Any]) -> None:
        self._event, self._fields = event, fields

    def __str__(self) -> str:
        return f"{self._event.name} {_encoder.encode(self._fields).decode()}"


def tell(event: LogEvent, /, **fields: Any) -> None:
    """Write the event with exactly the fields that its catalogue entry names; a test reads every call for that."""
    if LOG.isEnabledFor(event.level):
        # The line of the log is the caller's, not this one.
        LOG.log(event.level, _Line(event, fields), stacklevel=2)


#: Frames that are shown, from where it was raised outwards.
_FRAMES: Final = 5


def describe_error(error: BaseException) -> str:
    """Return what the error says, or its kind alone where a payload could be in its words.

    Whatever a workload or a library raises may quote what it was given: `invalid literal for int(): '…'`.
    """
    kind = type(error).__name__
    return f"{kind}: {error}" if isinstance(error, SluiceError) and error.quotes_nobody else kind


def place(error: BaseException) -> str:
    """Return the functions that an error came through, the innermost first, without any value."""
    frames = traceback.extract_tb(error.__traceback__)[-_FRAMES:]
    return " < ".join(f"{PurePath(one.filename).name}:{one.lineno} {one.name}" for one in reversed(frames))


@contextmanager
def discreet() -> Iterator[None]:
    """Let the host see a failure in words that it may log; it logs all that it is given."""
    try:
        yield
    except Exception as error:  # noqa: BLE001 - whatever it is, a host would log its words
        raise AttemptFailedError(f"{describe_error(error)} at {place(error)}; it is tried again") from None


class Piece(StrEnum):
    """The name of a span."""

    PUBLISH = "sluice.publish"
    ACCEPT = "sluice.accept"
    DISPATCH = "sluice.dispatch"
    PROCESS = "sluice.process"
    SETTLE = "sluice.settle"
    FINISH = "sluice.finish"


#: What each is, and under which other it stands.
PIECES: Final[Mapping[Piece, tuple[str, str]]] = MappingProxyType(
    {
        Piece.PUBLISH: ("framing, storing and sending a submission", "whatever the publisher is doing"),
        Piece.ACCEPT: ("job row, plan, ids; then held or sent on", "publish, where the submission names it"),
        Piece.DISPATCH: ("putting chunks on the work queues, at first or again", "accept"),
        Piece.PROCESS: ("reading, running and storing one chunk", "its dispatch"),
        Piece.SETTLE: ("crediting up to 99 results of one job", "accept; linked to the chunks that it credits"),
        Piece.FINISH: ("merging the partials and writing outputs and totals", "accept"),
    }
)
#: Version, trace, span and flags. Whatever else a message says is no context, and no reason to refuse it.
_CONTEXT: Final = re.compile(r"00-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}")


def context_of(text: str | None) -> str | None:
    """Return the context that a message names, or None where it is none."""
    return text if text is not None and _CONTEXT.fullmatch(text) else None


class Telemetry(Protocol):
    """Where spans and metrics go; safe to call from several threads."""

    def span(
        self, piece: Piece, parent: str | None = None, links: Iterable[str | None] = (), **attributes: Any
    ) -> AbstractContextManager[object]:
        """Return a span to be entered; without a parent it stands under whatever span is open, or begins a trace.

        Attributes are ids and numbers, never what is in a payload.
        """
        ...

    def current(self) -> str | None:
        """Return the context of the open span, for the messages and rows that it writes; None while nobody traces."""
        ...

    def add(self, metric: Metric, number: float = 1, **attributes: str) -> None:
        """Add to a counter, or a value to a histogram."""
        ...


class Silent:
    """Telemetry that is off."""

    __slots__ = ()
    _NOTHING: Final = nullcontext()

    def span(
        self, piece: Piece, parent: str | None = None, links: Iterable[str | None] = (), **attributes: Any
    ) -> AbstractContextManager[object]:
        """Return what does nothing when it is entered."""
        del piece, parent, links, attributes
        return self._NOTHING

    def current(self) -> str | None:
        """Return that there is none."""
        return None

    def add(self, metric: Metric, number: float = 1, **attributes: str) -> None:
        """Count nothing."""


SILENT: Final = Silent()
