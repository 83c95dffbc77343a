"""One process of the app: one verb for each kind of message, and one for the timer.

Takeovers of the messages that queue triggers delivered, so that a killed process holds none of them for long:

    the host receives, for ten minutes -> take over, for GUARD -> work, renewed -> delete, or give back

The host hides what it received for ten minutes, and no setting changes that. The takeover is a renewal by the receipt
that came with the message. Storage then gives a new receipt, and refuses the old one. So the host's own renewal, release
and deletion are refused later. The host takes such a refusal as "another one has it", so nothing is lost by it.

The app's one timer: starts all that a lost message would have started. With nothing due it makes two requests.

Builds what reads the lines of parked entries, and what runs chunks without writing: only pages and commands need them.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, timedelta
from functools import partial
from threading import Event
from typing import Any, Final, Generic, NamedTuple, TypeAlias, TypeVar

from shared.app.stages import AppStages
from shared.app.stores import Stores
from shared.azure import Cause, Connections, because
from shared.capability import Chosen, TickStep
from shared.clock import Clock, Closing, all_tried
from shared.dequeue import MOST_DELIVERIES, Renewals, WorkQueue, redeliver_after
from shared.errors import SettingsError, SluiceError
from shared.gate import TAKES_FOR, GateTick
from shared.memory import Memory
from shared.messages import Delivery, room_of_work
from shared.operating import DryRunner, EntryReader
from shared.parked import drain_poison, park_dead_result
from shared.payload import WORK, PayloadReader, PayloadStores
from shared.pending import (
    ERASE_POINTER,
    FEED_POINTER,
    FRONT_POINTER,
    GATE_POINTER,
    HALT_POINTER,
    NET_POINTER,
    OF_CAPABILITIES,
    ORPHANS_POINTER,
    OUTBOX_POINTER,
    PENDING,
    REPLAY_POINTER,
    ROLL_POINTER,
    ROOM_POINTER,
    TIMETABLE_POINTER,
    WAIT_POINTER,
    WORK_POINTER,
    Due,
    Followers,
    Pointer,
    Range,
)
from shared.pipeline import CallLimits, Net, Received, Settled, check_limits
from shared.settings import Dequeue, Settings
from shared.signals import Hint
from shared.telemetry import describe_error, events, place, tell
from shared.topology import POISON_SUFFIX, join_entities, topology
from shared.usage import BASE_POISON_MINUTES, POISON_MINUTES
from shared.workloads import Workloads

#: How long a tick begins further entries behind gates. The bound leaves time for the jobs after them.
GATES_TAKE: Final = timedelta(seconds=20)
#: How long a tick begins anything further of one capability.
CAPABILITY_TAKES: Final = timedelta(minutes=3)
#: How long a tick takes submissions from rooms whose publishers send no hints.
NET_TAKES: Final = timedelta(seconds=20)
#: How long a tick corrects the index of causes.
CAUSES_TAKE: Final = timedelta(seconds=20)
#: The hour and minute of the day, in UTC, at which the list of jobs is tidied.
TIDIED_AT: Final = (4, 5)
#: How long a tick steps replays.
REPLAYS_TAKE: Final = timedelta(seconds=20)
#: How long work of a capability that is off may be due. A command may do it.
UNFOLLOWED: Final = timedelta(minutes=30)
#: Takes the due pointers, and the start of the tick's work in the clock's monotonic seconds.
Step: TypeAlias = Callable[[Due, float], object]


_Choice = TypeVar("_Choice")


@dataclass(frozen=True, slots=True)
class BuildSite(Generic[_Choice]):
    """All that a capability is built from. Building makes no request."""

    #: With the connections, the clock and the telemetry of this process.
    stores: Stores
    settings: Settings
    choice: _Choice


class BuiltPart(NamedTuple):
    """A capability that is on, and the object with its verbs."""

    chosen: Chosen
    verbs: Any


class Parts(Closing):
    """The capabilities that are on, built over the stores of an installation. Building makes no request."""

    def __init__(self, stores: Stores, settings: Settings) -> None:
        #: In the order of the line.
        self.built: list[BuiltPart] = []
        for one in settings.capabilities:
            try:
                self.built.append(BuiltPart(one, one.build(BuildSite(stores, settings, one.choice))))
            except SettingsError as error:
                if not one.capability.may_fail:
                    raise
                tell(events.CONSOLE_REFUSED, why=str(error))

    def close(self) -> None:
        """Close each that has something to close."""
        for part in self.built:
            if isinstance(part.verbs, Closing):
                part.verbs.close()


@dataclass(frozen=True, slots=True, kw_only=True)
class Tick:
    """The steps of one tick, each of which fails alone. A tick may run twice, late, or side by side with another."""

    followers: Followers
    #: The steps before the pointers are followed, and those after.
    first: Sequence[Step]
    last: Sequence[Step]
    clock: Clock
    #: Hears what failed first, or nothing.
    judge: Callable[[str], object]

    def run(self) -> None:
        """Run every step. Raise the first error only after all were tried."""
        failed = list[str]()

        def note(error: Exception) -> None:
            failed.append(f"{describe_error(error)} at {place(error)}")
            tell(events.TICK_FAILED, error=describe_error(error), at=place(error))

        with because(Cause.SWEEP):
            try:
                all_tried(self._steps(), note)
            finally:
                self.judge("".join(failed[:1]))

    def _steps(self) -> Iterator[Callable[[], object]]:
        due = Due()
        yield from self.followers.reads(due)
        began = self.clock.monotonic()
        yield from (partial(step, due, began) for step in self.first)
        yield from self.followers.steps(due, began + TAKES_FOR.total_seconds())
        yield from (partial(step, due, began) for step in self.last)


def build_tick(stages: AppStages, net: Net, parts: Sequence[BuiltPart] = ()) -> Tick:
    """Build the tick of a process: its followers of due pointers, and the steps before and after them."""
    more = [_step_of(part.verbs, step, stages.clock) for part in parts for step in part.chosen.capability.tick]
    stores, orphans, keeper, tuning = stages.stores, stages.orphans, stages.rooms, stages.tasks.tuning
    gates = GateTick(
        stores.gates,
        stores.held_work,
        stages.releaser,
        stores.pending,
        stages.clock,
        needs=stores.tick_needs,
        list_gates=stores.gate_reader().list_names,
    )
    followers = Followers([(Range(PENDING, stages.settings.chunk_overdue), stores.pending)], stages.clock)
    stages.sweep.register(followers)
    # After the jobs: their time is bounded, and a bus that does not answer must not use it up.
    followers.register(OUTBOX_POINTER, lambda pointer, _until: stores.outbox.follow(pointer), turn=1)
    followers.register(WORK_POINTER, stages.tasks.stranded.follow, means_open=True, turn=1)
    followers.register(WAIT_POINTER, stages.succession.follow, turn=1)
    followers.register(HALT_POINTER, stages.halt_follower.follow, means_open=True, turn=1)
    followers.register(FEED_POINTER, lambda _pointer, _until: stages.feeder.look(), means_open=True, turn=1)
    warming = stages.settings.capability("warming")
    timetabler = stores.build_timetabler(warming.choice if warming else None)
    followers.register(TIMETABLE_POINTER, lambda pointer, _until: timetabler.follow(pointer), turn=1)
    followers.register(ERASE_POINTER, stages.erasures.follow, turn=2)
    kept = stages.settings.retention
    followers.register(ROLL_POINTER, lambda pointer, _until: stores.rolls.follow(pointer, kept), turn=2)
    followers.register(ROOM_POINTER, lambda pointer, _until: keeper.follow(pointer), turn=2)
    for kind, name in OF_CAPABILITIES.items():
        followers.register(kind, partial(_demand_follower, name, stages.clock), turn=3)
    for part in parts:
        for one in part.chosen.capability.pointers:
            # Last: a service of others may take its time.
            followers.register(one.kind, _follower_of(part.verbs, one.verb), turn=3)
    return Tick(
        followers=followers,
        first=[
            lambda due, began: gates.run(due.of(GATE_POINTER), began + GATES_TAKE.total_seconds()),
            lambda due, _began: stages.fronts.recall(due.of(FRONT_POINTER)),
        ],
        last=[
            # Before what may take its time: a point that comes late looks as if no tick ran.
            lambda due, _began: tuning.run() if due.is_job_open or stages.tasks.stranded.find() else None,
            lambda due, _began: stages.tasks.recorder.run(due),
            lambda due, _began: net.run(due.of(NET_POINTER), NET_TAKES.total_seconds()),
            lambda _due, _began: drain_poison_queues(stages),
            lambda due, _began: orphans.run(due.of(ORPHANS_POINTER)),
            lambda _due, _began: stores.attempts.remove_old(stages.settings.retention),
            lambda _due, _began: stores.cause_check.run(CAUSES_TAKE.total_seconds(), stages.settings.retention),
            lambda _due, _began: tidy_list(stages),
            lambda _due, _began: keeper.look_for_containers(),
            lambda _due, _began: keeper.look_for_queues(),
            lambda _due, _began: keeper.drain_leftovers(),
            *more,
            # At the end, because it waits for the effects of a wave.
            lambda due, _began: stores.replay_stepper.follow_due(due.of(REPLAY_POINTER), REPLAYS_TAKE.total_seconds()),
        ],
        clock=stages.clock,
        judge=stages.tasks.recorder.judge,
    )


def _follower_of(verbs: Any, verb: str) -> Callable[[Pointer, float], object]:
    return lambda pointer, _until: getattr(verbs, verb)(pointer)


def _demand_follower(name: str, clock: Clock, pointer: Pointer, _until: float) -> None:
    """Raise SluiceError if a pointer is long due whose capability is off: what it leads to may cost money."""
    late = clock.now() - pointer.due
    if late > UNFOLLOWED:
        raise SluiceError(
            f"work of the capability {name} is due for {late // timedelta(minutes=1)} minutes, and it is off: name it in "
            "SLUICE_CAPABILITIES, or end its work by its commands"
        )


def _step_of(verbs: Any, step: TickStep, clock: Clock) -> Step:
    def run(_due: Due, began: float) -> None:
        if step.minute is None or clock.now().minute == step.minute:
            getattr(verbs, step.verb)(began + CAPABILITY_TAKES.total_seconds())

    return run


def tidy_list(stages: AppStages) -> None:
    """Take jobs that have ended from those under way, once a day: a slow process may have listed one so after its end."""
    now = stages.clock.now().astimezone(UTC)
    if (now.hour, now.minute) == TIDIED_AT:
        stages.stores.ledger.tidy_list()


def drain_poison_queues(stages: AppStages) -> int:
    """Park the messages on the poison queues whose minute it is. Return how many were parked."""
    # By the clock and not by a count: the clock is the same for every instance that ticks, even after restarts.
    minute, stores, settings = stages.clock.now().minute, stages.stores, stages.settings
    if minute % POISON_MINUTES:
        return 0
    due = (
        topology(settings.work_queues, settings.entities)
        if not minute % BASE_POISON_MINUTES
        else join_entities(settings.entities)
    )
    names = [name for name in due.queues if name.endswith(POISON_SUFFIX)]
    clients = map(stores.connections.queues.get_queue_client, names)
    # A queue that does not answer stops no other drain. Its error is raised at the end, and the tick logs it.
    drains = (partial(drain_poison, client, stores.parking, stores.attempts) for client in clients)
    return sum(all_tried(drains, lambda _error: None))


@dataclass(slots=True, kw_only=True)
class Takeovers(Closing):
    """Handles what triggers delivered to one process. Several threads may call it."""

    #: Makes the queue of this name.
    queue: Callable[[str], WorkQueue]
    clock: Clock
    #: From this delivery on a message stays the host's, which moves one that fails to the poison queue.
    most_deliveries: int = MOST_DELIVERIES
    #: Seconds after which a message is redelivered whose delivery of this number failed so.
    redeliver_after: Callable[[Exception, int], int] = redeliver_after
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
            except Exception as error:
                held.show_in(self.redeliver_after(error, delivery.count))
                raise
        held.delete()

    def close(self) -> None:
        """Renew nothing any more."""
        self._renewals.__exit__(None, None, None)


class App(Closing):
    """The stages of one process over the stores of its installation. Several threads may call each verb.

    Each capability that is on is built here, and its functions call its own verbs.
    """

    def __init__(
        self, connections: Connections, settings: Settings, workloads: Workloads, *, stores: Stores | None = None
    ) -> None:
        """Build every stage. Makes no request. `stores`, if given, were made over the same connections."""
        if settings.limits or workloads.limits:
            check_limits(workloads, settings.limits)
        self.settings, self.stores = settings, stores or Stores(connections, dequeue=settings.dequeue)
        #: True if permits come by the bus, instead of on a storage queue.
        self.is_pushed = settings.dequeue is Dequeue.PUSH
        self.stages = stages = AppStages(self.stores, settings, workloads)
        self.following, self.urgent = stages.tasks.following, stages.tasks.urgent
        # Built here, so that no two threads build them.
        self._acceptance, self._processor, self._settler = stages.arrivals, stages.processor, stages.settler
        self.parts = Parts(self.stores, settings)
        self._hint_follower = stages.tasks.hint_follower(stages.arrivals.handle)
        net = Net(rooms=settings.rooms, look=self._hint_follower.look, pending=self.stores.pending, clock=stages.clock)
        self._releaser, self._tick = stages.releaser, build_tick(stages, net, self.parts.built)
        self._tasks, self._feeder = stages.tasks, stages.feeder
        self._drain = stages.tasks.drain(self.process, self._feeder.follow)
        self.takeovers = Takeovers(queue=self.stores.trigger_queue, clock=self.stores.clock)

    def accept(self, delivery: Delivery) -> None:
        """Accept a submission that a trigger delivered, and dispatch its chunks."""
        self.takeovers.handle(delivery, self._acceptance.handle)

    def accept_hinted(self, queue: str = "", deliveries: int = 1) -> None:
        """Accept all that waits on a queue of submissions, or on all of them, because a hint came."""
        self._hint_follower.on_hint(queue, deliveries)

    def process(self, delivery: Delivery) -> bool:
        """Process a chunk or finish a job. A task of this process received the message. True: it was dropped."""
        self.following.look()
        with self._working(delivery):
            return self._processor.handle(delivery)

    def drain(self, signal: bytes, deliveries: int = 1) -> None:
        """Follow the permit in a signal: run tasks until the work queues are empty. Or follow a feed call."""
        self._drain.on_signal(signal, deliveries)

    def drain_woken(self, delivery: Delivery) -> None:
        """Follow a permit or a feed call that a trigger delivered."""
        self.takeovers.handle(delivery, lambda woken: self.drain(woken.body, woken.count))

    def work(self, stop: Event, lanes: int) -> None:
        """Follow permits from the bus, so many at a time, until `stop` is set. Return when every task has ended."""
        self._tasks.worker(self.process, self._feeder, stop, lanes).run()

    @contextmanager
    def _working(self, delivery: Delivery) -> Iterator[None]:
        """Count the work inside. A message that fails is hidden for a while, and the feeder leaves it out."""
        gauge = self.following.gauge
        try:
            with gauge.working():
                yield
        except Exception as error:
            seconds = timedelta(seconds=redeliver_after(error, delivery.count))
            gauge.note_failed(room_of_work(delivery.body), self.stores.clock.now() + seconds)
            raise

    def settle(self, received: Sequence[Received]) -> Settled:
        """Credit results to their jobs. Request the finish of a job whose last chunk has ended. Return the counts."""
        return self._settler.settle(received)

    def release(self, hint: Hint, deliveries: int = 1) -> None:
        """Start the work held behind an opened gate, or continue a dispatch. The gate's flag decides, not the hint."""
        self._releaser.on_signal(hint, deliveries)

    def park(self, body: bytes, message_id: str, why: str) -> None:
        """Park a dead letter of the queue `results`."""
        park_dead_result(self.stores.parking, body, message_id, why)

    def tick(self) -> None:
        """Do everything that is due, even if the messages about it were lost."""
        self._tick.run()

    def close(self) -> None:
        """Close everything that was opened here. The connections stay open: their maker closes them."""
        self.takeovers.close()
        self.parts.close()
        self.stores.close()


def build_dry_runner(stores: Stores, settings: Settings) -> DryRunner:
    """Return a runner with memory of its own."""
    return DryRunner(
        ledger=stores.ledger,
        plans=stores.plans,
        read=PayloadReader(PayloadStores(stores.container), Memory(WORK)),
        results=stores.container("results"),
        outputs=stores.output_reader,
        pace=CallLimits(stores.slots, stores.clock, settings.limits).pace,
        merged_most=settings.merged_most,
    )


def build_entry_reader(stores: Stores) -> EntryReader:
    """Return a reader with memory of its own."""
    read = PayloadReader(PayloadStores(stores.container), Memory(WORK))
    return EntryReader(
        table=stores.parked_table, read=read, ledger=stores.ledger, results=stores.results, audit=stores.audit
    )
