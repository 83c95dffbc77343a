"""What this process was told by services that had enough: 503, ServerBusy, Retry-After; kept in memory, free.

`following` tells the others, and brings here what they were told.
"""

from collections.abc import Mapping
from datetime import timedelta
from threading import Lock
from typing import Any, Final

from azure.servicebus.exceptions import ServiceBusServerBusyError

from shared.clock import Clock
from shared.concurrency.governor import Governor

#: The resources that have limits of their own: one account, one namespace, however many queues they hold.
STORAGE, BUS = "storage", "bus"
_BUSY: Final = frozenset({429, 503})
#: Storage also answers so when a partition is overloaded.
_TIMED_OUT, _TIMED_OUT_CODE = 500, "OperationTimedOut"
_NONE: Final = Governor()
#: Seconds over which it is seen whether what is allowed is used: between two messages it hardly ever is.
_SEEN_OVER: Final = 1.0


class Pushback:
    """The governors of one process; safe from several threads."""

    def __init__(self, clock: Clock) -> None:
        self._clock, self._lock = clock, Lock()
        self._governors: dict[str, Governor] = {}
        #: The most that was in use since the governors grew last, and when that was.
        self._used, self._grown_at = 0, clock.monotonic()

    def on_reply(self, response: Any) -> None:
        """Look at a reply of storage."""
        status = response.status_code
        if status < _TIMED_OUT and status not in _BUSY:
            return
        headers = response.headers
        if status in _BUSY or headers.get("x-ms-error-code") == _TIMED_OUT_CODE:
            self.slow(STORAGE, _seconds(headers.get("Retry-After")))

    def on_bus_error(self, error: BaseException) -> None:
        """Look at an error of the bus."""
        if isinstance(error, ServiceBusServerBusyError):
            self.slow(BUS)

    def slow(self, resource: str, retry_after: timedelta | None = None) -> None:
        """Slow down what uses this resource."""
        with self._lock:
            self._governors[resource] = self._governors.get(resource, _NONE).slowed(self._clock.now(), retry_after)

    def learn(self, others: Mapping[str, Governor]) -> None:
        """Take over what others were told later than this process."""
        with self._lock:
            for resource, other in others.items():
                self._governors[resource] = self._governors.get(resource, _NONE).after(other)

    def governors(self) -> dict[str, Governor]:
        """Return the governors that hold something back, or did."""
        with self._lock:
            return dict(self._governors)

    def limit(self, full: int, used: int) -> int:
        """Return how many of `full` are allowed by the slowest resource; `used` of them are in use now."""
        # Without any push-back ever, which is nearly always, nothing is computed.
        if not self._governors:
            return full
        with self._lock:
            self._used = max(self._used, used)
            if self._clock.monotonic() - self._grown_at >= _SEEN_OVER:
                self._grow(full)
                self._used, self._grown_at = used, self._clock.monotonic()
            return min(governor.limit(full) for governor in self._governors.values())

    def _grow(self, full: int) -> None:
        now = self._clock.now()
        for resource, governor in self._governors.items():
            self._governors[resource] = governor.grown(now, is_in_use=self._used * 2 >= governor.limit(full))


def _seconds(text: str | None) -> timedelta | None:
    return timedelta(seconds=int(text)) if text and text.isascii() and text.isdigit() and len(text) <= 6 else None
