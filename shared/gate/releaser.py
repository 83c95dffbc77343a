"""What the app does when it hears or finds that a gate was opened: dispatch, and leave a receipt."""

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Final

from shared.clock import Clock
from shared.errors import SluiceError
from shared.gate.held_work import Dispatched, HeldWork
from shared.gate.receipts import Receipt, ReceiptTable, SeenBy, this_node
from shared.gate.state import is_name
from shared.telemetry import events, metrics
from shared.telemetry.event import tell
from shared.telemetry.failure import told
from shared.telemetry.telemetry import SILENT, Telemetry

#: How often the tick comes unless it is set otherwise; what is later than that is a straggler.
TICK_INTERVAL: Final = timedelta(seconds=60)


class Releaser:
    """Dispatches what is held behind a gate and records who did it."""

    def __init__(self, work: HeldWork, receipts: ReceiptTable, clock: Clock, telemetry: Telemetry = SILENT) -> None:
        self._work, self._receipts, self._clock, self._telemetry = work, receipts, clock, telemetry

    def waiting(self) -> Iterator[tuple[str, datetime]]:
        """Yield every gate that something is held behind, and a time since when."""
        return self._work.waiting()

    def on_signal(self, gate: str) -> Dispatched:
        """Do what a signal hints at; it never fails, for the next tick finds whatever is left."""
        if not is_name(gate):
            tell(events.SIGNAL_REFUSED)
            return Dispatched()
        try:
            return self.release(gate, SeenBy.PUSH, "release_gate")
        except SluiceError as error:
            tell(events.SIGNAL_UNSERVED, gate=gate, error=told(error))
            return Dispatched()

    def release(self, gate: str, how: SeenBy, role: str) -> Dispatched:
        """Dispatch what may start; who dispatched something leaves a receipt."""
        done = self._work.release(gate)
        if done.put and done.state:
            now = self._clock.now()
            receipt = Receipt(
                gate=gate,
                epoch=done.state.epoch,
                node=this_node(role),
                how=how,
                seen_at=now,
                lag=max(timedelta(), now - (done.state.at or now)),
                interval=TICK_INTERVAL,
            )
            self._receipts.write(receipt)
            lag = round(receipt.lag.total_seconds(), 3)
            self._telemetry.add(metrics.RELEASE_LAG, lag, seen_by=how.value)
            tell(events.GATE_RELEASED, gate=gate, epoch=receipt.epoch, put=done.put, seen_by=how.value, lag_seconds=lag)
        return done
