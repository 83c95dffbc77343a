"""The stages of registration that park: messages of the queue `orders`, and messages of the bus that failed for good.

One that is put back goes where it failed. A second time changes nothing: ids, generations and ranges tell. One whose
effect is there already is not put back at all.
"""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Final

import msgspec

from shared.azure import Destination
from shared.errors import NotParkedError, RefusedError
from shared.messages import Delivery
from shared.messaging import (
    BusPublisher,
    Command,
    EventRange,
    Parcel,
    bundle_parcel,
    command_parcel,
    decode_commands,
    decode_events,
    event_parcels,
    message_of,
    plain_parcel,
)
from shared.parked import Claim, Entry, Parking, PutOnQueue, Stage, content_key
from shared.parts import ORDER_EVENTS, ORDERS, SEATS_EVENTS
from shared.refusals import DeliveryReason, refuse
from shared.registration.landed import Landed
from shared.registration.routes import CONFERENCES_QUEUE, PAYMENTS_QUEUE, STARTS_QUEUE, OrderRoutes
from shared.registration.without_codes import remove_codes

#: The stages, by their permanent names.
ORDERS_STAGE: Final = "orders"
#: Of the messages of shops and banks. Versions without it leave its entries alone: they do not know the name.
SALES_STAGE: Final = "sales"
BUS_STAGE: Final = "registration"
_SALES: Final = frozenset({str(PAYMENTS_QUEUE), str(CONFERENCES_QUEUE)})
_TOPICS: Final = frozenset({ORDER_EVENTS, SEATS_EVENTS})


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """A message of the queue `dead`: the entity that gave it up, and why."""

    entity: str
    message_id: str
    body: bytes
    reason: str


class ParkedOrders:
    """Parks messages of registration, and puts them back."""

    def __init__(
        self, parking: Parking, put: PutOnQueue, publisher: BusPublisher, routes: OrderRoutes, landed: Landed
    ) -> None:
        """Register the stages. `put` puts a message back on a storage queue."""
        self._parking, self._publisher, self._routes, self._landed = parking, publisher, routes, landed
        parking.stages.register(
            Stage(
                name=ORDERS_STAGE,
                reads=lambda queue: queue == ORDERS,
                identify=lambda delivery: claim_of(delivery.queue, delivery.body),
                put_back=put,
                has_landed=self._has_landed,
                is_read_first=True,
                keep=remove_codes,
            )
        )
        parking.stages.register(
            Stage(
                name=SALES_STAGE,
                reads=lambda queue: queue in _SALES,
                identify=lambda delivery: claim_of(delivery.queue, delivery.body),
                put_back=self._put_back,
                has_landed=self._has_landed,
                is_read_first=True,
                keep=remove_codes,
            )
        )
        parking.stages.register(
            Stage(
                name=BUS_STAGE,
                reads=_is_on_bus,
                identify=lambda delivery: Claim(key=content_key(BUS_STAGE, delivery.body)),
                put_back=self._put_back,
                has_landed=self._has_landed,
                is_read_first=True,
            )
        )

    def park_order(self, delivery: Delivery, error: RefusedError) -> None:
        """Park a message of a customer, a shop or a bank that is refused."""
        self._parking.park(_stage_of(delivery.queue), delivery, error)

    def park_command(self, command: Command, error: Exception) -> None:
        """Park a command that failed in all its attempts."""
        queue = self._routes.queue_of(command)
        self._park(queue, command.id, bundle_parcel(queue, [command]), command.attempt, error)

    def park_event(self, event: EventRange, error: Exception) -> None:
        """Park an event that no process takes. The process keeps its state."""
        topic, session = self._routes.topic_of(event.home)
        for parcel in event_parcels(topic, session, event):
            self._park(topic, parcel.id, parcel, 1, error)

    def park_letter(self, letter: DeadLetter) -> None:
        """Park a dead letter of the bus."""
        name = letter.entity.partition("/")[0]
        queue = Destination("topic" if name in _TOPICS else "bus", name or "dead")
        delivery = Delivery(queue=str(queue), message_id=letter.message_id, body=letter.body, count=1)
        found = f"the bus moved it from {letter.entity!r} to its dead letters: {letter.reason[:500]}"
        stage = SALES_STAGE if delivery.queue in _SALES else BUS_STAGE
        self._parking.park(stage, delivery, refuse(DeliveryReason.DEAD_LETTERED, found))

    def _park(self, queue: Destination, id_: str, parcel: Parcel, count: int, error: Exception) -> None:
        body = b"".join(message_of([parcel]).body)
        self._parking.park(BUS_STAGE, Delivery(queue=str(queue), message_id=id_, body=body, count=count), error)

    def has_taken(self, body: bytes) -> bool:
        """Return true if a message of a customer, a shop or a bank has had its effect, with this content."""
        return self._landed.has_taken(body)

    def _has_landed(self, entry: Entry) -> bool:
        body = self._parking.table.body(entry)
        is_public = entry.queue == ORDERS or entry.queue in _SALES
        return self._landed.has_taken(body) if is_public else self._landed.has_obeyed(body)

    def _put_back(self, entry: Entry, message: bytes) -> None:
        queue = Destination.parse(entry.queue)
        # By the queue and not by the stage: a version without `sales` parks their dead letters with all others.
        if entry.queue in _SALES:
            self._publisher.send([plain_parcel(queue, entry.key, message)])
            return
        with suppress(msgspec.DecodeError):
            commands = decode_commands(message)
            is_start = queue == STARTS_QUEUE
            self._publisher.send(
                [bundle_parcel(queue, commands)] if is_start else [command_parcel(queue, one) for one in commands]
            )
            return
        try:
            ranges = decode_events(message)
        except msgspec.DecodeError as error:
            raise NotParkedError(
                f"could not put parked {entry.key!r} back on {entry.queue}: it is no message of Sluice; discard it"
            ) from error
        parts = [part for one in ranges for part in event_parcels(queue, self._routes.topic_of(one.home)[1], one)]
        # A topic drops a message whose id it had within ten minutes. This one must pass.
        self._publisher.send([replace(part, id=f"{part.id}~{entry.replays}") for part in parts])


def claim_of(queue: str, body: bytes) -> Claim:
    """Return the place among the entries of a message of a customer, a shop or a bank, should it be refused.

    The same bytes on another queue are another message: its replay goes to that queue.
    """
    kept = remove_codes(body)
    return Claim(key=content_key(_stage_of(queue), kept if queue == ORDERS else f"{queue}|".encode() + kept))


def homes_in(body: bytes) -> Sequence[str]:
    """Return the homes that a message of the bus names: receivers of commands, or streams of events."""
    with suppress(msgspec.DecodeError):
        return sorted({command.to for command in decode_commands(body)})
    with suppress(msgspec.DecodeError):
        return sorted({one.home for one in decode_events(body)})
    return ()


def _stage_of(queue: str) -> str:
    return SALES_STAGE if queue in _SALES else ORDERS_STAGE


def _is_on_bus(queue: str) -> bool:
    # The stages before it read storage queues, the queue `results`, and those of shops and banks.
    return queue.startswith(("bus:", "topic:"))
