"""The tick's looks at the queues of rooms: in turn, and each tick where somebody sends no hints."""

from contextlib import suppress
from datetime import UTC, datetime, timedelta
from functools import partial
from itertools import count

import pytest
from hypothesis import given, strategies as st

from shared.azure import Connections
from shared.errors import SluiceError
from shared.grammar import MOST_ROOMS, ROOMS_A_TICK
from shared.pending import AT_ONCE, NET_POINTER, PendingTable, Pointer
from shared.pipeline.removal.cleanup import NOTED_EVERY, WATCHED_FOR, Net, rooms_in_turn
from tests.faults.memory.storage import MemoryStorage
from tests.faults.plan import MODES, KilledError, Plan
from tests.gate.conftest import ManualClock

NOW = datetime(2031, 5, 1, 12, tzinfo=UTC)
MINUTE = timedelta(minutes=1)


class Beside:
    """A net, the clock and the pointers around it, and queues where something is found."""

    def __init__(self, rooms):
        self.at, self.pointers, self.writes, self.looked, self.full = NOW, {}, [], [], set()
        self.net = Net(rooms=rooms, look=self.look, pending=self, clock=self)

    def now(self):
        """Return the time."""
        return self.at

    def look(self, queues, _seconds):
        """Look at queues."""
        self.looked += queues
        return self.full & set(queues)

    def add(self, pointer):
        """Write a pointer."""
        self.writes.append(pointer)
        self.pointers[pointer.id] = pointer
        return pointer

    def remove(self, pointer):
        """Remove one."""
        assert self.pointers.pop(pointer.id) is pointer

    def tick(self):
        """Run once, a minute later."""
        self.looked.clear()
        self.net.run(list(self.pointers.values()), 20)
        self.at += MINUTE
        return set(self.looked)


@given(st.integers(1, MOST_ROOMS), st.integers(0, 10**6))
def test_every_room_has_its_turn_and_a_tick_asks_four_at_most(number, begin):
    """The last of two hundred is looked at within fifty minutes, wherever the first tick falls."""
    rooms, ticks = [f"r{n}" for n in range(number)], -(-number // ROOMS_A_TICK)
    turns = [rooms_in_turn(rooms, NOW + (begin + minute) * MINUTE) for minute in range(ticks)]
    assert {room for turn in turns for room in turn} == set(rooms)
    assert all(len(set(turn)) == len(turn) == min(number, ROOMS_A_TICK) for turn in turns)


def test_without_rooms_a_tick_looks_at_nothing():
    """No request."""
    assert Beside(()).tick() == set()


def test_a_room_where_something_was_found_is_looked_at_by_each_tick_for_a_day():
    """One write for the first find, one each hour while more is found, and none at its end but the removal."""
    beside = Beside([f"r{n}" for n in range(40)])
    beside.full = {"submissions-r0"}
    while not beside.pointers:
        beside.tick()
    found = beside.at - MINUTE
    assert [one.note for one in beside.writes] == [found.isoformat()]
    for _ in range(int(NOTED_EVERY / MINUTE)):
        assert "submissions-r0" in beside.tick()
    assert len(beside.writes) == 2
    last = beside.at - MINUTE
    beside.full = set()
    while beside.pointers:
        assert "submissions-r0" in beside.tick()
    assert beside.at - MINUTE - last == WATCHED_FOR
    assert len(beside.writes) == 2


def test_a_pointer_to_a_room_that_was_taken_off_the_list_goes():
    """Its queue is not looked at: the app reads no such queue."""
    beside = Beside(["a"])
    beside.pointers["submissions-b"] = Pointer(NET_POINTER, AT_ONCE, "submissions-b", note=NOW.isoformat())
    assert beside.tick() == {"submissions-a"}
    assert beside.pointers == {}


def tick(connections, clock, full):
    """Run the net once on real pointers, and return those that it found."""
    pending = PendingTable(connections.tables.get_table_client("pending"))
    watched = list(pending.due(clock.now()))
    Net(rooms=["r0"], look=lambda *_: full, pending=pending, clock=clock).run(watched, 20)
    return [one.id for one in watched]


@pytest.mark.parametrize("mode", MODES)
def test_a_tick_that_is_killed_or_refused_anywhere_loses_no_room_and_keeps_none(mode):
    """A later find is noted, and its pointer goes a day after the last one."""
    for at in count(1):
        storage, plan, clock, full = MemoryStorage(), Plan.of(at, mode), ManualClock(NOW), {"submissions-r0"}
        transport = partial(storage.transport, plan)
        with Connections(storage.connection_string, transport=transport) as broken, suppress(KilledError, SluiceError):
            for passed in (0, 1, 49):
                clock.advance(hours=passed)
                if passed > 1:
                    full.clear()
                tick(broken, clock, full)
        plan.catch_up()
        full.add("submissions-r0")
        with storage.connections() as healthy:
            tick(healthy, clock, full)
            assert tick(healthy, clock, full) == ["submissions-r0"]
            full.clear()
            clock.advance(days=2)
            tick(healthy, clock, full)
            assert tick(healthy, clock, full) == []
        if not plan.fired:
            break
    assert at > 5
