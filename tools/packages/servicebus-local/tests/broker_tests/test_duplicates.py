"""Duplicate detection by message id."""

import asyncio
import datetime as dt

from azure.servicebus import ServiceBusMessage
from broker_tests.clients import bodies, both_clients, left_in


@both_clients
async def test_a_repeated_message_id_is_dropped(bus, fresh):
    """The sender is told that all is well, and the first copy stays, even once it has been taken."""
    queue = fresh("unique")
    sender, receiver = await asyncio.gather(bus.sender(queue), bus.receiver(queue))
    await sender.send_messages(ServiceBusMessage("first", message_id="1"))
    await sender.send_messages(ServiceBusMessage("again", message_id="1"))
    await sender.send_messages(ServiceBusMessage("other", message_id="2"))
    assert await bodies(receiver, 2) == ["first", "other"]
    await sender.send_messages(ServiceBusMessage("late", message_id="1"))
    assert await left_in(receiver) == []


@both_clients
async def test_messages_without_an_id_are_never_duplicates(bus, fresh):
    """There is nothing to compare."""
    queue = fresh("unique")
    sender, receiver = await asyncio.gather(bus.sender(queue), bus.receiver(queue))
    await sender.send_messages([ServiceBusMessage("x"), ServiceBusMessage("x")])
    assert await left_in(receiver) == ["x", "x"]


@both_clients
async def test_a_queue_without_detection_takes_repeats(bus, fresh):
    """Detection is a property of the entity."""
    queue = fresh("plain")
    sender, receiver = await asyncio.gather(bus.sender(queue), bus.receiver(queue))
    await sender.send_messages([ServiceBusMessage("x", message_id="1"), ServiceBusMessage("x", message_id="1")])
    assert await left_in(receiver) == ["x", "x"]


@both_clients
async def test_duplicates_are_found_within_a_batch_and_across_ways_to_send(bus, fresh):
    """A batch's own repeats count, and so do scheduled messages."""
    queue = fresh("unique")
    sender, receiver = await asyncio.gather(bus.sender(queue), bus.receiver(queue))
    later = dt.datetime.now(dt.UTC) + dt.timedelta(seconds=0.5)
    await sender.schedule_messages(ServiceBusMessage("scheduled", message_id="s"), later)
    await sender.send_messages([ServiceBusMessage(text, message_id=text[0]) for text in ("a1", "a2", "b1", "s2")])
    assert await bodies(receiver, 3) == ["a1", "b1", "scheduled"]


@both_clients
async def test_a_topic_drops_repeats_for_all_its_subscriptions(bus, fresh):
    """Detection happens before the copies are made."""
    topic = fresh("topic-unique")
    sender, one, two = await asyncio.gather(
        bus.sender(topic), bus.receiver(f"{topic}/everything"), bus.receiver(f"{topic}/red")
    )
    for text in ("first", "again"):
        await sender.send_messages(ServiceBusMessage(text, message_id="1", application_properties={"kind": "red"}))
    assert [await left_in(one), await left_in(two)] == [["first"], ["first"]]
