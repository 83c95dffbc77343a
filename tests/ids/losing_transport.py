"""Loses replies below the storage library's own retries, and counts what goes over the wire."""

import os
import random
from pathlib import Path
from typing import Any

from azure.core.exceptions import ServiceResponseError
from azure.core.pipeline.transport import RequestsTransport


class LosingTransport(RequestsTransport):
    """Sends every request; of some writes the reply never arrives.

    Each event is one byte in a file, so that it is counted even when its process is killed right after.
    """

    def __init__(self, tally: Path, loss: float = 0.0, seed: int = 0) -> None:
        super().__init__()
        self._tally = os.open(tally, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        self._loss, self._random = loss, random.Random(seed)

    def send(self, request: Any, **options: Any) -> Any:
        """Send, and lose the reply of some writes."""
        response = super().send(request, **options)
        lost = request.method == "PUT" and self._random.random() < self._loss
        os.write(self._tally, b"L" if lost else b"C" if response.status_code in {409, 412} else b".")
        if lost:
            response.internal_response.close()
            raise ServiceResponseError("the reply was lost on purpose")
        return response

    def close(self) -> None:
        """Close the connections and the tally."""
        super().close()
        if self._tally >= 0:
            os.close(self._tally)
            self._tally = -1


def counted(tally: Path) -> dict[str, int]:
    """Return how many requests were sent, how many replies lost, how many writes refused."""
    seen = tally.read_bytes() if tally.exists() else b""
    return {"requests": len(seen), "lost": seen.count(b"L"), "refused": seen.count(b"C")}
