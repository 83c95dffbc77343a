"""Which telemetry an installation wants; the libraries of the others are not loaded.

What the storage and bus libraries say of themselves.
"""

import logging
from enum import StrEnum
from typing import Final

from shared.telemetry.log import SILENT, Telemetry


class TelemetryChoice(StrEnum):
    """The values of SLUICE_TELEMETRY."""

    #: Events in the log alone.
    OFF = "off"
    #: Spans and metrics for OpenTelemetry's provider of this process.
    OTEL = "otel"
    #: A line of the log for each span.
    PRINT = "print"


class TelemetryMissingError(ValueError):
    """Raised when the library that was asked for is not installed."""


def telemetry(wanted: TelemetryChoice) -> Telemetry:
    """Return what was asked for."""
    if wanted is TelemetryChoice.OFF:
        return SILENT
    try:
        if wanted is TelemetryChoice.PRINT:
            from shared.telemetry.printing import printing  # noqa: PLC0415 - the deployed set has no such library

            return printing()
        from shared.telemetry.otel import OtelTelemetry  # noqa: PLC0415 - the same

        return OtelTelemetry()
    except ImportError as error:
        raise TelemetryMissingError(
            f"SLUICE_TELEMETRY is {wanted.value}, and {error.name} is not installed: "
            "docs/operating.md says what to install, or set it to off"
        ) from error


#: The libraries write each request and each reply with its headers at INFO. The Python worker passes on whatever the
#: root logger takes, under the function's own category, where host.json cannot tell it from what the app says: two
#: traces a request would be the larger part of the telemetry's bill.
_TALKATIVE: Final = ("azure", "urllib3")


def quiet_libraries() -> None:
    """Hear of the libraries' warnings only; a workload's module, which is loaded later, may set another level."""
    for name in _TALKATIVE:
        logging.getLogger(name).setLevel(logging.WARNING)
