"""The process manager of an order: it reserves, waits for the answer and the payment, confirms or gives up.

Every command about the reservation has the next generation, and an answer counts only for the last one. So replies may
be doubled, late and overtaken. A payment and the confirmation are one decision: no expiry comes between them.
`docs/registration.md` has the table of states and messages; `decide` is that table.

The state of an order's process, and one decision while it is made: events, commands, timeouts.

Answers, payments and the end of the window: the decisions of an order's process about them.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any, Final

import msgspec

from capabilities.registration.order import (
    AGGREGATE,
    NOTHING,
    NUMBER,
    Body,
    OrderConfirmed,
    OrderExpired,
    OrderPartiallyReserved,
    OrderPhase,
    OrderPlaced,
    OrderRejected,
    OrderReserved,
    OrderStarted,
    OrderState,
    OrderUpdated,
    PaymentReceived,
    PaymentRejected,
    PaymentUnsettled,
    ReplySkipped,
    ReservationRefused,
    SeatsReserved,
    calculate,
    check_seats,
    event_of,
    fold_order,
    order_home,
    price_of,
)
from capabilities.registration.order_messages import (
    EXPIRE,
    Cancel,
    Confirm,
    Expire,
    NewOrder,
    Pay,
    PaymentOutcome,
    Reservation,
    Reserve,
    StartOrder,
    Update,
    hash_content,
    read_input,
    send_to,
)
from capabilities.registration.reasons import OrderReason
from shared.processes import STUCK_AFTER, Command, Event, Head, Home, Incoming, ProcessDecision, ReplyClass, Timeout
from shared.refusals import refuse
from shared.versions import convert

#: How many skipped replies of an order are stored. The others are only counted.
MOST_SKIPPED: Final = 20


class OrderStage(StrEnum):
    """Where the process of an order is."""

    NOT_STARTED = "not_started"
    AWAITING = "awaiting_reservation"
    RESERVED = "reservation_confirmed"
    PAID = "payment_confirmed"
    COMPLETED = "completed"


@dataclass(frozen=True, slots=True)
class OrderProcessState:
    """The process of an order, and the order itself."""

    #: None: there is no such order.
    order: OrderState | None = None
    stage: OrderStage = OrderStage.NOT_STARTED
    #: The generation of the last command that was sent.
    generation: int = 0
    #: The last generation whose reply was applied.
    applied: int = 0
    #: When it expires. Stored, so that another setting changes nothing for an order that runs.
    due: datetime | None = None
    #: Hashes of outside messages by their ids.
    inbox: Mapping[str, str] = field(default_factory=dict)


@dataclass(slots=True)
class OrderTurn:
    """One decision while it is made. Each act is applied to the state at once."""

    state: OrderProcessState
    message: Incoming
    now: datetime
    own: list[Event] = field(default_factory=list)
    commands: list[Command] = field(default_factory=list)
    timeouts: list[Timeout] = field(default_factory=list)
    dropped: list[Timeout] = field(default_factory=list)
    inbox: dict[str, str] = field(default_factory=dict)

    @property
    def order(self) -> OrderState:
        """The order, which is there in every stage."""
        if self.state.order is None:
            raise ValueError(f"message {self.message.kind!r} came to a home without an order")
        return self.state.order

    def add(self, body: Body) -> None:
        """Add an event of the order."""
        event = event_of(body, self.now, command=self.message.id, generation=self.message.generation)
        self.own.append(event)
        self.state = replace(self.state, order=fold_order(self.state.order, event))

    def reserve(self, after: str = "") -> None:
        """Send for the seats that the order wants, and wait for the answer. The order `after` is answered before."""
        self._change(OrderStage.AWAITING)
        self._send(Reserve(**self._address(), seats=dict(self.order.requested), after=after))

    def start(self, due: datetime, after: str) -> None:
        """Reserve for the first time, and expire at `due`."""
        self.state = replace(self.state, due=due)
        self.timeouts.append(Timeout(EXPIRE, due))
        self.reserve(after)

    def apply(self, stage: OrderStage) -> None:
        """Take the reply as the answer to the last command."""
        self.state = replace(self.state, stage=stage, applied=self.state.generation)

    def keep(self, stage: OrderStage) -> None:
        """Go to a stage without a command."""
        self.state = replace(self.state, stage=stage)

    def confirm(self) -> None:
        """Sell the seats: the payment, the confirmation and the command are one write."""
        self.add(OrderConfirmed(dict(self.order.reserved), self.order.total))
        self._change(OrderStage.COMPLETED)
        self._send(Confirm(**self._address()))
        self._drop_timeout()

    def reject(self, reason: str) -> None:
        """End without seats."""
        self.add(OrderRejected(reason))
        self.keep(OrderStage.COMPLETED)
        self._drop_timeout()

    def expire(self) -> None:
        """End because the window is over."""
        self.add(OrderExpired())
        self.keep(OrderStage.COMPLETED)
        self._drop_timeout()

    def cancel(self) -> None:
        """Give back the seats."""
        self._change(self.state.stage)
        self._send(Cancel(**self._address()))

    def unsettle(self, payment: PaymentReceived, reason: str) -> None:
        """Keep a payment that confirms nothing, for a person to settle."""
        self.add(PaymentUnsettled(payment.id, payment.amount, reason))

    def note(self, key: str, content: str) -> None:
        """Note an outside message: a second one with its id changes nothing."""
        self.inbox[key] = content
        self.state = replace(self.state, inbox={**self.state.inbox, key: content})

    def skip(self, reply: ReplyClass) -> ProcessDecision[OrderProcessState]:
        """Change nothing. The first few times, the causal story says so."""
        if self.order.skipped < MOST_SKIPPED:
            self.add(ReplySkipped(reply.value, self.message.kind))
        return self.end(reply)

    def end(self, reply: ReplyClass | None = None) -> ProcessDecision[OrderProcessState]:
        """Return the decision."""
        return ProcessDecision(
            state=self.state,
            commands=tuple(self.commands),
            timeouts=tuple(self.timeouts),
            own=tuple(self.own),
            dropped=tuple(self.dropped),
            inbox=self.inbox,
            reply=reply,
        )

    def _change(self, stage: OrderStage) -> None:
        self.state = replace(self.state, stage=stage, generation=self.state.generation + 1)

    def _send(self, command: Reservation) -> None:
        self.commands.append(send_to(self.order.conference, command))

    def _address(self) -> dict[str, Any]:
        """Return the fields of every command about the reservation."""
        order = self.order
        return {"order": order.order, "generation": self.state.generation, "not_after": order.expires_at}

    def _drop_timeout(self) -> None:
        if self.state.due is not None:
            self.dropped.append(Timeout(EXPIRE, self.state.due))


def classify(state: OrderProcessState, generation: int) -> ReplyClass:
    """Return how a reply of this generation relates to the last command."""
    if not 0 < generation <= state.generation:
        return ReplyClass.UNEXPECTED
    if generation < state.generation or state.stage is OrderStage.COMPLETED:
        return ReplyClass.DUPLICATE if generation == state.applied == state.generation else ReplyClass.STALE
    return ReplyClass.DUPLICATE if generation == state.applied else ReplyClass.CURRENT


def hear(turn: OrderTurn, body: SeatsReserved | ReservationRefused) -> ProcessDecision[OrderProcessState]:
    """Take an answer of the seats, if it is the one to the last command."""
    reply = classify(turn.state, turn.message.generation)
    if reply is ReplyClass.UNEXPECTED:
        return turn.end(reply)
    if reply is not ReplyClass.CURRENT:
        return turn.skip(reply)
    if isinstance(body, ReservationRefused):
        _end_refused(turn, body)
    else:
        _take(turn, body)
    return turn.end(reply)


def _end_refused(turn: OrderTurn, body: ReservationRefused) -> None:
    paid = turn.order.paid
    turn.apply(turn.state.stage)
    turn.reject(body.reason)
    # A reservation of before may hold seats still.
    turn.cancel()
    if paid:
        turn.unsettle(paid, "rejected")


def _take(turn: OrderTurn, body: SeatsReserved) -> None:
    """Take the seats that were granted: all, some, or no seat."""
    order, paid = turn.order, turn.order.paid
    granted = {name: number for name, number in body.granted.items() if number}
    is_first, is_all = turn.state.generation == 1, granted == order.requested
    turn.apply(OrderStage.RESERVED)
    if not granted and is_first and not paid:
        # Its generation is known there, and nothing is held: there is nothing to cancel.
        turn.reject("sold_out")
        return
    if is_all:
        turn.add(OrderReserved(granted))
    else:
        turn.add(OrderPartiallyReserved(granted))
        turn.add(calculate(granted, order.prices))
    is_exact = is_all and confirms(turn.order, paid)
    if paid and not is_exact:
        turn.unsettle(paid, "differs_from_reservation")
    if is_exact or (is_all and turn.order.total == NOTHING):
        turn.confirm()


def confirms(order: OrderState, payment: PaymentReceived | None) -> bool:
    """Check whether a payment pays the order: exactly the total of the seats that it has, of which there are some."""
    return payment is not None and bool(order.reserved) and payment.amount == order.total


def pay(turn: OrderTurn, body: Pay) -> None:
    """Confirm by a payment, keep it until the answer comes, or leave it to a person."""
    payment, order, stage = PaymentReceived(turn.message.id, body.amount), turn.order, turn.state.stage
    if body.outcome is PaymentOutcome.REJECTED:
        if order.phase is OrderPhase.CONFIRMED:
            turn.unsettle(payment, "rejected_after_confirmation")
        else:
            turn.add(PaymentRejected(payment.id))
    elif stage is OrderStage.AWAITING:
        turn.add(payment)
        turn.keep(OrderStage.PAID)
    elif stage is OrderStage.RESERVED and confirms(order, payment):
        turn.add(payment)
        turn.confirm()
    else:
        turn.unsettle(payment, _why_unsettled(turn.state))


def _why_unsettled(state: OrderProcessState) -> str:
    """Return why a payment confirms nothing, in one word."""
    if state.stage is OrderStage.COMPLETED and state.order is not None:
        return f"already_{state.order.phase.value}"
    return {
        OrderStage.NOT_STARTED: "held",
        OrderStage.PAID: "second_payment",
    }.get(state.stage, "amount_differs")


def expire(turn: OrderTurn) -> ProcessDecision[OrderProcessState]:
    """End the order, if this is the due time of today: its seats go back."""
    state, due = turn.state, turn.message.at
    if state.order is None or state.stage is OrderStage.COMPLETED or due != state.due:
        # The row is of an order that ended, or was never written, or starts again with a later one.
        turn.dropped.append(Timeout(EXPIRE, due))
        return turn.end(ReplyClass.STALE)
    if turn.now < due:
        return turn.end(ReplyClass.STALE)
    paid = turn.order.paid
    turn.expire()
    turn.cancel()
    if paid:
        turn.unsettle(paid, "expired")
    return turn.end(ReplyClass.CURRENT)


#: Why an order that ended cannot be changed.
_FINAL: Final = {
    OrderPhase.CONFIRMED: OrderReason.ORDER_PAID,
    OrderPhase.REJECTED: OrderReason.ORDER_REJECTED,
    OrderPhase.EXPIRED: OrderReason.ORDER_EXPIRED,
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
                return self._start(turn, body.after)
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

    def _start(self, turn: OrderTurn, after: str) -> ProcessDecision[OrderProcessState]:
        order = turn.state.order
        if order is None:
            return turn.end(ReplyClass.UNEXPECTED)
        if order.phase is not OrderPhase.HELD:
            return turn.end(ReplyClass.DUPLICATE)
        expires_at = self._end_of_window(turn.message.at)
        turn.add(OrderStarted(expires_at))
        self._begin(turn, expires_at, after)
        return turn.end()

    def _begin(self, turn: OrderTurn, expires_at: datetime, after: str = "") -> None:
        if turn.now > expires_at:
            turn.reject("window_over")
        else:
            turn.start(expires_at + self.buffer, after)

    def _change(self, turn: OrderTurn, body: Update | Pay) -> ProcessDecision[OrderProcessState]:
        """Take a change or a payment, each id once."""
        if turn.state.order is None:
            raise refuse(OrderReason.UNKNOWN_ORDER, f"a message {turn.message.kind!r} has the id {turn.message.id!r}")
        key, content = make_inbox_entry(turn.message)
        known = turn.state.inbox.get(key)
        if known == content:
            return turn.end(ReplyClass.DUPLICATE)
        if known is not None:
            raise refuse(OrderReason.ID_DIFFERS, f"order {turn.order.order!r} had another {key!r} before")
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
            raise refuse(OrderReason.ORDER_PAID, f"{named} has a payment, and waits for its seats")
        if order.expires_at is not None and turn.now > order.expires_at:
            raise refuse(OrderReason.ORDER_EXPIRED, f"{named} could be changed until {order.expires_at.isoformat()}")
        if body.version != order.version:
            raise refuse(
                OrderReason.VERSION_DIFFERS, f"{named} has version {order.version}, the message {body.version}"
            )
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
