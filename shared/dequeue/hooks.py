"""How a listener behaves: its numbers, its rule, and its hooks.

How long a task waits before it asks an empty queue again: random and exponential, so that tasks come apart.

How many messages one receive asks for: its share of what waits, and never more than its task can run in time.

Whoever subscribed to a listener.

Writes down what goes wrong with messages while a listener runs; a host does that for its own triggers only.
"""

import math
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from math import inf
from threading import Lock
from typing import Final, Protocol, TypeAlias

from shared.messages import Delivery
from shared.telemetry import describe_error, events, place, tell

#: Doubling further passes any interval; it only keeps the power finite.
_MOST_DOUBLINGS: Final = 40
#: How far the random step may be from the given one.
_LOWEST, _HIGHEST = 0.8, 1.2


@dataclass(frozen=True, slots=True, kw_only=True)
class BackOff:
    """Seconds: `shortest` + (2 ** empty receives in a row - 1) x a random part around `step`, never above `longest`."""

    shortest: float = 0.0
    longest: float = 1.0
    step: float = 0.1

    def __post_init__(self) -> None:
        if not (0 <= self.shortest <= self.longest and self.longest > 0 and self.step > 0):
            raise ValueError(f"{self} makes no sense: expected 0 <= shortest <= longest, longest > 0 and step > 0")

    def delay(self, empties: int, uniform: Callable[[float, float], float]) -> float:
        """Return the wait after so many empty receives in a row; `uniform` is the caller's random number in a range."""
        doubled = 2.0 ** min(empties, _MOST_DOUBLINGS) - 1.0
        return min(self.longest, self.shortest + doubled * uniform(self.step * _LOWEST, self.step * _HIGHEST))

    def is_longest(self, delay: float) -> bool:
        """Whether a task that waits so long has been idle for as long as it may be."""
        return delay >= self.longest


#: What one receive of Queue Storage may ask for.
MOST_MESSAGES: Final = 32
#: The weight of the newest measurement: the pace follows a change within a few messages.
_NEWEST: Final = 0.2


def receive_size(depth: int, tasks: int, *, pace: float | None, seconds: float) -> int:
    """Return clamp(ceil(depth / tasks), 1, 32), less where a task at this pace would not be through within `seconds`.

    A task runs its messages one after the other, and what it cannot begin in time is hidden from the others for
    nothing. `pace` is seconds a message, None while nothing is known.
    """
    share = math.ceil(depth / max(tasks, 1))
    in_time = MOST_MESSAGES if not pace else int(max(seconds, 0.0) / pace)
    return max(1, min(share, in_time, MOST_MESSAGES))


class HandlingTime:
    """Seconds a message takes here, smoothed; shared by all tasks of a process."""

    def __init__(self) -> None:
        self._seconds: float | None = None
        self._lock = Lock()

    @property
    def seconds(self) -> float | None:
        """The pace; None before the first message."""
        return self._seconds

    def note(self, seconds: float) -> None:
        """Count one message."""
        with self._lock:
            before = self._seconds
            self._seconds = seconds if before is None else before + _NEWEST * (seconds - before)


class ListenerObserver(Protocol):
    """Hears what a listener does; what it raises is logged and changes nothing."""

    def on_next(self, delivery: Delivery, /) -> None:
        """Hear of a message that was handled."""
        ...

    def on_error(self, error: BaseException, delivery: Delivery | None, /) -> None:
        """Hear of a message whose handler failed, or, without one, of a queue that did not answer."""
        ...

    def on_completed(self) -> None:
        """Hear that a task ended."""
        ...


class Observers:
    """Tells all of them; one that fails is logged and keeps neither the others nor the work from going on."""

    def __init__(self) -> None:
        self._observers: list[ListenerObserver] = []
        self._lock = Lock()

    def subscribe(self, observer: ListenerObserver) -> Callable[[], None]:
        """Tell this one too from now on; returns what ends it."""
        with self._lock:
            self._observers.append(observer)
        return lambda: self._unsubscribe(observer)

    def on_next(self, delivery: Delivery) -> None:
        """Tell of a message that was handled."""
        self._tell(lambda one: one.on_next(delivery))

    def on_error(self, error: BaseException, delivery: Delivery | None = None) -> None:
        """Tell of a message whose handler failed, or, without one, of a queue that did not answer."""
        self._tell(lambda one: one.on_error(error, delivery))

    def on_completed(self) -> None:
        """Tell that a task ended."""
        self._tell(lambda one: one.on_completed())

    def _unsubscribe(self, observer: ListenerObserver) -> None:
        with self._lock:
            self._observers = [one for one in self._observers if one is not observer]

    def _tell(self, call: Callable[[ListenerObserver], None]) -> None:
        with self._lock:
            observers = list(self._observers)
        for one in observers:
            try:
                call(one)
            except Exception as error:  # noqa: BLE001 - it is somebody else's code
                tell(events.LISTENER_OBSERVER_FAILED, error=describe_error(error), at=place(error))


class Telling:
    """An observer that tells in events."""

    def on_next(self, delivery: Delivery, /) -> None:
        """Tell nothing: what came of the message is told where it was worked on."""

    def on_error(self, error: BaseException, delivery: Delivery | None, /) -> None:
        """Tell of a message that is tried again, or of a queue that did not answer."""
        if delivery is None:
            tell(events.RECEIVE_FAILED, error=describe_error(error))
            return
        tell(
            events.MESSAGE_FAILED,
            queue=delivery.queue,
            message_id=delivery.message_id,
            delivery=delivery.count,
            error=describe_error(error),
            at=place(error),
        )

    def on_completed(self) -> None:
        """Tell nothing: tasks come and go."""


@dataclass(frozen=True, slots=True)
class Rest:
    """The answer to an empty queue: seconds until the next receive, and whether the task may end instead."""

    delay: float
    stop: bool


#: Asked with the number of times in a row that a task found nothing.
OnQueueEmpty: TypeAlias = Callable[[int], Rest]


def pull(backoff: BackOff, uniform: Callable[[float, float], float] = random.uniform) -> OnQueueEmpty:
    """Return the hook of a worker that polls: rest longer each time, and end at the longest, unless it is the last."""

    def rest(empties: int) -> Rest:
        delay = backoff.delay(empties, uniform)
        return Rest(delay, stop=backoff.is_longest(delay))

    return rest


def push(_empties: int) -> Rest:
    """Return the answer where a signal starts the tasks: end at the first empty receive."""
    return Rest(0.0, stop=True)


def _nothing() -> None:
    """Do nothing when work is detected."""


def _no_cap() -> int:
    return 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Listening:
    """How a listener behaves; rule and cap count tasks over all processes."""

    #: Tasks that a depth calls for.
    rule: Callable[[int], int]
    #: Tasks that may run now.
    cap: Callable[[], int] = _no_cap
    #: Processes that listen to the same queues; more of them than the cap allows tasks are more than the cap.
    processes: int = 1
    #: Tasks that stay when the queues are empty: 1 to poll, 0 where a signal starts them.
    least: int = 1
    #: Called when a task found nothing in any queue.
    on_queue_empty: OnQueueEmpty = field(default_factory=lambda: pull(BackOff()))
    #: Called when a task that had found nothing, or that has just begun, finds work.
    on_work_detected: Callable[[], object] = _nothing
    #: Seconds for which a sample of the depth is good.
    depth_every: float = 5.0
    #: The depth that is known from elsewhere at the beginning.
    first_depth: int | None = None
    #: Tasks over all processes among which the depth is shared out; None: as many as run here, times the processes.
    fleet: int | None = None
    #: The number of the queue to begin with.
    first_queue: int = 0
    #: Seconds for which a received message is hidden, and a failed one before it is tried again.
    visibility: int = 30
    #: No receive from this moment on, in the clock's monotonic seconds.
    until: float = inf
    #: After a receive that failed.
    backoff: BackOff = field(default_factory=BackOff)

    def __post_init__(self) -> None:
        if self.processes < 1 or self.least < 0 or self.visibility < 2:
            raise ValueError(f"{self} makes no sense: expected processes >= 1, least >= 0, visibility >= 2")

    def most(self) -> int:
        """Return how many tasks this process may run now: its part of the cap, rounded down."""
        return max(self.least, self.cap() // self.processes)

    def count_wanted(self, depth: int) -> int:
        """Return how many tasks of this process a depth calls for: its part, rounded up, no more than messages."""
        return min(-(-min(self.rule(depth), depth) // self.processes), self.most())

    def sharing(self, active: int) -> int:
        """Return among how many tasks the depth is shared out."""
        return self.fleet or active * self.processes
