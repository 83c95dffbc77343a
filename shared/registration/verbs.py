"""Registration as one process of the app runs it: one verb for each kind of message, and one for the tick."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Final

from shared.clock import Clock
from shared.closing import Closing
from shared.errors import RefusedError
from shared.messages import Delivery
from shared.payload import wait_for_newer
from shared.processes import SHARDS, Follower, Runtime, due_shards
from shared.registration.hearing import hear
from shared.registration.order_flows import OrderFlows, Placed
from shared.registration.order_turn import OrderProcessState
from shared.registration.parked_orders import DeadLetter, ParkedOrders, homes_in
from shared.registration.public_messages import Payment, PlaceOrder, UpdateOrder
from shared.registration.routes import read_from
from shared.registration.seat_check import SeatCheck
from shared.registration.seat_flows import SeatFlows
from shared.registration.starts import Starts
from shared.telemetry import Telemetry, events, tell

#: Seconds for which an invocation follows what hints named. The lock of its messages is longer.
_FOLLOWS_FOR: Final = 40.0


class Registration(Closing):
    """The flows of registration over the stores of one installation. Several threads may call each verb."""

    def __init__(  # noqa: PLR0913 - the flows
        self,
        orders: OrderFlows,
        seats: SeatFlows,
        starts: Starts,
        *,
        runtime: Runtime[OrderProcessState],
        follower: Follower,
        parked: ParkedOrders,
        check: SeatCheck,
        telemetry: Telemetry,
        clock: Clock,
        parts: Sequence[Closing],
    ) -> None:
        """Take the flows, and what is closed with them, in this order."""
        self._orders, self._seats, self._starts, self._runtime = orders, seats, starts, runtime
        self._follower, self._parked, self._check, self._telemetry = follower, parked, check, telemetry
        self._clock, self._parts = clock, parts

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
        """Act on a message of a customer, a shop or a bank, by the queue it came by. One that is refused is parked."""
        try:
            message = read_from(delivery.queue, delivery.body)
            if isinstance(message, PlaceOrder):
                self._orders.place(message)
            elif isinstance(message, UpdateOrder):
                self._orders.update(message)
            elif isinstance(message, Payment):
                self._orders.pay(message)
            else:
                self._seats.manage(message)
        except RefusedError as error:
            wait_for_newer(delivery, error)
            self._parked.park_order(delivery, error)

    def has_taken(self, body: bytes) -> bool:
        """Return true if a message has had its effect, with this content: the order or conference has its id."""
        return self._parked.has_taken(body)

    def start(self, bodies: Sequence[bytes]) -> None:
        """Start the held orders that a gate released, from messages of the queue `starts`."""
        self._starts.take(bodies)

    def sell(self, bodies: Sequence[bytes]) -> None:
        """Obey the commands to one conference's seats, from the messages of one session of a lane."""
        self._seats.sell(bodies)

    def hear(self, bodies: Sequence[bytes]) -> None:
        """Give the answers of seats to the processes of their orders, from messages of `seats-events`."""
        hear(self._runtime, self._parked, self._telemetry, bodies)

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
        if letters:
            tell(events.LETTERS_PARKED, letters=len(letters), entity=letters[0].entity)

    def follow(self, until: float) -> Iterator[Callable[[], object]]:
        """Yield the steps of a tick, one a shard: what is due, and what a crash left. Nothing is begun after `until`."""
        return (partial(self._follower.follow, shard, until) for shard in range(SHARDS))

    def check_seats(self, until: float) -> None:
        """Tell of reservations that should have ended, and of balances that do not hold. Begin nothing after `until`."""
        self._check.run(until)

    def close(self) -> None:
        """Remove the rows that are done, and close the connections to the bus."""
        for part in self._parts:
            part.close()
