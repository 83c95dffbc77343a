"""What this process was told by services that had enough: 503, ServerBusy, Retry-After; kept in memory, free.

`following` tells the others, and brings here what they were told.

What one service bears: halved when it pushes back, grown step by step while all that is allowed is used; pure.

A governor is kept for each resource (the storage account, the bus namespace), not for each queue: a 503 that one
consumer sees is about all of them.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from threading import Lock
from typing import Any, Final

from azure.servicebus.exceptions import ServiceBusServerBusyError

from shared.clock import Clock

#: What is left of the share after a push-back.
DECREASE: Final = 0.5
#: Refusals of requests that were on their way together count as one.
TOGETHER: Final = timedelta(seconds=2)
#: No growth for so long after a push-back, or for as long as the service itself says where that is longer.
QUIET: Final = timedelta(seconds=10)
#: The longest time that a Retry-After is believed.
LONGEST_QUIET: Final = timedelta(minutes=5)
#: Share of the full rate that comes back in a second of use.
GROWTH: Final = 0.1
#: The least share: somebody has to find out that the service is back.
LEAST: Final = 1 / 32


@dataclass(frozen=True, slots=True)
class Governor:
    """The share of the full rate that a resource bears, and since when."""

    share: float = 1.0
    slowed_at: datetime | None = None
    #: No growth before.
    quiet_until: datetime | None = None
    #: Up to here use was counted for growth.
    seen_at: datetime | None = None
    #: How often it was slowed; tells a newer state from an older one of the same second.
    times: int = 0

    @property
    def is_full(self) -> bool:
        """Whether nothing is held back."""
        return self.share >= 1.0

    def limit(self, full: int) -> int:
        """Return how many of `full` are allowed: at least one."""
        return full if self.is_full else max(1, int(full * self.share))

    def slow(self, now: datetime, retry_after: timedelta | None = None) -> "Governor":
        """Return the governor after a push-back."""
        pause = min(max(retry_after or QUIET, QUIET), LONGEST_QUIET)
        quiet_until = max(filter(None, (self.quiet_until, now + pause)))
        if self.slowed_at is not None and now - self.slowed_at < TOGETHER:
            return replace(self, quiet_until=quiet_until)
        return replace(
            self,
            share=max(LEAST, self.share * DECREASE),
            slowed_at=now,
            quiet_until=quiet_until,
            seen_at=now,
            times=self.times + 1,
        )

    def grow(self, now: datetime, *, is_in_use: bool) -> "Governor":
        """Return the governor after a while; what was not used proves nothing, so it brings nothing back."""
        if self.is_full or self.seen_at is None or self.quiet_until is None:
            return self
        since = max(self.seen_at, self.quiet_until)
        if now <= since:
            return self
        used = (now - since).total_seconds() if is_in_use else 0.0
        share = min(1.0, self.share + GROWTH * used)
        return replace(self, share=share, seen_at=now)

    def after(self, other: "Governor") -> "Governor":
        """Return the newer of two views of the same resource."""
        mine, theirs = (one.slowed_at.timestamp() if one.slowed_at else 0.0 for one in (self, other))
        return other if (theirs, other.times) > (mine, self.times) else self


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
            self._governors[resource] = self._governors.get(resource, _NONE).slow(self._clock.now(), retry_after)

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
            governor = governor.grow(self._clock.now(), is_in_use=most * 2 >= governor.limit(full))
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
