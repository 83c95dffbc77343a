"""The outbox over two kinds of stores: each message is sent at least once and in order, however its owner's writer ends."""

import itertools
import logging
from dataclasses import dataclass, field

import pytest

from shared.azure.bus import Destination
from shared.errors import SignalNotSentError, StorageUnavailableError
from shared.outbox import Outbox, OutgoingMessage
from shared.pending import Due, Followers, Pointer
from tests.gate.conftest import ManualClock
from tests.ledger.builders import job
from tests.ledger.memory_ledger import MemoryLedger

OWNER = "order-1"
DESTINATIONS = [
    Destination("queue", "work-00"),
    Destination("bus", "results"),
    Destination("topic", "job-events"),
    Destination("call", "dispatch"),
]
MESSAGES = [OutgoingMessage(f"{n:09}", to, str(n).encode()) for n, to in enumerate(DESTINATIONS)]


@pytest.mark.parametrize(
    ("destination", "text"),
    list(zip(DESTINATIONS, ["work-00", "bus:results", "topic:job-events", "call:dispatch"], strict=True)),
)
def test_a_destination_is_one_text(destination, text):
    """That of a storage queue is its name, as held rows have it."""
    assert (str(destination), Destination.parse(text)) == (text, destination)


@pytest.mark.parametrize("text", ["mail:me", "queue:work-00", "bus:", ":results"])
def test_what_is_no_destination_is_refused(text):
    """A message is never sent to the wrong place for want of the right one."""
    with pytest.raises(ValueError, match="is not a destination"):
        Destination.parse(text)


class CrashError(BaseException):
    """The process ended here."""


class Trouble:
    """Numbers the acts of a world, and lets a fault befall some of them."""

    def __init__(self, faults=()):
        self.faults, self.count = dict(faults), 0

    def around(self, act):
        """Do the act, as its fault allows."""
        self.count += 1
        fault = self.faults.pop(self.count, "")
        if fault == "crash before":
            raise CrashError
        if fault == "refused":
            raise StorageUnavailableError("refused")
        done = act()
        if fault == "crash after":
            raise CrashError
        if fault == "reply lost":
            raise StorageUnavailableError("lost")
        return done


class Guarded:
    """Passes each call on, through the trouble of its world."""

    def __init__(self, target, trouble):
        self._target, self._trouble = target, trouble

    def __getattr__(self, name):
        act = getattr(self._target, name)
        return lambda *given: self._trouble.around(lambda: act(*given))


class LedgerStore:
    """Messages in rows beside a job."""

    def __init__(self):
        self._ledger = MemoryLedger()
        self._ledger.insert(job(job=OWNER))
        self.unsent, self.forget = self._ledger.unsent, self._ledger.forget
        self.is_written = False

    def write(self):
        """Write the state with its messages, once."""
        if not self.is_written:
            assert self._ledger.commit(self._ledger.read(OWNER), messages=MESSAGES)
            self.is_written = True

    def check_end(self):
        """Assert that nothing is left to send."""
        assert self._ledger.unsent(OWNER) == []


@dataclass
class HomeStore:
    """Messages are the events of one document above the version that was published; it forgets by its next write."""

    events: list = field(default_factory=list)
    published: int = 0
    is_written: bool = False

    def write(self):
        """Append the events, once."""
        if not self.is_written:
            self.events += MESSAGES
            self.is_written = True

    def unsent(self, _owner):
        """Return the events above the published version."""
        return self.events[self.published :]

    def forget(self, _owner, _sent):
        """Do nothing."""

    def check_end(self):
        """The next write will say that all of them were published."""


class Index:
    """Pointers in memory, each with the version by which it may be removed."""

    def __init__(self):
        self.rows, self._versions = {}, itertools.count(1)

    def add(self, pointer):
        """Write it, also over an equal one."""
        made = Pointer(pointer.kind, pointer.due, pointer.id, str(next(self._versions)), pointer.note)
        self.rows[pointer.row_key] = made
        return made

    def remove(self, pointer):
        """Remove it, unless it was written again."""
        if (found := self.rows.get(pointer.row_key)) is not None and found.etag == pointer.etag:
            del self.rows[pointer.row_key]


class World:
    """One owner, its writer, and the tick."""

    def __init__(self, store, faults=()):
        self.store, self.index, self.clock, self.sent = store, Index(), ManualClock(), []
        self.trouble, self.busy = Trouble(faults), False
        self.inboxes = {"queue": [], "bus": [], "topic": [], "call": []}
        self.outbox = Outbox(
            Guarded(store, self.trouble),
            Guarded(self.index, self.trouble),
            lambda message: self.trouble.around(lambda: self.send(message)),
            self.clock,
            kind="note",
            awaits=lambda _owner: self.busy,
        )
        self.followers = Followers([], self.clock)
        self.followers.register("note", lambda pointer, _until: self.outbox.follow(pointer))

    def send(self, message):
        """Put it where messages of its kind of destination arrive."""
        self.inboxes[message.destination.kind].append((message.destination.name, message.body))
        self.sent.append(message)

    def steps(self):
        """Do what a writer does; between its steps anything may happen."""
        self.busy = True
        pointer = self.outbox.point(OWNER)
        yield
        self.trouble.around(self.store.write)
        self.busy = False
        yield
        self.outbox.flush(OWNER, pointer)

    def deliver(self, ticks=()):
        """Have the writer work until it is done, as a queue would; the tick runs in between where it should."""
        for attempt in range(5):
            try:
                for at, _ in enumerate(self.steps()):
                    if attempt == 0 and at in ticks:
                        self.tick()
            except StorageUnavailableError:
                continue
            except CrashError:
                return
            return

    def tick(self):
        """Follow what is due a while later; what fails stays due."""
        self.clock.advance(minutes=10)
        due = Due(sorted(self.index.rows.values(), key=lambda pointer: pointer.due))
        for step in self.followers.steps(due, 0):
            try:
                step()
            except (StorageUnavailableError, CrashError):
                continue

    def check(self):
        """Assert what must hold when nothing moves any more."""
        assert self.index.rows == {}
        wanted = MESSAGES if self.store.is_written else []
        first = list(dict.fromkeys(message.name for message in self.sent))
        assert first == [message.name for message in wanted], "all of them, each after those before it"
        assert {kind: set(inbox) for kind, inbox in self.inboxes.items() if inbox} == {
            message.destination.kind: {(message.destination.name, message.body)} for message in wanted
        }
        self.store.check_end()


FAULTS = ("crash before", "crash after", "refused", "reply lost")


def come_to_rest(world):
    """Tick until nothing is due; the writer's message may have been delivered again before."""
    world.busy = False
    for _ in range(4):
        world.tick()
    world.check()


@pytest.mark.parametrize("made", [LedgerStore, HomeStore])
@pytest.mark.parametrize("ticks", [(), (0, 1)])
@pytest.mark.parametrize("again", [False, True])
def test_every_message_is_sent_in_order_whatever_ends_its_writer_and_whenever(made, ticks, again, caplog):
    """Every pair of faults at every act, with ticks between pointer, state and sending, and with a writer that returns."""
    # Thousands of ticks: what they log is of no interest here.
    caplog.set_level(logging.CRITICAL, "sluice")
    whole = World(made())
    whole.deliver(ticks)
    come_to_rest(whole)
    met = 0
    for first, second in itertools.combinations(range(1, whole.trouble.count + 4), 2):
        for faults in itertools.product(FAULTS, FAULTS):
            world = World(made(), zip((first, second), faults, strict=True))
            world.deliver(ticks)
            if again:
                world.deliver()
            come_to_rest(world)
            met += not world.trouble.faults
    assert met > 1000


def test_a_destination_that_takes_nothing_holds_back_what_comes_after_it():
    """Nothing overtakes, and the pointer stays until all is sent."""
    world = World(LedgerStore())
    send = world.outbox._send

    def refuse(message):
        if message.destination.kind == "topic":
            raise SignalNotSentError("the bus is away")
        return send(message)

    world.outbox._send = refuse
    with pytest.raises(SignalNotSentError):
        list(world.steps())
    assert world.sent == MESSAGES[:2]
    assert len(world.index.rows) == 1
    world.outbox._send = send
    world.tick()
    assert world.sent == MESSAGES
    world.check()
