"""One process of the on-sale benchmark: an instance with the loops of the triggers of orders, or the one that ticks.

It may be killed at any moment. So it writes each line of its record before what the line says happens.
"""

import json
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeAlias

from azure.core.exceptions import AzureError
from azure.servicebus import NEXT_AVAILABLE_SESSION, AutoLockRenewer, ServiceBusClient, ServiceBusReceiver
from azure.servicebus.exceptions import OperationTimeoutError, ServiceBusError
from azure.storage.queue import QueueClient, QueueMessage

from capabilities.registration.entities import (
    CONFERENCES_VIEW,
    DEAD,
    ORDER_EVENTS,
    ORDERS,
    ORDERS_VIEW,
    PROCESSES,
    SEATS_EVENTS,
    STARTS_IN_ORDER,
    TIMEOUTS,
    seat_lane_names,
)
from capabilities.registration.flows import RegistrationPart
from capabilities.registration.public_messages import CONFERENCES_QUEUE
from shared.app import App
from shared.azure import Connections
from shared.capability import DeadLetter
from shared.messages import Delivery
from shared.settings import Settings
from shared.signals import Hint
from shared.workloads import Workloads
from tests.benchmarks.fleet import Record

#: As host.json says: signals at the same time, messages of a batch, seconds until a session is given up.
SIGNALS, BATCH, SESSION_IDLE = 5, 64, 1.0
#: As host.json says, for the longest renewal of a signal's lock.
RENEWED_FOR: Final = 300
#: Threads that take orders, and the messages that each receives at a time: the threads of a host with two cores.
TAKERS, TAKEN = 6, 4
#: Seconds for which a message is its receiver's, and after which a failed one comes again. The host hides it for 600, and so
#: each reply of a busy Azurite that is lost here would take ten minutes of the measurement.
_HIDDEN, _AGAIN = 60, 30
_TICK_EVERY: Final = 60.0
Open: TypeAlias = Callable[[ServiceBusClient], ServiceBusReceiver]
Verb: TypeAlias = Callable[[Sequence[bytes]], object]


@dataclass(frozen=True)
class Role:
    """What one process does."""

    settings: dict[str, str]
    record: str
    ticks: bool = False
    #: Verbs whose first invocation of all processes ends with the death of its process. Nothing is completed then.
    deadly: Sequence[str] = ()
    #: Verbs whose batches come the other way round, as from a bus that gave messages back.
    backward: Sequence[str] = ()


class Instance:
    """The loops of one process."""

    def __init__(self, role: Role, app: App, record: Record) -> None:
        (built,) = app.parts.built
        self._part: RegistrationPart = built.verbs
        self._lanes = seat_lane_names(built.chosen.choice.seat_lanes)
        self._role, self._app, self._record = role, app, record
        self._connections = app.stores.connections

    def loops(self) -> list[Callable[[], None]]:
        """Return the loop of each trigger."""
        part = self._part
        subscriptions: list[tuple[str, str, Verb]] = [
            (SEATS_EVENTS, PROCESSES, part.hear),
            (ORDER_EVENTS, ORDERS_VIEW, part.project_orders),
            (SEATS_EVENTS, CONFERENCES_VIEW, part.project_conferences),
        ]
        queues: list[tuple[str, Verb]] = [
            (TIMEOUTS, part.expire),
            (DEAD, self._park),
            (CONFERENCES_QUEUE.name, self._manage),
        ]
        sessions: list[tuple[str, Verb]] = [(STARTS_IN_ORDER, part.start), *((lane, part.sell) for lane in self._lanes)]
        batches: list[tuple[Open, Verb]] = [
            (lambda bus, queue=queue: bus.get_queue_receiver(queue), verb)  # type: ignore[misc]
            for queue, verb in queues
        ]
        batches += [
            (lambda bus, one=one: bus.get_subscription_receiver(one[0], one[1]), one[2])  # type: ignore[misc]
            for one in subscriptions
        ]
        return [
            *[self._take] * TAKERS,
            *[self._release] * SIGNALS,
            *(lambda one=one: self._receive(*one) for one in batches),  # type: ignore[misc]
            *(lambda one=one: self._take_sessions(*one) for one in sessions),  # type: ignore[misc]
        ]

    def _take(self) -> None:
        queue = self._connections.queues.get_queue_client(ORDERS)
        while True:
            found: list[QueueMessage] = []
            with suppress(AzureError):
                found = list(queue.receive_messages(max_messages=TAKEN, visibility_timeout=_HIDDEN))
            for one in found:
                self._take_one(queue, one)
            time.sleep(0.0 if found else 0.5)

    def _take_one(self, queue: QueueClient, one: QueueMessage) -> None:
        delivery = Delivery(queue=ORDERS, message_id=one.id, body=one.content.encode(), count=one.dequeue_count or 1)
        try:
            self._part.verbs.take(delivery)
            queue.delete_message(one)
        except Exception as error:  # noqa: BLE001 - as the host: whatever it is, the message comes again
            self._record.write("taken_again", error=f"{type(error).__name__}: {error}"[:300])
            with suppress(AzureError):
                queue.update_message(one, visibility_timeout=_AGAIN)

    def _release(self) -> None:
        with (
            self._connections.bus_client() as bus,
            AutoLockRenewer(max_lock_renewal_duration=RENEWED_FOR) as renewer,
            bus.get_subscription_receiver("signals", "release", auto_lock_renewer=renewer) as receiver,
        ):
            while True:
                for message in receiver.receive_messages(max_message_count=1, max_wait_time=5):
                    said = {key.decode(): _text(value) for key, value in (message.application_properties or {}).items()}
                    hint = Hint.of(message.subject, said)
                    self._invoke(receiver, [message], lambda _bodies, hint=hint: self._app.release(hint), "release")

    def _receive(self, open_receiver: Open, verb: Verb) -> None:
        with self._connections.bus_client() as bus:
            while True:
                with open_receiver(bus) as receiver:
                    self._empty(receiver, verb, is_endless=True)

    def _take_sessions(self, queue: str, verb: Verb) -> None:
        with self._connections.bus_client() as bus:
            while True:
                try:
                    with bus.get_queue_receiver(queue, session_id=NEXT_AVAILABLE_SESSION, max_wait_time=10) as receiver:
                        self._empty(receiver, verb, is_endless=False)
                except OperationTimeoutError:
                    # No session has a message.
                    continue
                except ServiceBusError as error:
                    self._record.write("lost", error=type(error).__name__)

    def _empty(self, receiver: ServiceBusReceiver, verb: Verb, *, is_endless: bool) -> None:
        wait = 5.0 if is_endless else SESSION_IDLE
        while (messages := receiver.receive_messages(BATCH, max_wait_time=wait)) or is_endless:
            if messages:
                self._invoke(receiver, messages, verb, getattr(verb, "__name__", "").strip("_"))

    def _invoke(self, receiver: ServiceBusReceiver, messages: Sequence[Any], verb: Verb, name: str) -> None:
        is_done = False
        if name in self._role.backward:
            messages = messages[::-1]
        with self._record.invocation(name) as found:
            # By the order in which they were sent.
            found["messages"] = [message.sequence_number for message in messages]
            try:
                verb([b"".join(message.body) for message in messages])
                is_done = True
            except Exception as error:  # noqa: BLE001 - as the host: whatever it is, the batch comes again
                found["failed"] = f"{type(error).__name__}: {error}"[:300]
        if name in self._role.deadly:
            self._die_once(name)
        for message in messages:
            try:
                (receiver.complete_message if is_done else receiver.abandon_message)(message)
            except (ServiceBusError, ValueError) as error:
                self._record.write("unsettled", invocation=name, error=type(error).__name__)

    def _die_once(self, name: str) -> None:
        """End this process as a kill does, if it is the first of all that comes here with this verb."""
        try:
            os.close(os.open(Path(self._role.record).with_name(f"died-in-{name}"), os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            return
        os.kill(os.getpid(), signal.SIGKILL)

    def _manage(self, bodies: Sequence[bytes]) -> None:
        for body in bodies:
            self._part.take_from_bus(Delivery(queue=str(CONFERENCES_QUEUE), message_id="m", body=body, count=1))

    def _park(self, bodies: Sequence[bytes]) -> None:
        self._record.write("dead", letters=len(bodies))
        self._part.verbs.park([DeadLetter("", "", body, "dead") for body in bodies])


def _text(value: Any) -> Any:
    return value.decode() if isinstance(value, bytes) else value


def main() -> None:
    """Work until killed."""
    role = Role(**json.loads(sys.argv[1]))
    record, settings = Record(Path(role.record)), Settings.parse(role.settings)
    with Connections.parse(role.settings) as connections:
        app = App(connections, settings, Workloads.load(settings.workloads, role.settings))
        while role.ticks:
            with record.invocation("tick"):
                app.tick()
            time.sleep(_TICK_EVERY)
        threads = [threading.Thread(target=one) for one in Instance(role, app, record).loops()]
        for thread in threads:
            thread.start()
        record.write("ready")
        for thread in threads:
            thread.join()


if __name__ == "__main__":
    main()
