"""How many messages one receive takes: a share of the depth, and no more than its task soon begins.

`UrgentLane` says when the receive asks the urgent lane instead, which comes before every other queue.

`OwnPuts` has the messages that a task takes instead of a receive: its process has just put them.
"""

import math
from collections import deque
from collections.abc import Callable
from threading import Lock
from typing import Final

from shared.clock import Clock
from shared.dequeue.work_queue import MOST_MESSAGES, ReceivedMessage, WorkQueue, WorkSource
from shared.errors import StorageUnavailableError
from shared.messages import Delivery

#: Seconds of work that a task takes ahead: what it has taken waits for it, while other tasks may have nothing to do. At
#: the end of a job so many seconds may be one process's alone. It is also below half of the time for which messages are
#: hidden, so an ordinary message is never renewed.
AHEAD: Final = 1.0
#: The weight of the newest measurement: the average follows a change within a few messages.
_NEWEST: Final = 0.2


def receive_size(depth: int, tasks: int, *, pace: float | None, seconds: float) -> int:
    """Return clamp(ceil(depth / tasks), 1, 32), or fewer if the task could not run that many within `seconds`.

    A task runs its messages one after the other. A message that it cannot begin in time is hidden from the other tasks
    in vain. `pace` is in seconds per message, None if nothing is known.
    """
    share = math.ceil(depth / max(tasks, 1))
    in_time = MOST_MESSAGES if not pace else int(max(seconds, 0.0) / pace)
    return max(1, min(share, in_time, MOST_MESSAGES))


class HandlingTime:
    """The smoothed seconds that this process needs per message, shared by all its tasks."""

    def __init__(self, assumed: float | None = None) -> None:
        """`assumed` stands until the first message is done."""
        self._assumed = assumed
        self._measured: float | None = None
        self._lock = Lock()

    @property
    def seconds(self) -> float | None:
        """The smoothed seconds per message, or the assumed ones."""
        return self._assumed if self._measured is None else self._measured

    def note(self, seconds: float) -> None:
        """Count one message."""
        with self._lock:
            before = self._measured
            self._measured = seconds if before is None else before + _NEWEST * (seconds - before)


#: Seconds for which no task asks again after an empty receive.
ASKED_EVERY: Final = 2.0


class UrgentLane:
    """The lane of one process. Several threads may use it."""

    def __init__(self, source: WorkSource, holds: Callable[[], bool], monotonic: Callable[[], float]) -> None:
        """`holds` says whether the lane may hold something, without a request."""
        self.source, self._holds, self._monotonic = source, holds, monotonic
        self._empty_at = float("-inf")

    def is_due(self) -> bool:
        """Check whether a task should ask the lane now."""
        return self._holds() and self._monotonic() - self._empty_at >= ASKED_EVERY

    def note_empty(self) -> None:
        """Note an empty receive, for all tasks."""
        self._empty_at = self._monotonic()

    def depth(self) -> int:
        """Read how many messages it holds, by one request if there may be one."""
        return self.source.depth() if self._holds() else 0

    def peek(self) -> int:
        """Return how many of its messages could be received now, by one request if there may be one."""
        return self.source.peek() if self._holds() else 0


#: Messages that a process remembers of its own puts, and seconds for which it does.
MOST_OWN, OWN_FOR = 16, 5.0


class OwnPuts:
    """The last messages that this process has put. Its tasks take them before what waits longer.

    A put has a receipt, which is good until another process receives the message. So a message that no task takes here
    has lost nothing: it lies at its place in the queue. Several threads may use it.
    """

    def __init__(self, queue: Callable[[str], WorkQueue], clock: Clock) -> None:
        """`queue` makes the queue of a name."""
        self._queue, self._clock = queue, clock
        self._put = deque[tuple[float, Delivery]](maxlen=MOST_OWN)

    def note(self, delivery: Delivery) -> None:
        """Remember a message by the receipt of its put."""
        self._put.append((self._clock.monotonic(), delivery))

    def take(self) -> ReceivedMessage | None:
        """Hold the one that was put first, by one request. None without one, or if another process has it."""
        while self._put:
            try:
                at, delivery = self._put.popleft()
            except IndexError:
                # Another task took the last one.
                break
            if self._clock.monotonic() - at < OWN_FOR:
                return self._hold(delivery)
        return None

    def _hold(self, delivery: Delivery) -> ReceivedMessage | None:
        try:
            return self._queue(delivery.queue).take_over(delivery)
        except StorageUnavailableError:
            return None
