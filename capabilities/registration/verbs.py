"""Registration as one process of the app runs it: its flows, and the verbs that enter more than one of them."""

from collections.abc import Callable, Iterator, Sequence

from capabilities.registration import events as order_events
from capabilities.registration.order_flows import OrderFlows, Starts, hear
from capabilities.registration.order_process import OrderProcessState
from capabilities.registration.parked_orders import ParkedOrders, homes_in
from capabilities.registration.public_messages import Payment, PlaceOrder, UpdateOrder, read_from
from capabilities.registration.seat_flows import SeatCheck, SeatFlows
from shared.capability import DeadLetter
from shared.clock import Clock, Closing
from shared.errors import RefusedError
from shared.messages import Delivery
from shared.payload import wait_for_newer
from shared.processes import ProcessCore
from shared.telemetry import Telemetry, tell


class Registration(Closing):
    """The flows of registration over the stores of one installation. Several threads may call each verb."""

    def __init__(  # noqa: PLR0913 - the flows
        self,
        orders: OrderFlows,
        seats: SeatFlows,
        starts: Starts,
        *,
        core: ProcessCore[OrderProcessState],
        parked: ParkedOrders,
        check: SeatCheck,
        telemetry: Telemetry,
        clock: Clock,
        parts: Sequence[Closing],
    ) -> None:
        """Take the flows, and what is closed with them, in this order."""
        self.orders, self.seats, self.starts, self.parked, self.check = orders, seats, starts, parked, check
        self._core, self._telemetry, self._clock, self._parts = core, telemetry, clock, parts

    def take(self, delivery: Delivery) -> None:
        """Act on a message of a customer, a shop or a bank, by the queue it came by. One that is refused is parked."""
        try:
            message = read_from(delivery.queue, delivery.body)
            if isinstance(message, PlaceOrder):
                self.orders.place(message)
            elif isinstance(message, UpdateOrder):
                self.orders.update(message)
            elif isinstance(message, Payment):
                self.orders.pay(message)
            else:
                self.seats.manage(message)
        except RefusedError as error:
            wait_for_newer(delivery, error)
            self.parked.park_order(delivery, error)

    def hear(self, bodies: Sequence[bytes]) -> None:
        """Give the answers of seats to the processes of their orders, from messages of `seats-events`."""
        hear(self._core.runtime, self.parked, self._telemetry, bodies, self._clock)

    def expire(self, bodies: Sequence[bytes]) -> None:
        """Act on the timeouts that are due in the shards of these hints, from messages of the queue `timeouts`."""
        self._core.expire(bodies)

    def park(self, letters: Sequence[DeadLetter]) -> None:
        """Park dead letters, and send what the homes that they name have unsent."""
        for letter in letters:
            self.parked.park_letter(letter)
            self._core.flush(homes_in(letter.body))
        if letters:
            tell(order_events.LETTERS_PARKED, letters=len(letters), entity=letters[0].entity)

    def follow(self, until: float) -> Iterator[Callable[[], object]]:
        """Yield the steps of a tick, one a shard: what is due, and what a crash left. Nothing is begun after `until`."""
        return self._core.follow(until)

    def close(self) -> None:
        """Remove the rows that are done, and close the connections to the bus."""
        for part in self._parts:
            part.close()
