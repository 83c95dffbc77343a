"""How many messages one receive takes: a share of the depth, and no more than its task soon begins."""

import math
from threading import Lock
from typing import Final

#: The most messages that Queue Storage hands out to one receive.
MOST_MESSAGES: Final = 32
#: Seconds of work that a task takes ahead: what it has taken waits for it, while other tasks may have nothing to do. It
#: is also below half of the time for which messages are hidden, so an ordinary message is never renewed.
AHEAD: Final = 4.0
#: The weight of the newest measurement: the average follows a change within a few messages.
_NEWEST: Final = 0.2


def receive_size(depth: int, tasks: int, *, pace: float | None, seconds: float) -> int:
    """Return clamp(ceil(depth / tasks), 1, 32), or fewer if the task could not run that many within `seconds`.

    A task runs its messages one after the other. A message that it cannot begin in time is hidden from the other tasks
    in vain. `pace` is in seconds per message, None before the first measurement.
    """
    share = math.ceil(depth / max(tasks, 1))
    in_time = MOST_MESSAGES if not pace else int(max(seconds, 0.0) / pace)
    return max(1, min(share, in_time, MOST_MESSAGES))


class HandlingTime:
    """The smoothed seconds that this process needs per message, shared by all its tasks."""

    def __init__(self) -> None:
        self._seconds: float | None = None
        self._lock = Lock()

    @property
    def seconds(self) -> float | None:
        """The smoothed seconds per message, None before the first."""
        return self._seconds

    def note(self, seconds: float) -> None:
        """Count one message."""
        with self._lock:
            before = self._seconds
            self._seconds = seconds if before is None else before + _NEWEST * (seconds - before)
