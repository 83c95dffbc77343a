"""Which telemetry an installation wants; the libraries of the others are not loaded."""

from enum import StrEnum

from shared.telemetry.telemetry import SILENT, Telemetry


class Wanted(StrEnum):
    """The values of SLUICE_TELEMETRY."""

    #: Events in the log alone.
    OFF = "off"
    #: Spans and metrics for OpenTelemetry's provider of this process.
    OTEL = "otel"
    #: A line of the log for each span.
    PRINT = "print"


class TelemetryMissingError(ValueError):
    """Raised when the library that was asked for is not installed."""


def telemetry(wanted: Wanted) -> Telemetry:
    """Return what was asked for."""
    if wanted is Wanted.OFF:
        return SILENT
    try:
        if wanted is Wanted.PRINT:
            from shared.telemetry.printing import printing  # noqa: PLC0415 - the deployed set has no such library

            return printing()
        from shared.telemetry.otel import OtelTelemetry  # noqa: PLC0415 - the same

        return OtelTelemetry()
    except ImportError as error:
        raise TelemetryMissingError(
            f"SLUICE_TELEMETRY is {wanted.value}, and {error.name} is not installed: "
            "docs/operating.md says what to install, or set it to off"
        ) from error
