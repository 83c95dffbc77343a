"""Rows of the agenda that are done, gathered for some seconds: a hundred go in one request.

If the process ends before, the tick finds the rows. So nothing waits for a removal, and none is tried twice.
"""

from collections.abc import Callable, Sequence
from threading import Lock, Timer
from typing import Final

from shared.azure import MOST_GROUP_ROWS
from shared.clock import Closing
from shared.processes.agenda import Agenda, AgendaRow
from shared.telemetry import describe_error, events, tell

#: Seconds between the first row and the request.
GATHERED_FOR: Final = 2.0


def run_later(seconds: float, act: Callable[[], object]) -> None:
    """Run it on a thread of its own, which keeps no process alive."""
    timer = Timer(seconds, act)
    timer.daemon = True
    timer.start()


class Removals(Closing):
    """Gathers rows and removes them. Several threads may use it."""

    def __init__(self, agenda: Agenda, later: Callable[[float, Callable[[], object]], object] = run_later) -> None:
        self._agenda, self._later = agenda, later
        self._rows: list[AgendaRow] = []
        self._lock = Lock()

    def __call__(self, rows: Sequence[AgendaRow]) -> None:
        """Remove the rows soon, or now if they fill a request."""
        with self._lock:
            is_first, self._rows = not self._rows and bool(rows), [*self._rows, *rows]
            is_full = len(self._rows) >= MOST_GROUP_ROWS
        if is_full:
            self.flush()
        elif is_first:
            self._later(GATHERED_FOR, self.flush)

    def flush(self) -> None:
        """Remove all that was gathered. What fails stays, and the tick follows it."""
        with self._lock:
            rows, self._rows = self._rows, []
        try:
            self._agenda.remove(rows)
        except Exception as error:  # noqa: BLE001 - on a thread of its own: the connections may be closed by now
            tell(events.AGENDA_UNSERVED, error=describe_error(error))

    def close(self) -> None:
        """Remove what was gathered last."""
        self.flush()
