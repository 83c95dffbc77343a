"""A burst of 5,000 messages on an idle queue: who works on it, how many at a time, and what it takes.

The queue is the one in memory that keeps the contract of the one in storage (tests/dequeue/test_work_queue.py): the
local storage takes tens of milliseconds to delete one of 5,000 messages, so that its CPU is all that would be
measured. Slots and decisions are in the local storage, permits go over the local bus.
"""

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace

from azure.servicebus import ServiceBusReceiveMode
from servicebus_local.launcher import Broker

from shared.app import Stores
from shared.app.stages import Tasks
from shared.azure.connections import Connections
from shared.clock import SystemClock
from shared.concurrency.fleet import Decision
from shared.concurrency.tuning import Depths
from shared.dequeue.listener import QueueListener
from shared.dequeue.task import BackOff, Listening, pull
from shared.errors import SluiceError
from shared.messages import Permit, decode_permit
from shared.settings import Settings
from shared.topology import topology
from tests.dequeue.memory_queue import MemoryQueue
from tools.local.azurite.launcher import Azurite
from tools.local.provision import provision
from tools.local.stack import settings_for

MESSAGES = 5_000
#: Seconds that a message takes: it waits, as one does that calls somebody else.
WORK = 0.2
#: Seconds between two ticks, a minute's made short.
TICK = 1.0


@dataclass
class Burst:
    """What one burst came to."""

    seconds: float = 0.0
    #: Tasks, sampled: before, at the most, after.
    before: int = 0
    peak: int = 0
    after: int = 0
    receives: int = 0
    empties: int = 0
    permits: int = 0
    handled: int = 0
    decisions: list[Decision] = field(default_factory=list)


def by_push() -> Burst:
    """A fleet of instances that are woken: each permit is followed in a thread of its own, as on an instance."""
    with _stage() as (connections, settings):
        parsed = Settings.parse(settings)
        tasks, burst, handled = Tasks(Stores(connections), parsed), Burst(), _Handled()
        queue = MemoryQueue(SystemClock())
        drain = replace(tasks.drain(handled), sources=[queue])
        tick = _tuning(connections, parsed, queue, tasks.top_up.run)
        with _watched(burst), _instances(connections, drain.run, burst) as running:
            tick()
            burst.before = _tasks()
            with tasks.waking(MESSAGES, MESSAGES):
                queue.put(*_messages())
            began = time.monotonic()
            with _ticking(tick):
                _until(lambda: handled.count >= MESSAGES and not running() and not _tasks())
                burst.seconds = time.monotonic() - began
                time.sleep(2 * TICK)
            burst.after = _tasks()
        return _ended(burst, connections, queue, handled)


def by_pull() -> Burst:
    """A worker process with one task that polls."""
    with _stage() as (connections, settings):
        burst, handled, queue = Burst(), _Handled(), MemoryQueue(SystemClock())
        tick = _tuning(connections, Settings.parse(settings), queue)
        listening = Listening(rule=lambda depth: min(depth, 100), on_queue_empty=pull(BackOff()))
        with QueueListener([queue], handled, listening) as listener:
            listener.start(1)
            tick()
            time.sleep(2.0)
            burst.before = listener.query_state().active
            queue.requests.clear()
            queue.put(*_messages())
            began = time.monotonic()
            with _ticking(tick):
                _until(lambda: handled.count >= MESSAGES)
                burst.seconds = time.monotonic() - began
                _until(lambda: listener.query_state().active == 1)
                time.sleep(2 * TICK)
            burst.after, burst.peak = listener.query_state().active, listener.query_state().peak
        return _ended(burst, connections, queue, handled)


def _ended(burst: Burst, connections: Connections, queue: MemoryQueue, handled: "_Handled") -> Burst:
    burst.handled, burst.receives = handled.count, len(queue.receives)
    burst.empties = queue.receives.count(0)
    burst.decisions = Stores(connections).fleet.history(100)
    return burst


def _messages() -> list[bytes]:
    return [str(number).encode() for number in range(MESSAGES)]


def _wake_nobody(_depth: int, _tasks: int) -> int:
    return 0


def _tuning(
    connections: Connections, settings: Settings, queue: MemoryQueue, top_up: Callable[[int, int], int] = _wake_nobody
) -> Callable[[], object]:
    def depths(*, with_age: bool) -> Depths:
        return Depths(queue.depth(), 0.0 if with_age else None)

    return replace(Tasks(Stores(connections), settings).tuning, depths=depths, top_up=top_up).run


class _Handled:
    """A handler that takes its time and counts."""

    def __init__(self) -> None:
        self.count, self._lock = 0, threading.Lock()

    def __call__(self, _delivery: object) -> None:
        time.sleep(WORK)
        with self._lock:
            self.count += 1


@contextmanager
def _stage() -> Iterator[tuple[Connections, dict[str, str]]]:
    with Azurite.start() as azurite, Broker.start() as broker:
        provision(azurite.connection_string, topology())
        settings = settings_for(azurite.connection_string, broker.connection_string)
        with Connections.parse(settings) as connections:
            yield connections, settings


@contextmanager
def _instances(connections: Connections, run: Callable[[Permit], object], burst: Burst) -> Iterator[Callable[[], bool]]:
    """Follow what comes on the queue, each permit beside the others; yields whether any is followed now."""
    stop, following = threading.Event(), []

    def listen() -> None:
        mode = ServiceBusReceiveMode.RECEIVE_AND_DELETE
        with (
            connections.bus_client() as bus,
            bus.get_queue_receiver("permits", receive_mode=mode) as receiver,
            ThreadPoolExecutor(64) as pool,
        ):
            while not stop.is_set():
                for message in receiver.receive_messages(100, max_wait_time=0.5):
                    permit = decode_permit(b"".join(message.body))
                    if permit is not None:
                        burst.permits += 1
                        following.append(pool.submit(run, permit))

    thread = threading.Thread(target=listen)
    thread.start()
    try:
        yield lambda: any(not one.done() for one in following)
    finally:
        stop.set()
        thread.join()


@contextmanager
def _ticking(run: Callable[[], object]) -> Iterator[None]:
    stop = threading.Event()

    def ticks() -> None:
        while not stop.is_set():
            with suppress(SluiceError):
                run()
            stop.wait(TICK)

    thread = threading.Thread(target=ticks)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


@contextmanager
def _watched(burst: Burst) -> Iterator[None]:
    """Sample how many tasks there are."""
    stop = threading.Event()

    def look() -> None:
        while not stop.wait(0.005):
            burst.peak = max(burst.peak, _tasks())

    thread = threading.Thread(target=look)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


def _tasks() -> int:
    return sum(thread.name == "dequeue-task" for thread in threading.enumerate())


def _until(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + 300
    while not condition():
        if time.monotonic() > end:
            raise TimeoutError("the burst was not worked off")
        time.sleep(0.05)
