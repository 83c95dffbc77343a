"""The stores that an act on a gate needs, and no more of the installation: a command that opens a gate imports these alone."""

from shared.azure import BlobStore, Connections
from shared.clock import Clock, Closing, SystemClock
from shared.gate import Gates, HeldTable
from shared.operating import AuditTable, Operator
from shared.pending import PendingTable
from shared.signals import BusSignals, NoSignals, Signals
from shared.watch import WatchTable


class GateStores(Closing):
    """Gates with the work behind them, the audit, and signals. Making them makes no request."""

    def __init__(self, connections: Connections, *, clock: Clock | None = None, signals: Signals | None = None) -> None:
        self.connections, self.clock = connections, clock or SystemClock()
        connections.at_close(self.close)
        table, self.container = connections.tables.get_table_client, connections.blobs.get_container_client
        self.watch = WatchTable(table("decisions"))
        self.pending = PendingTable(table("pending"))
        self.audit = AuditTable(table("audit"), self.clock, self.watch.note_act)
        self.gates = Gates(lambda name: BlobStore(self.container("gates"), name))
        self.held = HeldTable(table("held"))
        self._own_signals = BusSignals(connections) if connections.has_bus else NoSignals()
        self.signals: Signals = signals or self._own_signals

    @property
    def gate_operator(self) -> Operator:
        """Opens, closes and schedules gates for a person."""
        return Operator(self.gates, self.pending, self.audit, self.signals, clock=self.clock)

    def close(self) -> None:
        """Close the connection to the bus."""
        self._own_signals.close()
