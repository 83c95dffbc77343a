"""The stages around the work queues."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Final

from shared.clock import Clock, SystemClock
from shared.concurrency.tuning import Tuning, no_top_up
from shared.connections import Connections
from shared.gate.releaser import Releaser
from shared.ids import BlobStore, RangeGenerator
from shared.parked.drain import drain_poison
from shared.parked.policy import Attempts, Deliveries
from shared.payload import Limits, PayloadStores
from shared.pending import GATE_POINTER, ORPHANS_POINTER, OUTBOX_POINTER, PENDING, ROOM_POINTER, Followers, Range
from shared.pipeline.accept import Acceptance
from shared.pipeline.arrivals import Arrivals
from shared.pipeline.dispatch import Dispatcher
from shared.pipeline.enclosing import Enclosing
from shared.pipeline.finish_call import FinishCall
from shared.pipeline.orphans import Orphans
from shared.pipeline.plan_store import PlanStore
from shared.pipeline.resume import Resume
from shared.pipeline.retention import Retention
from shared.pipeline.rooms import Rooms, point_at
from shared.pipeline.settle import Settler
from shared.pipeline.start import Starter
from shared.pipeline.sweep import Sweep
from shared.settings import Settings
from shared.tick import GATES_TAKE, Tick
from shared.topology import POISON_SUFFIX, rooms, topology
from shared.trying import all_tried
from shared.wiring.concurrency import foresight, tuning
from shared.wiring.gates import Gatehouse, gatehouse
from shared.wiring.push import Push, Waking, waking_nobody
from shared.wiring.stores import outbox, queue_sender, table_ledger
from shared.wiring.usage import day_budget
from shared.wiring.works import Works

#: The sequence that transactions of all jobs are numbered by.
TRANSACTION_IDS: Final = "transactions"
#: Minutes between two drains of the hosts' poison queues: messages there have failed for good, so they may wait.
POISON_EVERY: Final = 15


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """The stages around the work queues: what arrives, what is settled, and the tick that looks after all of it."""

    arrivals: Arrivals
    releaser: Releaser
    settler: Settler
    tick: Tick


def line(  # noqa: PLR0913 - the parts of an app
    connections: Connections,
    settings: Settings,
    gates: Gatehouse,
    work: Works,
    push: Push | None = None,
    *,
    clock: Clock | None = None,
) -> Line:
    """Return the line that these connections reach; nothing is asked of storage yet. `push`: who is woken for work."""
    clock, send, ledger = clock or SystemClock(), queue_sender(connections), table_ledger(connections)
    tune = tuning(
        connections,
        settings,
        clock=clock,
        budget=day_budget(connections, settings),
        top_up=no_top_up if push is None else push.top_up.run,
    )
    waking = waking_nobody if push is None else foresight(work.following, tune, push.notifier)
    finish = FinishCall(_waking(send, waking), gates.pending, clock)
    dispatcher = Dispatcher(
        ledger=ledger,
        plans=PlanStore(connections.blobs.get_container_client),
        enclose=_enclosing(connections, Limits()),
        send=send,
        finish=lambda job: finish.send(job.job, job.revision),
        clock=clock,
        work_queues=settings.work_queues,
        most_puts=work.most_puts,
        waking=waking,
        memory=work.memory,
        telemetry=connections.telemetry,
    )
    starter = Starter(
        ledger=ledger,
        gates=gates.work,
        dispatcher=dispatcher,
        hints=gates.signals,
        pending=gates.pending,
        clock=clock,
    )
    releaser = gates.releaser(starter, connections.telemetry)
    sweep = Sweep(
        ledger=ledger,
        pending=gates.pending,
        starter=starter,
        dispatcher=dispatcher,
        finish=finish,
        retention=Retention(
            ledger=ledger,
            parked=work.parking.table,
            pending=gates.pending,
            plans=dispatcher.plans,
            container=connections.blobs.get_container_client,
            clock=clock,
            period=settings.retention,
        ),
        clock=clock,
        overdue=settings.chunk_overdue,
    )
    deliveries = Deliveries(Attempts(connections.tables.get_table_client("parked")), settings.poison)
    return Line(
        arrivals=Arrivals(_acceptance(connections, settings, work, starter), work.parking, deliveries),
        releaser=releaser,
        settler=Settler(
            ledger, finish, work.parking.table, clock, policy=settings.poison, telemetry=connections.telemetry
        ),
        tick=_tick(connections, settings, gates, work, releaser=releaser, sweep=sweep, tune=tune),
    )


def _tick(  # noqa: PLR0913 - the parts of an app
    connections: Connections,
    settings: Settings,
    gates: Gatehouse,
    work: Works,
    *,
    releaser: Releaser,
    sweep: Sweep,
    tune: Tuning,
) -> Tick:
    clock, gate_tick = sweep.clock, gates.tick(releaser)
    rooms = Rooms(
        rooms=settings.rooms,
        blobs=connections.blobs,
        queues=connections.queues,
        pending=gates.pending,
        clock=clock,
    )
    orphans = Orphans(
        ledger=sweep.ledger,
        parked=work.parking.table,
        pending=gates.pending,
        container=connections.blobs.get_container_client,
        queue=connections.queues.get_queue_client,
        rooms=settings.rooms,
        clock=clock,
        retention=settings.retention,
    )
    followers = Followers([(Range(PENDING, settings.chunk_overdue), gates.pending)], clock)
    sweep.register(followers)
    # After the jobs, whose time is bounded: a bus that does not answer must not take it.
    announce = outbox(connections, clock)
    followers.register(OUTBOX_POINTER, lambda pointer, _until: announce.follow(pointer), turn=1)
    followers.register(ROOM_POINTER, lambda pointer, _until: rooms.follow(pointer), turn=2)
    return Tick(
        followers=followers,
        first=[lambda due, began: gate_tick.run(due.of(GATE_POINTER), began + GATES_TAKE.total_seconds())],
        last=[
            lambda _due, _began: _drain_poison(connections, settings, work, clock),
            lambda due, _began: orphans.run(due.of(ORPHANS_POINTER)),
            lambda _due, _began: rooms.look_for_containers(),
            lambda _due, _began: rooms.look_for_queues(),
            lambda due, _began: tune.run() if due.is_job_open else None,
        ],
        clock=clock,
    )


def _waking(send: Callable[[str, str], None], waking: Waking) -> Callable[[str, str], None]:
    def put(queue: str, message: str) -> None:
        with waking(1, 1):
            send(queue, message)

    return put


def _acceptance(connections: Connections, settings: Settings, work: Works, starter: Starter) -> Acceptance:
    limits = Limits()
    # A job takes one block of ids, as large as it is: there is nothing to fetch ahead.
    ids = RangeGenerator(BlobStore(connections.blobs.get_container_client("ids"), TRANSACTION_IDS), prefetch=False)
    return Acceptance(
        ledger=starter.ledger,
        stores=PayloadStores(connections.blobs.get_container_client, limits, point_at(starter.pending)),
        plans=starter.dispatcher.plans,
        ids=ids,
        gates=starter.gates,
        start=starter.start,
        pending=starter.pending,
        clock=starter.clock,
        sums={name: work.workloads.named(name).sums for name in work.workloads},
        limits=limits,
        chunk_items=settings.chunk_items,
        overdue=settings.chunk_overdue,
        memory=work.memory,
        telemetry=connections.telemetry,
    )


def _enclosing(connections: Connections, limits: Limits) -> Enclosing:
    return Enclosing(PayloadStores(connections.blobs.get_container_client, limits), limits)


def _drain_poison(connections: Connections, settings: Settings, work: Works, clock: Clock) -> int:
    # By the clock and not by a count: the same for every instance that ticks, however often it was restarted.
    if clock.now().minute % POISON_EVERY:
        return 0
    queues = [
        name for name in topology(settings.work_queues, [rooms(settings.rooms)]).queues if name.endswith(POISON_SUFFIX)
    ]
    clients = [connections.queues.get_queue_client(name) for name in queues]
    attempts = Attempts(connections.tables.get_table_client("parked"))
    # One queue that does not answer is told by the tick, and keeps no other from being drained.
    drains = (partial(drain_poison, client, work.parking, work.send, attempts) for client in clients)
    return sum(all_tried(drains, lambda _error: None))


def resume(connections: Connections, *, clock: Clock | None = None) -> Resume:
    """Return what lets a paused job go on."""
    clock, gates = clock or SystemClock(), gatehouse(connections)
    finish = FinishCall(queue_sender(connections), gates.pending, clock)
    return Resume(
        ledger=table_ledger(connections), finish=finish, pending=gates.pending, hints=gates.signals, clock=clock
    )
