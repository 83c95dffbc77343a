"""Shows the spans that a host writes into its log, as they end: one short line each, by the time that they took."""

import json
from pathlib import Path

from shared.telemetry import SPAN_ENDED


class SpanLines:
    """Reads a log as it grows."""

    def __init__(self, log: Path) -> None:
        self._log, self._read, self._rest = log, 0, ""

    def new(self) -> list[str]:
        """Return the spans that were written since the last call."""
        with self._log.open(errors="replace") as file:
            file.seek(self._read)
            text = self._rest + file.read()
            self._read = file.tell()
        # The last line may be half written.
        *lines, self._rest = text.split("\n")
        return [_shown(line.partition(f"{SPAN_ENDED.name} ")[2]) for line in lines if f" {SPAN_ENDED.name} " in line]


def _shown(fields: str) -> str:
    said = json.loads(fields)
    about = " ".join(f"{name.removeprefix('sluice.')}={value}" for name, value in said["about"].items())
    links = f" links={said['links']}" if said["links"] else ""
    failed = f" FAILED {said['failed']}" if said["failed"] else ""
    return f"{said['trace'][:8]} {said['span']:<16} {said['ms']:>9.1f} ms  {about}{links}{failed}"
