"""The app's one timer: everything that a lost message would have started, from two requests when nothing waits."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from typing import Final, TypeAlias

from shared.app.stages import AppStages
from shared.azure import Cause, because
from shared.clock import Clock
from shared.gate import TAKES_FOR, GateTick
from shared.parked import drain_poison
from shared.pending import GATE_POINTER, ORPHANS_POINTER, OUTBOX_POINTER, PENDING, ROOM_POINTER, Due, Followers, Range
from shared.retry import all_tried
from shared.telemetry import describe_error, events, place, tell
from shared.topology import POISON_SUFFIX, rooms, topology

#: How long a tick begins with further entries behind gates, so that there is time for the jobs after them.
GATES_TAKE: Final = timedelta(seconds=20)
#: Minutes between two drains of the hosts' poison queues: messages there have failed for good, so they may wait.
POISON_EVERY: Final = 15
#: Takes the pointers that are due, and the moment by the monotonic clock at which the tick began its work.
Step: TypeAlias = Callable[[Due, float], object]


@dataclass(frozen=True, slots=True, kw_only=True)
class Tick:
    """The steps of one tick, each of which fails alone; may run twice, late, or side by side with another."""

    followers: Followers
    #: Before the pointers are followed, and after.
    first: Sequence[Step]
    last: Sequence[Step]
    clock: Clock

    def run(self) -> None:
        """Follow everything that is due; raises the first error after everything was tried."""
        with because(Cause.SWEEP):
            all_tried(
                self._steps(), lambda error: tell(events.TICK_FAILED, error=describe_error(error), at=place(error))
            )

    def _steps(self) -> Iterator[Callable[[], object]]:
        due = Due()
        yield from self.followers.reads(due)
        began = self.clock.monotonic()
        yield from (partial(step, due, began) for step in self.first)
        yield from self.followers.steps(due, began + TAKES_FOR.total_seconds())
        yield from (partial(step, due, began) for step in self.last)


def build_tick(stages: AppStages) -> Tick:
    """Build the tick of a process: what it does before, while and after it follows what is due."""
    stores, orphans, keeper, tuning = stages.stores, stages.orphans, stages.rooms, stages.tasks.tuning
    gates = GateTick(stores.gates, stages.releaser, stores.pending, stores.signals, stages.clock)
    followers = Followers([(Range(PENDING, stages.settings.chunk_overdue), stores.pending)], stages.clock)
    stages.sweep.register(followers)
    # After the jobs, whose time is bounded: a bus that does not answer must not take it.
    followers.register(OUTBOX_POINTER, lambda pointer, _until: stores.outbox.follow(pointer), turn=1)
    followers.register(ROOM_POINTER, lambda pointer, _until: keeper.follow(pointer), turn=2)
    return Tick(
        followers=followers,
        first=[lambda due, began: gates.run(due.of(GATE_POINTER), began + GATES_TAKE.total_seconds())],
        last=[
            lambda _due, _began: drain_poison_queues(stages),
            lambda due, _began: orphans.run(due.of(ORPHANS_POINTER)),
            lambda _due, _began: keeper.look_for_containers(),
            lambda _due, _began: keeper.look_for_queues(),
            lambda due, _began: tuning.run() if due.is_job_open else None,
        ],
        clock=stages.clock,
    )


def drain_poison_queues(stages: AppStages) -> int:
    """Park what lies on the poison queues, once a quarter of an hour, and return how much it was."""
    # By the clock and not by a count: the same for every instance that ticks, however often it was restarted.
    if stages.clock.now().minute % POISON_EVERY:
        return 0
    stores, settings = stages.stores, stages.settings
    names = topology(settings.work_queues, [rooms(settings.rooms)]).queues
    clients = [stores.connections.queues.get_queue_client(name) for name in names if name.endswith(POISON_SUFFIX)]
    # A queue that does not answer keeps no other from being drained; the tick logs its error.
    drains = (partial(drain_poison, one, stores.parking, stores.attempts) for one in clients)
    return sum(all_tried(drains, lambda _error: None))
