"""Rooms that their own publishers spoil, and queues that a shorter list left behind."""

import itertools
import re
from datetime import UTC, datetime

import pytest

from shared.azure.connections import Connections
from shared.errors import RefusedError, StorageUnavailableError
from shared.payload import PayloadStores
from shared.pending import AT_ONCE, ROOM_POINTER, PendingTable, Pointer
from shared.pipeline.removal.cleanup import LOOK_HOUR, Rooms, point_at
from shared.refusals import Reason
from shared.telemetry import events
from shared.topology import payload_container, rooms, submission_queue, topology
from tests.gate.conftest import ManualClock

_numbers = itertools.count(1)
NOON, LOOK = datetime(2026, 11, 20, 12, tzinfo=UTC), datetime(2026, 11, 20, LOOK_HOUR, tzinfo=UTC)


class Place:
    """An installation with one room of the test's own."""

    def __init__(self, connections):
        self.connections, self.room, self.now = connections, f"team-{next(_numbers)}-{id(self):x}", NOON
        self.container, self.queue = payload_container(self.room), submission_queue(self.room)
        self.pending, self.drained = PendingTable(connections.tables.get_table_client("pending")), []
        for name in (self.queue, f"{self.queue}-poison"):
            connections.queues.create_queue(name)

    def rooms(self, names):
        """Return what looks after these rooms now."""
        return Rooms(
            rooms=names,
            work_queues=2,
            blobs=self.connections.blobs,
            queues=self.connections.queues,
            pending=self.pending,
            clock=ManualClock(self.now),
            drain=self.drained.append,
        )

    def tick(self, rooms=None):
        """Do what one tick does about rooms."""
        made = self.rooms((self.room,) if rooms is None else rooms)
        for pointer in self.pointers():
            made.follow(pointer)
        made.look_for_containers()
        made.look_for_queues()
        made.drain_leftovers()

    def requests(self):
        """Return how many requests were made so far."""
        return sum(self.connections.meter.tally.counts().values())

    def pointers(self):
        """Return the pointers to containers that are gone."""
        return [one for one in self.pending.due(self.now) if one.kind == ROOM_POINTER]

    def is_there(self):
        """Whether the room has its container."""
        return self.connections.blobs.get_container_client(self.container).exists()

    def stores(self):
        """Return the stores of the app."""
        return PayloadStores(self.connections.blobs.get_container_client, gone=point_at(self.pending))


@pytest.fixture
def place(provisioned):
    """A room whose publisher has just deleted its container."""
    with Connections(provisioned.connection_string) as connections:
        made = Place(connections)
        yield made
        for name in (made.queue, f"{made.queue}-poison"):
            connections.queues.delete_queue(name)
        for pointer in made.pointers():
            made.pending.remove(pointer)


def test_what_should_be_in_a_deleted_container_is_missing_and_the_next_tick_makes_it_again(place, told):
    """However many submissions met it, one row says so; the room goes on with an empty container."""
    for _ in range(3):
        with pytest.raises(RefusedError, match="was deleted") as refused:
            place.stores().of_room(place.room).find("job/a")
        assert refused.value.reason == Reason.PAYLOAD_MISSING
    assert [one.id for one in place.pointers()] == [place.container]
    place.tick()
    assert place.is_there()
    assert place.pointers() == []
    assert told(events.ROOM_REMADE) == [{"container": place.container}]


def test_a_room_whose_publishers_only_write_is_looked_for_once_a_day(place):
    """Nobody of the app met the loss: the daily look does."""
    place.tick()
    assert not place.is_there()
    place.now = LOOK
    place.tick()
    assert place.is_there()


def test_a_container_that_is_still_being_deleted_is_made_by_a_later_tick(place, monkeypatch):
    """Storage refuses the name for half a minute; the pointer stays until then."""
    place.pending.add(Pointer(ROOM_POINTER, AT_ONCE, place.container))

    def busy(_name):
        from azure.core.exceptions import ResourceExistsError  # noqa: PLC0415 - of this fault only

        error = ResourceExistsError("going")
        error.error_code = "ContainerBeingDeleted"
        raise error

    with monkeypatch.context() as patch:
        patch.setattr(place.connections.blobs, "create_container", busy)
        place.tick()
    assert len(place.pointers()) == 1
    place.tick()
    assert place.is_there()
    assert place.pointers() == []


def test_only_containers_of_rooms_are_made(place):
    """A pointer of before a list shrank, or of another hand, makes nothing and goes."""
    place.pending.add(Pointer(ROOM_POINTER, AT_ONCE, place.container))
    place.tick(rooms=())
    assert not place.is_there()
    assert place.pointers() == []


def test_what_the_app_keeps_is_never_taken_for_deleted_by_a_publisher(place):
    """Nobody but an operator can delete it: that is an outage, and what needs it is tried again."""
    gone = PayloadStores(
        lambda _name: place.connections.blobs.get_container_client("no-such"), gone=point_at(place.pending)
    )
    with pytest.raises(StorageUnavailableError):
        gone.store_of_done().find(f"job/{'a' * 64}")
    assert place.pointers() == []


def test_the_daily_look_is_three_requests_where_all_is_well(place, told):
    """One list of containers, two of queues, and one for each queue that is told of; at any other minute nothing."""
    place.connections.blobs.create_container(place.container)
    before = place.requests()

    def look():
        made = place.rooms((place.room,))
        made.look_for_containers()
        made.look_for_queues()
        made.drain_leftovers()

    look()
    assert place.requests() == before
    place.now = LOOK
    look()
    made = place.requests() - before
    assert made == 3 + sum(is_strange(place, one.name) for one in place.connections.queues.list_queues())


def is_strange(place, queue):
    """Whether the app of this place does not read a queue that is named like one of its own.

    Tests of other files leave queues of their own here, such as `work-of-worker-1`.
    """
    known = {*topology(2, [rooms([place.room])]).queues, f"{place.queue}-poison"}
    return re.fullmatch(r"submissions-.+|work-\d\d(-poison)?", queue) is not None and queue not in known


def test_messages_above_the_number_of_work_queues_are_told_of_once_a_day(place, told):
    """They were left by a larger setting. An empty queue is nobody's news, and a queue of others is not ours to tell of."""
    names = ["work-02", "work-02-poison", "work-77", "work-orders"]
    for name in names:
        place.connections.queues.create_queue(name)
    for name in ("work-02", "work-02", "work-77", "work-orders"):
        place.connections.queues.get_queue_client(name).send_message("{}")
    try:
        place.tick()
        assert told(events.QUEUE_UNREAD) == []
        place.now = LOOK
        place.tick()
        found = [(one["queue"], one["messages"]) for one in told(events.QUEUE_UNREAD) if one["queue"] in names]
        assert found == [("work-02", 2), ("work-77", 1)]
    finally:
        for name in names:
            place.connections.queues.delete_queue(name)


def test_what_an_app_of_before_left_on_a_rooms_poison_queue_is_parked_once_a_day(place):
    """Rooms had such queues, and one of 0.3.0 beside still uses them. A room that never had one costs nothing more."""
    place.tick()
    assert place.drained == []
    place.now = LOOK
    place.tick(rooms=(place.room, "never-had-one"))
    assert [queue.queue_name for queue in place.drained] == [f"{place.queue}-poison"]


def test_a_queue_that_no_room_names_any_more_is_told_of_once_a_day(place, told):
    """With what waits on it; queues of rooms and the common one's are nobody's news."""
    place.connections.queues.get_queue_client(place.queue).send_message("{}")
    place.tick(rooms=())
    assert told(events.QUEUE_UNREAD) == []
    place.now = LOOK
    place.tick()
    assert not [one for one in told(events.QUEUE_UNREAD) if place.room in one["queue"]]
    place.tick(rooms=())
    found = [one for one in told(events.QUEUE_UNREAD) if place.room in one["queue"]]
    assert found == [
        {"queue": place.queue, "messages": 1},
        {"queue": f"{place.queue}-poison", "messages": 0},
    ]
