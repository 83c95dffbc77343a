"""The stages around the work queues."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Final

from shared.clock import Clock, SystemClock
from shared.concurrency.tuning import no_top_up
from shared.connections import Connections
from shared.ids import BlobStore, RangeGenerator
from shared.parked.attempts import Attempts
from shared.parked.drain import drain_poison
from shared.payload import Intake, Limits, PayloadStore
from shared.pending import PendingTable
from shared.pipeline.accept import SUBMISSIONS, Acceptance
from shared.pipeline.arrivals import Arrivals
from shared.pipeline.deliveries import Deliveries
from shared.pipeline.dispatch import Dispatcher, pause_apart
from shared.pipeline.enclosing import Enclosing
from shared.pipeline.finish_call import FinishCall
from shared.pipeline.orphans import Orphans
from shared.pipeline.plan_store import PlanStore
from shared.pipeline.resume import Resume
from shared.pipeline.retention import Retention
from shared.pipeline.settle import Settler
from shared.pipeline.sweep import Sweep
from shared.settings import Settings
from shared.tick import Tick
from shared.topology import POISON_SUFFIX, topology
from shared.wiring.concurrency import foresight, tuning
from shared.wiring.gates import Gatehouse
from shared.wiring.push import Push, Waking, waking_nobody
from shared.wiring.stores import outbox, queue_sender, table_ledger
from shared.wiring.usage import day_budget
from shared.wiring.works import Works

#: The sequence that transactions of all jobs are numbered by.
TRANSACTION_IDS: Final = "transactions"
#: A dispatch hands over well before the host's functionTimeout of ten minutes.
DISPATCH_PATIENCE: Final = timedelta(minutes=4)


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """The stages around the work queues: what arrives, what is settled, and the tick that looks after all of it."""

    arrivals: Arrivals
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
    acceptance = _acceptance(connections, settings, gates, work, clock)
    dispatcher = Dispatcher(
        ledger=ledger,
        plans=acceptance.plans,
        enclose=_enclosing(connections, acceptance.limits),
        send=send,
        finish=lambda job: finish.send(job.job, job.revision),
        clock=clock,
        work_queues=settings.work_queues,
        pause=pause_apart,
        patience=DISPATCH_PATIENCE,
        most_puts=work.most_puts,
        waking=waking,
        telemetry=connections.telemetry,
    )
    sweep = Sweep(
        ledger=ledger,
        pending=gates.pending,
        acceptance=acceptance,
        dispatcher=dispatcher,
        finish=finish,
        send=send,
        retention=Retention(
            ledger=ledger,
            parked=work.parking.table,
            pending=gates.pending,
            containers=[connections.blobs.get_container_client(name) for name in ("payloads", "results")],
            clock=clock,
            period=settings.retention,
        ),
        clock=clock,
        overdue=settings.chunk_overdue,
    )
    deliveries = Deliveries(Attempts(connections.tables.get_table_client("parked")))
    return Line(
        arrivals=Arrivals(acceptance, dispatcher, send, work.parking, deliveries),
        settler=Settler(ledger, finish, work.parking.table, clock, telemetry=connections.telemetry),
        tick=Tick(
            pending=gates.pending,
            gates=gates.tick,
            sweep=sweep,
            outbox=outbox(connections, clock),
            orphans=Orphans(
                ledger=ledger,
                parked=work.parking.table,
                pending=gates.pending,
                payloads=connections.blobs.get_container_client("payloads"),
                submissions=connections.queues.get_queue_client(SUBMISSIONS),
                clock=clock,
                retention=settings.retention,
            ),
            drain_poison=lambda: _drain_poison(connections, settings, work),
            tune=tune.run,
            ahead=settings.chunk_overdue,
            clock=clock,
        ),
    )


def _waking(send: Callable[[str, str], None], waking: Waking) -> Callable[[str, str], None]:
    def put(queue: str, message: str) -> None:
        with waking(1, 1):
            send(queue, message)

    return put


def _acceptance(
    connections: Connections, settings: Settings, gates: Gatehouse, work: Works, clock: Clock
) -> Acceptance:
    limits, payloads = Limits(), connections.blobs.get_container_client("payloads")
    # A job takes one block of ids, as large as it is: there is nothing to fetch ahead.
    ids = RangeGenerator(BlobStore(connections.blobs.get_container_client("ids"), TRANSACTION_IDS), prefetch=False)
    return Acceptance(
        ledger=table_ledger(connections),
        intake=Intake(PayloadStore(payloads, limits), limits),
        plans=PlanStore(payloads),
        ids=ids,
        gates=gates.work,
        send=queue_sender(connections),
        pending=gates.pending,
        clock=clock,
        sums={name: work.workloads.named(name).sums for name in work.workloads},
        limits=limits,
        chunk_items=settings.chunk_items,
        overdue=settings.chunk_overdue,
        telemetry=connections.telemetry,
    )


def _enclosing(connections: Connections, limits: Limits) -> Enclosing:
    return Enclosing(PayloadStore(connections.blobs.get_container_client("payloads"), limits), limits)


def _drain_poison(connections: Connections, settings: Settings, work: Works) -> int:
    queues = [name for name in topology(settings.work_queues).queues if name.endswith(POISON_SUFFIX)]
    clients = [connections.queues.get_queue_client(name) for name in queues]
    return sum(drain_poison(client, work.parking, work.send) for client in clients)


def resume(connections: Connections, *, clock: Clock | None = None) -> Resume:
    """Return what lets a paused job go on."""
    clock, send = clock or SystemClock(), queue_sender(connections)
    pending = PendingTable(connections.tables.get_table_client("pending"))
    finish = FinishCall(send, pending, clock)
    return Resume(ledger=table_ledger(connections), finish=finish, send=send, clock=clock)
