"""Everything that works on the work queues, and what it parks."""

from collections.abc import Callable
from dataclasses import dataclass

from shared.audit import AuditTable
from shared.clock import Clock, SystemClock
from shared.concurrency.following import Following
from shared.concurrency.limiter import MOST_HERE, Limiter
from shared.connections import Connections
from shared.memory import Memory
from shared.parked.effects import LedgerEffects
from shared.parked.operator import ParkedOperator
from shared.parked.parking import Parking
from shared.parked.policy import DEFAULT_POLICY, Attempts, Deliveries, PoisonPolicy
from shared.parked.put_back import QueuesPutBack, nobody
from shared.parked.replay import Replayer
from shared.payload import PayloadStores
from shared.pipeline.chunk_reader import PayloadReader
from shared.pipeline.chunk_result import ResultStore
from shared.pipeline.finish import Finisher, FinishTools
from shared.pipeline.merge import MERGED_MOST
from shared.pipeline.messages import Delivery
from shared.pipeline.process import Processor, Tools
from shared.pipeline.send_result import BusResults, SendResult
from shared.pipeline.throttle import MOST
from shared.pipeline.totals import TotalsTable
from shared.pipeline.weights import WORK
from shared.wiring.concurrency import following
from shared.wiring.stores import outbox, parked_table, table_ledger
from shared.workloads.registry import Workloads


@dataclass(frozen=True, slots=True, kw_only=True)
class Works:
    """Everything that works on the work queues of one installation, and what it parks."""

    processor: Processor
    workloads: Workloads
    parking: Parking
    send: BusResults
    following: Following
    slots: Limiter
    #: What chunks and submissions of this process share.
    memory: Memory

    def handle(self, delivery: Delivery) -> None:
        """Work on a delivery at once, counted among what this process has in work."""
        self.following.look()
        with self.following.gauge.working():
            self.processor.handle(delivery)

    def handle_in_turn(self, delivery: Delivery) -> None:
        """Work on a delivery of a trigger, which asked nobody whether there is a slot for it."""
        self.following.look()
        with self.slots.slot(), self.following.gauge.working():
            self.processor.handle(delivery)

    def most_puts(self) -> int:
        """Return how many puts a dispatch may have in flight."""
        self.following.look()
        return self.following.puts(MOST)


def works(  # noqa: PLR0913 - the parts of an app
    connections: Connections,
    workloads: Workloads,
    *,
    clock: Clock | None = None,
    work_queues: int = 1,
    merged_most: int = MERGED_MOST,
    poison: PoisonPolicy = DEFAULT_POLICY,
) -> Works:
    """Return the works that these connections reach; nothing is asked of storage or of the bus yet."""
    clock, blobs = clock or SystemClock(), connections.blobs
    parking = Parking(parked_table(connections), clock)
    send, memory = BusResults(connections), Memory(WORK)
    tools = Tools(
        workloads=workloads,
        read=PayloadReader(PayloadStores(blobs.get_container_client), memory),
        results=ResultStore(blobs.get_container_client("results")),
        send=send,
        parking=parking,
        deliveries=Deliveries(Attempts(connections.tables.get_table_client("parked")), poison),
        finishing=finisher(connections, workloads, clock, merged_most),
        clock=clock,
        telemetry=connections.telemetry,
    )
    follow, full = following(connections, clock=clock), MOST_HERE * work_queues
    return Works(
        processor=Processor(tools),
        workloads=workloads,
        parking=parking,
        send=send,
        following=follow,
        slots=Limiter(lambda: follow.here(full), clock),
        memory=memory,
    )


def finisher(connections: Connections, workloads: Workloads, clock: Clock, merged_most: int) -> Finisher:
    """Return what finishes jobs."""
    blobs, tables = connections.blobs, connections.tables
    return Finisher(
        FinishTools(
            ledger=table_ledger(connections),
            results=blobs.get_container_client("results"),
            outputs=blobs.get_container_client("outputs"),
            totals=TotalsTable(tables.get_table_client("totals")),
            workloads=workloads,
            outbox=outbox(connections, clock),
            clock=clock,
            merged_most=merged_most,
            telemetry=connections.telemetry,
        )
    )


def parked_operator(
    connections: Connections,
    send: SendResult,
    clock: Clock,
    pause: Callable[[float], object],
    *,
    wake: Callable[[], object] = nobody,
) -> ParkedOperator:
    """Return what a person replays and discards with."""
    table = parked_table(connections)
    put_back = QueuesPutBack(connections.queues, send, wake)
    replayer = Replayer(table, put_back, LedgerEffects(table_ledger(connections)), clock, pause)
    return ParkedOperator(table, replayer, AuditTable(connections.tables.get_table_client("audit"), clock))
