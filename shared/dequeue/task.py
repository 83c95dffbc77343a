"""One dequeue task: receive a share of the depth, handle it message by message, and end when the count allows it.

The number of tasks of a process is changed by compare-and-set only, so no two tasks act on the same count. Suppose
instead that a task reads the count first and acts later. By "stop if more than one runs", two tasks read "two" and none
is left. By "start the missing tasks", two tasks start them twice. Here a task acts only after it changed the count from
exactly the value that it decided upon.

The behaviour of a listener: its numbers, its rule, and its hooks.

- `BackOff`: the pause before an empty queue is polled again. It is random and exponential, so that tasks drift apart.
- `Observers`, `Telling`: the subscribers of a listener. `Telling` logs failures, as a host does for its own triggers.
- `pull`, `push`: the answers to an empty queue.
- `Listening`: all of it together.
"""

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from math import inf
from threading import Event, Lock
from typing import Final, Protocol, TypeAlias

from shared.azure import looking
from shared.clock import Clock
from shared.dequeue.receiving import AHEAD, HandlingTime, OwnPuts, UrgentLane, receive_size
from shared.dequeue.work_queue import DepthSample, Partitions, ReceivedMessage, Renewals, WorkSource, redeliver_after
from shared.errors import PutOffError, StorageUnavailableError
from shared.messages import Delivery
from shared.parked import count_left
from shared.telemetry import describe_error, events, place, tell
from shared.topology import GUARD

#: More doublings pass any interval. The bound only keeps the power finite.
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
            raise ValueError(f"{self} is invalid: expected 0 <= shortest <= longest, longest > 0 and step > 0")

    def delay(self, empties: int, uniform: Callable[[float, float], float]) -> float:
        """Return the wait after so many empty receives in a row. `uniform` draws a random number in a range."""
        doubled = 2.0 ** min(empties, _MOST_DOUBLINGS) - 1.0
        return min(self.longest, self.shortest + doubled * uniform(self.step * _LOWEST, self.step * _HIGHEST))

    def is_longest(self, delay: float) -> bool:
        """Return True if a task that waits so long has been idle for as long as it may be."""
        return delay >= self.longest


class ListenerObserver(Protocol):
    """A subscriber of a listener. An error that it raises is logged and changes nothing."""

    def on_next(self, delivery: Delivery, /) -> None:
        """Note that a message was handled."""
        ...

    def on_error(self, error: BaseException, delivery: Delivery | None, /) -> None:
        """Note that the handler of a message failed, or, without a message, that a queue did not answer."""
        ...

    def on_completed(self) -> None:
        """Note that a task ended."""
        ...


class Observers:
    """Notifies every subscriber. A failure of one is logged and stops neither the others nor the work."""

    def __init__(self) -> None:
        self._observers: list[ListenerObserver] = []
        self._lock = Lock()

    def subscribe(self, observer: ListenerObserver) -> Callable[[], None]:
        """Notify this observer too from now on. Return the function that ends its subscription."""
        with self._lock:
            self._observers.append(observer)
        return lambda: self._unsubscribe(observer)

    def on_next(self, delivery: Delivery) -> None:
        """Report that a message was handled."""
        self._notify(lambda observer: observer.on_next(delivery))

    def on_error(self, error: BaseException, delivery: Delivery | None = None) -> None:
        """Report that the handler of a message failed, or, without a message, that a queue did not answer."""
        self._notify(lambda observer: observer.on_error(error, delivery))

    def on_completed(self) -> None:
        """Report that a task ended."""
        self._notify(lambda observer: observer.on_completed())

    def _unsubscribe(self, observer: ListenerObserver) -> None:
        with self._lock:
            self._observers = [other for other in self._observers if other is not observer]

    def _notify(self, call: Callable[[ListenerObserver], None]) -> None:
        with self._lock:
            observers = list(self._observers)
        for observer in observers:
            try:
                call(observer)
            except Exception as error:  # noqa: BLE001 - an observer is the caller's code
                tell(events.LISTENER_OBSERVER_FAILED, error=describe_error(error), at=place(error))


class Telling:
    """An observer that logs failures as events."""

    def on_next(self, delivery: Delivery, /) -> None:
        """Log nothing: the handler logs its own outcome."""

    def on_error(self, error: BaseException, delivery: Delivery | None, /) -> None:
        """Log that a message is redelivered, or that a queue did not answer."""
        if delivery is None:
            tell(events.RECEIVE_FAILED, error=describe_error(error))
            return
        if isinstance(error, PutOffError):
            # Its worker said what it waits for.
            return
        tell(
            events.MESSAGE_FAILED,
            queue=delivery.queue,
            message_id=delivery.message_id,
            delivery=delivery.count,
            error=describe_error(error),
            at=place(error),
            left=count_left(error).left,
        )

    def on_completed(self) -> None:
        """Log nothing: tasks come and go."""


@dataclass(frozen=True, slots=True)
class Rest:
    """The answer to an empty queue: seconds until the next receive, and whether the task may end instead."""

    delay: float
    stop: bool
    #: Tasks that rest instead: more comes soon.
    least: int = 0

    @property
    def is_end(self) -> bool:
        """Return whether a task ends with no look more. Then no other task receives from that queue either."""
        return self.stop and not self.delay and not self.least


#: Called after an empty receive, with the number of rounds in a row that found every queue empty.
OnQueueEmpty: TypeAlias = Callable[[int], Rest]


def pull(backoff: BackOff, uniform: Callable[[float, float], float] = random.uniform) -> OnQueueEmpty:
    """Build the hook of a worker that polls: rest longer each time, and end at the longest rest.

    The listener keeps its `least` tasks even then.
    """

    def rest(empties: int) -> Rest:
        delay = backoff.delay(empties, uniform)
        return Rest(delay, stop=backoff.is_longest(delay))

    return rest


def push(_empties: int) -> Rest:
    """Answer for tasks that a signal starts: end at the first empty receive."""
    return Rest(0.0, stop=True)


#: Seconds that the last task of a slot rests while chunks wait for their turn.
FED_REST: Final = 0.5


def push_until_fed(waiting: Callable[[], int]) -> OnQueueEmpty:
    """Build the hook of tasks that a signal starts: they end, but for the last one while chunks wait for their turn.

    Else each gap of the feeder would end the fleet.
    """

    def rest(empties: int) -> Rest:
        return Rest(FED_REST, stop=True, least=1) if waiting() else push(empties)

    return rest


def _nothing() -> None:
    """Do nothing when work is detected."""


def _ignore_hidden(_seconds: float) -> None:
    """Do nothing when a message hides: a task that polls finds it."""


def _no_cap() -> int:
    return 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Listening:
    """The behaviour of a listener. Its rule and its cap count tasks over all processes."""

    #: Tasks that a depth calls for.
    rule: Callable[[int], int]
    #: Tasks that may run now.
    cap: Callable[[], int] = _no_cap
    #: Processes that listen to the same queues. Each keeps its `least` tasks, even if they exceed the cap together.
    processes: int = 1
    #: Tasks that stay when the queues are empty: 1 to poll, 0 where a signal starts them.
    least: int = 1
    #: Says what a task does that found nothing.
    on_queue_empty: OnQueueEmpty = field(default_factory=lambda: pull(BackOff()))
    #: Called when a task finds work at its first receive or after a rest.
    on_work_detected: Callable[[], object] = _nothing
    #: Called when a message hides for so many seconds, after which no task may be here.
    on_hidden: Callable[[float], object] = _ignore_hidden
    #: Seconds between two samples of the depth.
    depth_every: float = 5.0
    #: The depth at the beginning if the caller knows it: saves the first sample.
    first_depth: int | None = None
    #: Tasks over all processes that share the depth. None: the tasks that run here, times the processes.
    fleet: int | None = None
    #: The number of the queue to begin with.
    first_queue: int = 0
    #: Seconds for which a received message is hidden.
    visibility: int = int(GUARD.total_seconds())
    #: No receive from this moment on, in the clock's monotonic seconds.
    until: float = inf
    #: The pauses after receives that failed.
    backoff: BackOff = field(default_factory=BackOff)

    def __post_init__(self) -> None:
        if self.processes < 1 or self.least < 0 or self.visibility < 2:
            raise ValueError(f"{self} is invalid: expected processes >= 1, least >= 0, visibility >= 2")

    def most(self) -> int:
        """Return how many tasks this process may run now: its part of the cap, rounded down."""
        return max(self.least, self.cap() // self.processes)

    def count_wanted(self, depth: int) -> int:
        """Return how many tasks of this process a depth calls for: its part of the rule, rounded up.

        The rule counts for at most one task per message. The process runs at most its part of the cap.
        """
        return min(-(-min(self.rule(depth), depth) // self.processes), self.most())

    def sharing(self, active: int) -> int:
        """Return how many tasks share the depth."""
        return self.fleet or active * self.processes


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
    #: True: it dropped the message, as no work.
    handle: Callable[[Delivery], object]
    clock: Clock
    partitions: Partitions
    #: Asked before the partitions. None: there is no such lane.
    urgent: UrgentLane | None
    #: Taken before all others. None: this listener takes what it receives.
    own: OwnPuts | None
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
        #: Whether every message of the last receive was dropped.
        self._drops = False

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
        if crew.own is not None and (put := crew.own.take()) is not None:
            return self._handle_batch([put], is_full=False)
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
        # What is dropped is no work, so more of it is taken than could be worked on.
        pace = None if self._drops else crew.pace.seconds
        return receive_size(crew.depth.last, tasks, pace=pace, seconds=seconds)

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
        rest = crew.listening.on_queue_empty(self._empties + 1)
        if not crew.partitions.note_empty(name, self._misses, ends=rest.is_end):
            return True
        self._misses, self._empties, self._was_idle = 0, self._empties + 1, True
        if not rest.least:
            crew.depth.note_empty()
        if rest.stop and crew.count.leave(max(crew.listening.least, rest.least)):
            return False
        crew.pause(rest.delay)
        return True

    def _handle_batch(self, found: Sequence[ReceivedMessage], *, is_full: bool) -> bool:
        crew = self._crew
        if self._was_idle:
            crew.listening.on_work_detected()
        self._misses, self._empties, self._was_idle = 0, 0, False
        until = crew.clock.monotonic() + AHEAD if self._drops else inf
        self._drops = True
        for held in found:
            crew.renewals.keep(held)
        try:
            if is_full:
                # A short receive means that the queue is empty for every task.
                crew.grow()
            for held in found:
                if not self._drops and crew.clock.monotonic() >= until:
                    # So many were taken to be dropped, and these are work: for a task that has time.
                    held.show_in(0)
                else:
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
        began, is_dropped = crew.clock.monotonic(), False
        try:
            is_dropped = crew.handle(held.delivery) is True
        except Exception as error:  # noqa: BLE001 - one bad message must not end the others
            crew.observers.on_error(error, held.delivery)
            held.show_in(seconds := redeliver_after(error, held.delivery.count))
            crew.listening.on_hidden(seconds)
        else:
            held.delete()
            crew.observers.on_next(held.delivery)
        self._drops = self._drops and is_dropped
        if not is_dropped:
            # Else a task would take as many of the messages behind these, which are work.
            crew.pace.note(crew.clock.monotonic() - began)
