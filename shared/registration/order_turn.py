"""The state of an order's process, and one decision while it is made: events, commands, timeouts."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import StrEnum
from typing import Any, Final

from shared.eventsourcing import Event
from shared.messaging import Command
from shared.processes import Incoming, ProcessDecision, ReplyClass, Timeout
from shared.registration.bodies import (
    Body,
    OrderConfirmed,
    OrderExpired,
    OrderRejected,
    PaymentReceived,
    PaymentUnsettled,
    ReplySkipped,
)
from shared.registration.order import OrderState, fold_order
from shared.registration.order_messages import EXPIRE
from shared.registration.seat_commands import Cancel, Confirm, Reservation, Reserve, send_to
from shared.registration.stored_events import event_of

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

    def reserve(self) -> None:
        """Send for the seats that the order wants, and wait for the answer."""
        self._change(OrderStage.AWAITING)
        self._send(Reserve(**self._address(), seats=dict(self.order.requested)))

    def start(self, due: datetime) -> None:
        """Reserve for the first time, and expire at `due`."""
        self.state = replace(self.state, due=due)
        self.timeouts.append(Timeout(EXPIRE, due))
        self.reserve()

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
