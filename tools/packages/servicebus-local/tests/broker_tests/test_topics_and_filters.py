"""Topics: each subscription gets its own copy of what its filters let through."""

import asyncio

from azure.servicebus import ServiceBusMessage
from broker_tests.clients import bodies, both_clients, left_in, take


def _message(text, subject=None, **properties):
    return ServiceBusMessage(text, subject=subject, application_properties=properties)


_SENT = (
    _message("red", kind="red"),
    _message("blue", kind="blue"),
    _message("urgent", subject="urgent"),
    _message("urgent red", subject="urgent", kind="red"),
    _message("heavy red", kind="red", weight=11),
    _message("light red", kind="red", weight=10),
    _message("flagged", flag=False),
)


_EXPECTED = {
    "everything": ["red", "blue", "urgent", "urgent red", "heavy red", "light red", "flagged"],
    "red": ["red", "urgent red", "heavy red", "light red"],
    "red-or-blue": ["red", "blue", "urgent red", "heavy red", "light red"],
    "urgent": ["urgent", "urgent red"],
    "urgent-red": ["urgent red"],
    "heavy": ["heavy red"],
    "labelled": ["urgent", "urgent red", "flagged"],
    "none": [],
}


@both_clients
async def test_each_subscription_gets_what_its_filters_pass(bus, fresh):
    """Correlation filters by property and subject, alone and together, several at once, and SQL."""
    topic = fresh("topic")
    sender, *receivers = await asyncio.gather(
        bus.sender(topic), *(bus.receiver(f"{topic}/{subscription}") for subscription in _EXPECTED)
    )
    await sender.send_messages(list(_SENT))
    found = await asyncio.gather(*(left_in(receiver) for receiver in receivers))
    assert dict(zip(_EXPECTED, found, strict=True)) == _EXPECTED


@both_clients
async def test_each_subscription_settles_its_own_copy(bus, fresh):
    """Completing in one subscription takes nothing from another."""
    topic = fresh("topic")
    sender, one, two = await asyncio.gather(
        bus.sender(topic), bus.receiver(f"{topic}/everything"), bus.receiver(f"{topic}/red")
    )
    await sender.send_messages(_message("x", kind="red"))
    assert await bodies(one, 1) == ["x"]
    assert await left_in(one) == []
    assert await bodies(two, 1) == ["x"]


@both_clients
async def test_a_subscription_can_have_sessions(bus, fresh):
    """Sessions of a subscription work as those of a queue."""
    topic = fresh("topic")
    sender, receiver = await asyncio.gather(bus.sender(topic), bus.receiver(f"{topic}/in-sessions", session_id="s"))
    await sender.send_messages([ServiceBusMessage(text, session_id="s") for text in "ab"])
    assert await bodies(receiver, 2) == ["a", "b"]


@both_clients
async def test_a_message_without_a_session_is_dead_lettered_by_a_session_subscription(bus, fresh):
    """A topic cannot refuse it for one subscription's sake; it is not lost in silence."""
    topic = fresh("topic")
    sender, graves = await asyncio.gather(
        bus.sender(topic), bus.receiver(f"{topic}/in-sessions", sub_queue="deadletter")
    )
    await sender.send_messages(ServiceBusMessage("x"))
    [dead] = await take(graves, 1)
    assert dead.dead_letter_reason == "Session id is null."


@both_clients
async def test_the_number_given_by_the_topic_travels_along(bus, fresh):
    """A subscription numbers its own messages and keeps the topic's number beside."""
    topic = fresh("topic")
    sender, receiver = await asyncio.gather(bus.sender(topic), bus.receiver(f"{topic}/red"))
    await sender.send_messages([_message("blue", kind="blue"), _message("red", kind="red")])
    [message] = await take(receiver, 1)
    assert (message.sequence_number, message.enqueued_sequence_number) == (1, 2)
    await receiver.complete_message(message)
