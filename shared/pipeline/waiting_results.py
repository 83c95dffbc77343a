"""Tells the tick whether results wait for settlers: then a job's chunks are silent because they are not credited yet.

The tick asks before it puts chunks again. Else settlers that stand still for a while would have all that waits for
them computed again.
"""

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final

from shared.azure import FAILURES, BusOperation, Connections
from shared.clock import Clock
from shared.pipeline.results import QUEUE
from shared.telemetry import describe_error, events, tell

#: Seconds for which an answer counts: less than from tick to tick, and longer than a tick follows jobs.
_COUNTS_FOR: Final = 45.0


@dataclass(slots=True)
class WaitingResults:
    """The front of the queue of results. One per process."""

    connections: Connections
    clock: Clock
    #: Since when the oldest result waits. None: none does.
    _since: datetime | None = field(default=None, init=False)
    _is_known: bool = field(default=False, init=False)
    _read_at: float | None = field(default=None, init=False)

    def are_behind(self, patience: timedelta) -> bool:
        """Check whether the oldest result waits for longer than this, or cannot be seen, by one peek in a tick.

        While the bus does not answer, no result can be credited. So to compute one again would be in vain.
        """
        now = self.clock.monotonic()
        if self._read_at is None or now - self._read_at >= _COUNTS_FOR:
            self._read(patience)
            self._read_at = now
        return not self._is_known or (self._since is not None and self.clock.now() - self._since > patience)

    def _read(self, patience: timedelta) -> None:
        self.connections.meter.count_bus(BusOperation.PEEK, QUEUE)
        self._is_known, self._since = False, None
        try:
            with self.connections.bus_client() as client, client.get_queue_receiver(QUEUE) as receiver:
                found = receiver.peek_messages(max_message_count=1)
        except FAILURES as error:
            tell(events.RESULTS_UNSEEN, error=describe_error(error))
            return
        self._is_known, self._since = True, found[0].enqueued_time_utc if found else None
        if self._since is not None and self.clock.now() - self._since > patience:
            waiting = self.clock.now() - self._since
            tell(events.RESULTS_BEHIND, waiting_seconds=round(waiting.total_seconds()))
