"""The tick's looks at the queues of rooms: in turn, and each tick where somebody sends no hints."""

from datetime import UTC, datetime, timedelta

from hypothesis import given, strategies as st

from shared.grammar import MOST_ROOMS, ROOMS_A_TICK
from shared.pending import AT_ONCE, NET_POINTER, Pointer
from shared.pipeline.removal.cleanup import NOTED_EVERY, WATCHED_FOR, Net, rooms_in_turn

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
