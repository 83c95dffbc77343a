"""The stages of registration that park: messages of the queue `orders`, and messages of the bus that failed for good.

One that is put back goes where it failed. A second time changes nothing: ids, generations and ranges tell. One whose
effect is there already is not put back at all.

Says whether a parked message of registration has had its effect: then sending it again would change nothing.

The copy of a refused message of customers, shops and banks that may be stored: it has no access code.

An order that can be read keeps the salted hash of its sender's code, so a replay places it under the same code. A change
keeps nothing of its code: the salt of its order is not in it. So a replay changes no order. A message that cannot be read
may have a code anywhere. Every value that no message has is taken out of it, and such a copy is never
read as an order again. Every function returns its own results unchanged, so a replay that fails finds its entry.
"""

import base64
import binascii
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any, Final

import msgspec

from capabilities.registration.access_codes import AccessCodes, hash_own
from capabilities.registration.entities import ORDER_EVENTS, ORDERS, SEATS_EVENTS
from capabilities.registration.order import AGGREGATE, CONTENT, OrderPhase, order_home
from capabilities.registration.order_messages import (
    SEATS_HOMES,
    OrderCommand,
    Pay,
    Update,
    incoming,
    read_reply,
    read_seat_command,
    seats_home,
    send_to,
)
from capabilities.registration.order_process import OrderProcess, classify, make_inbox_entry
from capabilities.registration.public_messages import (
    CONFERENCES_QUEUE,
    IN_ORDER_QUEUE,
    PAYMENTS_QUEUE,
    STARTS_QUEUE,
    OrderRoutes,
    Payment,
    PlaceOrder,
    UpdateOrder,
    content_hash,
    read_order_message,
)
from capabilities.registration.seats import SeatsState
from capabilities.registration.selling import make_seats_entry, skip_reason
from capabilities.registration.views import ShownModel, is_shown
from shared.azure import Destination
from shared.capability import DeadLetter
from shared.clock import Clock
from shared.errors import NotParkedError, RefusedError
from shared.messages import Delivery, unwrap
from shared.parked import Claim, Entry, Parking, PutOnQueue, Stage, content_key
from shared.payload import WRAPPER, Limits
from shared.processes import (
    BusPublisher,
    Command,
    Event,
    EventRange,
    Homes,
    Mementos,
    Parcel,
    ReplyClass,
    bundle_parcel,
    command_parcel,
    decode_commands,
    decode_events,
    event_parcels,
    message_of,
    plain_parcel,
    restore_process,
)
from shared.refusals import DeliveryReason, refuse

#: An answer of these classes changes nothing any more.
_HEARD: Final = frozenset({ReplyClass.DUPLICATE, ReplyClass.STALE})


class Landed:
    """Compares parked messages with the homes and the views."""

    def __init__(  # noqa: PLR0913, PLR0917 - each store that a message may have changed
        self,
        homes: Homes,
        seats: Mementos[SeatsState],
        process: OrderProcess,
        codes: AccessCodes,
        models: tuple[ShownModel, ...],
        clock: Clock,
    ) -> None:
        self._homes, self._seats, self._process = homes, seats, process
        self._codes, self._models, self._clock = codes, models, clock

    def has_taken(self, body: bytes) -> bool:
        """Return true if a message of a customer, a shop or a bank is in the home of its order or conference, with this content."""
        try:
            message = read_order_message(body, Limits())
        except RefusedError:
            return False
        if isinstance(message, PlaceOrder):
            return self._is_placed(message)
        if isinstance(message, UpdateOrder):
            update = Update(version=message.version, seats=message.seats, prices={})
            return self._has_noted(order_home(message.order), self._order_entry(update, message.id))
        if isinstance(message, Payment):
            paid = Pay(outcome=message.outcome, amount=message.amount)
            return self._has_noted(order_home(message.order), self._order_entry(paid, message.id))
        command = read_seat_command(send_to(message.conference, message))
        return self._has_noted(seats_home(message.conference), make_seats_entry(command))

    def has_obeyed(self, body: bytes) -> bool:
        """Return true if no command and no event of a message of the bus would change anything."""
        # A kind that this version does not know has had no effect that it could find.
        with suppress(msgspec.DecodeError, KeyError):
            return all(self._has_obeyed(command) for command in decode_commands(body))
        with suppress(msgspec.DecodeError):
            return all(self._has_heard(one) and self._is_shown(one) for one in decode_events(body))
        return False

    def _is_placed(self, order: PlaceOrder) -> bool:
        head = self._homes.read_head(order_home(order.order))
        if head is None or head.aggregate != AGGREGATE or head.fields[CONTENT] != content_hash(order):
            return False
        return self._codes.repeat(order.order, content_hash(order), order.access_code, head.fields) is not None

    def _order_entry(self, body: Update | Pay, id_: str) -> tuple[str, str]:
        return make_inbox_entry(incoming(body, self._clock.now(), id_))

    def _has_noted(self, key: str, entry: tuple[str, str]) -> bool:
        return self._homes.find_noted(key, entry[0]) == entry[1]

    def _has_obeyed(self, command: Command) -> bool:
        if not command.to.startswith(SEATS_HOMES):
            order = restore_process(self._process, self._homes.load(command.to))[0].order
            return order is not None and order.phase is not OrderPhase.HELD
        asked = read_seat_command(command)
        state = self._seats.read(command.to).state
        return isinstance(asked, OrderCommand) and skip_reason(state, asked, self._clock.now()) is not None

    def _has_heard(self, events: EventRange) -> bool:
        """Return true if each answer in these events was heard by its order, or came too late for it."""
        return all(self._is_heard(event) for event in events.events)

    def _is_heard(self, event: Event) -> bool:
        reply = read_reply(event)
        if reply is None:
            return True
        home, message = reply
        state, _ = restore_process(self._process, self._homes.load(home))
        return classify(state, message.generation) in _HEARD

    def _is_shown(self, events: EventRange) -> bool:
        return all(is_shown(self._homes, model, events) for model in self._models)


#: Stands in each gap. It is too short for an access code, so no order gets it as one.
REMOVED: Final = "removed"
_CODE, _HASH = "access_code", "access_code_hash"
#: What every name of an access code has in it.
_HINT: Final = b"code"
#: The fields of all messages that hold no code.
_PLAIN: Final = frozenset(
    "sluice v kind id order conference seats gate version outcome amount price quota".split()  # noqa: SIM905 - one a word
)
#: The kinds of messages that never have a code.
_CODELESS: Final = frozenset({"conference", "add_seats", "remove_seats", "close_conference", "payment"})


def remove_codes(body: bytes) -> bytes:
    """Return the bytes that may be stored: the same ones, if there is no code in them."""
    try:
        message = read_order_message(body, Limits())
    except RefusedError:
        return _blank(body)
    if not isinstance(message, PlaceOrder | UpdateOrder) or not isinstance(message.access_code, str):
        return body
    fields = msgspec.json.decode(unwrap(body))[WRAPPER]
    del fields[_CODE]
    if isinstance(message, PlaceOrder):
        fields[_HASH] = hash_own(message.order, content_hash(message), message.access_code).hash
    return msgspec.json.encode({WRAPPER: fields})


def _blank(body: bytes) -> bytes:
    text = unwrap(body)
    document: Any = None
    with suppress(msgspec.DecodeError, ValueError, RecursionError):
        document = msgspec.json.decode(text)
    if not isinstance(document, dict):
        return _cut(body, text)
    may_hide = _HINT in text.lower()
    if not may_hide and _kind(document) in _CODELESS:
        return body
    cleaned = _clean(document)
    if cleaned == document and not may_hide:
        return body
    # A key that stood twice is gone by now. So the copy must not be an order that can be placed.
    wrapper = cleaned.get(WRAPPER)
    (wrapper if isinstance(wrapper, dict) else cleaned)[_CODE] = REMOVED
    return msgspec.json.encode(cleaned)


def _kind(document: dict[str, Any]) -> str:
    fields = document.get(WRAPPER)
    return str(fields.get("kind")) if isinstance(fields, dict) else ""


def _clean(document: dict[str, Any]) -> dict[str, Any]:
    return {name: _clean_field(name, value) if name in _PLAIN else REMOVED for name, value in document.items()}


def _clean_field(name: str, value: Any) -> Any:
    if not isinstance(value, dict):
        return value
    if name != "seats":
        return _clean(value)
    # Its keys are types of seats, and its values numbers, or a price and a quota.
    return {
        type_: _clean(one) if isinstance(one, dict) else one if isinstance(one, int | float) else REMOVED
        for type_, one in value.items()
    }


def _cut(body: bytes, text: bytes) -> bytes:
    """Return text that is no document, up to the first word that may announce a code."""
    with suppress(binascii.Error, ValueError):
        decoded = base64.b64decode(text, validate=True)
        text = decoded if _HINT in decoded.lower() else text
    at = text.lower().find(_HINT)
    return body if at < 0 else text[:at] + _HINT + b": " + REMOVED.encode()


#: The stages, by their permanent names.
ORDERS_STAGE: Final = "orders"
#: Of the messages of shops and banks. Versions without it leave its entries alone: they do not know the name.
SALES_STAGE: Final = "sales"
BUS_STAGE: Final = "registration"
_SALES: Final = frozenset({str(PAYMENTS_QUEUE), str(CONFERENCES_QUEUE)})
_TOPICS: Final = frozenset({ORDER_EVENTS, SEATS_EVENTS})


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
        body = message_of([parcel]).body
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
            is_start = queue in {STARTS_QUEUE, IN_ORDER_QUEUE}
            # They have no turn any more: a session of their own.
            starts = [bundle_parcel(IN_ORDER_QUEUE, commands, commands[0].to)] if is_start and commands else []
            self._publisher.send(starts or [command_parcel(queue, one) for one in commands])
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
