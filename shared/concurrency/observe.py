"""Makes an observation of two looks at the queues and at what the processes tell; pure.

What lies on the work queues: one request a queue, one more where somebody wants to know the oldest message.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from azure.storage.queue import QueueClient

from shared.azure import expecting_an_answer
from shared.clock import Clock
from shared.concurrency.fleet import Fleet, Worker
from shared.concurrency.rules import Observation


@dataclass(frozen=True, slots=True)
class Depths:
    """What lies on the work queues together, and how long its oldest message has waited; None: not asked for."""

    depth: int
    oldest_age: float | None = None


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


@dataclass(frozen=True, slots=True)
class QueueReading:
    """What one look saw; the next one tells what happened since."""

    at: datetime
    depth: int
    workers: Mapping[str, Worker]


@dataclass(frozen=True, slots=True)
class Seen:
    """The observation, and the messages that came and went since the look before; 0 where there was none."""

    observation: Observation
    seconds: float = 0.0
    arrived: int = 0
    drained: int = 0


def look(depths: Depths, workers: Sequence[Worker], now: datetime) -> QueueReading:
    """Return this look."""
    return QueueReading(now, depths.depth, {worker.name: worker for worker in workers})


def observe(depths: Depths, fleet: Fleet, before: QueueReading | None, now: datetime) -> Seen:
    """Return what is known now."""
    seconds = (now - before.at).total_seconds() if before else 0.0
    fresh = fleet.fresh(now)
    # Those that rest by now have done something since the look before as well.
    done, busy = _since(before, fleet.workers) if before else (0, 0.0)
    # What a process has not told yet may make it look as if messages had gone that were never there.
    arrived = max(0, depths.depth - before.depth + done) if before else 0
    observation = Observation(
        depth=depths.depth,
        hour=now.hour,
        oldest_age=depths.oldest_age,
        arrival_rate=arrived / seconds if seconds > 0 else None,
        drain_rate=done / seconds if seconds > 0 else None,
        cpu=max((worker.cpu for worker in fresh if worker.cpu is not None), default=None),
        latency=busy / done if done else _ever(fresh),
        in_flight=sum(worker.in_flight for worker in fresh) if fresh else None,
    )
    return Seen(observation, seconds, arrived, done)


def _since(before: QueueReading, workers: Sequence[Worker]) -> tuple[int, float]:
    done, busy = 0, 0.0
    for worker in workers:
        known = before.workers.get(worker.name)
        # One that is older than that look and was not known to it was forgotten: what it did is history.
        if known is not None or worker.started_at >= before.at:
            done += worker.done - (known.done if known else 0)
            busy += worker.busy - (known.busy if known else 0.0)
    return done, busy


def _ever(fresh: Sequence[Worker]) -> float | None:
    done = sum(worker.done for worker in fresh)
    return sum(worker.busy for worker in fresh) / done if done else None
