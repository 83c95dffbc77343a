"""Dead letters that go to another entity: from where, with what, and which entities may name which."""

import asyncio
from datetime import timedelta

import pytest
from azure.servicebus import ServiceBusMessage
from broker_tests.clients import both_clients, left_in, take, until
from servicebus_local.entities import DeliveryRules, Namespace, Queue, Subscription, Topic
from servicebus_local.errors import StartError
from servicebus_local.launcher import Broker

FORWARDING = DeliveryRules(forward_dead_letters="graves")


@both_clients
async def test_a_dead_letter_arrives_at_the_queue_that_its_own_names(bus, fresh):
    """With its reason, what its sender wrote, and the name of where it died; nothing waits in the sub-queue."""
    queue = fresh("sending")
    sender, receiver, own, graves = await asyncio.gather(
        bus.sender(queue),
        bus.receiver(queue),
        bus.receiver(queue, sub_queue="deadletter"),
        bus.receiver(queue.replace("sending", "graves")),
    )
    await sender.send_messages(ServiceBusMessage("bad", application_properties={"kept": 1}, message_id="m"))
    [message] = await take(receiver, 1)
    await receiver.dead_letter_message(message, reason="unreadable", error_description="no such field")
    [dead] = await take(graves, 1)
    assert (str(dead), dead.message_id, dead.delivery_count) == ("bad", "m", 0)
    assert (dead.dead_letter_reason, dead.dead_letter_error_description) == ("unreadable", "no such field")
    assert dead.application_properties[b"kept"] == 1
    assert dead.dead_letter_source == queue
    assert await left_in(own) == []
    await graves.complete_message(dead)
    assert await left_in(graves) == []


@both_clients
async def test_a_message_abandoned_too_often_is_forwarded(bus, fresh):
    """It is a new message there: its attempts are counted from none, and it can be given back."""
    queue = fresh("sending")
    sender, receiver, graves = await asyncio.gather(
        bus.sender(queue), bus.receiver(queue), bus.receiver(queue.replace("sending", "graves"))
    )
    await sender.send_messages(ServiceBusMessage("poison"))
    for _ in range(3):
        [message] = await take(receiver, 1)
        await receiver.abandon_message(message)
    [dead] = await take(graves, 1)
    assert (dead.dead_letter_reason, dead.delivery_count) == ("MaxDeliveryCountExceeded", 0)
    await graves.abandon_message(dead)
    [again] = await take(graves, 1)
    assert (str(again), again.delivery_count) == ("poison", 1)
    await graves.complete_message(again)


@both_clients
async def test_an_expired_message_is_forwarded(bus, fresh):
    """Nobody has to receive from the queue that it expired in."""
    queue = fresh("sending")
    sender, graves = await asyncio.gather(bus.sender(queue), bus.receiver(queue.replace("sending", "graves")))
    await sender.send_messages(ServiceBusMessage("old", time_to_live=timedelta(seconds=1)))
    [dead] = await until(lambda: take(graves, 1))
    assert (str(dead), dead.dead_letter_reason) == ("old", "TTLExpiredException")
    await graves.complete_message(dead)


@both_clients
async def test_a_dead_letter_of_a_session_leaves_its_session(bus, fresh):
    """Its id travels with it; the queue of dead letters has no sessions, and those behind it go on."""
    queue = fresh("sending-sessions")
    sender, graves = await asyncio.gather(
        bus.sender(queue), bus.receiver(queue.replace("sending-sessions", "graves-of-sessions"))
    )
    await sender.send_messages([ServiceBusMessage(text, session_id="one") for text in ("bad", "good")])
    receiver = await bus.receiver(queue, session_id="one")
    bad, good = await take(receiver, 2)
    await receiver.dead_letter_message(bad, reason="why")
    await receiver.complete_message(good)
    [dead] = await take(graves, 1)
    assert (str(dead), dead.session_id, dead.dead_letter_source) == ("bad", "one", queue)
    await graves.complete_message(dead)


@both_clients
async def test_a_dead_letter_of_a_subscription_is_forwarded(bus, fresh):
    """Only that subscription's copy."""
    topic = fresh("topic")
    sender, receiver, other, graves = await asyncio.gather(
        bus.sender(topic),
        bus.receiver(f"{topic}/sending"),
        bus.receiver(f"{topic}/everything"),
        bus.receiver(f"graves-of-{topic}"),
    )
    await sender.send_messages(ServiceBusMessage("x", application_properties={"kind": "red"}))
    [message] = await take(receiver, 1)
    await receiver.dead_letter_message(message, reason="why")
    [dead] = await take(graves, 1)
    assert (str(dead), dead.dead_letter_reason) == ("x", "why")
    assert await left_in(other) == ["x"]
    await graves.complete_message(dead)


@both_clients
async def test_a_letter_that_is_sent_on_says_no_longer_where_it_died(bus, fresh):
    """The broker alone says it."""
    queue = fresh("sending")
    sender, receiver, graves = await asyncio.gather(
        bus.sender(queue), bus.receiver(queue), bus.receiver(queue.replace("sending", "graves"))
    )
    await sender.send_messages(ServiceBusMessage("x"))
    [message] = await take(receiver, 1)
    await receiver.dead_letter_message(message)
    [dead] = await take(graves, 1)
    await sender.send_messages(dead)
    [again] = await take(receiver, 1)
    assert (str(again), again.dead_letter_source) == ("x", None)
    await receiver.complete_message(again)
    await graves.complete_message(dead)


@pytest.mark.parametrize(
    ("namespace", "said"),
    [
        (Namespace((Queue("a", FORWARDING),)), "a forwards its dead letters to 'graves', which is no other"),
        (Namespace((Queue("graves", FORWARDING),)), "graves forwards its dead letters to 'graves', which is no other"),
        (
            Namespace(topics=(Topic("t", (Subscription("s", (), FORWARDING),)),)),
            "t/s forwards its dead letters to 'graves', which is no other",
        ),
        (
            Namespace((Queue("a", FORWARDING), Queue("graves", DeliveryRules(sessions=True)))),
            "the broker has no sessions for them",
        ),
    ],
)
def test_a_place_that_cannot_take_dead_letters_is_refused_at_the_start(namespace, said):
    """Azure refuses the entity; here the letters would be nowhere."""
    with pytest.raises(StartError, match=said):
        Broker.start(namespace)
