"""Hints over the real broker: one for all timeouts of a slot, held back until its end; losing one loses no timeout."""

from datetime import UTC, datetime, timedelta

import pytest

from shared.azure import BusSender, Connections, Destination
from shared.processes import DueHints, due_shards
from shared.processes.agenda import notes_of
from shared.processes.follower import REMINDED_EVERY
from shared.telemetry import events
from tests.messaging.builders import body_of
from tests.messaging.conftest import broker, fresh, used
from tests.waiting import take

__all__ = ["broker", "fresh", "used"]

# The SDK forgets the socket of a connection that was refused without closing it.
pytestmark = [
    pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning"),
    pytest.mark.usefixtures("forgotten_sockets"),
]


@pytest.fixture
def connections(broker):
    """Connections to the broker of this test."""
    with Connections("UseDevelopmentStorage=true", broker.connection_string) as made:
        yield made


def test_one_hint_serves_a_slot_of_a_shard(connections, fresh):
    """With a minute of lateness, slots are five seconds. The bus hands a hint out when its slot ends."""
    queue = Destination("bus", fresh("plain"))
    begin = datetime.fromtimestamp(int(datetime.now(UTC).timestamp()) // 5 * 5, UTC)
    with BusSender(connections) as sender:
        hint = DueHints(sender, queue, timedelta(minutes=1))
        for shard, seconds in ((0, -4), (0, -1), (0, 0), (1, -1), (0, 3600)):
            hint(shard, begin + timedelta(seconds=seconds))
        with connections.bus_client() as client, client.get_queue_receiver(queue.name) as receiver:
            received = receiver.receive_messages(10, max_wait_time=3)
    assert sorted(message.message_id for message in received) == sorted({message.message_id for message in received})
    assert due_shards([body_of(message) for message in received]) == [0, 1]
    assert len(received) == 2


def test_a_hint_that_cannot_be_sent_is_told(told):
    """The tick finds the timeout."""
    nowhere = "Endpoint=sb://127.0.0.1:1/;SharedAccessKeyName=a;SharedAccessKey=b;UseDevelopmentEmulator=true"
    with Connections("UseDevelopmentStorage=true", nowhere) as connections, BusSender(connections) as sender:
        DueHints(sender, Destination("bus", "timeouts"), timedelta(minutes=1))(0, datetime.now(UTC))
    assert len(told(events.HINT_UNSCHEDULED)) == 1


def test_what_is_no_hint_names_no_shard():
    """Neither does a shard that is none."""
    bodies = [b"", b"\xff", b"[]", b'{"sluice":{"kind":"due","shard":9}}', b'{"sluice":{"kind":"due","shard":-1}}']
    assert due_shards(bodies) == []


def test_one_reminder_serves_the_notes_of_a_slot_in_every_process(connections, fresh):
    """The bus takes the same of a second process for the same. Whoever gets it looks at every shard."""
    queue = Destination("bus", fresh("unique"))
    length = int(REMINDED_EVERY.total_seconds())
    begin = datetime.fromtimestamp(int(datetime.now(UTC).timestamp()) // length * length, UTC)
    with BusSender(connections) as sender:
        for hint in (DueHints(sender, queue, timedelta(minutes=1)), DueHints(sender, queue, timedelta(minutes=1))):
            for seconds in (1 - length, -1, 0, -1 - length):
                hint.remind(begin + timedelta(seconds=seconds))
        with connections.bus_client() as client, client.get_queue_receiver(queue.name) as receiver:
            received = take(receiver)
    assert len(received) == len({message.message_id for message in received}) == 2
    assert due_shards([body_of(received[0])]) == [0, 1, 2, 3]


def test_no_note_is_due_after_its_reminder():
    """Wherever in its slot it is written: a reminder that comes too early would leave it to the tick."""
    at = []

    class Sender:
        def send(self, _to, _messages, *, at, kept=at):
            kept.append(at)

    for second in range(60):
        written = datetime(2026, 11, 20, 12, tzinfo=UTC) + timedelta(seconds=second)
        hint = DueHints(Sender(), Destination("bus", "timeouts"), timedelta(minutes=1))
        (note,) = notes_of(0, {"home": 1}, written)
        hint.remind(note.due)
        assert note.due <= at[-1] < note.due + REMINDED_EVERY
    assert len(set(at)) == 7
