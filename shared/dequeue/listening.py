"""How a listener behaves: its numbers, its rule, and its hooks."""

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from math import inf
from typing import Protocol, TypeAlias

from shared.dequeue.backoff import BackOff
from shared.pipeline.messages import Delivery


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


def _uncapped() -> int:
    return 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Listening:
    """How a listener behaves; rule and cap count tasks over all processes."""

    #: Tasks that a depth calls for.
    rule: Callable[[int], int]
    #: Tasks that may run now.
    cap: Callable[[], int] = _uncapped
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

    def wanted(self, depth: int) -> int:
        """Return how many tasks of this process a depth calls for: its part, rounded up, no more than messages."""
        return min(-(-min(self.rule(depth), depth) // self.processes), self.most())

    def sharing(self, active: int) -> int:
        """Return among how many tasks the depth is shared out."""
        return self.fleet or active * self.processes


class Observer(Protocol):
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
