"""Sends one message of a customer, a shop or a bank, and waits for its effect."""

import json
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from capabilities.registration.commands.orders import opened
from capabilities.registration.flows import RegistrationPart, RegistrationStores
from capabilities.registration.order import OrderState
from capabilities.registration.order_messages import seats_home
from capabilities.registration.parked_orders import claim_of
from capabilities.registration.public_messages import queue_of, read_order_message
from capabilities.registration.seats import Seats
from shared.app import BuildSite
from shared.azure import FAILURES, BusMessage, BusSender, Destination
from shared.errors import NotPublishedError
from shared.parked import NO_JOB, Entry
from shared.payload import WRAPPER, Limits
from shared.processes import Mementos
from tools.cli.options import end
from tools.cli.watching import LOOK_EVERY, NOT_ENDED

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Message:
    """One message, before it is sent."""

    kind: str
    fields: Mapping[str, Any]

    @property
    def body(self) -> bytes:
        """The bytes that are sent."""
        return json.dumps({WRAPPER: {"kind": self.kind, **self.fields}}).encode()

    @property
    def words(self) -> str:
        """Its kind and its id, for errors."""
        return f"{self.kind} {str(self.fields.get('id') or self.fields['order'])!r}"

    def check(self) -> Destination:
        """Return the queue of its kind. Raises RefusedError for a message that the app would refuse as it stands."""
        return queue_of(read_order_message(self.body, Limits()))


class SendingDesk:
    """Sends messages, and reads their effects."""

    def __init__(self, stores: RegistrationStores, part: RegistrationPart) -> None:
        self.stores, self._part = stores, part

    def find(self, order: str) -> OrderState | None:
        """Return an order as its customer sees it now."""
        view = self.stores.orders.look_up(order)
        return view.order if view else None

    def has_ended(self, order: OrderState) -> bool:
        """Return true if the conference holds no seats for an order. It hears of a payment a moment after the order."""
        state = Mementos(self.stores.homes, Seats(), 1).read(seats_home(order.conference)).state
        entry = state.reservations.get(order.order)
        return entry is None or not entry.holds_seats

    def send(self, message: Message, wait: float, look: Callable[["SendingDesk"], T | None]) -> T | None:
        """Send a message, wait for its effect, and return the value that `look` finds then. None: the command does not wait."""
        to, body = message.check(), message.body
        queue = str(to)
        known = self._parked(queue, body) if wait else None
        self._drop(message, to, body)
        until = time.monotonic() + wait
        while wait:
            if self._part.verbs.parked.has_taken(body) and (found := look(self)) is not None:
                return found
            entry = self._parked(queue, body)
            if entry and entry.is_open and (known is None or entry.etag != known.etag):
                end(f"{message.words} was refused and parked as {entry.reason}: {entry.found}; {entry.instead}")
            if time.monotonic() >= until:
                end(
                    f"{message.words} is on queue {queue}, and its effect is not there after {wait:g} s: is the app "
                    "running? The same command with the same ids counts once",
                    NOT_ENDED,
                )
            time.sleep(LOOK_EVERY)
        return None

    def _parked(self, queue: str, body: bytes) -> Entry | None:
        return self.stores.stores.parked_table.find(NO_JOB, claim_of(queue, body).key)

    def _drop(self, message: Message, to: Destination, body: bytes) -> None:
        if to.kind == "queue":
            self.stores.stores.put(to.name, body.decode())
            return
        try:
            with BusSender(self.stores.stores.connections) as sender:
                sender.send(to, [BusMessage(body=body)])
        except FAILURES as error:
            raise NotPublishedError(
                f"could not send {message.words} to {to} ({type(error).__name__}: {str(error).partition(chr(10))[0]}); type "
                "the same command again: with the same ids it counts once"
            ) from error


@contextmanager
def open_desk(settings: Path | None) -> Iterator[SendingDesk]:
    """Yield the desk of an installation with registration. Nothing is requested before it is used."""
    with (
        opened(settings) as (stores, parsed, choice),
        RegistrationPart(BuildSite(stores.stores, parsed, choice)) as part,
    ):
        yield SendingDesk(stores, part)
