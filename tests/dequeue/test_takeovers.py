"""Messages that the host received, and that a process holds in its stead: on storage, with a host that is refused later."""

from dataclasses import replace

import pytest
from azure.core.exceptions import HttpResponseError

from shared.app import App, Stores, Takeovers
from shared.azure.connections import Connections
from shared.clock import SystemClock
from shared.dequeue.work_queue import MOST_DELIVERIES, WorkQueue
from shared.errors import StorageUnavailableError
from shared.messages import Delivery
from shared.settings import Settings
from shared.topology import GUARD
from shared.workloads.registry import Workloads
from tests.waiting import until

#: Seconds for which the host hides what it received.
LEASE = 600
#: Seconds for which a process does, in these tests.
HELD = 1


class KilledError(BaseException):
    """Ends the work as the end of its process does."""


class Trigger:
    """The host of one queue, and a process that takes over from it."""

    def __init__(self, queue, connections):
        self._queue, self._connections = queue, connections
        self.takeovers = Takeovers(queue=self._open, clock=SystemClock(), redeliver_after=lambda *_: 0)
        self.done = []

    def _open(self, name):
        return WorkQueue(self._connections.queues.get_queue_client(name), SystemClock(), HELD)

    def receive(self):
        """Receive a message as the host does, and return it as its function does."""
        (one,) = self._queue.receive_messages(max_messages=1, visibility_timeout=LEASE)
        return Delivery(
            queue=self._queue.queue_name,
            message_id=one.id,
            body=one.content.encode(),
            count=one.dequeue_count,
            receipt=one.pop_receipt,
        )

    def comes_again(self):
        """Wait until the message can be received, which is long before the host's lease is over."""
        return until(lambda: list(self._queue.receive_messages(max_messages=1, visibility_timeout=LEASE)))[0]

    def handle(self, delivery, work=None):
        """Do some work with it; return the number of requests."""
        before = self._connections.meter.tally.total()
        self.takeovers.handle(delivery, work or self.done.append)
        return self._connections.meter.tally.total() - before

    @property
    def depth(self):
        """How many messages there are, hidden ones too."""
        return self._queue.get_queue_properties().approximate_message_count

    def refuses_the_host(self, delivery):
        """Check whether what the host asks for after the function is refused as it expects."""
        asked = (
            lambda: self._queue.delete_message(delivery.message_id, delivery.receipt),
            lambda: self._queue.update_message(delivery.message_id, delivery.receipt, visibility_timeout=30),
        )
        return all(_status(one) in {400, 404} for one in asked)


def _status(ask):
    try:
        ask()
    except HttpResponseError as error:
        return error.status_code
    return 200


def killed(_delivery):
    """End as a process does that is killed."""
    raise KilledError


def failed(_delivery):
    """Fail."""
    raise ValueError("injected")


@pytest.fixture
def trigger(storage_queue, azurite):
    """A trigger of a queue of this test's own, with a message on it."""
    with Connections(azurite.connection_string) as connections:
        storage_queue.send_message("one")
        made = Trigger(storage_queue, connections)
        yield made
        made.takeovers.close()


def test_a_message_that_was_handled_is_gone_and_the_hosts_deletion_is_refused(trigger):
    """It costs two requests: the takeover, and the deletion in the host's stead."""
    delivery = trigger.receive()
    assert trigger.handle(delivery) == 2
    assert (trigger.done, trigger.depth) == ([delivery], 0)
    assert trigger.refuses_the_host(delivery)


def test_what_a_killed_process_had_comes_again_without_the_hosts_lease(trigger):
    """Neither the host's release nor its deletion comes any more, and its lease lasts for ten minutes."""
    with pytest.raises(KilledError):
        trigger.handle(trigger.receive(), killed)
    assert trigger.comes_again().dequeue_count == 2


def test_what_failed_is_given_back_and_the_hosts_release_changes_nothing(trigger):
    """The host must see the failure, and would show the message later by itself."""
    delivery = trigger.receive()
    with pytest.raises(ValueError, match="injected"):
        trigger.handle(delivery, failed)
    again = trigger.receive()
    assert (again.count, trigger.refuses_the_host(delivery), trigger.depth) == (2, True, 1)
    trigger.handle(again)
    assert trigger.depth == 0


def test_long_work_keeps_its_message(trigger):
    """Others never see it, however long it takes: it is renewed."""
    tally = trigger._connections.meter.tally

    def work(delivery):
        before = tally.total()
        until(lambda: tally.total() > before)
        assert list(trigger._queue.receive_messages(max_messages=1)) == []
        trigger.done.append(delivery)

    assert trigger.handle(trigger.receive(), work) >= 3
    assert (len(trigger.done), trigger.depth) == (1, 0)


def test_a_message_that_another_process_has_is_left_to_it(trigger):
    """Also where the reply of this process's own takeover was lost: it has no receipt, and the message comes again."""
    delivery = trigger.receive()
    trigger._open(delivery.queue).take_over(delivery)
    with pytest.raises(StorageUnavailableError, match="could not take over message"):
        trigger.handle(delivery)
    assert (trigger.done, trigger.depth) == ([], 1)
    assert trigger.comes_again().dequeue_count == 2


def test_the_last_delivery_stays_the_hosts(trigger):
    """It copies a message that fails to the poison queue and then deletes it: by its receipt, so that there is one copy."""
    last = replace(trigger.receive(), count=MOST_DELIVERIES)
    with pytest.raises(ValueError, match="injected"):
        trigger.handle(last, failed)
    trigger._queue.delete_message(last.message_id, last.receipt)
    assert trigger.depth == 0


@pytest.mark.parametrize(("verb", "queue"), [("accept", "submissions"), ("drain_woken", "wake")])
def test_each_verb_of_a_queue_trigger_takes_over(connections, verb, queue):
    """For the time of the topology; afterwards the message is gone without the host."""
    client = connections.queues.get_queue_client(queue)
    client.clear_messages()
    client.send_message('{"sluice": {"kind": "what is this"}}')
    settings = Settings.parse({**connections_settings(), "SLUICE_DEQUEUE": "trigger"})
    with App(connections, settings, Workloads([])) as app:
        trigger = Trigger(client, connections)
        getattr(app, verb)(trigger.receive())
        assert trigger.depth == 0
    assert Stores(connections).trigger_queue(queue)._visibility == GUARD.total_seconds()


def connections_settings():
    """Return the settings that an app must have."""
    return {"SluiceStorage": "here", "SluiceBus": "there", "SLUICE_TICK_SCHEDULE": "by hand"}
