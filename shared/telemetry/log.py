"""Lines of the log, errors without user data, and spans and metrics as the stages see them.

**A line of the log** is a static name, then its fields as JSON. The Functions host passes on only the text of a line,
so the fields are in the text:

    sluice.message.parked {"job":"nightly","key":"chunk:3:1","reason":"failed:KeyError", …}

**An error** is logged with its type and place. Its message is logged only if it cannot quote user data.

**A span** is one piece of work in one process, with a begin and an end. All spans of a job are one trace: its context,
in the form of the W3C's header `traceparent`, travels in the job's row and in the messages about its chunks. While
telemetry is off, spans and metrics do nothing.
"""

import logging
import re
import traceback
from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from enum import IntEnum, StrEnum
from pathlib import PurePath
from threading import current_thread, main_thread
from types import MappingProxyType
from typing import Any, Final, Protocol

import msgspec

from shared.errors import AttemptFailedError, SluiceError, UserExitError
from shared.telemetry.metrics import Metric

#: The logger that log filters name. The Functions host puts its own category before it.
LOG: Final = logging.getLogger("sluice")
_encoder: Final = msgspec.json.Encoder(enc_hook=str)


class Severity(IntEnum):
    """The urgency of an alert, as Azure Monitor numbers it."""

    #: Work stands still, or is lost until an operator acts.
    ERROR = 1
    #: Work recovers by itself or waits for an operator, and should not stay so.
    WARNING = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Alert:
    """The condition under which an event calls an operator."""

    severity: Severity
    #: A condition on the event's fields in the query language of Azure Monitor. Empty: every such event.
    where: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class LogEvent:
    """One entry in the catalogue of events."""

    name: str
    level: int
    #: Every line of this event has all of them.
    fields: tuple[str, ...]
    meaning: str
    #: The operator's action. Empty: none is needed.
    remedy: str = ""
    alert: Alert | None = None


class _Line:
    """The text of an event, built only when a handler writes it."""

    __slots__ = ("_event", "_fields")

    def __init__(self, event: LogEvent, fields: dict[str, Any]) -> None:
        self._event, self._fields = event, fields

    def __str__(self) -> str:
        return f"{self._event.name} {_encoder.encode(self._fields).decode()}"


def tell(event: LogEvent, /, **fields: Any) -> None:
    """Log the event with exactly the fields of its catalogue entry. A test checks every call for that."""
    if LOG.isEnabledFor(event.level):
        # The log names the caller's place, not this function's.
        LOG.log(event.level, _Line(event, fields), stacklevel=2)


#: The number of frames in a place, from the innermost outwards.
_FRAMES: Final = 5


def origin_of(error: BaseException) -> BaseException:
    """Return the one that the user's code raised, if the error is in its place, or else the error."""
    return error.raised if isinstance(error, UserExitError) else error


def describe_error(error: BaseException) -> str:
    """Return the type and message of an error, or only its type if the message could quote a payload.

    An error of a workload or a library may quote its input: `invalid literal for int(): '…'`.
    """
    kind = type(origin_of(error)).__name__
    return f"{kind}: {error}" if isinstance(error, SluiceError) and error.quotes_nobody else kind


def place(error: BaseException) -> str:
    """Return the functions that an error passed through, the innermost first, without any value."""
    frames = traceback.extract_tb(origin_of(error).__traceback__)[-_FRAMES:]
    return " < ".join(f"{PurePath(one.filename).name}:{one.lineno} {one.name}" for one in reversed(frames))


def replace_exit(raised: BaseException) -> UserExitError:
    """Return the error that replaces one which is no Exception, and which the user's code raised.

    In the main thread it raises the given one: there, the handler of a signal may have raised it, and the process ends.
    """
    if current_thread() is main_thread():
        raise raised
    return UserExitError(raised)


@contextmanager
def contain() -> Iterator[None]:
    """Enter around the user's code, and around nothing else: all that it raises leaves as an Exception."""
    try:
        yield
    except Exception:
        raise
    except BaseException as raised:
        raise replace_exit(raised) from raised


@contextmanager
def discreet() -> Iterator[None]:
    """Replace a failure by one whose message may be logged, because the host logs every message."""
    try:
        yield
    except Exception as error:  # noqa: BLE001 - the host would log the message of any error
        raise AttemptFailedError(f"{describe_error(error)} at {place(error)}; it is tried again") from None


class Piece(StrEnum):
    """The name of a span."""

    PUBLISH = "sluice.publish"
    ACCEPT = "sluice.accept"
    DISPATCH = "sluice.dispatch"
    PROCESS = "sluice.process"
    SETTLE = "sluice.settle"
    FINISH = "sluice.finish"


#: The work of each span, and its parent.
PIECES: Final[Mapping[Piece, tuple[str, str]]] = MappingProxyType(
    {
        Piece.PUBLISH: ("framing, storing and sending a submission", "the publisher's open span, if any"),
        Piece.ACCEPT: ("job row, plan, ids; then held or sent on", "publish, where the submission names it"),
        Piece.DISPATCH: ("putting chunks on the work queues, at first or again", "accept"),
        Piece.PROCESS: ("reading, running and storing one chunk", "its dispatch"),
        Piece.SETTLE: ("crediting up to 99 results of one job", "accept; linked to the chunks that it credits"),
        Piece.FINISH: ("merging the partials and writing outputs and totals", "accept"),
    }
)
#: Version, trace, span and flags. A message with another text has no context, and is not refused for it.
_CONTEXT: Final = re.compile(r"00-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}")


def context_of(text: str | None) -> str | None:
    """Return the text if it is a trace context, otherwise None."""
    return text if text is not None and _CONTEXT.fullmatch(text) else None


class Telemetry(Protocol):
    """The receiver of spans and metrics. Several threads may call it."""

    def span(
        self, piece: Piece, parent: str | None = None, links: Iterable[str | None] = (), **attributes: Any
    ) -> AbstractContextManager[object]:
        """Open a span in a `with`. Without a parent, its parent is the open span, or it begins a trace.

        Attributes are ids and numbers, never content of a payload.
        """
        ...

    def current(self) -> str | None:
        """Return the context of the open span, for messages and rows. None while tracing is off."""
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
        """Return a context that does nothing."""
        del piece, parent, links, attributes
        return self._NOTHING

    def current(self) -> str | None:
        """Return None: no span is open."""
        return None

    def add(self, metric: Metric, number: float = 1, **attributes: str) -> None:
        """Count nothing."""


SILENT: Final = Silent()
