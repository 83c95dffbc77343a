"""Says whether a parked message of registration has had its effect: then sending it again would change nothing."""

from contextlib import suppress
from typing import Final

import msgspec

from shared.clock import Clock
from shared.errors import RefusedError
from shared.eventsourcing import Event, Homes, Mementos
from shared.messaging import Command, EventRange, decode_commands, decode_events
from shared.payload import Limits
from shared.processes import ReplyClass, restore_process
from shared.registration.access_codes import AccessCodes
from shared.registration.order import AGGREGATE, CONTENT, OrderPhase, order_home
from shared.registration.order_answers import classify
from shared.registration.order_messages import Pay, Update, incoming, read_reply
from shared.registration.order_process import OrderProcess, make_inbox_entry
from shared.registration.public_messages import Payment, PlaceOrder, UpdateOrder, content_hash, read_order_message
from shared.registration.seat_commands import (
    SEATS_HOMES,
    OrderCommand,
    read_seat_command,
    seats_home,
    send_to,
)
from shared.registration.seats import SeatsState
from shared.registration.selling import make_seats_entry, skip_reason
from shared.registration.shown import ShownModel, is_shown

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
