"""The answer to push-back (503, ServerBusy, Retry-After): the share of the full rate that each service bears.

A governor per resource halves the share at each push-back, and raises it in steps while the allowed share is in use. It
belongs to a resource (the storage account, the bus namespace), not to a queue: a 503 concerns all consumers.

It is kept in memory and makes no request. `following` exchanges governors with the other processes.

`RetryWaits` has the waits between the tries of one request.
"""

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from random import SystemRandom
from threading import Lock
from typing import Any, Final, TypeVar

from shared.clock import Clock

#: A push-back multiplies the share by this.
DECREASE: Final = 0.5
#: Refusals within this time count as one, because their requests were on their way together.
TOGETHER: Final = timedelta(seconds=2)
#: The share does not grow for this long after a push-back, or for the service's Retry-After if that is longer.
QUIET: Final = timedelta(seconds=10)
#: The upper bound of a Retry-After.
LONGEST_QUIET: Final = timedelta(minutes=5)
#: Seconds without a refusal until an entity of the bus gets more than one transfer at a time again.
ALONE_FOR: Final = 30.0
#: The share of the full rate that each second of use restores.
GROWTH: Final = 0.1
#: The least share: some requests must find out that the service has recovered.
LEAST: Final = 1 / 32


#: Seconds of the longest wait between two tries. A longer Retry-After ends the request: a queue, a timer or a person
#: retries it, and the governor keeps to that time.
LONGEST_WAIT: Final = 5.0
_Policy = TypeVar("_Policy")


_TRIES_ONCE: ContextVar[bool] = ContextVar("tries_once", default=False)


@contextmanager
def trying_once() -> Iterator[None]:
    """Try each storage request once while inside: a batch comes again, and its lock ends before further tries would."""
    token = _TRIES_ONCE.set(True)
    try:
        yield
    finally:
        _TRIES_ONCE.reset(token)


@dataclass(frozen=True, slots=True)
class RetryWaits:
    """The waits between the tries of one request: each up to twice the one before, by chance, never below Retry-After.

    A wait is at least half of its upper bound. So requests that were refused together do not return together.
    """

    #: Seconds, the upper bound of the first wait.
    first: float
    #: A random number from 0 to 1, by a source that a forked process does not share.
    jitter: Callable[[], float] = SystemRandom().random
    sleep: Callable[[float], object] = time.sleep

    def wait(self, retry: int, asked: float) -> float:
        """Return the seconds before a retry, counted from 1, when Retry-After is `asked`."""
        return asked + min(self.first * 2.0 ** (retry - 1), LONGEST_WAIT) * (1 + self.jitter()) / 2

    def apply(self, policy: _Policy) -> _Policy:
        """Have a retry policy of an Azure library wait like this. None of them does by itself, nor do two agree."""
        own: Any = policy
        increment = own.increment

        def increment_or_end(settings: dict[str, Any], *given: Any, **named: Any) -> bool:
            is_left = increment(settings, *given, **named) and not _TRIES_ONCE.get()
            return is_left and _read_retry_after(settings) <= LONGEST_WAIT

        def sleep(settings: dict[str, Any], *_given: Any, **_named: Any) -> None:
            self.sleep(self.wait(max(1, len(settings["history"])), _read_retry_after(settings)))

        own.increment, own.sleep = increment_or_end, sleep
        return policy


def _read_retry_after(settings: Mapping[str, Any]) -> float:
    # The library notes no attempt whose reply broke off.
    reply = settings["history"][-1].http_response if settings["history"] else None
    asked = None if reply is None else _seconds(reply.headers.get("Retry-After"))
    return asked.total_seconds() if asked else 0.0


@dataclass(frozen=True, slots=True)
class Governor:
    """The share of the full rate that a resource bears, and the times that decide about its growth."""

    share: float = 1.0
    slowed_at: datetime | None = None
    #: The share does not grow before this time.
    quiet_until: datetime | None = None
    #: The share has grown by the use before this time.
    seen_at: datetime | None = None
    #: The number of push-backs: it orders two states of the same second.
    times: int = 0

    @property
    def is_full(self) -> bool:
        """True if the resource bears the full rate."""
        return self.share >= 1.0

    def limit(self, full: int) -> int:
        """Return the allowed number of `full`, at least one."""
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

    def ease(self, now: datetime, part: float) -> "Governor":
        """Return the governor after a failure that may be no push-back: the share falls by a part of the full rate."""
        share = max(LEAST, self.share - part)
        return replace(self, share=share, slowed_at=now, quiet_until=self.quiet_until or now, seen_at=now)

    def grow(self, now: datetime, *, is_in_use: bool) -> "Governor":
        """Return the governor after some time of use. A share that is not used proves nothing and does not grow."""
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


#: The resources with their own limits: one account, one namespace. An entity's name may follow a slash: "bus/results"
#: is a part of "bus" and bears no more than "bus".
STORAGE, BUS = "storage", "bus"
#: The resources that a task of the work queues uses.
USED_BY_WORK: Final = (STORAGE, "bus/results")
_BUSY: Final = frozenset({429, 503})
#: Storage also gives this answer when a partition is overloaded.
_TIMED_OUT, _TIMED_OUT_CODE = 500, "OperationTimedOut"
_UNLIMITED: Final = Governor()
#: Use is measured as the maximum over this many seconds. Between two messages, little of the limit is in use.
_MEASURED_OVER: Final = 1.0


class Pushback:
    """The governors of one process. Several threads may use it."""

    def __init__(self, clock: Clock) -> None:
        self._clock, self._lock = clock, Lock()
        self._governors: dict[str, Governor] = {}
        #: For each resource, the maximum in use since its governor last grew, and the time of that growth.
        self._uses: dict[str, tuple[int, float]] = {}
        self._began_at = clock.monotonic()
        #: The moment of the last refusal of each entity of the bus.
        self._refused_at: dict[str, float] = {}

    def on_reply(self, response: Any) -> None:
        """Slow down if a reply of storage is a push-back."""
        status = response.status_code
        if status < _TIMED_OUT and status not in _BUSY:
            return
        headers = response.headers
        if status in _BUSY or headers.get("x-ms-error-code") == _TIMED_OUT_CODE:
            self.slow(STORAGE, _seconds(headers.get("Retry-After")))

    def slow(self, resource: str, retry_after: timedelta | None = None) -> None:
        """Halve the share of this resource."""
        with self._lock:
            self._governors[resource] = self._governors.get(resource, _UNLIMITED).slow(self._clock.now(), retry_after)

    def refuse(self, entity: str) -> None:
        """Halve the share of the bus, which was too busy for a transfer to this entity."""
        self._refused_at[entity] = self._clock.monotonic()
        self.slow(BUS)

    def is_alone(self, entity: str) -> bool:
        """Check whether an entity of the bus gets one transfer at a time, since it refused one not long ago."""
        refused_at = self._refused_at.get(entity)
        return refused_at is not None and self._clock.monotonic() - refused_at < ALONE_FOR

    def ease(self, resource: str, part: float) -> None:
        """Lower the share of this resource by a part of the full rate."""
        with self._lock:
            self._governors[resource] = self._governors.get(resource, _UNLIMITED).ease(self._clock.now(), part)

    def learn(self, others: Mapping[str, Governor]) -> None:
        """Take over the governors of other processes that saw a later push-back."""
        with self._lock:
            for resource, other in others.items():
                self._governors[resource] = self._governors.get(resource, _UNLIMITED).after(other)

    def governors(self) -> dict[str, Governor]:
        """Return the governors of the resources that have pushed back, now or earlier."""
        with self._lock:
            return dict(self._governors)

    def limit(self, full: int, used: int, resource: str = STORAGE) -> int:
        """Return how many of `full` a resource and the resources around it allow. `used` of them are in use now."""
        # Almost always, no service has pushed back yet, and there is nothing to compute.
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
        if now - grown_at >= _MEASURED_OVER:
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
