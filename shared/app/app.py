"""One process of the app: one verb for each kind of message, and one for the timer."""

from collections.abc import Sequence
from threading import Event

from shared.app.orders import RegistrationPart
from shared.app.stages import AppStages
from shared.app.stores import Stores
from shared.app.tick import build_tick
from shared.azure import Connections
from shared.closing import Closing
from shared.messages import Delivery
from shared.parked import park_dead_result
from shared.pipeline import Received, Settled
from shared.settings import Dequeue, Settings
from shared.signals import Hint
from shared.workloads import Workloads


class App(Closing):
    """The stages of one process over the stores of its installation. Several threads may call each verb.

    A further part, such as registration, is built in `shared/app` from `stores` and gets a verb here.
    """

    def __init__(
        self, connections: Connections, settings: Settings, workloads: Workloads, *, stores: Stores | None = None
    ) -> None:
        """Build every stage. Makes no request. `stores`, if given, were made over the same connections."""
        self.settings, self.stores = settings, stores or Stores(connections)
        #: True if permits start the work on the work queues, instead of one trigger per queue.
        self.is_pushed = settings.dequeue is Dequeue.PUSH
        self.stages = stages = AppStages(self.stores, settings, workloads)
        self.following, self._turns = stages.tasks.following, stages.tasks.turns
        self.urgent = stages.tasks.urgent
        # Built here, so that no two threads build them.
        self._acceptance, self._processor, self._settler = stages.arrivals, stages.processor, stages.settler
        #: None where registration is off.
        self.registration = RegistrationPart(self.stores, settings) if settings.registration.is_on else None
        self._releaser, self._tick = stages.releaser, build_tick(stages, self.registration)
        self._hint_follower = stages.tasks.hint_follower(stages.arrivals.handle)
        self._tasks, self._drain = stages.tasks, stages.tasks.drain(self.process_now) if self.is_pushed else None

    def accept(self, delivery: Delivery) -> None:
        """Accept a submission and dispatch its chunks."""
        self._acceptance.handle(delivery)

    def accept_hinted(self) -> None:
        """Accept all that waits on the queues of submissions, because a hint came."""
        self._hint_follower.on_hint()

    def process(self, delivery: Delivery) -> None:
        """Process a chunk or finish a job that a trigger delivered, once it is this message's turn."""
        with self._turns.turn(), self.following.gauge.working():
            self._processor.handle(delivery)

    def process_now(self, delivery: Delivery) -> None:
        """Process a message that a task of this process received: the task is the slot."""
        self.following.look()
        with self.following.gauge.working():
            self._processor.handle(delivery)

    def drain(self, signal: bytes) -> None:
        """Follow the permit in a signal: run tasks until the work queues are empty. Push mode only."""
        if self._drain is not None:
            self._drain.on_signal(signal)

    def work(self, stop: Event, lanes: int) -> None:
        """Follow permits from the bus, so many at a time, until `stop` is set. Return when every task has ended."""
        self._tasks.worker(self.process_now, stop, lanes).run()

    def settle(self, received: Sequence[Received]) -> Settled:
        """Credit results to their jobs. Request the finish of a job whose last chunk has ended. Return the counts."""
        return self._settler.settle(received)

    def release(self, hint: Hint) -> None:
        """Start the work held behind an opened gate, or continue a dispatch. The gate's flag decides, not the hint."""
        self._releaser.on_signal(hint)

    def park(self, body: bytes, message_id: str, why: str) -> None:
        """Park a dead letter of the queue `results`."""
        park_dead_result(self.stores.parking, body, message_id, why)

    def tick(self) -> None:
        """Do everything that is due, even if the messages about it were lost."""
        self._tick.run()

    def close(self) -> None:
        """Close everything that was opened here. The connections stay open: their maker closes them."""
        self._turns.close()
        if self.registration:
            self.registration.close()
        self.stores.close()
