"""Messages that a process takes as soon as it has put them, ahead of what waits longer on the same queue."""

from functools import partial

import pytest

from shared.app import Stores
from shared.azure import Connections, send_on
from shared.dequeue import Drain, OwnPuts
from shared.dequeue.receiving import MOST_OWN, OWN_FOR
from shared.messages import Permit
from shared.pipeline.dispatch import PutAhead
from tests.dequeue.memory_queue import ManualClock
from tests.dequeue.memory_slots import MemoryBus, MemorySlots
from tests.dequeue.test_permits import fleet
from tests.faults.memory.storage import MemoryStorage
from tests.faults.plan import Plan

QUEUE = "work-00"


class Process:
    """One process with tasks, and what they have handled."""

    def __init__(self, connections, clock):
        self.stores, self.clock, self.handled = Stores(connections, clock=clock), clock, []
        self.own, self.waiting = OwnPuts(self.stores.trigger_queue, clock), 1
        send = partial(send_on, connections.queues)
        self.put_ahead = PutAhead(send, lambda: self.waiting, self.own.note)

    def put(self, *texts):
        """Put messages that it takes first."""
        for text in texts:
            self.put_ahead(QUEUE, text)

    def drain(self):
        """Follow a permit for one task."""
        drain = Drain(
            sources=self.stores.work_queues(1),
            handle=lambda delivery: self.handled.append(delivery.body.decode()),
            fleet=fleet(tasks=1, cap=1),
            slots=MemorySlots(self.clock),
            send=MemoryBus(),
            clock=self.clock,
            own=self.own,
        )
        drain.run(Permit(slot=0, depth=1, tasks=1))
        return self.handled


@pytest.fixture
def process():
    """A process, and two messages that wait."""
    storage, plan = MemoryStorage(), Plan()
    with Connections(storage.connection_string, transport=partial(storage.transport, plan)) as connections:
        made = Process(connections, ManualClock())
        made.plan = plan
        made.stores.put(QUEUE, "a")
        made.stores.put(QUEUE, "b")
        yield made


def test_what_a_process_has_put_is_taken_before_what_waits_longer(process):
    """The first of them first, each by one request, and each once."""
    process.put("c", "d")
    assert process.drain() == ["c", "d", "a", "b"]
    assert process.stores.work_queues(1)[0].depth() == 0


def test_what_another_process_has_received_is_left_to_it(process):
    """The receipt of the put is not good any more."""
    process.put("c")
    taken, before = process.stores.work_queues(1)[0].receive(32), process.plan.count
    assert [process.own.take(), process.own.take(), process.plan.count - before] == [None, None, 1]
    taken[2].show_in(0)
    assert process.drain() == ["c"]


def test_what_no_task_takes_has_its_place_in_the_queue(process):
    """Its process has ended, has no task, or has put more since than it remembers."""
    process.put("c", *map(str, range(MOST_OWN)))
    process.own = OwnPuts(process.stores.trigger_queue, process.clock)
    assert process.drain() == ["a", "b", "c", *map(str, range(MOST_OWN))]


def test_a_message_is_remembered_for_seconds_only(process):
    """And the last ones alone. To take what is not there any more costs a request each."""
    process.put("c")
    process.clock.advance(OWN_FOR)
    process.put(*map(str, range(MOST_OWN + 1)))
    assert process.drain() == [*map(str, range(1, MOST_OWN + 1)), "a", "b", "c", "0"]


@pytest.mark.parametrize("waiting", [0, 3])
def test_a_finish_is_taken_first_while_chunks_wait_for_their_turn(process, waiting):
    """Else the queue is short, and a receive takes several messages for one request."""
    process.waiting = waiting
    process.put_ahead(QUEUE, "finish")
    assert process.drain() == (["finish", "a", "b"] if waiting else ["a", "b", "finish"])
