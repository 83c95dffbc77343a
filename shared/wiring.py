"""Builds what the app, the command and any worker use from their connections; the only place that knows every adapter."""

from collections.abc import Callable
from dataclasses import dataclass

from azure.storage.blob import ContainerClient

from shared.audit import AuditTable
from shared.clock import Clock, SystemClock
from shared.connections import Connections
from shared.gate.gate_tick import GateTick
from shared.gate.gates import Gates
from shared.gate.held import HeldTable
from shared.gate.held_work import PARALLEL, HeldWork
from shared.gate.operator import Operator
from shared.gate.overview import Overview, overview
from shared.gate.receipts import ReceiptTable
from shared.gate.releaser import Releaser
from shared.gate.signals import BusSignals, NoSignals, Signals
from shared.ids.blob_store import BlobStore
from shared.ledger.table_ledger import TableLedger
from shared.parked.attempts import Attempts
from shared.parked.effects import LedgerEffects
from shared.parked.operator import ParkedOperator
from shared.parked.parked_table import ParkedTable
from shared.parked.parking import Parking
from shared.parked.put_back import QueuesPutBack
from shared.parked.replay import Replayer
from shared.payload.store import PayloadStore
from shared.pending import PendingTable
from shared.pipeline.chunk_reader import PayloadReader
from shared.pipeline.chunk_result import ResultStore
from shared.pipeline.finish import Finisher, FinishTools
from shared.pipeline.outbox import BusAnnouncements, Outbox
from shared.pipeline.process import Processor, Tools
from shared.pipeline.send_result import BusResults, SendResult
from shared.pipeline.totals import TotalsTable
from shared.workloads.registry import Workloads


@dataclass(frozen=True, slots=True, kw_only=True)
class Gatehouse:
    """Everything about the gates of one installation."""

    gates: Gates
    held: HeldTable
    work: HeldWork
    operator: Operator
    releaser: Releaser
    tick: GateTick
    receipts: ReceiptTable
    pending: PendingTable
    clock: Clock
    container: ContainerClient

    def overview(self) -> list[Overview]:
        """Return every gate that has a blob or holds something, by name."""
        return overview(self.container, self.gates, self.held)


def gatehouse(
    connections: Connections,
    *,
    clock: Clock | None = None,
    signals: Signals | None = None,
    parallel: int = PARALLEL,
) -> Gatehouse:
    """Return the gates that these connections reach; nothing is asked of storage yet."""
    clock = clock or SystemClock()
    signals = signals or (BusSignals(connections) if connections.has_bus else NoSignals())
    container, tables = connections.blobs.get_container_client("gates"), connections.tables
    gates = Gates(lambda name: BlobStore(container, name))
    held = HeldTable(tables.get_table_client("held"))
    work = HeldWork(gates, held, connections.queues, clock, parallel)
    pending = PendingTable(tables.get_table_client("pending"))
    audit = AuditTable(tables.get_table_client("audit"), clock)
    receipts = ReceiptTable(tables.get_table_client("receipts"))
    releaser = Releaser(work, receipts, clock)
    return Gatehouse(
        gates=gates,
        held=held,
        work=work,
        operator=Operator(gates, pending, audit, signals, clock),
        releaser=releaser,
        tick=GateTick(gates, releaser, pending, signals, clock),
        receipts=receipts,
        pending=pending,
        clock=clock,
        container=container,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Works:
    """Everything that works on the work queues of one installation, and what it parks."""

    processor: Processor
    workloads: Workloads
    parking: Parking
    send: BusResults


def works(connections: Connections, workloads: Workloads, *, clock: Clock | None = None) -> Works:
    """Return the works that these connections reach; nothing is asked of storage or of the bus yet."""
    clock, blobs = clock or SystemClock(), connections.blobs
    parking = Parking(parked_table(connections), clock)
    send = BusResults(connections)
    tools = Tools(
        workloads=workloads,
        read=PayloadReader(PayloadStore(blobs.get_container_client("payloads"))),
        results=ResultStore(blobs.get_container_client("results")),
        send=send,
        parking=parking,
        attempts=Attempts(connections.tables.get_table_client("parked")),
        finishing=finisher(connections, workloads, clock),
        clock=clock,
    )
    return Works(processor=Processor(tools), workloads=workloads, parking=parking, send=send)


def finisher(connections: Connections, workloads: Workloads, clock: Clock) -> Finisher:
    """Return what finishes jobs."""
    blobs, tables = connections.blobs, connections.tables
    ledger = table_ledger(connections)
    pending = PendingTable(tables.get_table_client("pending"))
    return Finisher(
        FinishTools(
            ledger=ledger,
            results=blobs.get_container_client("results"),
            outputs=blobs.get_container_client("outputs"),
            totals=TotalsTable(tables.get_table_client("totals")),
            workloads=workloads,
            outbox=Outbox(ledger, pending, BusAnnouncements(connections), clock),
            clock=clock,
        )
    )


def table_ledger(connections: Connections) -> TableLedger:
    """Return the ledger."""
    tables = connections.tables
    return TableLedger(tables.get_table_client("jobs"), tables.get_table_client("jobindex"))


def parked_table(connections: Connections) -> ParkedTable:
    """Return the store of what is parked."""
    return ParkedTable(connections.tables.get_table_client("parked"), connections.blobs.get_container_client("parked"))


def parked_operator(
    connections: Connections, send: SendResult, clock: Clock, pause: Callable[[float], object]
) -> ParkedOperator:
    """Return what a person replays and discards with."""
    table = parked_table(connections)
    put_back = QueuesPutBack(connections.queues, send)
    replayer = Replayer(table, put_back, LedgerEffects(table_ledger(connections)), clock, pause)
    return ParkedOperator(table, replayer, AuditTable(connections.tables.get_table_client("audit"), clock))
