"""Looking without taking, and many messages at once."""

import asyncio

import pytest
from azure.servicebus import ServiceBusMessage
from azure.servicebus.exceptions import MessageSizeExceededError
from broker_tests.clients import bodies, both_clients, left_in, take


def _numbered(count):
    return [ServiceBusMessage(str(number)) for number in range(count)]


@both_clients
async def test_peeking_takes_nothing_and_goes_on_where_it_stopped(bus, fresh):
    """Each peek shows the next messages; all of them can still be received."""
    queue = fresh("plain")
    sender, receiver = await asyncio.gather(bus.sender(queue), bus.receiver(queue))
    await sender.send_messages(_numbered(5))
    assert [str(message) for message in await receiver.peek_messages(max_message_count=2)] == ["0", "1"]
    assert [str(message) for message in await receiver.peek_messages(max_message_count=9)] == ["2", "3", "4"]
    assert await bodies(receiver, 5) == ["0", "1", "2", "3", "4"]


@both_clients
async def test_peeking_starts_at_a_given_number(bus, fresh):
    """The sequence number says where."""
    queue = fresh("plain")
    sender, receiver = await asyncio.gather(bus.sender(queue), bus.receiver(queue))
    await sender.send_messages(_numbered(5))
    seen = await receiver.peek_messages(max_message_count=2, sequence_number=3)
    assert [(str(message), message.sequence_number) for message in seen] == [("2", 3), ("3", 4)]


@both_clients
async def test_peeking_shows_locked_messages_too(bus, fresh):
    """A message that someone holds is still in the queue."""
    queue = fresh("plain")
    sender, receiver = await asyncio.gather(bus.sender(queue), bus.receiver(queue))
    await sender.send_messages(ServiceBusMessage("held"))
    [message] = await take(receiver, 1)
    assert await left_in(receiver) == ["held"]
    await receiver.complete_message(message)


@both_clients
async def test_a_batch_arrives_as_single_messages(bus, fresh):
    """Each message of a batch keeps its own id, properties and order."""
    queue = fresh("plain")
    sender, receiver = await asyncio.gather(bus.sender(queue), bus.receiver(queue))
    batch = await sender.create_message_batch()
    for number in range(100):
        batch.add_message(
            ServiceBusMessage(f"body {number}", message_id=f"m{number}", application_properties={"n": number})
        )
    await sender.send_messages(batch)
    messages = await take(receiver, 100)
    assert [str(message) for message in messages] == [f"body {number}" for number in range(100)]
    assert [message.message_id for message in messages] == [f"m{number}" for number in range(100)]
    assert [message.application_properties[b"n"] for message in messages] == list(range(100))


@both_clients
async def test_a_batch_of_one_is_one_message(bus, fresh):
    """The envelope of a batch never reaches a receiver."""
    queue = fresh("plain")
    sender, receiver = await asyncio.gather(bus.sender(queue), bus.receiver(queue))
    await sender.send_messages([ServiceBusMessage("single", message_id="m", session_id="s")])
    [message] = await take(receiver, 1)
    assert (str(message), message.message_id, message.session_id) == ("single", "m", "s")


@both_clients
async def test_a_batch_is_filled_to_the_service_s_limit(bus, fresh):
    """A batch says when it is full, and a full one is taken whole."""
    queue = fresh("plain")
    sender, receiver = await asyncio.gather(bus.sender(queue), bus.receiver(queue))
    batch = await sender.create_message_batch()
    assert batch.max_size_in_bytes == 256 * 1024
    for _ in range(13):
        batch.add_message(ServiceBusMessage(b"x" * 20_000))
    with pytest.raises(MessageSizeExceededError):
        batch.add_message(ServiceBusMessage(b"x" * 20_000))
    await sender.send_messages(batch)
    assert len(await left_in(receiver)) == 13


@both_clients
async def test_a_large_message_passes_in_several_frames(bus, fresh):
    """A message of nearly the limit arrives byte for byte."""
    queue = fresh("plain")
    sender, receiver = await asyncio.gather(bus.sender(queue), bus.receiver(queue))
    body = bytes(range(256)) * 1000
    await sender.send_messages(ServiceBusMessage(body))
    [message] = await take(receiver, 1)
    assert b"".join(message.body) == body
    await receiver.complete_message(message)


@both_clients
async def test_a_body_that_starts_like_an_encoded_message_stays_a_body(bus, fresh):
    """Only data that is whole messages is taken for a batch."""
    queue = fresh("plain")
    sender, receiver = await asyncio.gather(bus.sender(queue), bus.receiver(queue))
    await sender.send_messages(ServiceBusMessage(b"\x00Su and then text"))
    [message] = await take(receiver, 1)
    assert b"".join(message.body) == b"\x00Su and then text"
    await receiver.complete_message(message)
