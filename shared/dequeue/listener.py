"""A listener that runs as many dequeue tasks as the depth of its queues calls for.

Pull: one task stays, polls ever less often, and grows to the rule when it finds work (1, rule, 1). Push: a signal
starts the first task, and all end when the queues are empty (0, rule, 0).
"""

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from threading import Event, Lock, Thread
from types import TracebackType
from typing import Self

from shared.clock import Clock, SystemClock
from shared.dequeue.hooks import HandlingTime, ListenerObserver, Listening, Observers, push
from shared.dequeue.renewal import Renewals
from shared.dequeue.task import Crew, DequeueTask, TaskCount
from shared.dequeue.work_queue import DepthSample, Partitions, WorkSource
from shared.messages import Delivery
from shared.telemetry import describe_error, events, place, tell


@dataclass(frozen=True, slots=True)
class ListenerState:
    """How a listener stands now; asking for it costs nothing."""

    #: As it was sampled last.
    depth: int
    active: int
    #: The most that were active at a time.
    peak: int


class QueueListener:
    """Listens while it is entered; `handle` is called for each message, which is done when it returns.

    A handler that raises gets its message again after a while; whether it ever gives up is up to the handler.
    """

    def __init__(
        self,
        sources: Sequence[WorkSource],
        handle: Callable[[Delivery], object],
        listening: Listening,
        *,
        clock: Clock | None = None,
        uniform: Callable[[float, float], float] = random.uniform,
    ) -> None:
        clock, stopping = clock or SystemClock(), Event()
        self._crew = Crew(
            listening=listening,
            sources={one.name: one for one in sources},
            handle=handle,
            clock=clock,
            partitions=Partitions(
                [one.name for one in sources], first=listening.first_queue, ends=listening.on_queue_empty is push
            ),
            depth=DepthSample(
                lambda: sum(one.depth() for one in sources), clock, listening.depth_every, first=listening.first_depth
            ),
            observers=Observers(),
            renewals=Renewals(clock),
            count=TaskCount(),
            pace=HandlingTime(),
            stopping=stopping,
            uniform=uniform,
            pause=stopping.wait,
            grow=self._grow,
        )
        self._peak, self._lock = 0, Lock()
        self._threads: list[Thread] = []

    def start(self, tasks: int) -> int:
        """Have at least so many tasks, or as many as may run now; returns how many were started for it."""
        count, listening = self._crew.count, self._crew.listening
        missing = count.grow_to(min(tasks, listening.most()))
        for number in range(missing):
            try:
                self._start_one()
            except RuntimeError:
                # The system has no thread left: those that were counted and do not run leave the count.
                for _ in range(missing - number):
                    count.leave(0)
                raise
        return missing

    def query_state(self) -> ListenerState:
        """Return how it stands now; no request is made."""
        return ListenerState(self._crew.depth.last, self._crew.count.active, self._peak)

    def subscribe(self, observer: ListenerObserver) -> Callable[[], None]:
        """Tell the observer what happens from now on; returns what ends the subscription."""
        return self._crew.observers.subscribe(observer)

    def wait(self) -> None:
        """Return when no task is left."""
        while threads := self._running():
            threads[0].join()

    def stop(self) -> None:
        """End every task after the message that it handles; what was received and not begun is given back."""
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
            self._peak = max(self._peak, self._crew.count.active)

    def _running(self) -> list[Thread]:
        with self._lock:
            self._threads = [thread for thread in self._threads if thread.is_alive()]
            return list(self._threads)

    def _main(self) -> None:
        while not self._ran_to_its_end():
            # It is still counted: a new task takes the place of the one that failed, or nobody might be left.
            self._crew.pause(self._crew.listening.backoff.longest)
        self._crew.observers.on_completed()

    def _ran_to_its_end(self) -> bool:
        try:
            DequeueTask(self._crew).run()
        except BaseException as error:  # noqa: BLE001 - a workload may end its thread in any way
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
