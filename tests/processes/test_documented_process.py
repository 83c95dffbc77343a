"""The process manager of docs/processes.md, as it stands there, on the real runtime and agenda."""

from datetime import timedelta

import pytest

from shared.azure import Pushback
from shared.processes import BusPublisher, Case, Follower, Incoming, Outgoing, ReplyClass, Runtime
from tests.eventsourcing.memory_homes import MemoryHomes
from tests.processes.world import Bus, HandClock
from tests.repo.test_commands import BLOCK
from tools.local.paths import ROOT

MOST_LINES = 60


@pytest.fixture
def page():
    """The names that the document's block defines."""
    text = (ROOT / "docs" / "processes.md").read_text()
    source = next(found[4] for found in BLOCK.finditer(text) if found[2] == "python")
    assert len([line for line in source.splitlines() if line.strip()]) <= MOST_LINES
    names = {"__name__": "parcels"}
    exec(compile(source, "docs/processes.md", "exec", dont_inherit=True), names)
    return names


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
        outgoing = Outgoing(BusPublisher(self.bus, Pushback(self.clock)), self.page["Routes"]())
        self.runtime = Runtime(
            self.page["Parcels"](),
            "parcel",
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
        """Give the parcel a message, and return what became of it."""
        message = Incoming(kind=kind, body={}, at=self.clock.now(), generation=generation)
        handled = self.runtime.handle([Case(home="parcel-1", message=message, fields={"number": 1}, number=1)])
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
    assert office.homes.load("parcel-1").events[-1].kind == "given_up"
