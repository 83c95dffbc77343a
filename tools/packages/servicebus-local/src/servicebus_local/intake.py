"""The way of a message between its sender and the queues: session check, duplicates, waiting for its time."""

import heapq
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from itertools import count

from servicebus_local.parcel import Parcel
from servicebus_local.refusal import MESSAGE_NOT_FOUND, NOT_ALLOWED, Refusal
from servicebus_local.throttle import Allowance

#: Takes a message in: the message, its sequence number, the time.
Deliver = Callable[[Parcel, int, float], None]


class SeenIds:
    """The message ids of the last while: a second message with the same id is dropped."""

    def __init__(self, window: float) -> None:
        self._window = window
        self._ids: set[str] = set()
        self._order: deque[tuple[float, str]] = deque()

    def is_repeat(self, message_id: str, now: float) -> bool:
        """Return true if the id was seen within the window. Remember it otherwise."""
        while self._order and self._order[0][0] <= now:
            self._ids.discard(self._order.popleft()[1])
        if message_id in self._ids:
            return True
        self._ids.add(message_id)
        self._order.append((now + self._window, message_id))
        return False


@dataclass(slots=True)
class Scheduled:
    """A message that waits for its time."""

    sequence: int
    when: float
    parcel: Parcel


class Intake:
    """The entrance of a queue or a topic."""

    def __init__(
        self,
        name: str,
        deliver: Deliver,
        *,
        window: float | None = None,
        sessions: bool = False,
        allowance: Allowance | None = None,
    ) -> None:
        self.name = name
        #: None: as many operations as come.
        self.allowance = allowance
        self._deliver = deliver
        self._sessions = sessions
        self._seen = None if window is None else SeenIds(window)
        self._numbers = count(1)
        self._scheduled: dict[int, Scheduled] = {}
        self._calendar: list[tuple[float, int]] = []

    def check(self, parcel: Parcel) -> None:
        """Refuse a message that this entity cannot take. A batch is checked whole before any of it is taken."""
        if self._sessions and parcel.session_id is None:
            raise Refusal(
                NOT_ALLOWED,
                f"the session id was not set on a message, and it cannot be sent to {self.name}: "
                "an entity with sessions takes only messages with a session id",
            )

    def accept(self, parcel: Parcel, now: float) -> int | None:
        """Take a message in, now or at its time. None where it repeats one of the duplicate window."""
        message_id = parcel.message_id
        if self._seen is not None and message_id is not None and self._seen.is_repeat(message_id, now):
            return None
        sequence = next(self._numbers)
        if parcel.scheduled_for > now:
            self._scheduled[sequence] = Scheduled(sequence, parcel.scheduled_for, parcel)
            heapq.heappush(self._calendar, (parcel.scheduled_for, sequence))
        else:
            self._deliver(parcel, sequence, now)
        return sequence

    def cancel(self, sequence: int) -> None:
        """Drop a message that still waits for its time."""
        if self._scheduled.pop(sequence, None) is None:
            raise Refusal(MESSAGE_NOT_FOUND, f"no scheduled message {sequence} in {self.name}: sent or cancelled", 404)

    def advance(self, now: float) -> None:
        """Deliver what is due. A message gets a new sequence number, as if it were sent now."""
        while self._calendar and self._calendar[0][0] <= now:
            due = self._scheduled.pop(heapq.heappop(self._calendar)[1], None)
            if due is not None:
                self._deliver(due.parcel, next(self._numbers), now)

    def waiting(self, first: int) -> list[Scheduled]:
        """Return the messages that wait for their time, from sequence number `first` on."""
        return [self._scheduled[sequence] for sequence in sorted(self._scheduled) if sequence >= first]
