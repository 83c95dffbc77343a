"""Registration as one process of the app runs it: one verb for each kind of message, and one for the tick."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal

from shared.messages import Delivery
from shared.registration.messages import PlaceOrder


@dataclass(frozen=True, slots=True)
class Placed:
    """The answer to an order that is stored. The same order gets it again."""

    order: str
    number: int
    #: Not in its text: errors and logs may show this object.
    access_code: str
    total: Decimal
    version: int


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """A message of the queue `dead`: where it failed, and why it was given up."""

    entity: str
    message_id: str
    body: bytes
    reason: str


class Registration:
    """The flows of registration over the stores of one installation. Several threads may call each verb."""

    def place(self, order: PlaceOrder) -> Placed:
        """Store an order, or find it, and send what follows. Raises RefusedError, with the reason `order_differs` too.

        The answer stands when the order is stored: what could not be sent then is sent by the tick.
        """
        raise NotImplementedError

    def change(self, order: str, version: int, seats: Mapping[str, int]) -> int:
        """Want other seats in place of those of this version. Return the version of the change, also of one made before.

        Raises RefusedError: `unknown_order`, `version_differs`, `order_paid`, `order_expired`, `order_rejected`.
        """
        raise NotImplementedError

    def take(self, delivery: Delivery) -> None:
        """Act on a message of the queue `orders`. One that is refused is parked."""
        raise NotImplementedError

    def start(self, bodies: Sequence[bytes]) -> None:
        """Start the held orders that a gate released, from messages of the queue `starts`."""
        raise NotImplementedError

    def sell(self, bodies: Sequence[bytes]) -> None:
        """Obey the commands to one conference's seats, from the messages of one session of a lane."""
        raise NotImplementedError

    def hear(self, bodies: Sequence[bytes]) -> None:
        """Give the answers of seats to the processes of their orders, from messages of `seats-events`."""
        raise NotImplementedError

    def expire(self, bodies: Sequence[bytes]) -> None:
        """Act on the timeouts that are due in the shards of these hints, from messages of the queue `timeouts`."""
        raise NotImplementedError

    def park(self, letters: Sequence[DeadLetter]) -> None:
        """Park dead letters, and send what the homes that they name have unsent."""
        raise NotImplementedError

    def follow(self, until: float) -> Iterator[Callable[[], object]]:
        """Yield the steps of a tick, one a shard: what is due, and what a crash left. Nothing is begun after `until`."""
        raise NotImplementedError
