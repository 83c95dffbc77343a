"""Conferences with few and with many events: the time to load one into a new process, and to reserve in a warm one.

Orders come over days: at any time, about fifty reservations are open or remembered. So only the number of events differs.
"""

import statistics
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Final

from azure.data.tables import TableClient

from local.azurite.launcher import Azurite
from shared.azure import Connections
from shared.clock import SystemClock
from shared.eventsourcing import Homes, Mementos, MementoStore, TableHomes, Verdict, Writer
from shared.messaging import Command
from shared.parts import HOMES, MEMENTOS
from shared.registration import Seats, SeatsState, SkippedCommands, decide_command, seats_home
from shared.registration.seat_commands import Confirm, Reserve, SeatType, SetConference, send_to
from shared.telemetry import SILENT
from tests.benchmarks.registration_contender import QUOTA, SEAT_TYPE
from tests.benchmarks.registration_goals import Finding, Goal, say
from tests.benchmarks.registration_sluice import Sluice

MOST: Final = 100_000
FLAT: Final = 1.3
#: Events after the memento in each conference. A memento is written after 500.
_TAIL, _EVERY = 100, 500
_TURNS, _TURNS_OF_ALL, _BATCH = 15, 3, 98
#: Between two orders: 25 minutes later, when nothing of an order is remembered, there were fifty others.
_APART: Final = timedelta(seconds=30)
_WINDOW: Final = timedelta(minutes=15)
_BEGIN: Final = datetime(2026, 1, 1, tzinfo=UTC)


class FixedClock(SystemClock):
    """A clock that stands at the time of one order."""

    def __init__(self, order: int) -> None:
        self._moment = _BEGIN + _APART * order

    def now(self) -> datetime:
        """Return that time."""
        return self._moment


class Conference:
    """One conference with so many events."""

    def __init__(self, homes: Homes, events: int) -> None:
        self.events, self.name = events, f"events-{events}"
        self.key = seats_home(self.name)
        self._homes, self._orders = homes, 0
        self.writer = self._writer(_EVERY)

    def _writer(self, every: int) -> Writer[SeatsState, Command]:
        mementos: Mementos[SeatsState] = Mementos(self._homes, Seats(), every)
        return Writer(self._homes, Seats(), mementos, _decide)

    def fill(self) -> None:
        """Make its events, with a memento a hundred events before the last."""
        offer = {SEAT_TYPE: SeatType(Decimal("500.00"), QUOTA)}
        self.writer.save(self.key, [send_to(self.name, SetConference(conference=self.name, seats=offer, id="c-1"))])
        early = self.events - _TAIL
        made = 1
        while made < early:
            some = self._commands(min(_BATCH, early - made))
            made += len(some)
            # The last of them takes the memento along, whenever it is.
            writer = self.writer if made < early else self._writer(1)
            writer.save(self.key, some)
        self.writer = self._writer(_EVERY)
        self.writer.save(self.key, self._commands(self.events - made))

    def _commands(self, number: int) -> list[Command]:
        """Return commands that make an event each: an order reserves, and is confirmed."""
        found: list[Command] = []
        while len(found) < number:
            self._orders += 1
            order, until = f"order-{self._orders}", FixedClock(self._orders).now() + _WINDOW
            reserve = Reserve(order=order, generation=1, not_after=until, seats={SEAT_TYPE: 2})
            found.append(send_to(self.name, reserve))
            found.append(send_to(self.name, Confirm(order=order, generation=2, not_after=until)))
        return found[:number]

    def load(self) -> None:
        """Load it as a new process does."""
        found = Mementos(self._homes, Seats(), _EVERY).read(self.key)
        if found.head.version != self.events:
            raise AssertionError(f"{self.key} is at {found.head.version}, not {self.events}")

    def load_all(self) -> None:
        """Load it as the port does, by all its events."""
        home, aggregate = self._homes.load(self.key), Seats()
        state = aggregate.initial()
        for event in home.events if home else ():
            state = aggregate.fold(state, event)

    def reserve(self) -> None:
        """Reserve for one more order in a process that did so before."""
        self.writer.save(self.key, self._commands(1))


def _decide(state: SeatsState, command: Command) -> Verdict:
    """Decide a command at the time of its order."""
    clock = FixedClock(int(command.body.get("order", "order-0").removeprefix("order-")))
    return decide_command(state, command, clock, SkippedCommands(SILENT))


def measure(most: int) -> Finding:
    """Measure conferences of a hundred events, of ten thousand, and of the most."""
    sizes = sorted({size for size in (_TAIL, 10_000, most) if size <= most})
    with Azurite.start() as azurite, Connections(azurite.connection_string) as connections:
        Sluice.prepare(azurite.connection_string)
        table: TableClient = connections.tables.get_table_client(HOMES)
        homes = TableHomes(table, MementoStore(connections.blobs.get_container_client(MEMENTOS)))
        conferences = [Conference(homes, size) for size in sizes]
        for one in conferences:
            one.fill()
            say(f"{one.events:,} events are there")
        loads = _in_turns([one.load for one in conferences], _TURNS)
        alls = _in_turns([one.load_all for one in conferences], _TURNS_OF_ALL)
        warm = _in_turns([one.reserve for one in conferences], _TURNS)
    head = ("events of the conference", "loaded, ms", "loaded by all events, ms", "one more reservation, warm, ms")
    rows = [
        (f"{one.events:,}", *(f"{value * 1000:,.1f}" for value in values))
        for one, *values in zip(conferences, loads, alls, warm, strict=True)
    ]
    flat = Goal.most("the longest load against the shortest", max(loads) / min(loads), FLAT, "x")
    note = f"Medians of {_TURNS} in turns. Each conference but the first has a memento, and {_TAIL} events after it."
    return Finding("seats", [head, *rows], [flat], note)


def _in_turns(acts: Sequence[Callable[[], None]], turns: int) -> list[float]:
    """Return the median of each: a busy machine disturbs all alike."""
    found: list[list[float]] = [[] for _ in acts]
    for turn in range(turns + 1):
        for act, seconds in zip(acts, found, strict=True):
            began = time.perf_counter()
            act()
            # The first turn warms up.
            seconds.extend([time.perf_counter() - began] if turn else [])
    return [statistics.median(seconds) for seconds in found]
