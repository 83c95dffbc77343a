"""A straight port of the source's second version: each command and each event is a message, handled one by one.

An aggregate is loaded by all its events. What is saved is published event by event. A process saves its state with its
commands, sends them one by one, and saves again. Kinder than the source: seats have sessions, so that no two writers
conflict, prices come from memory, and views are written without being read.
"""

import asyncio
import json
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any, Final, TypeAlias

from azure.core.exceptions import AzureError
from azure.data.tables import TableServiceClient
from azure.servicebus import ServiceBusReceivedMessage
from servicebus_local.entities import DeliveryRules, Namespace, Queue, Subscription, Topic

from shared.azure import LOST_RACE, BusSender, Cause, Destination, because, error_code
from tests.benchmarks.registration_contender import (
    CONFERENCE,
    PRICE,
    QUOTA,
    SEAT_TYPE,
    Answered,
    Contender,
    Function,
    Seen,
    content_of,
)
from tests.benchmarks.registration_port_rows import (
    TABLES,
    PortEvent,
    PortEvents,
    PortProcess,
    PortProcesses,
    PortViews,
    message_of,
)

Said: TypeAlias = Mapping[str, Any]
_ORDERS, _SEATS = Destination("bus", "order-commands"), Destination("bus", "seats-commands")
_PROCESS: Final = Destination("bus", "process-commands")
_ORDER_EVENTS, _SEATS_EVENTS = Destination("topic", "port-order-events"), Destination("topic", "port-seats-events")
_WINDOW: Final = timedelta(seconds=900 + 60)
#: Messages that one thread receives at a time, and the threads of each function.
_MOST, _AT_ONCE = 20, 4


class Port(Contender):
    """The port."""

    who = "port of the source's second version"

    def __init__(self, settings: Mapping[str, str]) -> None:
        super().__init__(settings)
        self._sender = self.opened.enter_context(BusSender(self.connections, most=16))
        self._events = PortEvents(self.connections, self._sender)
        self._processes, self._views = PortProcesses(self.connections), PortViews(self.connections)
        self._pool = self.opened.enter_context(ThreadPoolExecutor(8))

    @staticmethod
    def entities() -> Namespace:
        """Return a queue for each receiver of commands, and both receivers of each event."""
        rules = DeliveryRules(max_delivery_count=1000)
        both = (Subscription("process", (), rules), Subscription("views", (), rules))
        return Namespace(
            (
                Queue(_ORDERS.name, rules),
                Queue(_SEATS.name, DeliveryRules(max_delivery_count=1000, sessions=True)),
                Queue(_PROCESS.name, rules),
            ),
            (Topic(_ORDER_EVENTS.name, both), Topic(_SEATS_EVENTS.name, both)),
        )

    @staticmethod
    def prepare(storage: str) -> None:
        """Make the tables."""
        with TableServiceClient.from_connection_string(storage) as tables:
            for name in TABLES:
                tables.create_table_if_not_exists(name)

    def open_conference(self) -> None:
        """Save the seats."""
        self._events.save(f"seats-{CONFERENCE}", 0, [PortEvent("seats_added", {SEAT_TYPE: QUOTA})])
        self._events.publish(f"seats-{CONFERENCE}", _SEATS_EVENTS)

    def functions(self, answered: Answered) -> Sequence[Function]:
        """Return a function for each receiver."""

        def project(said: Said) -> None:
            if (order := self.project(said)) is not None:
                answered([order])

        return [
            Function(queue=_ORDERS.name, handle=_each(self.obey_order), most=_MOST, at_once=_AT_ONCE),
            Function(queue=_SEATS.name, handle=_each(self.obey_seats), most=_MOST, has_sessions=True),
            *(
                Function(topic=topic.name, subscription=name, handle=_each(handle), most=_MOST, at_once=_AT_ONCE)
                for topic in (_ORDER_EVENTS, _SEATS_EVENTS)
                for name, handle in (("process", self.hear), ("views", project))
            ),
        ]

    def obey_order(self, said: Said) -> None:
        """Register an order, or mark it as reserved."""
        order = said["order"]
        stream = f"order-{order}"
        if said["kind"] == "register":
            version, events = 0, [PortEvent("order_placed", {"order": order, "seats": said["seats"]})]
        else:
            past = self._events.load(stream)
            total = sum((Decimal(PRICE) * number for number in said["seats"].values()), Decimal(0))
            marked = PortEvent("order_reserved", {"order": order, "seats": said["seats"]})
            version, events = len(past), [marked, PortEvent("totals_calculated", {"order": order, "total": str(total)})]
            events = [] if any(event.kind == "order_reserved" for event in past) else events
        self._save(stream, version, events, _ORDER_EVENTS)

    def obey_seats(self, said: Said) -> None:
        """Reserve seats."""
        stream, order = f"seats-{said['conference']}", said["order"]
        past = self._events.load(stream)
        left = dict[str, int]()
        is_known = False
        for event in past:
            if event.kind == "seats_added":
                left |= {name: left.get(name, 0) + number for name, number in event.body.items()}
            else:
                is_known = is_known or event.body["order"] == order
                for name, number in event.body["seats"].items():
                    left[name] -= number
        granted = {name: min(number, left[name]) for name, number in said["seats"].items()}
        remaining = {name: left[name] - number for name, number in granted.items()}
        reserved = PortEvent("seats_reserved", {"order": order, "seats": granted, "remaining": remaining})
        self._save(stream, len(past), [] if is_known else [reserved], _SEATS_EVENTS)

    def hear(self, said: Said) -> None:
        """Have the process of an order act on an event. It ignores most kinds."""
        kind, body = said["kind"], said["body"]
        if kind not in {"order_placed", "seats_reserved"}:
            return
        order = body["order"]
        process = self._processes.find(order)
        if kind == "order_placed" and process is None:
            make = {"kind": "make_reservation", "order": order, "conference": CONFERENCE, "seats": body["seats"]}
            process = self._processes.save(PortProcess(order, "awaiting", [make, {"kind": "expire", "order": order}]))
        elif kind == "seats_reserved" and process is not None and process.state == "awaiting":
            mark = {"kind": "mark_as_reserved", "order": order, "seats": body["seats"]}
            process = self._processes.save(process._replace(state="reserved", undispatched=[mark]))
        if process is not None and process.undispatched:
            for command in process.undispatched:
                self._send(command)
            self._processes.save(process._replace(undispatched=[]))

    def project(self, said: Said) -> str | None:
        """Write the view of an event. Return the order whose total and seats it shows now."""
        kind, body = said["kind"], said["body"]
        if kind in {"order_placed", "order_reserved"}:
            state = kind.removeprefix("order_")
            self._views.merge(f"order-{body['order']}", {state: json.dumps(body["seats"])})
        elif kind == "totals_calculated":
            self._views.merge(f"order-{body['order']}", {"total": body["total"]})
            return str(body["order"])
        else:
            self._views.merge(said["stream"], {"remaining": json.dumps(body.get("remaining", body))})
        return None

    async def place(self, order: str, gate: str | None = None) -> None:
        """Send the command, as the source's website does."""
        said = {"kind": "register", "order": order, "seats": {SEAT_TYPE: 2}}
        await asyncio.get_running_loop().run_in_executor(self._pool, self._send, said)

    async def look(self, order: str) -> Seen:
        """Read the view."""
        row = await asyncio.get_running_loop().run_in_executor(self._pool, self._look, order)
        return Seen(is_priced="placed" in row and row.get("total") == "1000.00", is_answered="reserved" in row)

    def _look(self, order: str) -> Mapping[str, Any]:
        with because(Cause.IDLE):
            return self._views.find(f"order-{order}")

    def _save(self, stream: str, version: int, events: Sequence[PortEvent], to: Destination) -> None:
        """Save and publish. What was saved before is only published."""
        try:
            if events:
                self._events.save(stream, version, events)
        except AzureError as error:
            # A new order that exists came twice. Any other stream is loaded again when the message comes again.
            if version or error_code(error) not in LOST_RACE:
                raise
        self._events.publish(stream, to)

    def _send(self, command: Said) -> None:
        kind, name = command["kind"], f"{command['kind']} {command['order']}"
        if kind == "expire":
            self._sender.send(_PROCESS, [message_of(command, name)], at=datetime.now(UTC) + _WINDOW)
        elif kind == "make_reservation":
            self._sender.send(_SEATS, [message_of(command, name, command["conference"])])
        else:
            self._sender.send(_ORDERS, [message_of(command, name)])


def _each(act: Any) -> Any:
    """Return what does one message after the other."""

    def handle(messages: Sequence[ServiceBusReceivedMessage]) -> None:
        for message in messages:
            act(json.loads(content_of(message)))

    return handle
