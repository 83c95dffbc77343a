"""Sluice as a contender: the verbs that its functions call, and the desk that answers its customers."""

import asyncio
import json
import time
from collections.abc import Iterator, Mapping, Sequence
from http import HTTPStatus
from typing import Any, ClassVar, Final

from azure.servicebus import ServiceBusReceivedMessage
from servicebus_local.entities import Namespace

from capabilities.registration.entities import (
    CONFERENCES_VIEW,
    ORDER_EVENTS,
    ORDERS_VIEW,
    PROCESSES,
    SEATS_EVENTS,
    STARTS_IN_ORDER,
    TIMEOUTS,
    seat_lane_names,
)
from capabilities.registration.flows import RegistrationPart
from capabilities.registration.http import LONGEST_WAIT
from capabilities.registration.public_messages import CONFERENCES_QUEUE
from shared.app import App
from shared.azure import Cause, because
from shared.messages import Delivery
from shared.processes import decode_events
from shared.settings import Settings
from shared.signals import Hint
from shared.topology import topology
from shared.workloads import Workloads
from tests.benchmarks.registration_contender import (
    CODE,
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
from tools.local.provision import provision
from tools.local.stack import bus_entities, sample_values

_ANSWERS: Final = frozenset({"order_reserved", "order_partially_reserved", "order_rejected"})
_OPEN: Final = frozenset({"held", "placed"})
#: Signals that an instance handles at the same time, as host.json says.
_SIGNALS: Final = 5
#: A customer whose order may not have been stored sends it again.
_TRIES: Final = 5


class Sluice(Contender):
    """Registration as it is."""

    who = "Sluice"
    settings: ClassVar[Mapping[str, str]] = {"SLUICE_CAPABILITIES": "registration"}

    def __init__(self, settings: Mapping[str, str]) -> None:
        super().__init__(settings)
        parsed = Settings.parse(settings)
        workloads = Workloads.load(parsed.workloads, settings)
        self.app = self.opened.enter_context(App(self.connections, parsed, workloads))

    @property
    def part(self) -> RegistrationPart:
        """Registration in this process."""
        (part,) = self.app.parts.built
        return part.verbs

    @staticmethod
    def entities() -> Namespace:
        """Return the entities of an installation with registration."""
        return bus_entities(_parsed())

    @staticmethod
    def prepare(storage: str) -> None:
        """Make the tables, queues and containers of the topology."""
        parsed = _parsed()
        provision(storage, topology(parsed.work_queues, parsed.entities))

    def open_conference(self) -> None:
        """Take the message of a shop."""
        seats = {SEAT_TYPE: {"price": PRICE, "quota": QUOTA}}
        said = {"v": 1, "kind": "conference", "id": "c-1", "conference": CONFERENCE, "seats": seats}
        body = json.dumps({"sluice": said}).encode()
        self.part.verbs.take(Delivery(queue=str(CONFERENCES_QUEUE), message_id="m-1", body=body, count=1))

    def functions(self, answered: Answered) -> Sequence[Function]:
        """Return the functions that messages of the bus start, each as host.json runs it."""
        (built,) = self.app.parts.built
        part: RegistrationPart = built.verbs

        def project_orders(messages: Sequence[ServiceBusReceivedMessage]) -> None:
            bodies = _bodies(messages)
            part.project_orders(bodies)
            answered(_answers(bodies))

        return [
            *(
                Function(queue=lane, has_sessions=True, handle=lambda messages: part.sell(_bodies(messages)))
                for lane in seat_lane_names(built.chosen.choice.seat_lanes)
            ),
            Function(queue=STARTS_IN_ORDER, has_sessions=True, handle=lambda messages: part.start(_bodies(messages))),
            Function(queue=TIMEOUTS, handle=lambda messages: part.expire(_bodies(messages))),
            Function(topic=SEATS_EVENTS, subscription=PROCESSES, handle=lambda found: part.hear(_bodies(found))),
            Function(topic=ORDER_EVENTS, subscription=ORDERS_VIEW, handle=project_orders),
            Function(
                topic=SEATS_EVENTS,
                subscription=CONFERENCES_VIEW,
                handle=lambda messages: part.project_conferences(_bodies(messages)),
            ),
            Function(topic="signals", subscription="release", handle=self._release, most=1, at_once=_SIGNALS),
        ]

    def _release(self, messages: Sequence[ServiceBusReceivedMessage]) -> None:
        for message in messages:
            self.app.release(Hint.of(message.subject, _properties(message)))

    async def place(self, order: str, gate: str | None = None) -> None:
        """Ask the desk, as POST does."""
        said = {"order": order, "conference": CONFERENCE, "seats": {SEAT_TYPE: 2}, "access_code": CODE}
        body = json.dumps(said | ({"gate": gate} if gate else {})).encode()
        for _ in range(_TRIES):
            answer = await self.part.desk.place(body)
            if answer.status == HTTPStatus.ACCEPTED:
                return
            if answer.status != HTTPStatus.SERVICE_UNAVAILABLE:
                break
        raise AssertionError(f"order {order} was answered {answer.status}: {answer.body!r}")

    async def look(self, order: str) -> Seen:
        """Ask the desk, as GET does."""
        return await self._show(order, {})

    async def wait(self, order: str, until: float) -> Seen:
        """Ask the desk to hold its answer back, as GET with `wait` does."""
        while True:
            seen = await self._show(order, {"wait": f"{LONGEST_WAIT:g}"})
            if seen.is_answered or time.monotonic() > until:
                return seen
            # An instance with many requests that wait answers a further one at once.
            await asyncio.sleep(0.1)

    async def _show(self, order: str, query: Mapping[str, str]) -> Seen:
        with because(Cause.IDLE):
            answer = await self.part.desk.show(order, CODE, None, query)
        if answer.status != HTTPStatus.OK:
            return Seen(is_priced=False, is_answered=False)
        found = json.loads(answer.body)
        return Seen(is_priced=found["total"] == "1000.00", is_answered=found["state"] not in _OPEN)

    def open_gate(self, gate: str, *, is_open: bool) -> None:
        """Open or close a gate, as an operator does."""
        operator = self.app.stores.gate_operator
        (operator.open if is_open else operator.close)(gate, by="benchmark")


def _parsed() -> Settings:
    return Settings.parse(sample_values() | Sluice.settings)


def _bodies(messages: Sequence[ServiceBusReceivedMessage]) -> list[bytes]:
    return [content_of(message) for message in messages]


def _answers(bodies: Sequence[bytes]) -> Iterator[str]:
    for one in (one for body in bodies for one in decode_events(body)):
        if any(event.kind in _ANSWERS for event in one.events):
            yield one.home.removeprefix("order-")


def _properties(message: ServiceBusReceivedMessage) -> dict[str, Any]:
    said: Mapping[Any, Any] = message.application_properties or {}
    return {key.decode(): value.decode() if isinstance(value, bytes) else value for key, value in said.items()}
