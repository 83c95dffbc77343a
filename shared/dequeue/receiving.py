"""How many messages one receive takes: a share of the depth, and no more than its task soon begins.

`UrgentLane` says when the receive asks the urgent lane instead, which comes before every other queue.
"""

import math
from collections.abc import Callable
from threading import Lock
from typing import Final

from shared.dequeue.work_queue import MOST_MESSAGES, WorkSource

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
