"""The trace that an invocation belongs to: its caller's where there is one, else a new one."""

import re
import secrets
from dataclasses import dataclass, field

from azure.functions.meta import Datum

#: W3C Trace Context: version, trace, parent, flags.
_PARENT = re.compile(r"([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})")
_NOTHING = "0" * 32


@dataclass(frozen=True, slots=True)
class Trace:
    """What the host tells the worker of a trace."""

    parent: str
    state: str = ""
    attributes: dict[str, str] = field(default_factory=dict)


def trace_of(trigger: Datum) -> Trace:
    """Return the trace of an invocation, with a span of its own. Only an HTTP request brings one along."""
    headers = trigger.value["headers"] if trigger.type == "http" else {}
    given = _PARENT.fullmatch(_text(headers.get("traceparent")))
    if given is None or given[1] == "ff" or _NOTHING.startswith((given[2], given[3])):
        return Trace(f"00-{secrets.token_hex(16)}-{secrets.token_hex(8)}-00")
    return Trace(f"00-{given[2]}-{secrets.token_hex(8)}-{given[4]}", _text(headers.get("tracestate")))


def _text(header: Datum | None) -> str:
    return "" if header is None else str(header.value)
