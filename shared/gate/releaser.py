"""What the app does when it hears or finds that a gate was opened: dispatch, and leave a receipt."""

import math
from collections.abc import Iterator
from contextlib import suppress
from datetime import datetime, timedelta
from typing import Final, Protocol

from shared.clock import Clock
from shared.errors import SignalNotSentError, SluiceError
from shared.gate.held_work import TAKES_FOR, Dispatched, HeldWork, Jobs
from shared.gate.receipts import Receipt, ReceiptTable, SeenBy, this_node
from shared.gate.state import is_name
from shared.payload.names import is_job
from shared.signals import Hint, Signals
from shared.telemetry import events, metrics
from shared.telemetry.event import tell
from shared.telemetry.failure import told
from shared.telemetry.telemetry import SILENT, Telemetry

#: How often the tick comes unless it is set otherwise; what is later than that is a straggler.
TICK_INTERVAL: Final = timedelta(seconds=60)


class GoingOn(Jobs, Protocol):
    """Jobs that are held, and those whose dispatch stopped for lack of time."""

    def go_on(self, job: str, until: float, /) -> None:
        """Look at a job that somebody hints at; its row and its gate decide."""
        ...


class Releaser:
    """Starts what is held behind a gate and records who did it."""

    def __init__(  # noqa: PLR0913 - each is another part of the app
        self,
        work: HeldWork,
        jobs: GoingOn,
        receipts: ReceiptTable,
        signals: Signals,
        *,
        clock: Clock,
        telemetry: Telemetry = SILENT,
    ) -> None:
        self._work, self._jobs, self._receipts, self._signals = work, jobs, receipts, signals
        self._clock, self._telemetry = clock, telemetry

    def waiting(self) -> Iterator[tuple[str, datetime]]:
        """Yield every gate that something is held behind, and a time since when."""
        return self._work.waiting()

    def on_signal(self, hint: Hint) -> Dispatched:
        """Do what a signal hints at; it never fails, for the next tick finds whatever is left."""
        if not (is_job(hint.job) if hint.job else is_name(hint.gate)):
            tell(events.SIGNAL_REFUSED)
            return Dispatched()
        until = self._clock.monotonic() + TAKES_FOR.total_seconds()
        try:
            if hint.job:
                self._jobs.go_on(hint.job, until)
                return Dispatched()
            return self.release(hint.gate, SeenBy.PUSH, "release_gate", since=hint.since, until=until)
        except SluiceError as error:
            tell(events.SIGNAL_UNSERVED, gate=hint.gate, job=hint.job, error=told(error))
            return Dispatched()

    def release(self, gate: str, how: SeenBy, role: str, *, since: str = "", until: float = math.inf) -> Dispatched:
        """Start what may start; who started something leaves a receipt, and who had no time for all tells others."""
        done = self._work.release(gate, self._jobs, since=since, until=until)
        if done.left and done.state:
            # Where nobody can be told the next tick goes on.
            with suppress(SignalNotSentError):
                self._signals.send(gate, done.state.epoch, done.left)
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
