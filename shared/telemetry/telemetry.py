"""Spans and metrics as the stages see them, and what they are while nobody collects any: nothing.

A span is one piece of work, in one process, with a begin and an end. All spans of a job are one trace: a context, as
the W3C writes it in its header `traceparent`, travels in the job's row and in the messages about its chunks.
"""

import re
from collections.abc import Iterable
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Final, Protocol

from shared.telemetry.metric import Metric
from shared.telemetry.spans import Piece

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
