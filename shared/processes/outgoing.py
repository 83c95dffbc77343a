"""What a home has unsent, and its way to the bus: first it is stored, then sent, as often as it is not sure.

The row of a home knows what was published one write later. This process knows at once, for the homes that it has sent.

Rows of the agenda that are done, gathered for some seconds: a hundred go in one request.

If the process ends before, the tick finds the rows. So nothing waits for a removal, and none is tried twice.
"""

from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from threading import Lock, Timer
from typing import Final, Protocol

from shared.azure import MOST_GROUP_ROWS, Destination
from shared.clock import Closing
from shared.processes.agenda import Agenda, AgendaRow
from shared.processes.bodies import Command, EventRange
from shared.processes.homes import Event
from shared.processes.publisher import BusPublisher, Parcel, command_parcel, event_parcels
from shared.telemetry import describe_error, events, tell

#: Homes of which this process knows what it sent.
_REMEMBERED: Final = 20_000


class Routes(Protocol):
    """Where the events of homes and their commands go."""

    def topic_of(self, home: str) -> tuple[Destination, str]:
        """Return the topic of a home's events, and their session."""
        ...

    def queue_of(self, command: Command) -> Destination:
        """Return the queue of a command."""
        ...


@dataclass(frozen=True, slots=True)
class Unsent:
    """What a home may have to send: the events and commands above the version that is known to be published."""

    home: str
    version: int
    published: int
    events: tuple[Event, ...]
    commands: tuple[Command, ...] = ()

    def parcels(self, routes: Routes) -> list[Parcel]:
        """Return all of it, in order."""
        found: list[Parcel] = []
        public = tuple(event for event in self.events if event.is_public and event.version > self.published)
        if public:
            topic, session = routes.topic_of(self.home)
            found += event_parcels(topic, session, EventRange(self.home, self.published + 1, self.version, public))
        commands = (command for command in self.commands if command.version > self.published)
        return [*found, *(command_parcel(routes.queue_of(command), command) for command in commands)]


class Outgoing:
    """Sends what homes have unsent. Several threads may use it."""

    def __init__(self, publisher: BusPublisher, routes: Routes, most: int = _REMEMBERED) -> None:
        self._publisher, self._routes, self._most = publisher, routes, most
        self._sent: OrderedDict[str, int] = OrderedDict()
        self._lock = Lock()

    def find_published(self, home: str, stored: int) -> int:
        """Return the version up to which the bus has everything of a home, by its row or by what was sent here."""
        with self._lock:
            return max(stored, self._sent.get(home, 0))

    def send(self, unsent: Sequence[Unsent]) -> int:
        """Send all of it, homes in parallel, and return the number of parts. Raises NotPublishedError."""
        # A home with only private events new sends nothing, and its next range begins with them: no reader sees a gap.
        full = [(each, parcels) for each in unsent if (parcels := each.parcels(self._routes))]
        self._publisher.send([parcel for _, parcels in full for parcel in parcels])
        with self._lock:
            for each, _ in full:
                self._sent[each.home] = max(each.version, self._sent.pop(each.home, 0))
            while len(self._sent) > self._most:
                self._sent.popitem(last=False)
        return sum(len(parcels) for _, parcels in full)


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
