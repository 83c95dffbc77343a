"""What lies on the work queues: one request a queue, one more where somebody wants to know the oldest message."""

from collections.abc import Sequence

from azure.storage.queue import QueueClient

from shared.answers import expecting_an_answer
from shared.clock import Clock
from shared.concurrency.observe import Depths


class QueueDepths:
    """The work queues of one installation."""

    def __init__(self, queues: Sequence[QueueClient], clock: Clock) -> None:
        self._queues, self._clock = queues, clock

    def sample(self, *, with_age: bool) -> Depths:
        """Return what lies there now; messages in work count, storage knows no other number."""
        with expecting_an_answer("read the depth of the work queues"):
            counts = [queue.get_queue_properties().approximate_message_count or 0 for queue in self._queues]
            if not with_age:
                return Depths(sum(counts))
            ages = [self._age(queue) for queue, count in zip(self._queues, counts, strict=True) if count]
        return Depths(sum(counts), max(ages, default=0.0))

    def _age(self, queue: QueueClient) -> float:
        # Only visible messages can be peeked at: what is in work waits for nobody.
        oldest = next(iter(queue.peek_messages(1)), None)
        if oldest is None or oldest.inserted_on is None:
            return 0.0
        return max(0.0, (self._clock.now() - oldest.inserted_on).total_seconds())
