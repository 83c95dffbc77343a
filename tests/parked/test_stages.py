"""The registry is open: a stage that nothing here knows parks, is drained, replayed and discarded by what it brings."""

import itertools
import json

import pytest

from shared.errors import NotParkedError, RefusedError
from shared.messages import Delivery
from shared.operating.parked_acts import Selection
from shared.operating.replay import ReplayFate, ReplayPace
from shared.parked.entry import DOOR, EntryState, content_key
from shared.parked.parking import Claim, Parking, QueuesPut, Stage, drain_poison
from tests.parked.replaying import build_operator, fates_of, replay_all
from tests.parked.stages import stages
from tests.process.world import World

_numbers = itertools.count(1)
BROKEN = ZeroDivisionError("broken")


class Commands:
    """A stage of another kind of message: a command to a stream, which lands when the stream has it."""

    def __init__(self, connections):
        self.queue = connections.queues.create_queue(f"commands-{next(_numbers)}-{id(self):x}")
        self.stream, self.told, self.wakings = [], [], 0
        self.stage = Stage(
            name="command",
            reads=lambda queue: queue.startswith("commands-"),
            identify=self._identify,
            put_back=QueuesPut(connections.queues, lambda _queue: None),
            has_landed=lambda entry: entry.key in self.stream,
            remedy="mend the stream, then replay",
            on_parked=lambda entry, claim, body: self.told.append((entry.state, claim.job, body)),
            wakes=True,
        )

    def _identify(self, delivery):
        said = json.loads(delivery.body)
        # A command of a stranger is not believed: its stream is only a column.
        partition = None if said["is_ours"] else DOOR
        return Claim(key=content_key("command", delivery.body), job=said["stream"], partition=partition)

    def delivery(self, *, is_ours=True):
        """Return a command as it is delivered."""
        body = json.dumps({"stream": f"stream-{id(self):x}", "is_ours": is_ours}).encode()
        return Delivery(queue=self.queue.queue_name, message_id="c1", body=body, count=5)

    def work(self, _seconds):
        """Take the commands that were put back into the stream."""
        while (message := self.queue.receive_message()) is not None:
            self.stream.append(content_key("command", message.content.encode()))
            self.queue.delete_message(message)

    def wake(self):
        """Count it."""
        self.wakings += 1


class Installation:
    """The stages of the pipeline with one more among them, and an operator."""

    def __init__(self, process, clock):
        self.commands, self.stages, self.process = Commands(process.connections), stages(), process
        self.stages.register(self.commands.stage)
        self.parking = Parking(process.parked, clock, self.stages)
        self._clock = clock
        self.operator = build_operator(process, self.stages, clock, self._pause, self.commands.wake)

    def _pause(self, seconds):
        self._clock.advance(seconds)
        self.commands.work(seconds)

    def replay(self, entry):
        """Replay one entry and return its fate."""
        (fate,) = fates_of(replay_all(self.operator, Selection(key=entry.key), ReplayPace(patience=3)))
        return fate


@pytest.fixture
def installation(provisioned):
    """An installation of the test's own."""
    world = World(provisioned)
    with world.process() as process:
        yield Installation(process, world.clock)


def test_a_further_stage_parks_and_its_replay_lands(installation):
    """Its own claim, remedy, message about the entry, way back and effect are all that is needed."""
    commands = installation.commands
    delivery = commands.delivery()
    entry = installation.parking.park("command", delivery, BROKEN)
    assert (entry.stage, entry.instead, entry.attempts) == ("command", "mend the stream, then replay", 5)
    assert commands.told == [(EntryState.OPEN, entry.job, delivery.body)]
    assert installation.replay(entry) is ReplayFate.DONE
    assert commands.wakings == 1
    assert installation.process.parked.get(entry.job, entry.key).state is EntryState.DONE


def test_a_claim_that_is_not_believed_only_lists_its_job(installation):
    """The entry lies in the partition of the claim, where nothing of the job's own is looked for."""
    delivery = installation.commands.delivery(is_ours=False)
    entry = installation.parking.park("command", delivery, BROKEN)
    assert (entry.job, entry.claimed) == (DOOR, json.loads(delivery.body)["stream"])
    assert list(installation.process.parked.entries(entry.claimed)) == []
    assert installation.operator.select(Selection(job=entry.claimed)) == [entry]
    assert installation.replay(entry) is ReplayFate.DONE


def test_a_further_stage_is_drained_and_discarded(installation):
    """Its poison queue is read like the others; each of them keeps its own stage."""
    commands, process = installation.commands, installation.process
    poison = process.connections.queues.create_queue(f"{commands.queue.queue_name}-poison")
    poison.send_message(commands.delivery().body.decode())
    assert drain_poison(poison, installation.parking, process.attempts) == 1
    (entry,) = process.parked.entries(json.loads(commands.delivery().body)["stream"])
    assert (entry.stage, entry.reason) == ("command", "delivered_too_often")
    installation.operator.discard(Selection(key=entry.key), by="ann", why="the stream is gone")
    assert process.parked.find(entry.job, entry.key).state is EntryState.DISCARDED


def test_an_entry_of_a_stage_that_is_not_registered_stays_and_can_be_discarded(installation):
    """A version that lost a stage must not fail at its rows, nor send them somewhere."""
    entry = installation.parking.park("command", installation.commands.delivery(), BROKEN)
    bare = build_operator(installation.process, stages(), installation._clock, installation._pause)
    assert fates_of(replay_all(bare, Selection(key=entry.key), ReplayPace())) == [ReplayFate.UNKNOWN]
    assert installation.commands.stream == []
    assert installation.operator.discard(Selection(key=entry.key), by="ann", why="gone").closed == 1


def test_what_no_stage_reads_is_not_parked_as_another_ones(installation):
    """It stays on its queue until a stage is registered that reads it."""
    with pytest.raises(NotParkedError, match="no stage reads queue 'letters'"):
        installation.stages.identify(Delivery(queue="letters", message_id="m", body=b"{}", count=1))
    with pytest.raises(NotParkedError, match="no stage of this version is called 'letter'"):
        installation.parking.park("letter", installation.commands.delivery(), RefusedError("odd", "found", "instead"))


def test_a_name_is_registered_once(installation):
    """It is stored: two stages of one name would take each other's entries."""
    with pytest.raises(ValueError, match="'command' is registered already"):
        installation.stages.register(installation.commands.stage)


def test_the_names_of_the_stages_are_those_that_are_stored():
    """Rows of earlier versions have them, and their entries go back to their stage."""
    known = stages()
    assert [known.find(name).name for name in ("accept", "process", "finish", "settle")] == [
        "accept", "process", "finish", "settle",
    ]  # fmt: skip
