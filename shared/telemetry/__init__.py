"""The app's telemetry: events in the log, and spans and metrics for a collector.

Names are static and stand in catalogues, so that alerts, saved queries and the documentation refer to the same words.
No event, span or metric holds a payload or a secret: fields are ids, numbers, reasons and types of errors.
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
    contain,
    context_of,
    describe_error,
    discreet,
    origin_of,
    place,
    replace_exit,
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
    "contain",
    "context_of",
    "describe_error",
    "discreet",
    "origin_of",
    "place",
    "quiet_libraries",
    "replace_exit",
    "telemetry",
    "tell",
]
