"""Takes over the messages that queue triggers delivered, so that a killed process holds none of them for long.

    the host receives, for ten minutes -> take over, for GUARD -> work, renewed -> delete, or give back

The host hides what it received for ten minutes, and no setting changes that. The takeover is a renewal by the receipt
that came with the message. Storage then gives a new receipt, and refuses the old one. So the host's own renewal, release
and deletion are refused later, and the host takes such a refusal as "somebody else has it": nothing is lost by it.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

from shared.clock import Clock, Closing
from shared.dequeue.hint_follower import MOST_DELIVERIES
from shared.dequeue.task import AGAIN_AFTER
from shared.dequeue.work_queue import Renewals, WorkQueue
from shared.messages import Delivery


@dataclass(slots=True, kw_only=True)
class Takeovers(Closing):
    """Handles what triggers delivered to one process. Several threads may call it."""

    #: Makes the queue of this name.
    queue: Callable[[str], WorkQueue]
    clock: Clock
    #: From this delivery on a message stays the host's, which moves one that fails to the poison queue.
    most_deliveries: int = MOST_DELIVERIES
    #: Seconds after which a failed message is redelivered.
    again_after: int = AGAIN_AFTER
    _renewals: Renewals = field(init=False)

    def __post_init__(self) -> None:
        self._renewals = Renewals(self.clock).__enter__()

    def handle(self, delivery: Delivery, work: Callable[[Delivery], object]) -> None:
        """Do the work of a message, and then delete it. If the work fails, give the message back and raise.

        Where the takeover is refused, another process has the message, or a lost reply had the receipt: nothing is done,
        and the message comes again.
        """
        if not delivery.receipt or delivery.count >= self.most_deliveries:
            work(delivery)
            return
        held = self.queue(delivery.queue).take_over(delivery)
        with self._renewals.keep_leased(held):
            try:
                work(delivery)
            except Exception:
                held.show_in(self.again_after)
                raise
        held.delete()

    def close(self) -> None:
        """Renew nothing any more."""
        self._renewals.__exit__(None, None, None)
