"""The app's one timer: starts all that a lost message would have started. With nothing due it makes two requests."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from typing import Final, TypeAlias

from shared.app.orders import RegistrationPart
from shared.app.stages import AppStages
from shared.azure import Cause, because
from shared.clock import Clock
from shared.gate import TAKES_FOR, GateTick
from shared.parked import drain_poison
from shared.pending import (
    FRONT_POINTER,
    GATE_POINTER,
    ORPHANS_POINTER,
    OUTBOX_POINTER,
    PENDING,
    REPLAY_POINTER,
    ROOM_POINTER,
    WARM_POINTER,
    WORK_POINTER,
    Due,
    Followers,
    Range,
)
from shared.retry import all_tried
from shared.telemetry import describe_error, events, place, tell
from shared.topology import POISON_SUFFIX, topology

#: How long a tick begins further entries behind gates. The bound leaves time for the jobs after them.
GATES_TAKE: Final = timedelta(seconds=20)
#: How long a tick begins further rows of the agenda of registration.
ORDERS_TAKE: Final = timedelta(minutes=3)
#: How long a tick steps replays.
REPLAYS_TAKE: Final = timedelta(seconds=20)
#: The minute of each hour in which the seats of conferences are checked, beside the other work of a whole hour.
SEATS_CHECKED_AT: Final = 7
#: Minutes between two drains of the hosts' poison queues: messages there have failed for good, so they may wait.
POISON_EVERY: Final = 15
#: Takes the due pointers, and the start of the tick's work in the clock's monotonic seconds.
Step: TypeAlias = Callable[[Due, float], object]


@dataclass(frozen=True, slots=True, kw_only=True)
class Tick:
    """The steps of one tick, each of which fails alone. A tick may run twice, late, or side by side with another."""

    followers: Followers
    #: The steps before the pointers are followed, and those after.
    first: Sequence[Step]
    last: Sequence[Step]
    clock: Clock

    def run(self) -> None:
        """Run every step. Raise the first error only after all were tried."""
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


def build_tick(stages: AppStages, registration: RegistrationPart | None = None) -> Tick:
    """Build the tick of a process: its followers of due pointers, and the steps before and after them."""
    more = [] if registration is None else _steps_of(registration, stages.clock)
    stores, orphans, keeper, tuning = stages.stores, stages.orphans, stages.rooms, stages.tasks.tuning
    gates = GateTick(stores.gates, stores.held_work, stages.releaser, stores.pending, stages.clock)
    followers = Followers([(Range(PENDING, stages.settings.chunk_overdue), stores.pending)], stages.clock)
    stages.sweep.register(followers)
    # After the jobs: their time is bounded, and a bus that does not answer must not use it up.
    followers.register(OUTBOX_POINTER, lambda pointer, _until: stores.outbox.follow(pointer), turn=1)
    followers.register(WORK_POINTER, stages.tasks.stranded.follow, means_open=True, turn=1)
    followers.register(ROOM_POINTER, lambda pointer, _until: keeper.follow(pointer), turn=2)
    # Last: Azure may take its time. Without an identity of its own, the app only reports that the checks are late.
    warm = stages.warmer.follow if stages.settings.warm.identity else stores.warm_records.demand_check
    followers.register(WARM_POINTER, lambda pointer, _until: warm(pointer), turn=3)
    return Tick(
        followers=followers,
        first=[
            lambda due, began: gates.run(due.of(GATE_POINTER), began + GATES_TAKE.total_seconds()),
            lambda due, _began: stages.fronts.recall(due.of(FRONT_POINTER)),
        ],
        last=[
            lambda _due, _began: drain_poison_queues(stages),
            lambda due, _began: orphans.run(due.of(ORPHANS_POINTER)),
            lambda _due, _began: stores.attempts.remove_old(stages.settings.retention),
            lambda _due, _began: keeper.look_for_containers(),
            lambda _due, _began: keeper.look_for_queues(),
            lambda due, _began: tuning.run() if due.is_job_open or stages.tasks.stranded.find() else None,
            *more,
            # At the end, because it waits for the effects of a wave.
            lambda due, _began: stores.replay_stepper.follow_due(due.of(REPLAY_POINTER), REPLAYS_TAKE.total_seconds()),
        ],
        clock=stages.clock,
    )


def _steps_of(registration: RegistrationPart, clock: Clock) -> list[Step]:
    def check_seats(_due: Due, began: float) -> None:
        if clock.now().minute == SEATS_CHECKED_AT:
            registration.check_seats(began + ORDERS_TAKE.total_seconds())

    return [lambda _due, began: registration.follow(began + ORDERS_TAKE.total_seconds()), check_seats]


def drain_poison_queues(stages: AppStages) -> int:
    """Park the messages on the poison queues, once per quarter of an hour. Return how many were parked."""
    # By the clock and not by a count: the clock is the same for every instance that ticks, even after restarts.
    if stages.clock.now().minute % POISON_EVERY:
        return 0
    stores, settings = stages.stores, stages.settings
    names = topology(settings.work_queues, settings.parts).queues
    clients = [stores.connections.queues.get_queue_client(name) for name in names if name.endswith(POISON_SUFFIX)]
    # A queue that does not answer stops no other drain. Its error is raised at the end, and the tick logs it.
    drains = (partial(drain_poison, client, stores.parking, stores.attempts) for client in clients)
    return sum(all_tried(drains, lambda _error: None))
