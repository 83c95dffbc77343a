"""What the app does when it hears or finds that a gate was opened: dispatch, and leave a receipt."""

import logging
from collections.abc import Iterator
from datetime import timedelta
from typing import Final

from shared.clock import Clock
from shared.errors import SluiceError
from shared.gate.held_work import Dispatched, HeldWork
from shared.gate.receipts import Receipt, ReceiptTable, SeenBy, this_node
from shared.gate.state import is_name

_LOG: Final = logging.getLogger(__name__)
#: How often the tick comes unless it is set otherwise; what is later than that is a straggler.
TICK_INTERVAL: Final = timedelta(seconds=60)


class Releaser:
    """Dispatches what is held behind a gate and records who did it."""

    def __init__(self, work: HeldWork, receipts: ReceiptTable, clock: Clock) -> None:
        self._work, self._receipts, self._clock = work, receipts, clock

    def gates(self) -> Iterator[str]:
        """Yield every gate that something is held behind."""
        return self._work.gates()

    def on_signal(self, gate: str) -> Dispatched:
        """Do what a signal hints at; it never fails, for the next tick finds whatever is left."""
        if not is_name(gate):
            _LOG.warning("signal names no gate")
            return Dispatched()
        try:
            return self.release(gate, SeenBy.PUSH, "release_gate")
        except SluiceError:
            _LOG.warning("signal not served, the tick will", extra={"gate": gate}, exc_info=True)
            return Dispatched()

    def release(self, gate: str, how: SeenBy, role: str) -> Dispatched:
        """Dispatch what may start; who dispatched something leaves a receipt."""
        done = self._work.release(gate)
        if done.put and done.state:
            now = self._clock.now()
            self._receipts.write(
                Receipt(
                    gate=gate,
                    epoch=done.state.epoch,
                    node=this_node(role),
                    how=how,
                    seen_at=now,
                    lag=max(timedelta(), now - (done.state.at or now)),
                    interval=TICK_INTERVAL,
                )
            )
        return done
