"""The process manager of an order: it reserves, waits for the answer and the payment, confirms or gives up.

Every command about the reservation has the next generation, and an answer counts only for the last one. So replies may
be doubled, late and overtaken. A payment and the confirmation are one decision: no expiry comes between them.
`docs/registration.md` has the table of states and messages; `decide` is that table.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any

from shared.eventsourcing import Home
from shared.processes import Decision, Incoming
from shared.registration.order import OrderState


class Stage(StrEnum):
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
    stage: Stage = Stage.NOT_STARTED
    #: The generation of the last command that was sent.
    generation: int = 0
    #: The last generation whose reply was applied.
    applied: int = 0
    #: Hashes of outside messages by their ids.
    inbox: Mapping[str, str] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class OrderProcess:
    """The process manager of orders, with its settings."""

    window: timedelta
    #: Between the end of the window and the time at which the seats go back.
    buffer: timedelta
    most_seats: int

    format = 1

    def upgrade(self, row: Mapping[str, Any], format_: int) -> Mapping[str, Any]:
        """Return a row of an earlier format as one of this format."""
        raise NotImplementedError

    def restore(self, row: Mapping[str, Any] | None, home: Home | None) -> OrderProcessState:
        """Return the state from the row, the events and the inbox."""
        raise NotImplementedError

    def store(self, state: OrderProcessState) -> Mapping[str, Any]:
        """Return the row."""
        raise NotImplementedError

    def decide(self, state: OrderProcessState, message: Incoming, now: datetime) -> Decision[OrderProcessState]:
        """Return all that follows from the message."""
        raise NotImplementedError
