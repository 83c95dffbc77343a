"""The process manager of an order: it reserves, waits for the answer and the payment, confirms or gives up.

Every command about the reservation has the next generation, and an answer counts only for the last one. So replies may
be doubled, late and overtaken. A payment and the confirmation are one decision: no expiry comes between them.
`docs/registration.md` has the table of states and messages; `decide` is that table.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any, Final

import msgspec

from shared.decoding import convert
from shared.eventsourcing import Head, Home
from shared.processes import STUCK_AFTER, Incoming, ProcessDecision, ReplyClass
from shared.refusals import Reason, refuse
from shared.registration.bodies import (
    Body,
    OrderPlaced,
    OrderStarted,
    OrderUpdated,
)
from shared.registration.order import (
    AGGREGATE,
    NOTHING,
    NUMBER,
    OrderPhase,
    OrderState,
    calculate,
    check_seats,
    fold_order,
    order_home,
    price_of,
)
from shared.registration.order_answers import expire, hear, pay
from shared.registration.order_messages import (
    Expire,
    NewOrder,
    Pay,
    StartOrder,
    Update,
    hash_content,
    read_input,
)
from shared.registration.order_turn import OrderProcessState, OrderStage, OrderTurn
from shared.registration.stored_events import event_of

#: Why an order that ended cannot be changed.
_FINAL: Final = {
    OrderPhase.CONFIRMED: Reason.ORDER_PAID,
    OrderPhase.REJECTED: Reason.ORDER_REJECTED,
    OrderPhase.EXPIRED: Reason.ORDER_EXPIRED,
}


class _Row(msgspec.Struct, frozen=True):
    stage: OrderStage
    generation: int
    applied: int
    due: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class OrderProcess:
    """The process manager of orders, with its settings."""

    window: timedelta
    #: Between the end of the window and the time at which the seats go back.
    buffer: timedelta
    #: Of one type.
    most_seats: int

    @property
    def format(self) -> int:
        """The format of the row."""
        return 1

    def upgrade(self, row: Mapping[str, Any], format_: int) -> Mapping[str, Any]:
        """Return a row of an earlier format as one of this format. There is no earlier one yet."""
        raise ValueError(
            f"a row of a process has format {format_}: the first one is {self.format}, it holds {sorted(row)}"
        )

    def restore(self, row: Mapping[str, Any] | None, home: Home | None) -> OrderProcessState:
        """Return the state from the row, and the order from the events of its home. Without a row, it is not started."""
        if home is None:
            return OrderProcessState()
        order: OrderState | None = None
        for event in home.events:
            order = fold_order(order, event)
        if row is None:
            return OrderProcessState(order, inbox=home.inbox)
        read = convert(row, _Row)
        return OrderProcessState(order, read.stage, read.generation, read.applied, read.due, home.inbox)

    def store(self, state: OrderProcessState) -> Mapping[str, Any]:
        """Return the row."""
        stored: Mapping[str, Any] = msgspec.to_builtins(_Row(state.stage, state.generation, state.applied, state.due))
        return stored

    def decide(self, state: OrderProcessState, message: Incoming, now: datetime) -> ProcessDecision[OrderProcessState]:
        """Return all that follows from the message. Raises RefusedError for one that the order's state does not allow."""
        turn, body = OrderTurn(state, message, now), read_input(message)
        match body:
            case NewOrder():
                return self._place(turn, body)
            case StartOrder():
                return self._start(turn)
            case Update() | Pay():
                return self._change(turn, body)
            case Expire():
                return expire(turn)
            case _:
                return hear(turn, body)

    def _place(self, turn: OrderTurn, body: NewOrder) -> ProcessDecision[OrderProcessState]:
        # Before the order of its id is considered: else a refusal would say whether the id is taken.
        check_seats(body.seats, self.most_seats)
        prices = price_of(body.seats, body.prices, body.conference)
        if turn.state.order is not None:
            return turn.end(ReplyClass.DUPLICATE)
        expires_at = None if body.is_held else self._end_of_window(turn.message.at)
        turn.add(OrderPlaced(body.order, body.number, body.conference, body.seats, prices, expires_at))
        turn.add(calculate(body.seats, prices))
        if expires_at is not None:
            self._begin(turn, expires_at)
        return turn.end()

    def _start(self, turn: OrderTurn) -> ProcessDecision[OrderProcessState]:
        order = turn.state.order
        if order is None:
            return turn.end(ReplyClass.UNEXPECTED)
        if order.phase is not OrderPhase.HELD:
            return turn.end(ReplyClass.DUPLICATE)
        expires_at = self._end_of_window(turn.message.at)
        turn.add(OrderStarted(expires_at))
        self._begin(turn, expires_at)
        return turn.end()

    def _begin(self, turn: OrderTurn, expires_at: datetime) -> None:
        if turn.now > expires_at:
            turn.reject("window_over")
        else:
            turn.start(expires_at + self.buffer)

    def _change(self, turn: OrderTurn, body: Update | Pay) -> ProcessDecision[OrderProcessState]:
        """Take a change or a payment, each id once."""
        if turn.state.order is None:
            raise refuse(Reason.UNKNOWN_ORDER, f"a message {turn.message.kind!r} has the id {turn.message.id!r}")
        key, content = make_inbox_entry(turn.message)
        known = turn.state.inbox.get(key)
        if known == content:
            return turn.end(ReplyClass.DUPLICATE)
        if known is not None:
            raise refuse(Reason.ID_DIFFERS, f"order {turn.order.order!r} had another {key!r} before")
        if isinstance(body, Update):
            self._update(turn, body)
        else:
            pay(turn, body)
        turn.note(key, content)
        return turn.end()

    def _update(self, turn: OrderTurn, body: Update) -> None:
        order, stage = turn.order, turn.state.stage
        named = f"order {order.order!r}"
        if order.phase in _FINAL:
            raise refuse(_FINAL[order.phase], f"{named} is {order.phase.value}")
        if stage is OrderStage.PAID:
            raise refuse(Reason.ORDER_PAID, f"{named} has a payment, and waits for its seats")
        if order.expires_at is not None and turn.now > order.expires_at:
            raise refuse(Reason.ORDER_EXPIRED, f"{named} could be changed until {order.expires_at.isoformat()}")
        if body.version != order.version:
            raise refuse(Reason.VERSION_DIFFERS, f"{named} has version {order.version}, the message {body.version}")
        check_seats(body.seats, self.most_seats)
        # The prices of the first placing stay.
        prices = price_of(body.seats, {**body.prices, **order.prices}, order.conference)
        turn.add(OrderUpdated(body.seats, prices))
        turn.add(calculate(body.seats, prices))
        if stage is not OrderStage.NOT_STARTED:
            turn.reserve()

    def _end_of_window(self, begin: datetime) -> datetime:
        # To the second, as the rows of timeouts are.
        return (begin + self.window + timedelta(microseconds=999_999)).replace(microsecond=0)


def make_inbox_entry(message: Incoming) -> tuple[str, str]:
    """Return the key of an outside message in the inbox of its order, and the hash of its content."""
    body = read_input(message)
    # The prices are the conference's of this moment, and no part of the message.
    content = msgspec.structs.replace(body, prices={}) if isinstance(body, Update) else body
    return f"{message.kind}:{message.id}", hash_content(content)


def believe_held(start: StartOrder, at: datetime) -> Home:
    """Return the home of a held order that was never changed, as its start says it, without reading it.

    What is decided on it is written above its version. If the order was changed, that version is taken, and the
    conflict leads to the stored home. An order is held after its events were sent, so they count as published.
    """
    nothing = dict.fromkeys(start.seats, NOTHING)
    placed = OrderPlaced(start.order, start.number, start.conference, start.seats, nothing)
    bodies: tuple[Body, ...] = (placed, calculate(start.seats, nothing))
    events = tuple(replace(event_of(body, at), version=version) for version, body in enumerate(bodies, 1))
    head = Head(version=len(events), published=len(events), aggregate=AGGREGATE, fields={NUMBER: start.number})
    return Home(key=order_home(start.order), head=head, events=events)


def is_stuck(state: OrderProcessState, now: datetime) -> bool:
    """Check whether the process should have ended two ticks ago. A held order waits for a gate, and is never stuck."""
    return state.due is not None and state.stage is not OrderStage.COMPLETED and now > state.due + STUCK_AFTER
