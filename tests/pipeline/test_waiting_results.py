"""Whether results wait for settlers, as the tick asks before it puts chunks again."""

from datetime import timedelta

import pytest

from shared.azure.connections import Connections
from shared.azure.meter import BUS
from shared.clock import SystemClock
from shared.messages import Result
from shared.pipeline.results import BusResults
from shared.pipeline.sweep import WaitingResults
from shared.telemetry import events
from tests.faults.bus import Bus, BusConnections
from tests.faults.journal import Journal
from tests.faults.plan import Plan
from tests.faults.world import ManualClock
from tests.forked import ForkedBroker
from tests.waiting import LIMIT

PATIENCE = timedelta(minutes=5)


class Scene:
    """A queue of results, and somebody who asks."""

    def __init__(self):
        self.clock = ManualClock()
        self.bus = Bus(Journal(), self.clock.now)
        self.connections = BusConnections("UseDevelopmentStorage=true", self.bus, Plan(), transport=None)
        self.waiting = WaitingResults(self.connections, self.clock)

    def peeks(self):
        """Return how often the queue was looked at."""
        counts = self.connections.meter.tally.counts().items()
        return sum(number for (kind, _), number in counts if (kind.service, kind.operation) == (BUS, "peek"))


@pytest.fixture
def scene():
    """An empty queue."""
    made = Scene()
    with made.connections:
        yield made


def test_settlers_are_behind_while_the_oldest_result_waits_for_long(scene, told):
    """A result that has just come is no reason to wait, and neither is an empty queue."""
    assert not scene.waiting.are_behind(PATIENCE)
    scene.bus.send("results", "result", "{}")
    scene.clock.advance(minutes=5)
    assert not scene.waiting.are_behind(PATIENCE)
    scene.clock.advance(minutes=1)
    assert scene.waiting.are_behind(PATIENCE)
    assert told(events.RESULTS_BEHIND) == [{"waiting_seconds": 360}]
    scene.bus.complete(scene.bus.waiting("results"))
    scene.clock.advance(minutes=1)
    assert not scene.waiting.are_behind(PATIENCE)


def test_a_tick_looks_once_however_many_jobs_are_silent(scene):
    """One operation of the bus; the next tick looks again."""
    for _ in range(5):
        scene.waiting.are_behind(PATIENCE)
    assert scene.peeks() == 1
    scene.clock.advance(minutes=1)
    scene.waiting.are_behind(PATIENCE)
    assert scene.peeks() == 2


def test_nothing_is_put_again_while_the_bus_does_not_answer(scene, told):
    """No result could be credited meanwhile."""
    scene.connections._plan = Plan.of(1, "reset_before")
    assert scene.waiting.are_behind(PATIENCE)
    assert len(told(events.RESULTS_UNSEEN)) == 1
    scene.clock.advance(minutes=1)
    assert not scene.waiting.are_behind(PATIENCE)


class Later(SystemClock):
    """A clock that is ahead."""

    def now(self):
        """Return the later time."""
        return super().now() + timedelta(minutes=6)


def test_the_time_of_a_result_is_read_from_the_bus():
    """Also of one that a settler holds: it is not credited either."""
    with (
        ForkedBroker.start() as broker,
        Connections("UseDevelopmentStorage=true", broker.connection_string) as connections,
    ):
        assert not WaitingResults(connections, Later()).are_behind(PATIENCE)
        with BusResults(connections) as send:
            send(Result(job="nightly", chunk=0, revision=1))
        client = connections.bus_client()
        with client, client.get_queue_receiver("results", max_wait_time=LIMIT) as receiver:
            assert len(receiver.receive_messages(1)) == 1
            assert WaitingResults(connections, Later()).are_behind(PATIENCE)
            assert not WaitingResults(connections, SystemClock()).are_behind(PATIENCE)
