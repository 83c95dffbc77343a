"""The choice of telemetry by an installation, and the log level of Azure's libraries.

Only the chosen telemetry's library is loaded.
"""

import logging
from enum import StrEnum
from typing import Final

from shared.telemetry.log import SILENT, Telemetry


class TelemetryChoice(StrEnum):
    """The values of SLUICE_TELEMETRY."""

    #: Only events in the log.
    OFF = "off"
    #: Spans and metrics for OpenTelemetry's provider of this process.
    OTEL = "otel"
    #: One line of the log per span.
    PRINT = "print"


class TelemetryMissingError(ValueError):
    """The library of the chosen telemetry is not installed."""


def telemetry(wanted: TelemetryChoice) -> Telemetry:
    """Build the chosen telemetry."""
    if wanted is TelemetryChoice.OFF:
        return SILENT
    try:
        if wanted is TelemetryChoice.PRINT:
            from shared.telemetry.printing import printing  # noqa: PLC0415 - the library is not deployed

            return printing()
        from shared.telemetry.otel import OtelTelemetry  # noqa: PLC0415 - the same

        return OtelTelemetry()
    except ImportError as error:
        raise TelemetryMissingError(
            f"SLUICE_TELEMETRY is {wanted.value}, but {error.name} is not installed: "
            "install it as docs/operating.md describes, or set SLUICE_TELEMETRY to off"
        ) from error


#: The libraries log each request and each reply with its headers at INFO. The Python worker passes on all that the root
#: logger accepts, under the function's own category. There, host.json cannot tell it from the app's own lines. Two
#: traces per request would be most of the telemetry's bill.
_TALKATIVE: Final = ("azure", "urllib3")


def quiet_libraries() -> None:
    """Let the libraries log only warnings. A workload's module is loaded later and may set another level."""
    for name in _TALKATIVE:
        logging.getLogger(name).setLevel(logging.WARNING)
