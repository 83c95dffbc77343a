"""Dead-letter sub-queues: how messages get there, with which reason, and what can be done with them."""

import asyncio

import pytest
from azure.servicebus import ServiceBusMessage
from azure.servicebus.exceptions import ServiceBusError
from broker_tests.clients import bodies, both_clients, left_in, take, until


@both_clients
async def test_a_message_is_dead_lettered_with_reason_and_description(bus, fresh):
    """The receiver's reason and description travel as application properties, beside the sender's own."""
    queue = fresh("plain")
    sender, receiver, graves = await asyncio.gather(
        bus.sender(queue), bus.receiver(queue), bus.receiver(queue, sub_queue="deadletter")
    )
    await sender.send_messages(ServiceBusMessage("bad", application_properties={"kept": 1}, message_id="m"))
    [message] = await take(receiver, 1)
    await receiver.dead_letter_message(message, reason="unreadable", error_description="no such field")
    [dead] = await take(graves, 1)
    assert (str(dead), dead.message_id) == ("bad", "m")
    assert (dead.dead_letter_reason, dead.dead_letter_error_description) == ("unreadable", "no such field")
    assert dead.application_properties[b"kept"] == 1
    assert await left_in(receiver) == []
    await graves.complete_message(dead)
    assert await left_in(graves) == []


@both_clients
async def test_a_message_is_dead_lettered_without_a_reason(bus, fresh):
    """Reason and description are optional."""
    queue = fresh("plain")
    sender, receiver, graves = await asyncio.gather(
        bus.sender(queue), bus.receiver(queue), bus.receiver(queue, sub_queue="deadletter")
    )
    await sender.send_messages(ServiceBusMessage("bad"))
    [message] = await take(receiver, 1)
    await receiver.dead_letter_message(message)
    [dead] = await take(graves, 1)
    assert (str(dead), dead.dead_letter_reason) == ("bad", None)
    await graves.complete_message(dead)


@both_clients
async def test_a_message_abandoned_too_often_is_dead_lettered(bus, fresh):
    """After the entity's number of deliveries the message moves, with the service's reason."""
    queue = fresh("thrice")
    sender, receiver, graves = await asyncio.gather(
        bus.sender(queue), bus.receiver(queue), bus.receiver(queue, sub_queue="deadletter")
    )
    await sender.send_messages(ServiceBusMessage("poison"))
    counts = []
    for _ in range(3):
        [message] = await take(receiver, 1)
        counts.append(message.delivery_count)
        await receiver.abandon_message(message)
    [dead] = await take(graves, 1)
    assert counts == [0, 1, 2]
    assert (str(dead), dead.dead_letter_reason) == ("poison", "MaxDeliveryCountExceeded")
    assert "3 delivery attempts" in dead.dead_letter_error_description
    await graves.complete_message(dead)


@both_clients
async def test_a_message_whose_lock_ends_too_often_is_dead_lettered(brisk, fresh):
    """Receivers that die count as deliveries too."""
    queue = fresh("thrice")
    sender, receiver, graves = await asyncio.gather(
        brisk.sender(queue), brisk.receiver(queue), brisk.receiver(queue, sub_queue="deadletter")
    )
    await sender.send_messages(ServiceBusMessage("poison"))
    for _ in range(3):
        assert len(await take(receiver, 1)) == 1
    [dead] = await take(graves, 1)
    assert dead.dead_letter_reason == "MaxDeliveryCountExceeded"


@both_clients
async def test_a_subscription_has_a_dead_letter_queue_of_its_own(bus, fresh):
    """What one subscription buries is still alive in another."""
    topic = fresh("topic")
    sender, receiver, graves, other = await asyncio.gather(
        bus.sender(topic),
        bus.receiver(f"{topic}/everything"),
        bus.receiver(f"{topic}/everything", sub_queue="deadletter"),
        bus.receiver(f"{topic}/red"),
    )
    await sender.send_messages(ServiceBusMessage("x", application_properties={"kind": "red"}))
    [message] = await take(receiver, 1)
    await receiver.dead_letter_message(message, reason="why")
    assert [dead.dead_letter_reason for dead in await take(graves, 1)] == ["why"]
    assert await bodies(other, 1) == ["x"]


@both_clients
async def test_a_dead_message_can_be_sent_again(bus, fresh):
    """Repair: the dead message's content goes back to the queue and the dead one is completed."""
    queue = fresh("plain")
    sender, receiver, graves = await asyncio.gather(
        bus.sender(queue), bus.receiver(queue), bus.receiver(queue, sub_queue="deadletter")
    )
    await sender.send_messages(ServiceBusMessage("x"))
    [message] = await take(receiver, 1)
    await receiver.dead_letter_message(message, reason="first")
    [dead] = await take(graves, 1)
    repaired = ServiceBusMessage(b"".join(dead.body), application_properties=dead.application_properties)
    await sender.send_messages(repaired)
    await graves.complete_message(dead)
    [again] = await take(receiver, 1)
    await receiver.dead_letter_message(again, reason="second")
    [dead] = await take(graves, 1)
    assert (str(dead), dead.dead_letter_reason) == ("x", "second")
    await graves.complete_message(dead)


@both_clients
async def test_a_dead_message_cannot_be_dead_lettered_again(bus, fresh):
    """A dead-letter sub-queue has none of its own; the refusal says so."""
    queue = fresh("plain")
    sender, receiver, graves = await asyncio.gather(
        bus.sender(queue), bus.receiver(queue), bus.receiver(queue, sub_queue="deadletter")
    )
    await sender.send_messages(ServiceBusMessage("x"))
    [message] = await take(receiver, 1)
    await receiver.dead_letter_message(message)
    [dead] = await take(graves, 1)
    with pytest.raises(ServiceBusError, match="dead-letter sub-queue"):
        await graves.dead_letter_message(dead)


@both_clients
async def test_an_abandoned_dead_message_stays_dead(bus, fresh):
    """A dead-letter sub-queue never runs out of attempts."""
    queue = fresh("thrice")
    sender, receiver, graves = await asyncio.gather(
        bus.sender(queue), bus.receiver(queue), bus.receiver(queue, sub_queue="deadletter")
    )
    await sender.send_messages(ServiceBusMessage("x"))
    [message] = await take(receiver, 1)
    await receiver.dead_letter_message(message)
    for _ in range(4):
        [dead] = await take(graves, 1)
        await graves.abandon_message(dead)
    assert await until(lambda: left_in(graves)) == ["x"]
