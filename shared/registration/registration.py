"""Registration as one process of the app runs it: one verb for each kind of message, and one for the tick."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Final

from shared.azure import BusSender, Connections
from shared.clock import Clock
from shared.closing import Closing
from shared.errors import RefusedError
from shared.eventsourcing import Head, Homes, Mementos, Writer
from shared.gate import HeldWork
from shared.messages import Delivery
from shared.messaging import Command, Publisher
from shared.parked import Parking, PutOnQueue
from shared.parts import RegistrationChoice, seat_lane_names
from shared.payload import Limits
from shared.processes import (
    SHARDS,
    Agenda,
    DueHints,
    Follower,
    HotNotes,
    Outgoing,
    Receiver,
    Removals,
    Runtime,
    due_shards,
)
from shared.registration.access_codes import AccessCodes
from shared.registration.hearing import hear
from shared.registration.order import AGGREGATE
from shared.registration.order_flows import Numbers, OrderFlows, Placed
from shared.registration.order_process import OrderProcess
from shared.registration.order_turn import OrderProcessState
from shared.registration.parked_orders import DeadLetter, ParkedOrders, homes_in
from shared.registration.prices import PriceList, Views
from shared.registration.public_messages import Payment, PlaceOrder, UpdateOrder, read_order_message
from shared.registration.routes import STARTS_QUEUE, TIMEOUTS_QUEUE, OrderRoutes
from shared.registration.seat_flows import SeatFlows, decide_command
from shared.registration.seats import Seats, SeatsState
from shared.registration.starts import Starts
from shared.registration.views import ORDER_HOMES

#: Senders to one entity at a time.
_MOST_SENDERS: Final = 16
#: Seconds for which an invocation follows what hints named. The lock of its messages is longer.
_FOLLOWS_FOR: Final = 40.0


class Registration(Closing):
    """The flows of registration over the stores of one installation. Several threads may call each verb."""

    def __init__(  # noqa: PLR0913 - the stores of an installation
        self,
        connections: Connections,
        choice: RegistrationChoice,
        *,
        homes: Homes,
        agenda: Agenda,
        numbers: Numbers,
        codes: AccessCodes,
        conferences: Views,
        held: HeldWork,
        parking: Parking,
        put_back: PutOnQueue,
        clock: Clock,
    ) -> None:
        """Build the flows. Makes no request."""
        self._clock, self._limits = clock, Limits()
        self._sender = BusSender(connections, most=_MOST_SENDERS)
        routes = OrderRoutes(seat_lane_names(choice.seat_lanes))
        publisher = Publisher(self._sender, connections.pushback, _MOST_SENDERS)
        outgoing = Outgoing(publisher, routes)
        self._removals = Removals(agenda)
        process = OrderProcess(window=choice.reservation, buffer=choice.buffer, most_seats=choice.seats_per_order)
        self._runtime: Runtime[OrderProcessState] = Runtime(
            process,
            AGGREGATE,
            homes,
            agenda,
            outgoing,
            clock=clock,
            remove=self._removals,
            hint=DueHints(self._sender, TIMEOUTS_QUEUE, choice.buffer),
        )
        self._parked = ParkedOrders(parking, put_back, publisher, routes)
        mementos: Mementos[SeatsState] = Mementos(homes, Seats(), choice.snapshot_events)
        writer: Writer[SeatsState, Command] = Writer(homes, Seats(), mementos, partial(decide_command, clock=clock))
        self._hot_notes = HotNotes(agenda, clock, self._removals)
        receiver = Receiver(homes, mementos, writer, self._hot_notes, outgoing)
        self._seats = SeatFlows(receiver, routes, self._sender, self._parked, clock)
        self._orders = OrderFlows(
            self._runtime,
            process,
            homes,
            numbers=numbers,
            codes=codes,
            prices=PriceList(conferences, mementos),
            held=held,
            clock=clock,
        )
        self._starts = Starts(self._runtime, agenda, publisher, self._removals, clock)
        held.register(str(STARTS_QUEUE), self._starts.send)
        self._follower = Follower(agenda, homes, outgoing, clock, handle=self._runtime.handle, resume=self._resume)

    def place(self, order: PlaceOrder) -> Placed:
        """Store an order, or find it, and send what follows. Raises RefusedError, with the reason `order_differs` too.

        The answer stands when the order is stored: what could not be sent then is sent by the tick.
        """
        return self._orders.place(order)

    def change(self, order: str, version: int, seats: Mapping[str, int]) -> int:
        """Want other seats in place of those of this version. Return the version of the change, also of one made before.

        Raises RefusedError: `unknown_order`, `version_differs`, `order_paid`, `order_expired`, `order_rejected`.
        """
        return self._orders.change(order, version, seats)

    def take(self, delivery: Delivery) -> None:
        """Act on a message of the queue `orders`. One that is refused is parked."""
        try:
            message = read_order_message(delivery.body, self._limits)
            if isinstance(message, PlaceOrder):
                self._orders.place(message)
            elif isinstance(message, UpdateOrder):
                self._orders.change(message.order, message.version, message.seats, message.id)
            elif isinstance(message, Payment):
                self._orders.pay(message)
            else:
                self._seats.manage(message)
        except RefusedError as error:
            self._parked.park_order(delivery, error)

    def start(self, bodies: Sequence[bytes]) -> None:
        """Start the held orders that a gate released, from messages of the queue `starts`."""
        self._starts.take(bodies)

    def sell(self, bodies: Sequence[bytes]) -> None:
        """Obey the commands to one conference's seats, from the messages of one session of a lane."""
        self._seats.sell(bodies)

    def hear(self, bodies: Sequence[bytes]) -> None:
        """Give the answers of seats to the processes of their orders, from messages of `seats-events`."""
        hear(self._runtime, self._parked, bodies)

    def expire(self, bodies: Sequence[bytes]) -> None:
        """Act on the timeouts that are due in the shards of these hints, from messages of the queue `timeouts`."""
        until = self._clock.monotonic() + _FOLLOWS_FOR
        for shard in due_shards(bodies):
            self._follower.follow(shard, until)

    def park(self, letters: Sequence[DeadLetter]) -> None:
        """Park dead letters, and send what the homes that they name have unsent."""
        for letter in letters:
            self._parked.park_letter(letter)
            self._follower.flush(homes_in(letter.body))

    def follow(self, until: float) -> Iterator[Callable[[], object]]:
        """Yield the steps of a tick, one a shard: what is due, and what a crash left. Nothing is begun after `until`."""
        return (partial(self._follower.follow, shard, until) for shard in range(SHARDS))

    def close(self) -> None:
        """Remove the rows that are done, and close the connections to the bus."""
        self._hot_notes.close()
        self._removals.close()
        self._sender.close()

    def _resume(self, home: str, _head: Head) -> None:
        if home.startswith(ORDER_HOMES):
            self._orders.resume(home.removeprefix(ORDER_HOMES))
