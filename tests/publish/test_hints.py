"""A hint after each drop: over one connection, and no drop fails or waits long when the bus is away."""

import gc
import json
import os
import subprocess
import sys
import threading
import time

import pytest
from azure.servicebus import ServiceBusClient
from servicebus_local.launcher import Broker

from shared.azure.connections import Connections
from shared.azure.pushback import BriefSender
from shared.publish import Publisher
from shared.signals import BusHints, brief_hints
from shared.telemetry import events
from tests.azure.relay import Relay
from tests.dequeue.conftest import Shifted
from tests.publish.test_published_by_others import examples
from tests.waiting import take, until
from tools.local.paths import ROOT

# The SDK forgets the socket of a connection that broke without closing it.
pytestmark = pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning")
USAGE = [{"id": 1, "amount": "1"}]


@pytest.fixture(autouse=True)
def forgotten_sockets():
    """Collect what the SDK left behind while that is still allowed."""
    yield
    gc.collect()


@pytest.fixture(scope="module")
def bus():
    """A broker that no app listens to."""
    with Broker.start() as own:
        yield own


def hints_of(connections, failures, patience, now=time.monotonic):
    """Return the sender of a publisher, with another patience and clock; its failures go into a list."""
    return BriefSender(BusHints(connections), failures.append, patience=patience, now=now)


def hints_on(broker):
    """Take every hint from the broker and return the bodies."""
    client = ServiceBusClient.from_connection_string(broker.connection_string)
    with client, client.get_queue_receiver("hints", receive_mode="receiveanddelete") as receiver:
        found = []
        while page := take(receiver):
            found += [b"".join(one.body) for one in page]
        return found


def test_each_drop_is_followed_by_an_empty_hint_over_one_connection(bus, provisioned):
    """Behind the drop, so that who looks finds it; there is nothing in a hint that could be believed."""
    with Relay(bus) as relay, Connections(provisioned.connection_string, relay.connection_string) as connections:
        with Publisher.connect(connections) as publisher:
            sent = [publisher.submit(job=f"hinted-{n}", transactions=USAGE) for n in range(3)]
        assert relay.accepted == 1
    assert [one.is_hinted for one in sent] == [True] * 3
    assert hints_on(bus) == [b""] * 3


def test_the_connection_is_opened_beside_the_reading(bus, provisioned):
    """A new connection takes half a second; a publisher that reads meanwhile waits for none of it."""

    def slowly():
        # It ends, unless the connection waits for the last line.
        until(lambda: relay.accepted)
        yield USAGE[0]

    with (
        Relay(bus) as relay,
        Connections(provisioned.connection_string, relay.connection_string) as connections,
        Publisher.connect(connections) as publisher,
    ):
        assert publisher.submit(job="slowly", transactions=slowly()).is_hinted
    assert hints_on(bus) == [b""]


@pytest.mark.parametrize("has_bus", [True, False])
def test_a_publisher_without_a_bus_or_with_hints_off_sends_none(bus, provisioned, has_bus):
    """The drop is the same; nothing is told, for nothing is wrong."""
    with (
        Connections(provisioned.connection_string, bus.connection_string if has_bus else None) as connections,
        Publisher.connect(connections, hints=not has_bus) as publisher,
    ):
        assert publisher.submit(job="silent", transactions=USAGE).is_hinted is False
    assert hints_on(bus) == []


def test_a_dead_bus_fails_no_drop_and_is_told_once(provisioned, told):
    """Nobody listens at the address: each drop is in the queue, and only the first one tried the bus."""
    with Broker.start() as gone:
        address = gone.connection_string
    with (
        Connections(provisioned.connection_string, address) as connections,
        Publisher.connect(connections, "dead") as publisher,
    ):
        queue, payloads = connections.queues.create_queue("submissions-dead"), connections.blobs
        payloads.create_container("payloads-dead")
        sent = [publisher.submit(job=f"dead-{n}", transactions=USAGE) for n in range(20)]
        assert [one.is_hinted for one in sent] == [False] * 20
        assert len(queue.peek_messages(32)) == 20
    assert len(told(events.HINT_UNSENT)) == 1


def test_a_bus_that_hangs_holds_nobody_up_and_is_tried_again_later(bus, provisioned):
    """A caller waits its time once; while it is quiet nobody asks, and afterwards a hint goes through again."""
    clock, failures = Shifted(), []
    # From the name of the queue on, a connection hears nothing more from the broker until a second one sends it.
    with (
        Relay(bus, marker=b"hints", together=2) as relay,
        Connections(provisioned.connection_string, relay.connection_string) as connections,
        hints_of(connections, failures, 0.5, clock.monotonic) as sender,
    ):
        assert [sender.send() for _ in range(10)] == [False] * 10
        assert (relay.accepted, [type(one) for one in failures]) == (1, [TimeoutError])
        relay.cut()
        for _ in range(200):
            clock.by += 31
            if sender.send():
                break
        else:
            pytest.fail("no hint went through again")
    assert hints_on(bus)


def test_a_connection_that_broke_is_replaced(bus, provisioned):
    """One that was idle for too long is closed by the bus: the next hint goes over another one."""
    failures = []
    with (
        Relay(bus) as relay,
        Connections(provisioned.connection_string, relay.connection_string) as connections,
        hints_of(connections, failures, 30) as sender,
    ):
        assert sender.send()
        relay.refused = 1
        relay.cut()
        assert sender.send()
    assert (len(hints_on(bus)), failures) == (2, [])


def test_drops_of_many_threads_share_hints(bus, provisioned):
    """Each caller hears that a hint was sent after its drop; one hint may serve several of them."""
    answers, failures = [], []
    with (
        Connections(provisioned.connection_string, bus.connection_string) as connections,
        hints_of(connections, failures, 30) as sender,
    ):
        threads = [threading.Thread(target=lambda: answers.append(sender.send())) for _ in range(50)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert answers == [True] * 50
    assert 1 <= len(hints_on(bus)) <= 50


def test_the_lines_of_the_page_drop_and_hint(bus, provisioned, tmp_path):
    """A program that has the settings of the `sluice` command needs no more."""
    (tmp_path / "usage.ndjson").write_text(f"{json.dumps({'account': 'a', 'plan': 'basic', 'quantity': '1'})}\n")
    settings = {"SluiceStorage": provisioned.connection_string, "SluiceBus": bus.connection_string}
    subprocess.run(
        [sys.executable, "-c", examples("python")[1]],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT), **settings},
        check=True,
    )
    assert hints_on(bus) == [b""]


def test_a_closed_sender_sends_nothing_and_leaves_no_thread(bus, provisioned):
    """As a publisher that is done."""
    with Connections(provisioned.connection_string, bus.connection_string) as connections:
        sender = brief_hints(connections, "submissions-a")
        assert sender.send()
        sender.close()
        assert (sender.send(), len(hints_on(bus))) == (False, 1)
    assert "brief-sender" not in {thread.name for thread in threading.enumerate()}
