"""A broker that was told a limit of operations a second for each entity."""

import asyncio

import pytest
from azure.servicebus import ServiceBusMessage
from azure.servicebus.exceptions import ServiceBusServerBusyError
from broker_tests.clients import both_clients, left_in, take
from broker_tests.topology import bus as entities
from servicebus_local.launcher import Broker

LIMIT = 3
#: More than any machine sends within the limit.
MANY = 2_000


@pytest.fixture(scope="session")
def brisk_broker():
    """A broker of a low limit, in the place of the one whose locks are short."""
    with Broker.start(entities(), operations_per_second=LIMIT) as running:
        yield running


async def _send_until_refused(sender):
    for number in range(MANY):
        try:
            await sender.send_messages(ServiceBusMessage(str(number)))
        except ServiceBusServerBusyError as busy:
            return number, str(busy)
    return MANY, ""


@both_clients
async def test_what_is_over_the_limit_is_refused_and_not_kept(brisk, fresh):
    """With the service's condition and code; what was accepted is there, what was refused is not."""
    queue = fresh("plain")
    sender, receiver = await asyncio.gather(brisk.sender(queue), brisk.receiver(queue))
    accepted, said = await _send_until_refused(sender)
    assert LIMIT <= accepted < MANY
    assert "50009" in said
    assert "com.microsoft:server-busy" in said
    messages = await take(receiver, accepted)
    assert [str(message) for message in messages] == [str(number) for number in range(accepted)]


@both_clients
async def test_one_entity_s_limit_is_not_another_s(brisk, fresh):
    """Each entity has operations of its own."""
    one, other = await asyncio.gather(brisk.sender(fresh("plain")), brisk.sender(fresh("plain")))
    await _send_until_refused(one)
    await other.send_messages(ServiceBusMessage("x"))


@both_clients
async def test_the_client_s_own_retries_get_everything_through(brisk, fresh):
    """It waits as long as it does for the service."""
    queue = fresh("plain")
    sender, receiver = await asyncio.gather(brisk.sender(queue, retry_total=3), brisk.receiver(queue))
    for number in range(LIMIT + 1):
        await sender.send_messages(ServiceBusMessage(str(number)))
    assert len(await take(receiver, LIMIT + 1)) == LIMIT + 1


@both_clients
async def test_a_batch_passes_whole_and_receiving_waits(brisk, fresh):
    """More messages than the limit come all the same, in as many seconds as they need."""
    queue = fresh("plain")
    sender, receiver = await asyncio.gather(brisk.sender(queue), brisk.receiver(queue))
    sent = [str(number) for number in range(5 * LIMIT)]
    await sender.send_messages([ServiceBusMessage(text) for text in sent])
    # The client ends a receive when nothing more comes for a moment, which may be in the next second.
    first = await receiver.receive_messages(max_message_count=len(sent), max_wait_time=60)
    assert 0 < len(first) < len(sent)
    rest = await take(receiver, len(sent) - len(first))
    assert [str(message) for message in (*first, *rest)] == sent


@both_clients
async def test_requests_are_refused_too(brisk, fresh):
    """A peek is an operation."""
    receiver = await brisk.receiver(fresh("plain"))

    async def peek_again_and_again():
        for _ in range(MANY):
            await left_in(receiver)

    with pytest.raises(ServiceBusServerBusyError):
        await peek_again_and_again()
