"""A worker process: follows permits from the bus, as the function `drain_work` does, without a Functions host.

Each lane follows one permit at a time, on a connection of its own, and its lock is renewed until the drain ends. While the
bus does not answer, one lane at a time checks the queues and gives this process the permits that a sender would have sent.
The rests between two checks grow while the queues are empty, up to a second.
"""

from collections.abc import Sequence
from queue import Empty, SimpleQueue
from random import uniform
from threading import Lock, Thread
from typing import Final

from azure.servicebus import AutoLockRenewer

from shared.azure import BusOperation, Connections
from shared.dequeue.drain import Drain
from shared.dequeue.hooks import BackOff
from shared.dequeue.notifier import TopUp
from shared.errors import StorageUnavailableError
from shared.permit import PERMIT, Permit
from shared.signals import TOPIC
from shared.telemetry import describe_error, events, tell

#: Seconds that one receive waits. A lane ends only between two receives.
RECEIVE_SECONDS: Final = 1.0
#: Seconds for which a lane checks the queues until it turns to the bus again.
AGAIN_AFTER: Final = 5.0
#: Seconds for which the lock of a permit is renewed: a drain hands over before.
LOCK_SECONDS: Final = 300.0
#: The rests between two checks.
_REST: Final = BackOff()


class PermitWorker:
    """The lanes of one worker process. `run` returns after the drain's `stop` was set and every task has ended."""

    def __init__(self, connections: Connections, drain: Drain, *, lanes: int) -> None:
        self._connections, self._drain, self._lanes, self._stop = connections, drain, lanes, drain.stop
        self._own: SimpleQueue[Permit] = SimpleQueue()
        self._top_up = TopUp(slots=drain.slots, fleet=drain.fleet, send=self._give)
        self._checking, self._empties, self._is_away = Lock(), 0, False

    def run(self) -> None:
        """Follow permits until `stop` is set."""
        threads = [Thread(target=self._run, name=f"lane-{number}", daemon=True) for number in range(self._lanes)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def _run(self) -> None:
        while not self._stop.is_set():
            try:
                self._follow_bus()
            except Exception as error:  # noqa: BLE001 - a lane that ended would leave its permits to others for good
                self._note_bus(describe_error(error))
                self._check_for(AGAIN_AFTER)

    def _follow_bus(self) -> None:
        # A client of the bus serves one thread.
        with (
            self._connections.bus_client() as bus,
            bus.get_subscription_receiver(TOPIC, PERMIT) as receiver,
            AutoLockRenewer(max_lock_renewal_duration=LOCK_SECONDS) as renewer,
        ):
            while not self._stop.is_set():
                messages = receiver.receive_messages(1, max_wait_time=RECEIVE_SECONDS)
                kind = BusOperation.RECEIVE if messages else BusOperation.RECEIVE_EMPTY
                self._connections.meter.count_bus(kind, TOPIC)
                self._note_bus("")
                for message in messages:
                    renewer.register(receiver, message)
                    self._drain.on_signal(b"".join(message.body))
                    receiver.complete_message(message)

    def _note_bus(self, problem: str) -> None:
        if problem and not self._is_away:
            tell(events.WORKER_POLLING, reason=problem)
        self._is_away = bool(problem)

    def _check_for(self, seconds: float) -> None:
        until = self._drain.clock.monotonic() + seconds
        while not self._stop.is_set() and self._drain.clock.monotonic() < until:
            try:
                self._drain.follow(self._own.get_nowait())
            except Empty:
                self._check()

    def _check(self) -> None:
        """Give this process the permits that are missing, or rest. One lane does it, and the others rest."""
        if self._checking.acquire(blocking=False):
            try:
                self._empties = 0 if self._find() else self._empties + 1
            except StorageUnavailableError as error:
                self._empties += 1
                tell(events.RECEIVE_FAILED, error=describe_error(error))
            finally:
                self._checking.release()
        if self._empties:
            self._stop.wait(_REST.delay(self._empties, uniform))

    def _find(self) -> bool:
        return self._drain.peek() > 0 and self._top_up.run(self._drain.depth()) > 0

    def _give(self, permits: Sequence[Permit]) -> int:
        for permit in permits[: self._lanes]:
            self._own.put(permit)
        return len(permits)
