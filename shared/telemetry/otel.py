"""Telemetry for OpenTelemetry: spans and metrics go to the provider of the process.

It is imported only if SLUICE_TELEMETRY chooses it, because the library is not deployed.
"""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any, Final

from opentelemetry import metrics, trace
from opentelemetry.context import Context
from opentelemetry.metrics import Counter, Histogram
from opentelemetry.trace import Link, NonRecordingSpan, SpanContext, SpanKind, Status, StatusCode, TraceFlags

from shared.telemetry.log import Piece, context_of, describe_error
from shared.telemetry.metrics import Instrument, Metric

SCOPE: Final = "sluice"
#: Separates our attributes from those of other libraries.
_PREFIX: Final = "sluice."


class OtelTelemetry:
    """Telemetry over these providers, by default the process's own."""

    def __init__(self, traces: trace.TracerProvider | None = None, meters: metrics.MeterProvider | None = None) -> None:
        self._tracer = (traces or trace.get_tracer_provider()).get_tracer(SCOPE)
        self._meter = (meters or metrics.get_meter_provider()).get_meter(SCOPE)
        self._instrument = cache(self._make)

    @contextmanager
    def span(
        self, piece: Piece, parent: str | None = None, links: Iterable[str | None] = (), **attributes: Any
    ) -> Iterator[None]:
        """Open a span in a `with`. Without a parent, its parent is the open span, or it begins a trace."""
        with self._tracer.start_as_current_span(
            piece.value,
            context=_within(parent),
            kind=SpanKind.PRODUCER if piece is Piece.PUBLISH else SpanKind.CONSUMER,
            links=[Link(linked) for link in links if (linked := _read(link)) is not None],
            attributes=_add_prefix(attributes),
            # The library would record the message of an exception, which may quote a payload.
            record_exception=False,
            set_status_on_exception=False,
        ) as opened:
            try:
                yield
            except BaseException as error:
                opened.set_status(Status(StatusCode.ERROR, describe_error(error)))
                raise

    def current(self) -> str | None:
        """Return the context of the open span."""
        found = trace.get_current_span().get_span_context()
        if not found.is_valid:
            return None
        return f"00-{found.trace_id:032x}-{found.span_id:016x}-{int(found.trace_flags):02x}"

    def add(self, metric: Metric, number: float = 1, **attributes: str) -> None:
        """Add to a counter, or a value to a histogram."""
        instrument = self._instrument(metric)
        if isinstance(instrument, Histogram):
            instrument.record(number, _add_prefix(attributes))
        else:
            instrument.add(number, _add_prefix(attributes))

    def _make(self, metric: Metric) -> Counter | Histogram:
        make = self._meter.create_counter if metric.kind is Instrument.COUNTER else self._meter.create_histogram
        return make(metric.name, metric.unit, metric.meaning)


def _within(parent: str | None) -> Context | None:
    found = _read(parent)
    return None if found is None else trace.set_span_in_context(NonRecordingSpan(found), Context())


def _read(text: str | None) -> SpanContext | None:
    if (context := context_of(text)) is None:
        return None
    _, trace_id, span_id, flags = context.split("-")
    return SpanContext(int(trace_id, 16), int(span_id, 16), is_remote=True, trace_flags=TraceFlags(int(flags, 16)))


def _add_prefix(attributes: dict[str, Any]) -> dict[str, Any]:
    return {f"{_PREFIX}{name}": value for name, value in attributes.items() if value is not None}
