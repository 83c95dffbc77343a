"""Faults: the broker restarts, a connection breaks, a client dies."""

import asyncio
import gc
import os
import signal
import socket
import subprocess
import sys

import pytest
import pytest_asyncio
from azure.servicebus import NEXT_AVAILABLE_SESSION, ServiceBusMessage
from broker_tests.clients import Clients, bodies, both_clients, left_in, take
from broker_tests.topology import bus
from servicebus_local.launcher import Broker

# The SDK forgets the socket of a connection that broke without closing it.
pytestmark = pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning")


@pytest.fixture(autouse=True)
def forgotten_sockets():
    """Collect what the SDK left behind while that is still allowed."""
    yield
    gc.collect()


@pytest_asyncio.fixture(loop_scope="session")
async def frail_broker(closing):
    """A broker that a test may break."""
    with await asyncio.to_thread(Broker.start, bus()) as running:
        yield running


@both_clients
async def test_sender_and_receiver_outlive_a_broken_connection(bus, fresh):
    """The client connects again by itself, and nothing is lost."""
    queue = fresh("plain")
    sender, receiver = await asyncio.gather(bus.sender(queue, retry_total=5), bus.receiver(queue, retry_total=5))
    await sender.send_messages(ServiceBusMessage("before"))
    assert await bodies(receiver, 1) == ["before"]
    for handler in (sender.inner, receiver.inner):
        _break(handler)
    await sender.send_messages(ServiceBusMessage("after"))
    assert await bodies(receiver, 1) == ["after"]


def _break(handler):
    """Close the socket under the client, as a lost network would."""
    transport = handler._handler._connection._transport
    if getattr(transport, "writer", None) is not None:
        transport.writer.transport.abort()
    else:
        transport.sock.shutdown(socket.SHUT_RDWR)


@both_clients
async def test_a_message_is_settled_after_its_link_broke(bus, fresh):
    """The lock outlives the link: the client settles by request on a new connection."""
    queue = fresh("plain")
    sender, receiver = await asyncio.gather(bus.sender(queue), bus.receiver(queue, retry_total=5))
    await sender.send_messages(ServiceBusMessage("x"))
    [message] = await take(receiver, 1)
    _break(receiver.inner)
    await receiver.complete_message(message)
    assert await left_in(receiver) == []


@both_clients
async def test_a_broken_connection_frees_its_session(bus, fresh):
    """The next receiver does not wait for the lock's end."""
    queue = fresh("sessions")
    sender, first = await asyncio.gather(bus.sender(queue), bus.receiver(queue, session_id="a"))
    await sender.send_messages([ServiceBusMessage("1", session_id="a")])
    assert len(await take(first, 1)) == 1
    _break(first.inner)
    second = await bus.receiver(queue, session_id=NEXT_AVAILABLE_SESSION, max_wait_time=60)
    assert await bodies(second, 1) == ["1"]


_HOLD = """
import sys
from azure.servicebus import ServiceBusClient
client = ServiceBusClient.from_connection_string(sys.argv[1])
receiver = client.get_queue_receiver(sys.argv[2], session_id="a")
receiver.__enter__()
print(len(receiver.receive_messages(max_wait_time=60)), flush=True)
sys.stdin.read()
"""


@both_clients
async def test_a_killed_client_s_session_goes_on_elsewhere(bus, fresh, broker):
    """A process that dies holding a session does not stop it."""
    queue = fresh("sessions")
    sender = await bus.sender(queue)
    await sender.send_messages([ServiceBusMessage("1", session_id="a")])
    holder = await asyncio.to_thread(
        subprocess.Popen,
        [sys.executable, "-c", _HOLD, broker.connection_string, queue],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    with holder:
        assert (await asyncio.to_thread(holder.stdout.readline)).strip() == b"1"
        os.kill(holder.pid, signal.SIGKILL)
    receiver = await bus.receiver(queue, session_id=NEXT_AVAILABLE_SESSION, max_wait_time=60)
    assert await bodies(receiver, 1) == ["1"]


async def test_clients_find_a_broker_that_came_back_empty(frail_broker, fresh):
    """After a crash and a restart on the same port, senders and receivers go on; what the broker held is lost."""
    ends = []
    for kind in ("sync", "aio"):
        clients, queue = Clients(frail_broker.connection_string, kind), fresh("plain")
        sender, receiver = await asyncio.gather(
            clients.sender(queue, retry_total=8), clients.receiver(queue, retry_total=8)
        )
        await sender.send_messages(ServiceBusMessage("lost"))
        ends.append((clients, sender, receiver))
    await asyncio.to_thread(frail_broker.kill)
    await asyncio.to_thread(frail_broker.restart)
    await asyncio.gather(*(sender.send_messages(ServiceBusMessage("after")) for _, sender, _ in ends))
    texts = await asyncio.gather(*(bodies(receiver, 1, wait=20) for _, _, receiver in ends))
    assert texts == [["after"], ["after"]]
    await asyncio.gather(*(clients.close() for clients, _, _ in ends))


@both_clients
async def test_many_connections_are_served_at_once(bus, fresh):
    """Thirty receivers with a connection each get one message each."""
    queue = fresh("plain")
    sender = await bus.sender(queue)
    receivers = await asyncio.gather(*(bus.receiver(queue) for _ in range(30)))
    waiting = [asyncio.create_task(receiver.receive_messages(max_wait_time=60)) for receiver in receivers]
    await sender.send_messages([ServiceBusMessage(str(number)) for number in range(30)])
    got = [message for messages in await asyncio.gather(*waiting) for message in messages]
    assert sorted(int(str(message)) for message in got) == list(range(30))
