"""The gate under a host: released by the signal, and by the timer when there is none."""

import urllib.request

import pytest
from functions_local_host.keys import HEADER
from functions_local_host.run_folder import read
from servicebus_local.launcher import Broker

from shared.app import Stores
from shared.azure.connections import Connections
from shared.gate.receipts import SeenBy
from shared.topology import topology
from tests.waiting import LIMIT, until
from tools.local.azurite.launcher import Azurite
from tools.local.provision import provision
from tools.local.stack import StackOptions, settings_for, start_host

#: Never within a test: the timer is fired by hand, as an administrator can.
NEVER = "0 0 0 1 1 *"


@pytest.fixture(scope="module")
def world(host_kind, worker):
    """A stack of its own, whose broker a test may stop, with the app on it."""
    if host_kind != "local":
        pytest.skip("firing the timer by hand needs the local host's keys")
    with Azurite.start() as azurite, Broker.start() as broker:
        settings = settings_for(azurite.connection_string, broker.connection_string)
        provision(azurite.connection_string, topology())
        host = start_host(StackOptions(worker=worker, instances=1), {**settings, "SLUICE_TICK_SCHEDULE": NEVER})
        with Connections.parse(settings) as connections:
            connections.queues.create_queue("dest").close()
            yield host, broker, connections
        # A host whose broker is gone takes ten seconds to close its links.
        broker.restart()
        host.stop()


def taken(connections, count):
    """Wait for so many messages on the destination queue and return them."""
    found = []
    with connections.queues.get_queue_client("dest") as queue:

        def take():
            for message in queue.receive_messages(visibility_timeout=600):
                found.append(message.content)
                queue.delete_message(message)
            return len(found) >= count

        until(take)
    return sorted(found)


def fire_tick(host):
    """Run the timer function now."""
    keys = read(host._folder.path / "keys.json") or {}
    request = urllib.request.Request(
        f"{host.base_url}/admin/functions/tick",
        data=b"{}",
        headers={HEADER: keys.get("master", ""), "Content-Type": "application/json"},
        method="POST",
    )
    with urllib.request.urlopen(request, timeout=LIMIT) as answer:
        assert answer.status == 202


def test_held_work_is_released_by_the_signal(world):
    """An opening is served by `release_gate` at once, without any tick, and leaves a receipt by push."""
    _host, _broker, connections = world
    house = Stores(connections)
    for name in ("a", "b", "c"):
        house.held_work.hold("by-signal", name, "dest", name)
    assert house.gate_operator.open("by-signal", by="ann").unsignalled == ""
    assert taken(connections, 3) == ["a", "b", "c"]
    receipts = until(lambda: house.receipts.of_epochs("by-signal", 1))
    assert [receipt.how for receipt in receipts] == [SeenBy.PUSH]
    assert list(house.held.summaries()) == []


def test_a_forged_signal_starts_nothing(world):
    """A signal for a closed gate is served by reading the flag: nothing comes, and the app goes on."""
    _host, _broker, connections = world
    house = Stores(connections)
    house.held_work.hold("forged", "x", "dest", "x")
    house.gate_operator._signals.send("forged", 7)
    house.held_work.hold("after-it", "y", "dest", "y")
    house.gate_operator.open("after-it", by="ann")
    assert taken(connections, 1) == ["y"]
    assert list(house.held.summaries()) == ["forged"]
    house.gate_operator.open("forged", by="ann")
    assert taken(connections, 1) == ["x"]


def test_with_the_broker_down_the_tick_serves_an_opening_and_a_pulse(world):
    """Nobody hears anything, and everything that an opening released starts at the next tick; what came later waits."""
    host, broker, connections = world
    house = Stores(connections)
    broker.kill()
    for gate in ("no-bus", "pulse"):
        house.held_work.hold(gate, gate, "dest", gate)
        assert "the next poll finds the same" in house.gate_operator.open(gate, by="ann").unsignalled
    house.gate_operator.close("pulse", by="ann")
    house.held_work.hold("pulse", "later", "dest", "later")
    fire_tick(host)
    assert taken(connections, 2) == ["no-bus", "pulse"]
    assert [entry.id for page in house.held.pages("pulse") for entry in page] == ["later"]
