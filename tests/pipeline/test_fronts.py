"""The watermarks of real queues: one peek each, once per tick, and a note while one is unknown."""

import itertools
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from shared.azure.meter import tally_requests
from shared.clock import SystemClock
from shared.errors import StorageUnavailableError
from shared.ledger.job_decisions import Turn
from shared.ledger.records import Job
from shared.ledger.settlement import FRONT, UNKNOWN_COUNTS_AFTER
from shared.pending import FRONT_POINTER, PendingTable, Pointer
from shared.pipeline.sweep import QueueFronts
from tests.gate.conftest import NOON
from tests.pipeline.conftest import Process, World

_numbers = itertools.count(1)


class MovedClock(SystemClock):
    """The machine's clock, moved on by a test: storage's clock cannot be."""

    def __init__(self):
        self.ahead = timedelta()

    def now(self):
        """Return the moved time."""
        return datetime.now(UTC) + self.ahead

    def monotonic(self):
        """Return the moved time in seconds."""
        return self.now().timestamp()

    def of_reply(self, named):
        """Return the time that storage named, moved in the same way."""
        return named + self.ahead


class Front:
    """One queue and its reader."""

    def __init__(self, connections):
        self.queue = connections.queues.create_queue(f"front-{next(_numbers)}")
        self.pending = PendingTable(connections.tables.get_table_client("pending"))
        self.clock, self.connections = MovedClock(), connections
        self.fronts = self.process()

    def process(self):
        """Return the reader of another process."""
        return QueueFronts([self.queue], self.pending, self.clock)

    def mark(self, fronts=None):
        """Return the watermark of the queue at the next tick."""
        self.clock.ahead += timedelta(minutes=1)
        return (fronts or self.fronts).read().fronts.watermarks[self.queue.queue_name]

    def notes(self):
        """Return the notes that the watermark is unknown."""
        found = self.pending.due(self.clock.now() + timedelta(days=1))
        return [one for one in found if (one.kind, one.id) == (FRONT_POINTER, self.queue.queue_name)]

    def fail(self, number):
        """Have so many deliveries fail: their messages are visible again."""
        for _ in range(number):
            self.queue.send_message("x")
        for message in list(self.queue.receive_messages(max_messages=number, visibility_timeout=60)):
            self.queue.update_message(message, visibility_timeout=0)


@pytest.fixture
def front(provisioned):
    """An empty queue."""
    process = Process(provisioned, World())
    yield Front(process.connections)
    process.connections.close()


def test_an_empty_queue_is_drained_and_a_message_in_work_is_not_in_front(front):
    """What was received once has been handed out."""
    assert front.mark().is_drained
    front.queue.send_message("x")
    assert not front.mark().is_drained
    front.queue.receive_message(visibility_timeout=60)
    assert front.mark().is_drained


def test_the_watermark_is_when_storage_inserted_the_first_message_that_waits(front):
    """The time that the put answered with is the one that the front shows."""
    put = front.queue.send_message("x").inserted_on
    assert front.mark().moment == put


def test_a_tick_peeks_into_each_queue_once(front):
    """However many jobs are due."""
    front.clock.ahead += timedelta(minutes=1)
    with tally_requests() as tally:
        for _ in range(10):
            front.fronts.read()
    assert sum(tally.counts().values()) == 1


def test_an_unknown_watermark_is_noted_once_and_counts_after_an_hour(front):
    """By a pointer: any process finds since when. The note goes as soon as the front says something."""
    front.fail(FRONT)
    assert front.mark().moment is None
    (note,) = front.notes()
    for _ in range(3):
        front.fronts.recall(front.notes())
        assert front.fronts.read().fronts.watermarks[front.queue.queue_name].moment is None
    assert [one.row_key for one in front.notes()] == [note.row_key]
    front.clock.ahead += UNKNOWN_COUNTS_AFTER
    other = front.process()
    other.recall(front.notes())
    assert other.read().fronts.watermarks[front.queue.queue_name].moment is not None
    assert front.notes() == [note]
    front.queue.clear_messages()
    other.recall(front.notes())
    assert front.notes() == []


def test_a_note_about_a_queue_that_is_no_longer_read_goes(front):
    """Somebody lowered the number of queues."""
    gone = front.pending.add(Pointer(FRONT_POINTER, front.clock.now(), "gone-99"))
    front.fronts.recall([gone])
    assert "gone-99" not in {one.id for one in front.pending.due(front.clock.now() + timedelta(days=1))}


def test_a_queue_that_does_not_answer_is_asked_once_and_nobody_is_taken_for_lost(front):
    """The first due job fails with the reason; the others wait for the next tick."""
    front.queue.delete_queue()
    front.clock.ahead += timedelta(minutes=1)
    with pytest.raises(StorageUnavailableError):
        front.fronts.read()
    assert front.fronts.read().fronts.watermarks[front.queue.queue_name].moment is None


def test_the_lane_is_read_for_its_own_jobs_only(front):
    """A job on it has its turn by the lane's front, whatever the other queues hold; for others it costs nothing."""
    lane = front.connections.queues.create_queue(f"front-{next(_numbers)}-lane")
    fronts = QueueFronts([front.queue], front.pending, front.clock, lane)
    ordinary = Job(job="j", content_hash="", workload="billing", accepted_at=front.clock.now())
    front.queue.send_message("waits")
    with tally_requests() as tally:
        assert list(fronts.of(ordinary).watermarks) == [front.queue.queue_name]
    assert sum(tally.counts().values()) == 1
    mine = replace(ordinary, lane=lane.queue_name)
    turn = Turn(front.clock.now() + timedelta(hours=1), 1)
    with tally_requests() as tally:
        assert fronts.of(mine).is_over("j", turn)
        assert fronts.of(mine).are_drained("j", turn)
    assert sum(tally.counts().values()) == 1
    assert not fronts.of(ordinary).watermarks[front.queue.queue_name].is_drained
    front.clock.ahead += timedelta(minutes=1)
    lane.send_message("waits")
    assert not fronts.of(mine).is_over("j", turn)
    # By trigger no task asks the lane: the job's chunks are put again on the work queues.
    assert list(front.process().of(mine).watermarks) == [front.queue.queue_name]


def test_the_note_of_an_unknown_lane_outlasts_the_readings_of_other_queues(front):
    """An hour later the silence decides, also on the lane."""
    front.fronts.lane, front.fronts.queues = front.queue, []
    job = Job(job="j", content_hash="", workload="billing", accepted_at=NOON, lane=front.queue.queue_name)
    front.fail(FRONT)
    marks = []
    for _ in range(2):
        front.fronts.recall(front.notes())
        marks.append(front.fronts.of(job).watermarks[front.queue.queue_name].moment)
        assert len(front.notes()) == 1
        front.clock.ahead += UNKNOWN_COUNTS_AFTER
    assert (marks[0], marks[1] is not None) == (None, True)
