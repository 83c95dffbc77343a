"""Telemetry on a developer's machine: each span is a line of the log when it ends. Needs OpenTelemetry's SDK."""

from collections.abc import Sequence

from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor, SpanExporter, SpanExportResult

from shared.telemetry import events
from shared.telemetry.log import tell
from shared.telemetry.otel import OtelTelemetry


class LineExporter(SpanExporter):
    """Logs each span as an event."""

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        """Log one line per span."""
        for span in spans:
            tell(
                events.SPAN_ENDED,
                span=span.name,
                trace=f"{span.context.trace_id:032x}",
                id=f"{span.context.span_id:016x}",
                parent=None if span.parent is None else f"{span.parent.span_id:016x}",
                ms=round(((span.end_time or 0) - (span.start_time or 0)) / 1_000_000, 1),
                links=len(span.links),
                failed=span.status.description,
                about=dict(span.attributes or {}),
            )
        return SpanExportResult.SUCCESS


def printing() -> OtelTelemetry:
    """Build telemetry that logs its spans and drops its metrics."""
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(LineExporter()))
    return OtelTelemetry(traces=provider)
