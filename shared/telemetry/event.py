"""One line of the log: a static name, then its fields as JSON.

The Functions host passes on the text of a log line and nothing else, so the fields are in the text:

    sluice.message.parked {"job":"nightly","key":"chunk:3:1","reason":"failed:KeyError", …}
"""

import logging
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, Final

import msgspec

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
class Event:
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

    def __init__(self, event: Event, fields: dict[str, Any]) -> None:
        self._event, self._fields = event, fields

    def __str__(self) -> str:
        return f"{self._event.name} {_encoder.encode(self._fields).decode()}"


def tell(event: Event, /, **fields: Any) -> None:
    """Write the event with exactly the fields that its catalogue entry names; a test reads every call for that."""
    if LOG.isEnabledFor(event.level):
        # The line of the log is the caller's, not this one.
        LOG.log(event.level, _Line(event, fields), stacklevel=2)
