"""The process manager of docs/processes.md, as it stands there, on the real runtime and agenda."""

from datetime import timedelta
from importlib import import_module
from pathlib import Path

import pytest

from shared.azure import Destination, Pushback
from shared.processes import BusPublisher, Case, Follower, Incoming, Outgoing, ReplyClass, Runtime
from tests.eventsourcing.memory_homes import MemoryHomes
from tests.own_returns import add_returns
from tests.processes.world import Bus, HandClock

MOST_LINES = 60


@pytest.fixture
def page(tmp_path, monkeypatch):
    """The module of the page's process."""
    add_returns(tmp_path / "own", monkeypatch)
    module = import_module("own.returns.process")
    assert len([line for line in Path(module.__file__).read_text().splitlines() if line.strip()]) <= MOST_LINES
    return module


class Routes:
    """The entities that the process sends to."""

    def topic_of(self, _home):
        """Return the topic of events."""
        return Destination("topic", "returns-events"), ""

    def queue_of(self, _command):
        """Return the queue of commands."""
        return Destination("bus", "returns-commands")


class Office:
    """The process on a runtime, with its homes, its agenda and its bus."""

    def __init__(self, page, agenda):
        self.clock, self.bus, self.homes, self.agenda = HandClock(), Bus(), MemoryHomes(), agenda
        self.page = page
        # A real clock is never at a whole second, and the agenda keeps whole ones.
        self.clock.moment += timedelta(microseconds=7)
        self.restart()

    def restart(self):
        """Begin a new process, which remembers nothing."""
        outgoing = Outgoing(BusPublisher(self.bus, Pushback(self.clock)), Routes())
        self.runtime = Runtime(
            self.page.Returns(),
            "return",
            self.homes,
            self.agenda,
            outgoing,
            clock=self.clock,
            remove=self.agenda.remove,
            hint=lambda _shard, _due: None,
        )
        self.follower = Follower(
            self.agenda, self.homes, outgoing, self.clock, handle=self.runtime.handle, resume=lambda _home, _head: None
        )

    def give(self, kind, generation=0):
        """Give the return a message, and return what became of it."""
        message = Incoming(kind=kind, body={"return": "return-1"}, at=self.clock.now(), generation=generation)
        handled = self.runtime.handle([Case(home="return-1", message=message, fields={"number": 1}, number=1)])
        handled.check()
        return handled.outcomes[0]

    def tick(self, **later):
        """Let time pass, and follow the agenda in a new process."""
        self.clock.moment += timedelta(**later)
        self.restart()
        for shard in range(4):
            self.follower.follow(shard, float("inf"))

    def carriers(self):
        """Return who was asked, in order."""
        found = [one for _, body in self.bus.messages if body["kind"] == "commands" for one in body["commands"]]
        return [one["to"] for one in found]


def test_the_first_carrier_answers(page, agenda):
    """Asked, answered, and nothing is left on the agenda. The answer twice changes nothing."""
    office = Office(page, agenda)
    assert office.give("send").state.stage == "waiting"
    assert office.give("send").reply is ReplyClass.DUPLICATE
    assert office.give("fetched", 1).state.stage == "fetched"
    assert office.give("fetched", 1).reply is ReplyClass.DUPLICATE
    office.tick(hours=2)
    assert set(office.carriers()) == {"carrier-swift"}


def test_the_next_carrier_is_asked_by_the_tick_and_the_late_answer_is_skipped(page, agenda):
    """After an hour, in another process; an answer to a question that was never asked is not applied."""
    office = Office(page, agenda)
    office.give("send")
    office.tick(hours=1, seconds=1)
    assert list(dict.fromkeys(office.carriers())) == ["carrier-swift", "carrier-steady"]
    assert office.give("fetched", 1).reply is ReplyClass.STALE
    assert office.give("fetched", 7).reply is ReplyClass.UNEXPECTED
    assert office.give("fetched", 2).state.stage == "fetched"


def test_it_gives_up_after_the_last_one(page, agenda):
    """Nobody answers, and there is no carrier left."""
    office = Office(page, agenda)
    office.give("send")
    for _ in range(2):
        office.tick(hours=1, seconds=1)
    assert office.homes.load("return-1").events[-1].kind == "given_up"
