"""Which jobs overtake: their row keeps the lane, and all their messages go there, announced before."""

from dataclasses import replace
from datetime import timedelta

import pytest

from shared.errors import StorageUnavailableError
from shared.ledger.job_decisions import note_lane
from shared.ledger.records import JobState
from shared.pipeline.dispatch import FinishCall, Overtaking
from shared.topology import URGENT, work_queue_of
from tests.gate.conftest import NOON

DEADLINE = NOON + timedelta(minutes=5)


class Fleet:
    """What the last decision says, and what was announced on which queues' state."""

    def __init__(self, world):
        self.world, self.is_slow, self.announced, self.fails, self.depth = world, True, [], False, 300

    def is_late(self, deadline, messages):
        """Predict as a test says, for jobs with this deadline."""
        assert (deadline, messages) == (DEADLINE, self.depth + 1)
        return self.is_slow

    def announce(self):
        """Note how many messages were put before."""
        if self.fails:
            raise StorageUnavailableError("injected")
        self.announced.append(len(self.world.queues.sent))


@pytest.fixture
def fleet(world):
    """A fleet with a backlog."""
    return Fleet(world)


@pytest.fixture
def planned(world, process, fleet):
    """A process by push, which planned a job with a deadline."""
    one = process()
    one.dispatcher = replace(
        one.dispatcher, lane=Overtaking(ledger=world.ledger, following=fleet, depth=lambda: fleet.depth)
    )
    one.plan(world.submission(5), "m1")
    world.ledger.commit(replace(world.ledger.read(world.job), deadline=DEADLINE))
    return one


def put_on(world):
    """Return the queues of all messages."""
    return [queue for queue, _ in world.queues.sent]


def test_a_job_that_is_predicted_late_goes_to_the_lane(world, planned, fleet):
    """Its row says so before anything is put, and so do its chunks that are put again and its finish."""
    planned.dispatcher.dispatch(world.ledger.read(world.job))
    job = world.ledger.read(world.job)
    assert (job.lane, job.state, put_on(world)) == (URGENT, JobState.RUNNING, [URGENT])
    planned.dispatcher.put_again(job, [0])
    FinishCall(world.queues.send, None, world.clock, work_queues=4, lane=planned.dispatcher.lane).send(job)
    assert put_on(world) == [URGENT] * 3
    assert fleet.announced == [0, 1, 2]


def test_a_job_in_time_or_without_a_deadline_waits_its_turn(world, planned, fleet):
    """Nothing is written or announced for it."""
    fleet.is_slow = False
    planned.dispatcher.dispatch(world.ledger.read(world.job))
    assert (world.ledger.read(world.job).lane, put_on(world)) == (None, [work_queue_of(world.job, 0, 4)])
    world.job += "-other"
    planned.plan(world.submission(5), "m2")
    planned.dispatcher.dispatch(world.ledger.read(world.job))
    assert (world.ledger.read(world.job).lane, fleet.announced) == (None, [])


def test_where_nothing_waits_there_is_nothing_to_overtake(world, planned, fleet):
    """However late the job will be."""
    fleet.depth = 0
    planned.dispatcher.dispatch(world.ledger.read(world.job))
    assert (world.ledger.read(world.job).lane, fleet.announced) == (None, [])


def test_without_an_announcement_nothing_is_put(world, planned, fleet):
    """No task would ask the lane. The next call continues, on the lane that the row has."""
    fleet.fails = True
    with pytest.raises(StorageUnavailableError):
        planned.dispatcher.dispatch(world.ledger.read(world.job))
    assert (world.ledger.read(world.job).lane, world.queues.sent) == (URGENT, [])
    fleet.fails = fleet.is_slow = False
    planned.dispatcher.dispatch(world.ledger.read(world.job))
    assert put_on(world) == [URGENT]


def test_where_no_task_asks_the_lane_nothing_is_put_there(world, planned):
    """By trigger, or by a command: also for a job whose row has a lane, from the time before the setting changed."""
    planned.dispatcher.dispatch(world.ledger.read(world.job))
    world.queues.sent.clear()
    job, ordinary = world.ledger.read(world.job), work_queue_of(world.job, 0, 4)
    replace(planned.dispatcher, lane=None).put_again(job, [0])
    FinishCall(world.queues.send, None, world.clock, work_queues=4).send(job)
    assert put_on(world) == [ordinary, ordinary]


def test_a_job_that_has_begun_stays_where_it_is(world, planned):
    """What is on a queue already is not moved."""
    begun = replace(world.ledger.read(world.job), state=JobState.DISPATCHING, dispatch_cursor=1, chunks=2)
    assert note_lane(begun, URGENT) is begun
    assert planned.dispatcher.lane.choose(begun) is begun
