"""A burst of 5,000 messages on an idle queue: who works on it, how many at a time, and what it takes."""

import math
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from unittest.mock import patch

from azure.servicebus import ServiceBusReceiveMode

from local.azurite.launcher import Azurite
from local.provision import provision
from local.servicebus.launcher import Broker
from local.stack import settings_for
from shared.clock import SystemClock
from shared.concurrency.decide import Decision
from shared.connections import Connections
from shared.dequeue.backoff import BackOff
from shared.dequeue.drain import Drain
from shared.dequeue.listener import QueueListener
from shared.dequeue.listening import Listening, pull
from shared.dequeue.permits import Permit, decode
from shared.dequeue.work_queue import WorkQueue
from shared.errors import SluiceError
from shared.settings import Settings
from shared.topology import topology
from shared.wiring import fleet_table, push, tuning, works
from shared.workloads.registry import Workloads

MESSAGES = 5_000
#: Seconds that a message takes: it waits, as one does that calls somebody else. With much less, a hundred tasks would
#: measure how fast the local storage is on two cores.
WORK = 0.5
#: The local storage looks through all messages at each receive, which takes a hundred of them at once longer on a busy
#: machine than any storage in Azure: seconds until a request is given up, and until a message comes back.
PATIENCE, HIDDEN_WHILE_WORKED_ON = 60, 180
#: Seconds in which all messages are put.
HIDDEN = 90.0
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
        return _pushed(connections, settings)


def _pushed(connections: Connections, settings: dict[str, str]) -> Burst:
    parsed = Settings.parse(settings)
    work = works(connections, Workloads.load(settings["SLUICE_WORKLOADS"], settings))
    woken, burst = push(connections, parsed, work), Burst()
    handled = _Handled()
    drain = Drain(
        sources=_sources(connections),
        handle=handled,
        fleet=woken.drain.fleet,
        slots=woken.drain.slots,
        send=woken.drain.send,
        clock=SystemClock(),
        visibility=HIDDEN_WHILE_WORKED_ON,
    )
    tick = tuning(connections, parsed, top_up=woken.top_up.run)
    begin = _put(connections)
    with _watched(burst), _instances(connections, drain.run, burst) as running:
        time.sleep(max(0.0, begin - time.time()))
        with woken.notifier(MESSAGES, MESSAGES):
            pass  # They were put before, and can be seen from now on.
        began = time.monotonic()
        with _ticking(tick.run):
            _until(lambda: handled.count >= MESSAGES and not running() and not _tasks())
            burst.seconds = time.monotonic() - began
            time.sleep(2 * TICK)
        burst.after = _tasks()
    burst.handled = handled.count
    burst.receives, burst.empties = _receives(connections)
    burst.decisions = fleet_table(connections).history(100)
    return burst


def by_pull() -> Burst:
    """A worker process with one task that polls."""
    with _stage() as (connections, settings):
        burst, handled = Burst(), _Handled()
        tick = tuning(connections, Settings.parse(settings))
        listening = Listening(
            rule=lambda depth: min(depth, 100),
            on_queue_empty=pull(BackOff()),
            visibility=HIDDEN_WHILE_WORKED_ON,
        )
        listener = QueueListener(_sources(connections), handled, listening)
        begin = _put(connections)
        with listener:
            listener.start(1)
            time.sleep(max(0.0, begin - 1 - time.time()))
            burst.before, (idle, _) = listener.query_state().active, _receives(connections)
            time.sleep(max(0.0, begin - time.time()))
            began = time.monotonic()
            with _ticking(tick.run):
                _until(lambda: handled.count >= MESSAGES)
                burst.seconds, (receives, _) = time.monotonic() - began, _receives(connections)
                _until(lambda: listener.query_state().active == 1)
                time.sleep(2 * TICK)
            burst.after, burst.peak = listener.query_state().active, listener.query_state().peak
        burst.handled, burst.receives = handled.count, receives - idle
        burst.decisions = fleet_table(connections).history(100)
        return burst


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
        with patch("shared.connections.PATIENCE", PATIENCE), Connections.parse(settings) as connections:
            yield connections, settings


def _sources(connections: Connections) -> list[WorkQueue]:
    client = connections.queues.get_queue_client("work-00")
    return [WorkQueue(client, SystemClock(), HIDDEN_WHILE_WORKED_ON)]


def _put(connections: Connections) -> float:
    """Put all messages so that they can be seen from one moment on, and return that moment."""
    begin = time.time() + HIDDEN

    def put(number: int) -> None:
        queue.send_message(str(number), visibility_timeout=math.ceil(max(0.0, begin - time.time())))

    # By a connection of its own, so that the count is of those who work.
    with Connections(connections._storage) as own, ThreadPoolExecutor(16) as pool:
        queue = own.queues.get_queue_client("work-00")
        list(pool.map(put, range(MESSAGES)))
    return begin + 1


@contextmanager
def _instances(connections: Connections, run: Callable[[Permit], object], burst: Burst) -> Iterator[Callable[[], bool]]:
    """Follow what comes on the subscription, each permit beside the others; yields whether any is followed now."""
    stop, following = threading.Event(), []

    def listen() -> None:
        mode = ServiceBusReceiveMode.RECEIVE_AND_DELETE
        with (
            connections.bus_client() as bus,
            bus.get_subscription_receiver("signals", "work", receive_mode=mode) as receiver,
            ThreadPoolExecutor(64) as pool,
        ):
            while not stop.is_set():
                for message in receiver.receive_messages(100, max_wait_time=0.5):
                    permit = decode(b"".join(message.body))
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
    burst.before = _tasks()

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


def _receives(connections: Connections) -> tuple[int, int]:
    counts = connections.meter.tally.counts()
    found = {cause: number for (kind, cause), number in counts.items() if kind.operation == "GetMessages"}
    return sum(found.values()), sum(number for cause, number in found.items() if cause.value == "idle")


def _until(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + 300
    while not condition():
        if time.monotonic() > end:
            raise TimeoutError("the burst was not worked off")
        time.sleep(0.05)
