"""Everything about gates."""

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
from shared.gate.releaser import GoingOn, Releaser
from shared.ids import BlobStore
from shared.pending import PendingTable
from shared.signals import BusSignals, NoSignals, Signals
from shared.telemetry.telemetry import SILENT, Telemetry


@dataclass(frozen=True, slots=True, kw_only=True)
class Gatehouse:
    """Everything about the gates of one installation."""

    gates: Gates
    held: HeldTable
    work: HeldWork
    operator: Operator
    receipts: ReceiptTable
    pending: PendingTable
    signals: Signals
    clock: Clock
    container: ContainerClient

    def releaser(self, jobs: GoingOn, telemetry: Telemetry = SILENT) -> Releaser:
        """Return what starts everything that is held; `jobs` starts what is put on no queue."""
        return Releaser(self.work, jobs, self.receipts, self.signals, clock=self.clock, telemetry=telemetry)

    def tick(self, releaser: Releaser) -> GateTick:
        """Return what the timer does for gates."""
        return GateTick(self.gates, releaser, self.pending, self.signals, self.clock)

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
    return Gatehouse(
        gates=gates,
        held=held,
        work=work,
        operator=Operator(gates, pending, audit, signals, clock),
        receipts=receipts,
        pending=pending,
        signals=signals,
        clock=clock,
        container=container,
    )
