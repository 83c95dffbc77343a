"""A listener that runs as many dequeue tasks as the depth of its queues calls for.

- Pull: one task stays and polls ever less often. When it finds work, tasks grow to the rule (1, rule, 1).
- Push: a signal starts the first task, and all end when the queues are empty (0, rule, 0).
"""

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from threading import Event, Lock, Thread
from types import TracebackType
from typing import Final, Self

from shared.clock import Clock, SystemClock
from shared.dequeue.receiving import HandlingTime, OwnPuts, UrgentLane
from shared.dequeue.task import Crew, DequeueTask, ListenerObserver, Listening, Observers, TaskCount, Telling, push
from shared.dequeue.work_queue import DepthSample, Partitions, Renewals, WorkSource
from shared.messages import Delivery
from shared.telemetry import describe_error, events, place, tell


@dataclass(frozen=True, slots=True)
class ListenerState:
    """The depth and the tasks of a listener now. Reading it makes no request."""

    #: The last sample.
    depth: int
    active: int
    #: The most tasks that were active at a time.
    peak: int


class QueueListener:
    """Listens while it is entered. It calls `handle` for each message and deletes the message when that returns.

    If the handler raises, the message is redelivered after a while. Only the handler decides when to give up.
    """

    def __init__(  # noqa: PLR0913 - the parts of a listener, each of which a test replaces
        self,
        sources: Sequence[WorkSource],
        handle: Callable[[Delivery], object],
        listening: Listening,
        *,
        urgent: UrgentLane | None = None,
        own: OwnPuts | None = None,
        pace: HandlingTime | None = None,
        clock: Clock | None = None,
        uniform: Callable[[float, float], float] = random.uniform,
    ) -> None:
        clock, stopping = clock or SystemClock(), Event()
        self._crew = Crew(
            listening=listening,
            sources={source.name: source for source in sources},
            handle=handle,
            clock=clock,
            partitions=Partitions([source.name for source in sources], first=listening.first_queue),
            urgent=urgent,
            own=own,
            depth=DepthSample(
                lambda: sum(source.depth() for source in sources),
                clock,
                listening.depth_every,
                first=listening.first_depth,
            ),
            observers=Observers(),
            renewals=Renewals(clock),
            count=TaskCount(),
            pace=pace or HandlingTime(),
            stopping=stopping,
            uniform=uniform,
            pause=stopping.wait,
            grow=self._grow,
        )
        self._peak, self._lock = 0, Lock()
        self._threads: list[Thread] = []

    def start(self, tasks: int) -> int:
        """Grow to so many tasks, or to as many as may run now. Return how many were started."""
        count, listening = self._crew.count, self._crew.listening
        wanted = min(tasks, listening.most())
        missing = count.grow_to(wanted)
        if missing:
            # Noted before they start: a task may end while the next one is started.
            with self._lock:
                self._peak = max(self._peak, wanted)
        for number in range(missing):
            try:
                self._start_one()
            except RuntimeError:
                # The system has no thread left: tasks that were counted but do not run leave the count.
                for _ in range(missing - number):
                    count.leave(0)
                raise
        return missing

    def query_state(self) -> ListenerState:
        """Return the depth and the tasks now. Makes no request."""
        return ListenerState(self._crew.depth.last, self._crew.count.active, self._peak)

    def subscribe(self, observer: ListenerObserver) -> Callable[[], None]:
        """Notify the observer from now on. Return the function that ends the subscription."""
        return self._crew.observers.subscribe(observer)

    def wait(self) -> None:
        """Return when no task is left."""
        while threads := self._running():
            threads[0].join()

    def stop(self) -> None:
        """End every task after the message that it handles. Messages received but not begun are given back."""
        self._crew.stopping.set()
        self.wait()

    def _grow(self) -> None:
        try:
            self.start(self._crew.listening.count_wanted(self._crew.depth.depth()))
        except RuntimeError:
            tell(events.TASK_REFUSED, active=self._crew.count.active)

    def _start_one(self) -> None:
        thread = Thread(target=self._main, name="dequeue-task", daemon=True)
        thread.start()
        with self._lock:
            self._threads.append(thread)

    def _running(self) -> list[Thread]:
        with self._lock:
            self._threads = [thread for thread in self._threads if thread.is_alive()]
            return list(self._threads)

    def _main(self) -> None:
        while not self._try_run():
            # The thread is still counted: without a new task in place of the failed one, none might be left.
            self._crew.pause(self._crew.listening.backoff.longest)
        self._crew.observers.on_completed()

    def _try_run(self) -> bool:
        """Run a task to its end. Return False if it failed."""
        try:
            DequeueTask(self._crew).run()
        except BaseException as error:  # noqa: BLE001 - whatever ended it, another must take its place
            tell(events.TASK_FAILED, error=describe_error(error), at=place(error))
            self._crew.observers.on_error(error)
            return False
        return True

    def __enter__(self) -> Self:
        self._crew.renewals.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()
        self._crew.renewals.__exit__(kind, error, trace)


#: Tasks of a sweep.
TASKS: Final = 8
#: Seconds between two reads of the depth in a sweep.
SWEEP_DEPTH_EVERY: Final = 1.0


def sweep(  # noqa: PLR0913 - what it takes from, how, and for how long
    sources: Sequence[WorkSource],
    handle: Callable[[Delivery], object],
    until: float,
    *,
    clock: Clock,
    visibility: int,
    tasks: int = TASKS,
) -> None:
    """Handle messages by up to so many tasks until every queue is empty, or until this moment of the clock."""
    listening = Listening(
        rule=lambda _depth: tasks,
        cap=lambda: tasks,
        least=0,
        on_queue_empty=push,
        depth_every=SWEEP_DEPTH_EVERY,
        first_depth=tasks,
        visibility=visibility,
        until=until,
    )
    with QueueListener(sources, handle, listening, clock=clock) as listener:
        listener.subscribe(Telling())
        # One task receives first: a needless sweep costs one empty receive per queue.
        listener.start(1)
        listener.wait()
