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

#: The resources that have limits of their own: one account, one namespace. An entity's name may follow behind a slash:
#: "bus/results" is a part of "bus", and bears no more than the whole does.
STORAGE, BUS = "storage", "bus"
#: The resources that a task of the work queues uses.
USED_BY_WORK: Final = (STORAGE, "bus/results")
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
        #: For each resource the most that was in use since its governor grew last, and when that was.
        self._uses: dict[str, tuple[int, float]] = {}
        self._began_at = clock.monotonic()

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

    def limit(self, full: int, used: int, resource: str = STORAGE) -> int:
        """Return how many of `full` a resource and the wholes around it allow; `used` of them are in use now."""
        # Without any push-back ever, which is nearly always, nothing is computed.
        if not self._governors:
            return full
        with self._lock:
            return min(
                (self._allow(name, full, used) for name in _names_around(resource) if name in self._governors),
                default=full,
            )

    def _allow(self, resource: str, full: int, used: int) -> int:
        governor, now = self._governors[resource], self._clock.monotonic()
        most, grown_at = self._uses.get(resource, (0, self._began_at))
        most = max(most, used)
        if now - grown_at >= _SEEN_OVER:
            governor = governor.grown(self._clock.now(), is_in_use=most * 2 >= governor.limit(full))
            self._governors[resource], most, grown_at = governor, used, now
        self._uses[resource] = most, grown_at
        return governor.limit(full)


def governors_of_work(governors: Mapping[str, Governor]) -> dict[str, Governor]:
    """Return the governors of the resources that a task of the work queues uses."""
    names = {name for resource in USED_BY_WORK for name in _names_around(resource)}
    return {name: governor for name, governor in governors.items() if name in names}


def _names_around(resource: str) -> list[str]:
    parts = resource.split("/")
    return ["/".join(parts[:end]) for end in range(len(parts), 0, -1)]


def _seconds(text: str | None) -> timedelta | None:
    return timedelta(seconds=int(text)) if text and text.isascii() and text.isdigit() and len(text) <= 6 else None
