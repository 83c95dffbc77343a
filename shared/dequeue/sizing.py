"""How many messages one receive asks for: its share of what waits, and never more than its task can run in time."""

import math
from threading import Lock
from typing import Final

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


class Pace:
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
