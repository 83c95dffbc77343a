"""The app's telemetry: events in the log, and spans and metrics for a collector.

Names are static and stand in catalogues, so that alerts, saved queries and the documentation refer to the same words.
No event, span or metric holds a payload or a secret: fields are ids, numbers, reasons and types of errors.
"""

from shared.telemetry.choice import (
    TelemetryChoice as TelemetryChoice,
    quiet_libraries as quiet_libraries,
    telemetry as telemetry,
)
from shared.telemetry.events import EVENTS as EVENTS, OF_PROCESSES as OF_PROCESSES, SPAN_ENDED as SPAN_ENDED
from shared.telemetry.log import (
    PIECES as PIECES,
    SILENT as SILENT,
    Alert as Alert,
    LogEvent as LogEvent,
    Piece as Piece,
    Severity as Severity,
    Telemetry as Telemetry,
    contain as contain,
    context_of as context_of,
    describe_error as describe_error,
    discreet as discreet,
    origin_of as origin_of,
    place as place,
    replace_exit as replace_exit,
    tell as tell,
)
from shared.telemetry.metrics import METRICS as METRICS, Instrument as Instrument, Metric as Metric
