"""One dequeue task: receive a share of the depth, handle it message by message, and end when the count allows it.

The number of tasks of a process is changed by compare-and-set only, so no two tasks act on the same count. Suppose
instead that a task reads the count first and acts later. By "stop if more than one runs", two tasks read "two" and none
is left. By "start the missing tasks", two tasks start them twice. Here a task acts only after it changed the count from
exactly the value that it decided upon.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from threading import Event, Lock
from typing import Final, Protocol

from shared.azure import looking
from shared.clock import Clock
from shared.dequeue.hooks import Listening, Observers
from shared.dequeue.pace import AHEAD, HandlingTime, UrgentLane, receive_size
from shared.dequeue.renewal import Renewals
from shared.dequeue.work_queue import DepthSample, Partitions, ReceivedMessage, WorkSource
from shared.errors import StorageUnavailableError
from shared.messages import Delivery


class Cell(Protocol):
    """A number that several threads share."""

    def load(self) -> int:
        """Return the number."""
        ...

    def compare_and_set(self, expected: int, wanted: int) -> bool:
        """Set the number to `wanted` if it is still `expected`. Return whether it was."""
        ...


class AtomicCell:
    """The cell of one process."""

    def __init__(self) -> None:
        self._value, self._lock = 0, Lock()

    def load(self) -> int:
        """Return the number."""
        return self._value

    def compare_and_set(self, expected: int, wanted: int) -> bool:
        """Set the number to `wanted` if it is still `expected`. Return whether it was."""
        with self._lock:
            if self._value != expected:
                return False
            self._value = wanted
            return True


class TaskCount:
    """The number of tasks of one process that run or are about to run."""

    def __init__(self, cell: Cell | None = None) -> None:
        self._cell = cell or AtomicCell()

    @property
    def active(self) -> int:
        """The number of tasks."""
        return self._cell.load()

    def grow_to(self, wanted: int) -> int:
        """Count the missing tasks as running, and return how many. The caller starts exactly those."""
        while (active := self._cell.load()) < wanted:
            if self._cell.compare_and_set(active, wanted):
                return wanted - active
        return 0

    def leave(self, least: int) -> bool:
        """Take one task off if more than `least` are counted. The caller ends if this returns True, else it stays."""
        while (active := self._cell.load()) > least:
            if self._cell.compare_and_set(active, active - 1):
                return True
        return False


#: A task ends after so many receives in a row that failed, unless it is the one that stays.
MOST_FAILURES: Final = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Crew:
    """The state and functions shared by the tasks of one listener."""

    listening: Listening
    sources: Mapping[str, WorkSource]
    handle: Callable[[Delivery], object]
    clock: Clock
    partitions: Partitions
    #: Asked before the partitions. None: there is no such lane.
    urgent: UrgentLane | None
    depth: DepthSample
    observers: Observers
    renewals: Renewals
    count: TaskCount
    pace: HandlingTime
    stopping: Event
    #: Draws a random number in a range.
    uniform: Callable[[float, float], float]
    #: Waits so many seconds, or until the listener stops.
    pause: Callable[[float], object]
    #: Starts the tasks that the depth calls for.
    grow: Callable[[], object]


class DequeueTask:
    """A dequeue task. `run` returns once the task has left the count."""

    def __init__(self, crew: Crew) -> None:
        self._crew = crew
        #: Empty receives since the last rest, rests since the last message, failed receives in a row.
        self._misses = self._empties = self._failures = 0
        self._was_idle = True

    def run(self) -> None:
        """Receive and handle until this task may end."""
        while not self._try_leave() and self._step():
            pass

    def _try_leave(self) -> bool:
        """Leave the count if the listener ends, or if more tasks run than may run now."""
        crew = self._crew
        # At the end every task leaves, or the last would never end. Above the cap, tasks leave down to the cap.
        return crew.count.leave(0 if self._is_over() else crew.listening.most())

    def _is_over(self) -> bool:
        crew = self._crew
        is_late = crew.stopping.is_set() or crew.clock.monotonic() >= crew.listening.until
        return is_late or not crew.listening.most()

    def _step(self) -> bool:
        """Receive once and handle the messages. Return False when the task has left the count."""
        crew = self._crew
        lane = crew.urgent if crew.urgent is not None and crew.urgent.is_due() else None
        name = lane.source.name if lane else crew.partitions.next()
        if name is None:
            return not crew.count.leave(0)
        size = self._size()
        try:
            with looking() as look:
                found = (lane.source if lane else crew.sources[name]).receive(size)
                look.has_found = bool(found)
        except StorageUnavailableError as error:
            return self._note_failure(error)
        self._failures = 0
        if lane and not found:
            lane.note_empty()
            return True
        return self._handle_batch(found, is_full=len(found) == size) if found else self._note_miss(name)

    def _size(self) -> int:
        crew = self._crew
        left = crew.listening.until - crew.clock.monotonic()
        seconds = min(AHEAD, crew.listening.visibility / 2, left)
        tasks = crew.listening.sharing(crew.count.active)
        return receive_size(crew.depth.last, tasks, pace=crew.pace.seconds, seconds=seconds)

    def _note_failure(self, error: StorageUnavailableError) -> bool:
        crew = self._crew
        crew.observers.on_error(error)
        self._failures += 1
        if self._failures >= MOST_FAILURES and crew.count.leave(crew.listening.least):
            return False
        crew.pause(crew.listening.backoff.delay(self._failures, crew.uniform))
        return True

    def _note_miss(self, name: str) -> bool:
        crew = self._crew
        self._misses += 1
        if not crew.partitions.note_empty(name, self._misses):
            return True
        self._misses, self._empties, self._was_idle = 0, self._empties + 1, True
        crew.depth.note_empty()
        rest = crew.listening.on_queue_empty(self._empties)
        if rest.stop and crew.count.leave(crew.listening.least):
            return False
        crew.pause(rest.delay)
        return True

    def _handle_batch(self, found: Sequence[ReceivedMessage], *, is_full: bool) -> bool:
        crew = self._crew
        if self._was_idle:
            crew.listening.on_work_detected()
        self._misses, self._empties, self._was_idle = 0, 0, False
        for held in found:
            crew.renewals.keep(held)
        try:
            if is_full:
                # A short receive means that the queue is empty for every task.
                crew.grow()
            for held in found:
                self._handle(held)
        finally:
            for held in found:
                crew.renewals.drop(held)
        return True

    def _handle(self, held: ReceivedMessage) -> None:
        crew = self._crew
        if self._is_over():
            held.show_in(0)
            return
        if held.is_lost:
            return
        began = crew.clock.monotonic()
        try:
            crew.handle(held.delivery)
        except Exception as error:  # noqa: BLE001 - one bad message must not end the others
            crew.observers.on_error(error, held.delivery)
            held.show_in(crew.listening.visibility)
        else:
            held.delete()
            crew.observers.on_next(held.delivery)
        crew.pace.note(crew.clock.monotonic() - began)
