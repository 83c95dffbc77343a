"""What the app tells about itself: events in the log, spans and metrics where somebody collects them.

Names are static and stand in catalogues, so that alerts, saved queries and the documentation refer to the same words.
Nothing here ever holds a payload or a secret: fields are ids, numbers, reasons and kinds of errors.
"""

from shared.telemetry.choice import TelemetryChoice, quiet_libraries, telemetry
from shared.telemetry.events import EVENTS, SPAN_ENDED
from shared.telemetry.log import (
    PIECES,
    SILENT,
    Alert,
    LogEvent,
    Piece,
    Severity,
    Telemetry,
    context_of,
    describe_error,
    discreet,
    place,
    tell,
)
from shared.telemetry.metrics import METRICS

__all__ = [
    "EVENTS",
    "METRICS",
    "PIECES",
    "SILENT",
    "SPAN_ENDED",
    "Alert",
    "LogEvent",
    "Piece",
    "Severity",
    "Telemetry",
    "TelemetryChoice",
    "context_of",
    "describe_error",
    "discreet",
    "place",
    "quiet_libraries",
    "telemetry",
    "tell",
]
