"""Messages for later."""

import asyncio
import datetime as dt

import pytest
from azure.servicebus import ServiceBusMessage, ServiceBusMessageState
from azure.servicebus.exceptions import MessageNotFoundError
from broker_tests.clients import bodies, both_clients, left_in, take


def _in(seconds):
    return dt.datetime.now(dt.UTC) + dt.timedelta(seconds=seconds)


@both_clients
async def test_a_scheduled_message_comes_at_its_time(bus, fresh):
    """Not before, and after messages that were sent meanwhile."""
    queue = fresh("plain")
    sender, receiver = await asyncio.gather(bus.sender(queue), bus.receiver(queue))
    due = _in(1.5)
    [number] = await sender.schedule_messages(ServiceBusMessage("later"), due)
    await sender.send_messages(ServiceBusMessage("now"))
    assert await bodies(receiver, 1) == ["now"]
    [message] = await take(receiver, 1)
    assert (str(message), dt.datetime.now(dt.UTC) >= due) == ("later", True)
    assert message.sequence_number > number
    await receiver.complete_message(message)


@both_clients
async def test_a_list_is_scheduled_and_cancelled_by_its_numbers(bus, fresh):
    """Cancelled messages never come; the others do."""
    queue = fresh("plain")
    sender, receiver = await asyncio.gather(bus.sender(queue), bus.receiver(queue))
    numbers = await sender.schedule_messages([ServiceBusMessage(text) for text in "abc"], _in(1))
    assert len(set(numbers)) == 3
    await sender.cancel_scheduled_messages([numbers[0], numbers[2]])
    assert [str(message) for message in await take(receiver, 2, wait=2)] == ["b"]


@both_clients
async def test_cancelling_twice_is_refused(bus, fresh):
    """A number that no scheduled message has is named in the refusal."""
    queue = fresh("plain")
    sender = await bus.sender(queue)
    numbers = await sender.schedule_messages(ServiceBusMessage("x"), _in(60))
    await sender.cancel_scheduled_messages(numbers)
    with pytest.raises(MessageNotFoundError, match=str(numbers[0])):
        await sender.cancel_scheduled_messages(numbers)


@both_clients
async def test_a_message_sent_with_a_later_time_waits_for_it(bus, fresh):
    """The time may also stand on a message that is sent in the ordinary way."""
    queue = fresh("plain")
    sender, receiver = await asyncio.gather(bus.sender(queue), bus.receiver(queue))
    await sender.send_messages(ServiceBusMessage("later", scheduled_enqueue_time_utc=_in(1)))
    assert await receiver.receive_messages(max_wait_time=0.3) == []
    assert await bodies(receiver, 1) == ["later"]


@both_clients
async def test_a_scheduled_message_can_be_seen_before_its_time(bus, fresh):
    """Peeking shows it, marked as scheduled."""
    queue = fresh("plain")
    sender, receiver = await asyncio.gather(bus.sender(queue), bus.receiver(queue))
    [number] = await sender.schedule_messages(ServiceBusMessage("later"), _in(60))
    [seen] = await receiver.peek_messages(max_message_count=5)
    assert (str(seen), seen.sequence_number, seen.state) == ("later", number, ServiceBusMessageState.SCHEDULED)


@both_clients
async def test_a_topic_schedules_too(bus, fresh):
    """The message reaches the subscriptions at its time."""
    topic = fresh("topic")
    sender, receiver = await asyncio.gather(bus.sender(topic), bus.receiver(f"{topic}/everything"))
    await sender.schedule_messages(ServiceBusMessage("later"), _in(1))
    assert await left_in(receiver) == []
    assert await bodies(receiver, 1) == ["later"]
