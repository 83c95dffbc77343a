"""Lets messages begin that triggers delivered: as many at a time as the slots of this process allow.

    a message -> lease a slot -> more messages wait than it allows -> lease another -> nothing used it for a while -> release

The host has received a message before its function runs. So a message that may not begin waits inside the function, and
is held by `Takeovers` meanwhile. It begins only under a slot that this process has leased, as a task that a permit
started does. Storage gives a slot to one process at a time, and all slots together allow what was decided. So the fleet
never has more in work than that, also when several processes start at the same moment and know nothing of each other.

Messages begin in the order in which they came. After `patience` one that still waits is given back, so that another
process can have it.

How many messages one receive takes: a share of the depth, and no more than its task soon begins.

`UrgentLane` says when the receive asks the urgent lane instead, which comes before every other queue.
"""

import math
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from threading import Condition, Lock
from typing import Final

from shared.clock import Clock, Closing
from shared.dequeue.permits import SlotLease, SlotPlan, Slots
from shared.dequeue.work_queue import MOST_MESSAGES, Renewals, WorkSource
from shared.errors import NoSlotError, StorageUnavailableError

#: Seconds that a message waits for its turn. The wait and its work must end within the host's functionTimeout.
PATIENCE: Final = 120.0
#: Seconds after which the first message of the line looks again whether more may begin.
LOOK_AGAIN: Final = 0.5
#: Seconds until a search for a slot is repeated when none was free. They double up to the second number.
SEEK_AGAIN, SEEK_EVERY = 1.0, 5.0
#: Seconds for which a slot is kept that no message uses: a dense trickle of messages leases it once. A longer time would
#: hold up other processes: the host may have given them the job's next messages.
KEEP_UNUSED: Final = 2.0


@dataclass(slots=True, eq=False)
class _HeldSlot:
    """A slot that this process has leased. It is looked after before its lease ends, and when it was long unused."""

    number: int
    lease: SlotLease
    used_at: float
    look_after: Callable[["_HeldSlot"], None]

    @property
    def due(self) -> float:
        """The moment of the next check, in the clock's monotonic seconds."""
        return min(self.lease.due, self.used_at + KEEP_UNUSED)

    def renew(self) -> None:
        """Renew its lease, or release it."""
        self.look_after(self)


class Turns(Closing):
    """The turns of one process. Several threads may take one."""

    def __init__(self, plan: SlotPlan, slots: Slots, clock: Clock, *, patience: float = PATIENCE) -> None:
        self._plan, self._slots, self._clock, self._patience = plan, slots, clock, patience
        self._changed, self._line = Condition(), deque[object]()
        self._taken, self._cap = 0, 0
        self._seek_at, self._seek_pause = float("-inf"), SEEK_AGAIN
        self._held: dict[int, _HeldSlot] = {}
        self._renewals = Renewals(clock).__enter__()

    @property
    def taken(self) -> int:
        """How many messages have begun and not ended."""
        return self._taken

    @contextmanager
    def turn(self) -> Iterator[None]:
        """Wait for a turn and have it while inside, or raise NoSlotError if it did not come in time."""
        self._take()
        try:
            yield
        finally:
            with self._changed:
                self._taken -= 1
                self._changed.notify_all()

    def close(self) -> None:
        """Release the slots. Messages in work go on."""
        with self._changed:
            held = list(self._held.values())
            self._held.clear()
        self._renewals.__exit__(None, None, None)
        for one in held:
            one.lease.release()

    def _take(self) -> None:
        until, ticket = self._clock.monotonic() + self._patience, object()
        with self._changed:
            self._line.append(ticket)
        try:
            while not self._may_begin(ticket):
                if not self._seek(ticket):
                    self._rest(until)
        finally:
            with self._changed:
                self._line.remove(ticket)
                self._changed.notify_all()

    def _may_begin(self, ticket: object) -> bool:
        # Outside of the lock: it may read the decision, and a message that ends must not wait for that.
        cap = self._plan.cap()
        with self._changed:
            self._cap = cap
            if self._line[0] is not ticket or self._taken >= self._count_allowed():
                return False
            self._taken += 1
            now = self._clock.monotonic()
            for held in self._find_needed():
                held.used_at = now
            return True

    def _count_allowed(self) -> int:
        held = (one.number for one in self._held.values() if one.lease.is_held)
        return sum(self._plan.share(number, self._cap) for number in held)

    def _find_needed(self) -> Sequence[_HeldSlot]:
        """Return the slots that the messages in work need, the first of the fleet first."""
        found, covered = [], 0
        for number in sorted(self._held):
            if covered >= self._taken:
                break
            found.append(self._held[number])
            covered += self._plan.share(number, self._cap)
        return found

    def _rest(self, until: float) -> None:
        left = until - self._clock.monotonic()
        if left <= 0:
            raise NoSlotError(
                f"no turn came within {self._patience:g} s: this process handles {self._taken} messages, and the fleet "
                f"may handle {self._cap} (see `sluice tune show`); the message is given back"
            )
        with self._changed:
            self._changed.wait(min(left, LOOK_AGAIN))

    def _seek(self, ticket: object) -> bool:
        """Lease one more slot for the first message of the line. Return True if there is one more."""
        with self._changed:
            now, slots = self._clock.monotonic(), self._plan.count_slots(self._cap)
            own = {number for number, held in self._held.items() if held.lease.is_held}
            # The others wait for the first one, so only one thread seeks at a time.
            missing = [number for number in range(slots) if number not in own]
            if self._line[0] is not ticket or not missing or now < self._seek_at or self._taken < self._count_allowed():
                return False
        found = None
        # Without an answer the message waits, as it does without a free slot.
        with suppress(StorageUnavailableError):
            found = self._lease(missing)
        with self._changed:
            if found is None:
                self._seek_at = self._clock.monotonic() + self._seek_pause
                self._seek_pause = min(2 * self._seek_pause, SEEK_EVERY)
                return False
            self._seek_pause = SEEK_AGAIN
            number, lease = found
            self._held[number] = held = _HeldSlot(number, lease, self._clock.monotonic(), self._look_after)
        self._renewals.keep(held)
        return True

    def _lease(self, missing: Sequence[int]) -> tuple[int, SlotLease] | None:
        # Where one process works alone, the first one is free. Only where it is not, the list is paid for.
        if (lease := self._slots.lease(missing[0])) is not None:
            return missing[0], lease
        taken = self._slots.list_held()
        for number in missing[1:]:
            if number not in taken and (lease := self._slots.lease(number)) is not None:
                return number, lease
        return None

    def _look_after(self, held: _HeldSlot) -> None:
        now = self._clock.monotonic()
        with self._changed:
            if self._held.get(held.number) is not held:
                self._renewals.drop(held)
                return
            if held in self._find_needed():
                held.used_at = now
            is_over = now >= held.used_at + KEEP_UNUSED or not held.lease.is_held
            if is_over:
                # Before the release: from then on another process may run its messages.
                del self._held[held.number]
        if is_over:
            self._renewals.drop(held)
            held.lease.release()
        elif now >= held.lease.due:
            held.lease.renew()


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
