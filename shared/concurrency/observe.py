"""Makes an observation from two samples of the queues and from the reports of the processes.

`QueueDepths` samples the queues: one request per queue, and one more per queue with messages for the age of the oldest
message. The rest makes no request.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

from azure.storage.queue import QueueClient

from shared.azure import expecting_an_answer
from shared.clock import Clock
from shared.concurrency.fleet import Fleet, Worker
from shared.concurrency.rules import Observation


@dataclass(frozen=True, slots=True)
class Depths:
    """The depth of all work queues together, and how long the oldest message has waited. None: age not requested."""

    depth: int
    oldest_age: float | None = None


class QueueDepths:
    """The work queues of one installation."""

    def __init__(self, queues: Sequence[QueueClient], clock: Clock) -> None:
        self._queues, self._clock = queues, clock

    def sample(self, *, with_age: bool) -> Depths:
        """Read the depth, which includes messages in work: storage has no other count."""
        with expecting_an_answer("read the depth of the work queues"):
            counts = [queue.get_queue_properties().approximate_message_count or 0 for queue in self._queues]
            if not with_age:
                return Depths(sum(counts))
            ages = [self._age(queue) for queue, count in zip(self._queues, counts, strict=True) if count]
        return Depths(sum(counts), max(ages, default=0.0))

    def _age(self, queue: QueueClient) -> float:
        # Only visible messages can be peeked. A message in work does not wait.
        oldest = next(iter(queue.peek_messages(1)), None)
        if oldest is None or oldest.inserted_on is None:
            return 0.0
        return max(0.0, (self._clock.now() - oldest.inserted_on).total_seconds())


@dataclass(frozen=True, slots=True)
class QueueReading:
    """One sample of queues and processes. The difference to the next one shows what happened in between."""

    at: datetime
    depth: int
    workers: Mapping[str, Worker]


@dataclass(frozen=True, slots=True)
class Seen:
    """The observation, and the messages that came and went since the previous sample, 0 without one."""

    observation: Observation
    seconds: float = 0.0
    arrived: int = 0
    drained: int = 0


def take_reading(depths: Depths, workers: Sequence[Worker], now: datetime) -> QueueReading:
    """Build the sample for the next observation."""
    return QueueReading(now, depths.depth, {worker.name: worker for worker in workers})


def observe(depths: Depths, fleet: Fleet, before: QueueReading | None, now: datetime) -> Seen:
    """Build the observation of this moment."""
    seconds = (now - before.at).total_seconds() if before else 0.0
    fresh = fleet.fresh(now)
    # All workers count here: one that rests by now may have done messages since the previous sample.
    worked = _since(before, fleet.workers) if before else _Worked()
    done, busy = worked.done, worked.busy
    # Reports that are still missing can make the sum negative, as if messages had gone that never came.
    arrived = max(0, depths.depth - before.depth + done) if before else 0
    observation = Observation(
        depth=depths.depth,
        hour=now.hour,
        oldest_age=depths.oldest_age,
        arrival_rate=arrived / seconds if seconds > 0 else None,
        drain_rate=done / seconds if seconds > 0 else None,
        cpu=max((worker.cpu for worker in fresh if worker.cpu is not None), default=None),
        latency=busy / done if done else fleet.latency(now),
        payload_bytes=_payload_bytes(worked, fleet, depths.depth),
        in_flight=sum(worker.in_flight for worker in fresh) if fresh else None,
    )
    return Seen(observation, seconds, arrived, done)


class _Worked(NamedTuple):
    """The work of all processes in a time."""

    done: int = 0
    busy: float = 0.0
    chunks: int = 0
    stored: int = 0


def _since(before: QueueReading, workers: Sequence[Worker]) -> _Worked:
    done, busy, chunks, stored = 0, 0.0, 0, 0
    for worker in workers:
        known = before.workers.get(worker.name)
        # A worker that started before that sample and is not in it had been forgotten. Its counts are history.
        if known is not None or worker.started_at >= before.at:
            done += worker.done - (known.done if known else 0)
            busy += worker.busy - (known.busy if known else 0.0)
            chunks += worker.chunks - (known.chunks if known else 0)
            stored += worker.stored - (known.stored if known else 0)
    return _Worked(done, busy, chunks, stored)


def _payload_bytes(worked: _Worked, fleet: Fleet, depth: int) -> float | None:
    """Return the mean size since the previous sample. Without one the last decision's stays while there is work."""
    if worked.chunks > 0:
        return worked.stored / worked.chunks
    last = fleet.decision.observation if fleet.decision else None
    return last.payload_bytes if last and depth else None
