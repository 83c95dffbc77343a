"""A worker process of the registration benchmark: it receives as the host does, and counts what a bill would have."""

import sys
import time
import traceback
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from multiprocessing.connection import Connection
from threading import Event, Lock, Thread
from typing import Any, Final, NamedTuple

from azure.servicebus import NEXT_AVAILABLE_SESSION, ServiceBusReceiver
from azure.servicebus.exceptions import OperationTimeoutError, ServiceBusError

from shared.azure import BUS, BusOperation, Cause, Connections
from tests.benchmarks.registration_contender import Contender, Function

#: Seconds that a receiver waits for the first message, and one of a session, as host.json says.
_PATIENCE, _SESSION_IDLE = 2.0, 1.0
#: Messages that a receiver holds ahead of a call.
_AHEAD: Final = 100


class Used(NamedTuple):
    """What a process has used so far."""

    #: By service and operation, without what looked and found nothing.
    storage: Counter[str]
    bus: Counter[str]
    #: Seconds of CPU.
    cpu: float
    failures: int
    #: When a view showed the answer of each order, in monotonic seconds.
    answered: Mapping[str, float]


class Work:
    """What a worker process does."""

    def __init__(self, contender: Contender) -> None:
        self._connections, self._stop, self._lock = contender.connections, Event(), Lock()
        self._answered: dict[str, float] = {}
        self._failures = 0
        self._threads = [
            Thread(target=self._serve, args=(function,))
            for function in contender.functions(self._note_answered)
            for _ in range(function.at_once)
        ]

    def start(self) -> None:
        """Receive from now on."""
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """Receive no more, and wait for what is under way."""
        self._stop.set()
        for thread in self._threads:
            thread.join()

    def used(self) -> Used:
        """Return what was used so far, and the orders that were answered since the last time."""
        with self._lock:
            answered, self._answered = self._answered, {}
            return used_by(self._connections)._replace(failures=self._failures, answered=answered)

    def _note_answered(self, orders: Iterable[str]) -> None:
        now = time.monotonic()
        with self._lock:
            for order in orders:
                self._answered.setdefault(order, now)

    def _serve(self, function: Function) -> None:
        while not self._stop.is_set():
            with suppress(OperationTimeoutError), self._connections.bus_client() as bus:
                try:
                    with _receiver(bus, function) as receiver:
                        self._drain(function, receiver)
                except OperationTimeoutError:
                    raise
                except ServiceBusError as error:
                    self._fail(error)

    def _drain(self, function: Function, receiver: ServiceBusReceiver) -> None:
        """Receive until stopped; from a session until it is idle."""
        entity, meter = function.queue or function.topic, self._connections.meter
        while not self._stop.is_set():
            idle = _SESSION_IDLE if function.has_sessions else _PATIENCE
            messages = receiver.receive_messages(function.most, max_wait_time=idle)
            if not messages:
                meter.count_bus(BusOperation.RECEIVE_EMPTY, entity)
                if function.has_sessions:
                    return
                continue
            meter.count_bus(BusOperation.RECEIVE, entity, len(messages))
            try:
                function.handle(messages)
            except Exception as error:  # noqa: BLE001 - the messages come again, and the run counts it
                self._fail(error)
                meter.count_bus(BusOperation.ABANDON, entity, len(messages))
                for message in messages:
                    receiver.abandon_message(message)
                continue
            meter.count_bus(BusOperation.COMPLETE, entity, len(messages))
            for message in messages:
                receiver.complete_message(message)

    def _fail(self, error: Exception) -> None:
        with self._lock:
            self._failures += 1
        traceback.print_exception(error, limit=-3, file=sys.stderr)


@contextmanager
def _receiver(bus: Any, function: Function) -> Iterator[ServiceBusReceiver]:
    # What arrives between two calls waits in the client. Without this the client gives it back, which now and then fails,
    # and then the message comes again only when its lock has run out.
    session: dict[str, Any] = {"prefetch_count": min(function.most, _AHEAD)}
    if function.has_sessions:
        session |= {"session_id": NEXT_AVAILABLE_SESSION, "max_wait_time": _PATIENCE}
    if function.queue:
        made = bus.get_queue_receiver(function.queue, **session)
    else:
        made = bus.get_subscription_receiver(function.topic, function.subscription, **session)
    with made as receiver:
        yield receiver


_LOOKED: Final = frozenset({Cause.IDLE})


def used_by(connections: Connections) -> Used:
    """Return what the clients of a process have used so far."""
    storage, bus = Counter[str](), Counter[str]()
    for (kind, cause), number in connections.meter.tally.counts().items():
        if cause not in _LOOKED:
            (bus if kind.service == BUS else storage)[f"{kind.entity} {kind.operation}"] += number
    return Used(storage, bus, time.process_time(), 0, {})


def work(kind: type[Contender], settings: dict[str, str], orders: Connection) -> None:
    """Be a worker process: say what was used whenever asked, and end when told."""
    with kind(settings) as contender:
        worker = Work(contender)
        worker.start()
        orders.send(None)
        while orders.recv() is not None:
            orders.send(worker.used())
        worker.stop()
