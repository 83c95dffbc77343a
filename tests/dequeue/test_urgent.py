"""The urgent lane as tasks ask it: first, while it may hold something, and with no request otherwise."""

import pytest

from shared.dequeue.drain import Drain, Drained
from shared.dequeue.receiving import ASKED_EVERY, UrgentLane
from shared.messages import Permit
from tests.dequeue.memory_queue import ManualClock, MemoryQueue
from tests.dequeue.memory_slots import MemoryBus, MemorySlots
from tests.dequeue.test_permits import fleet


class Stage:
    """A work queue and the lane, drained by one task."""

    def __init__(self):
        self.clock, self.handled, self.may_hold = ManualClock(), [], True
        self.queue, self.lane = MemoryQueue(self.clock), MemoryQueue(self.clock, name="work-urgent")
        self.slots, self.then = MemorySlots(self.clock), {}

    def handle(self, delivery):
        """Note it, and do what a test wants to happen meanwhile."""
        self.handled.append(delivery.body)
        self.then.pop(delivery.body, lambda: None)()

    def drain(self, **permit):
        """Follow a permit for one task."""
        drain = Drain(
            sources=[self.queue],
            handle=self.handle,
            fleet=fleet(tasks=1, cap=1),
            slots=self.slots,
            send=MemoryBus(),
            clock=self.clock,
            urgent=UrgentLane(self.lane, lambda: self.may_hold, self.clock.monotonic),
        )
        return drain.run(Permit(slot=0, depth=1, tasks=1, **permit))


@pytest.fixture
def stage():
    """Nothing is queued yet."""
    return Stage()


def test_the_lane_is_emptied_before_any_other_queue(stage):
    """What overtakes is done first, although it came last."""
    stage.queue.put(b"a", b"b")
    stage.lane.put(b"urgent 1", b"urgent 2")
    assert stage.drain() is Drained.GAVE_UP
    assert [body[:1] for body in stage.handled] == [b"u", b"u", b"a", b"b"]


def test_what_comes_meanwhile_is_next(stage):
    """A task asks before each receive, at most each two seconds while the lane is empty."""
    stage.queue.put(b"a", b"b", b"c")
    stage.then[b"a"] = lambda: (stage.clock.advance(ASKED_EVERY), stage.lane.put(b"urgent"))
    stage.drain()
    assert stage.handled == [b"a", b"urgent", b"b", b"c"]


def test_no_request_is_spent_on_a_lane_that_holds_nothing(stage):
    """Neither a receive nor a look at the end."""
    stage.may_hold = False
    stage.queue.put(b"a")
    stage.lane.put(b"never said")
    stage.drain()
    assert (stage.handled, stage.lane.requests) == ([b"a"], [])


def test_an_empty_lane_costs_one_receive_in_two_seconds(stage):
    """However many messages the other queues have."""
    stage.queue.put(*[b"%d" % n for n in range(20)])
    for number in range(20):
        stage.then[b"%d" % number] = lambda: stage.clock.advance(ASKED_EVERY / 4)
    stage.drain()
    assert len(stage.handled) == 20
    assert 1 <= len(stage.lane.receives) <= 7


def test_a_drain_that_found_all_queues_empty_looks_at_the_lane_again(stage):
    """Put after its last receive of the lane and before the release of its slot: the same drain handles it."""
    stage.queue.put(b"a")
    release = stage.slots.lease

    def lease(slot):
        taken = release(slot)
        give_back = taken.release
        taken.release = lambda: (give_back(), stage.handled.count(b"urgent") or stage.lane.put(b"urgent"))
        stage.clock.advance(ASKED_EVERY)
        return taken

    stage.slots.lease = lease
    assert stage.drain() is Drained.GAVE_UP
    assert stage.handled == [b"a", b"urgent"]
