"""Commands to an aggregate: one note serves a minute, what happened is sent, and nothing is lost between writers."""

from datetime import timedelta

import pytest

from shared.errors import NotPublishedError
from shared.processes import (
    Commit,
    Event,
    Head,
    HotNotes,
    Mementos,
    Receiver,
    Removals,
    Saved,
    SavedCommand,
    TimeoutRow,
    Verdict,
    Writer,
)
from tests.eventsourcing.memory_homes import MemoryHomes
from tests.processes.errands import NOON
from tests.processes.world import World


class Counts:
    """An aggregate that counts."""

    name, format = "count", 1

    def initial(self):
        """Nothing was counted."""
        return 0

    def fold(self, state, event):
        """Count."""
        return state + 1

    def pack(self, state):
        """Return the number as text."""
        return str(state).encode()

    def unpack(self, packed):
        """Return the number."""
        return int(packed)


def decide(state, command):
    """Count a public event, a private one, or nothing."""
    if command == "nothing":
        return Verdict()
    return Verdict((Event("counted", {}, NOON, is_public=command != "private"),))


class Counter:
    """A process that receives, with timers that the test runs."""

    def __init__(self, world):
        self.world, self.timers = world, []
        self.start()

    def start(self):
        """Begin a process that remembers nothing."""
        self.world.restart()
        mementos = Mementos(self.world.homes, Counts(), 500)
        writer = Writer(self.world.homes, Counts(), mementos, decide)
        self.removals = Removals(self.world.agenda, self.later)
        self.notes = HotNotes(self.world.agenda, self.world.clock, self.removals, self.later)
        self.receiver = Receiver(self.world.homes, mementos, writer, self.notes, self.world.outgoing)

    def later(self, seconds, act):
        """Keep the timer."""
        self.timers.append(act)

    def receive(self, *commands):
        """Receive commands."""
        return self.receiver.receive("count-1", list(commands))

    def pass_time(self, **later):
        """Let time pass, and run every timer that was set before."""
        self.world.clock.moment += timedelta(**later)
        timers, self.timers = self.timers, []
        for act in timers:
            act()


@pytest.fixture
def counter(agenda):
    """A process that has received nothing."""
    return Counter(World(MemoryHomes(), agenda))


def test_one_note_serves_the_writes_of_a_minute(counter):
    """Its first write costs a request of the agenda, the next ones none. A quiet stream has none left."""
    for _ in range(5):
        counter.receive("count")
    assert counter.world.steps.names.count("write") == 1
    assert counter.world.bus.ranges() == [("count-1", n, n) for n in range(1, 6)]
    counter.pass_time(seconds=61)
    counter.receive("count")
    assert counter.world.steps.names.count("write") == 2
    counter.pass_time(seconds=61)
    counter.pass_time(seconds=61)
    counter.removals.flush()
    assert counter.world.rows(hours=1) == []


def test_a_note_stays_where_a_send_failed(counter):
    """The tick sends it; the same commands again send it earlier."""
    counter.world.bus.is_down = True
    with pytest.raises(NotPublishedError):
        counter.receive("count")
    counter.notes.close()
    counter.removals.close()
    counter.world.bus.is_down = False
    assert len(counter.world.rows(minutes=3)) == 1
    counter.world.tick(minutes=3)
    assert counter.world.bus.ranges() == [("count-1", 1, 1)]
    assert counter.world.rows(hours=1) == []


def test_a_no_op_sends_what_is_unsent(counter):
    """That is what a redelivery is for."""
    counter.world.bus.is_down = True
    with pytest.raises(NotPublishedError):
        counter.receive("count")
    counter.world.bus.is_down = False
    counter.receive("nothing")
    assert counter.world.bus.ranges() == [("count-1", 1, 1)]


def test_events_of_another_writer_in_between_are_in_the_range(counter):
    """A range that left them out would have consumers drop them later."""
    counter.receive("count")
    other = Counter(counter.world)
    other.world.bus.is_down = True
    with pytest.raises(NotPublishedError):
        other.receive("count")
    counter.world.bus.is_down = False
    counter.receive("count")
    ranges = counter.world.bus.ranges()
    assert ranges[-1][2] == 3
    streams = [one for _, body in counter.world.bus.messages for one in body["streams"]]
    last = streams[-1]
    assert [event["version"] for event in last["events"]] == list(range(last["first"], last["last"] + 1))


class Interrupted:
    """A writer between whose two events another one wrote, which also sent the first of them, and perhaps wrote more."""

    def __init__(self, homes, later=0):
        some = (Event("counted", {}, NOON),) * (3 + later)
        homes.commit(Commit(home="count-1", aggregate="count", expected=0, events=some))
        self.events = homes.read_tail("count-1", 0)

    def save(self, _home, _commands):
        """Return what it saved."""
        first, _, last, *_ = self.events
        return Saved(Head(version=3, published=1), (SavedCommand((first,)), SavedCommand((last,))))


def test_as_many_events_as_are_unsent_may_be_others(counter):
    """Two are unsent and two are new, but the second one is another writer's."""
    counter.receiver._writer = Interrupted(counter.world.homes)
    counter.receive("count", "count")
    streams = [one for _, body in counter.world.bus.messages for one in body["streams"]]
    assert [event["version"] for one in streams for event in one["events"]] == [2, 3]


@pytest.mark.parametrize("sent", [1, 4])
def test_what_another_writer_added_since_the_save_is_in_no_range(counter, sent):
    """It may even be sent by now, in the same process."""
    counter.receiver._writer = Interrupted(counter.world.homes, later=1)
    counter.world.outgoing._sent["count-1"] = sent
    counter.receive("count", "count")
    streams = [one for _, body in counter.world.bus.messages for one in body["streams"]]
    assert [event["version"] for one in streams for event in one["events"]] == ([2, 3] if sent == 1 else [])


def test_private_events_are_sent_with_no_range_and_leave_no_gap(counter):
    """The next public one's range begins with them."""
    counter.receive("count")
    counter.receive("private")
    counter.receive("count")
    assert counter.world.bus.ranges() == [("count-1", 1, 1), ("count-1", 2, 3)]


def test_a_crash_after_the_save_is_ended_by_the_tick(counter):
    """Two minutes later."""
    assert counter.world.dies("send", "before", lambda: counter.receive("count"))
    counter.world.tick(seconds=121)
    assert counter.world.bus.ranges() == [("count-1", 1, 1)]
    assert counter.world.rows(hours=1) == []


def test_removals_gather_and_go_a_hundred_at_a_time(counter):
    """The first row sets the timer, the hundredth does not wait for it."""
    rows = counter.world.plain_agenda.write([*_timeouts(150)])
    counter.removals(rows[:99])
    assert len(counter.timers) == 1
    assert len(counter.world.rows(hours=1)) == 150
    counter.removals(rows[99:])
    assert counter.world.rows(hours=1) == []


def _timeouts(number):
    return [TimeoutRow(0, NOON, f"order-{n}", "expire") for n in range(number)]
