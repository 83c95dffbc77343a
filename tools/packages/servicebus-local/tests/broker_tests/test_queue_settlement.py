"""Messages through a queue, and what becomes of them."""

import asyncio
import datetime as dt
import uuid

import pytest
from azure.servicebus import ServiceBusMessage, ServiceBusReceiveMode
from azure.servicebus.exceptions import MessageLockLostError
from broker_tests.clients import bodies, both_clients, left_in, take


@both_clients
async def test_a_message_arrives_as_it_was_sent(bus, fresh):
    """Body, properties and application properties pass through unchanged, each with its type."""
    queue = fresh("plain")
    given = {b"text": "é", b"whole": 2**30, b"real": 0.5, b"flag": True, b"id": uuid.UUID(int=7)}
    sent = ServiceBusMessage(
        b"\x00body\xff",
        application_properties=dict(given),
        message_id="m-1",
        correlation_id="c-1",
        subject="s",
        content_type="application/json",
        to="somewhere",
        reply_to="back",
        partition_key="p",
    )
    sender, receiver = await asyncio.gather(bus.sender(queue), bus.receiver(queue))
    await sender.send_messages(sent)
    [message] = await take(receiver, 1)
    await receiver.complete_message(message)
    assert b"".join(message.body) == b"\x00body\xff"
    assert message.application_properties == {key: _as_read(value) for key, value in given.items()}
    assert (message.message_id, message.correlation_id, message.subject) == ("m-1", "c-1", "s")
    assert (message.content_type, message.to, message.reply_to) == ("application/json", "somewhere", "back")
    assert message.partition_key == "p"


def _as_read(value):
    return value.encode() if isinstance(value, str) else value


@both_clients
async def test_a_delivery_says_when_and_how_often(bus, fresh):
    """Sequence number, time of arrival, end of the lock and delivery count are those of the service."""
    queue = fresh("plain")
    sender, receiver = await asyncio.gather(bus.sender(queue), bus.receiver(queue))
    await sender.send_messages([ServiceBusMessage("a"), ServiceBusMessage("b")])
    first, second = await take(receiver, 2)
    now = dt.datetime.now(dt.UTC)
    assert [first.sequence_number, second.sequence_number] == [1, 2]
    assert [first.delivery_count, second.delivery_count] == [0, 0]
    assert abs(now - first.enqueued_time_utc) < dt.timedelta(seconds=30)
    assert dt.timedelta(seconds=20) < first.locked_until_utc - now < dt.timedelta(seconds=70)
    assert first.lock_token != second.lock_token
    await asyncio.gather(receiver.complete_message(first), receiver.complete_message(second))


@both_clients
async def test_a_completed_message_is_gone(bus, fresh):
    """What is completed is neither delivered nor seen again."""
    queue = fresh("plain")
    sender, receiver = await asyncio.gather(bus.sender(queue), bus.receiver(queue))
    await sender.send_messages(ServiceBusMessage("once"))
    assert await bodies(receiver, 1) == ["once"]
    assert await left_in(receiver) == []


@both_clients
async def test_an_abandoned_message_comes_back_counted_and_first(bus, fresh):
    """Abandoning returns a message to its place, one attempt older."""
    queue = fresh("plain")
    sender, receiver = await asyncio.gather(bus.sender(queue), bus.receiver(queue))
    await sender.send_messages([ServiceBusMessage("a"), ServiceBusMessage("b")])
    [message] = await take(receiver, 1)
    await receiver.abandon_message(message)
    again, other = await take(receiver, 2)
    assert [str(again), again.delivery_count, again.sequence_number] == ["a", 1, message.sequence_number]
    assert [str(other), other.delivery_count] == ["b", 0]
    assert again.lock_token != message.lock_token
    await asyncio.gather(receiver.complete_message(again), receiver.complete_message(other))


@both_clients
async def test_an_unsettled_message_comes_back_when_its_lock_ends(brisk, fresh):
    """A receiver that says nothing loses the message, and the attempt is counted."""
    queue = fresh("plain")
    sender, receiver = await asyncio.gather(brisk.sender(queue), brisk.receiver(queue))
    await sender.send_messages(ServiceBusMessage("slow"))
    [first] = await take(receiver, 1)
    [second] = await take(receiver, 1)
    assert [first.delivery_count, second.delivery_count] == [0, 1]
    with pytest.raises(MessageLockLostError):
        await receiver.complete_message(first)


@both_clients
async def test_the_broker_itself_refuses_a_lock_that_ended(brisk, fresh):
    """Where the client does not notice that its lock ended, the broker's answer tells it so."""
    queue = fresh("plain")
    sender, receiver = await asyncio.gather(brisk.sender(queue), brisk.receiver(queue))
    await sender.send_messages(ServiceBusMessage("slow"))
    [first] = await take(receiver, 1)
    await take(receiver, 1)
    # The client compares clocks before it asks; an expiry far ahead makes it ask.
    first._expiry = dt.datetime.now(dt.UTC) + dt.timedelta(hours=1)
    with pytest.raises(MessageLockLostError, match="lost"):
        await receiver.complete_message(first)


@both_clients
async def test_a_renewed_lock_lasts_longer(bus, fresh):
    """Renewal moves the end of the lock, and the message stays where it is.

    That a renewed lock holds past its first end is tested where the clock is given: a lock that is short enough to be
    waited out is shorter than a busy machine's pauses.
    """
    queue = fresh("plain")
    sender, receiver, other = await asyncio.gather(bus.sender(queue), bus.receiver(queue), bus.receiver(queue))
    await sender.send_messages(ServiceBusMessage("long"))
    [message] = await take(receiver, 1)
    before = message.locked_until_utc
    for _ in range(2):
        await asyncio.sleep(0.1)
        after = await receiver.renew_message_lock(message)
        assert message.locked_until_utc == after > before
        before = after
    assert await other.receive_messages(max_wait_time=0.3) == []
    await receiver.complete_message(message)


@both_clients
async def test_renewing_a_lost_lock_is_refused(bus, fresh):
    """A lock that was given up cannot be renewed."""
    queue = fresh("plain")
    sender, receiver = await asyncio.gather(bus.sender(queue), bus.receiver(queue))
    await sender.send_messages(ServiceBusMessage("x"))
    [message] = await take(receiver, 1)
    await receiver.complete_message(message)
    message._settled = False
    with pytest.raises(MessageLockLostError):
        await receiver.renew_message_lock(message)


@both_clients
async def test_receive_and_delete_takes_messages_out_at_once(bus, fresh):
    """In this mode nothing is left to settle."""
    queue = fresh("plain")
    mode = ServiceBusReceiveMode.RECEIVE_AND_DELETE
    sender, receiver = await asyncio.gather(bus.sender(queue), bus.receiver(queue, receive_mode=mode))
    await sender.send_messages([ServiceBusMessage("a"), ServiceBusMessage("b")])
    assert sorted(str(message) for message in await take(receiver, 2)) == ["a", "b"]
    assert await left_in(receiver) == []


@pytest.mark.parametrize(("status", "left", "dead"), [("completed", 0, 0), ("abandoned", 1, 0), ("suspended", 0, 1)])
@both_clients
async def test_a_message_can_be_settled_by_request(bus, fresh, status, left, dead):
    """A client whose link is gone settles by a management request with the lock token alone."""
    queue = fresh("plain")
    sender, receiver = await asyncio.gather(bus.sender(queue), bus.receiver(queue))
    await sender.send_messages(ServiceBusMessage("x"))
    [message] = await take(receiver, 1)
    settle = receiver._settle_message_via_mgmt_link
    await settle(status, [message.lock_token], dead_letter_details={"deadletter-reason": "because"})
    graves = await bus.receiver(queue, sub_queue="deadletter")
    assert len(await left_in(receiver)) == left
    assert len(await left_in(graves)) == dead
    with pytest.raises(MessageLockLostError):
        await settle(status, [message.lock_token])


@both_clients
async def test_a_receiver_gets_no_more_than_it_asks_for(bus, fresh):
    """Credit is honoured: what one receiver did not ask for is there for another."""
    queue = fresh("plain")
    sender, one, two = await asyncio.gather(bus.sender(queue), bus.receiver(queue), bus.receiver(queue))
    await sender.send_messages([ServiceBusMessage(str(n)) for n in range(5)])
    first = await take(one, 2)
    second = await take(two, 3)
    assert [str(message) for message in first] == ["0", "1"]
    assert [str(message) for message in second] == ["2", "3", "4"]


@both_clients
async def test_prefetched_messages_are_held_back_from_others(bus, fresh):
    """A receiver with prefetch holds that many and one more; the rest goes to others."""
    queue = fresh("plain")
    sender = await bus.sender(queue)
    await sender.send_messages([ServiceBusMessage(str(n)) for n in range(10)])
    greedy = await bus.receiver(queue, prefetch_count=5)
    first = await take(greedy, 1)
    other = await bus.receiver(queue)
    rest = await take(other, 10, wait=0.5)
    assert str(first[0]) == "0"
    assert [str(message) for message in rest] == ["6", "7", "8", "9"]


@both_clients
async def test_messages_that_a_closing_receiver_did_not_hand_on_come_back_uncounted(bus, fresh):
    """A receiver that closes releases its buffer at once, and no attempt is counted."""
    queue = fresh("plain")
    sender = await bus.sender(queue)
    await sender.send_messages([ServiceBusMessage(str(n)) for n in range(4)])
    greedy = await bus.receiver(queue, prefetch_count=10)
    [first] = await take(greedy, 1)
    await greedy.complete_message(first)
    await bus.close_one(greedy)
    rest = await take(await bus.receiver(queue), 3)
    assert [(str(message), message.delivery_count) for message in rest] == [("1", 0), ("2", 0), ("3", 0)]


@both_clients
async def test_competing_receivers_share_the_messages(bus, fresh):
    """Two receivers with credit are served in turn, and no message goes to both."""
    queue = fresh("plain")
    sender, one, two = await asyncio.gather(
        bus.sender(queue), bus.receiver(queue, prefetch_count=20), bus.receiver(queue, prefetch_count=20)
    )
    # Credit is given on the first receive.
    await asyncio.gather(one.receive_messages(max_wait_time=0.2), two.receive_messages(max_wait_time=0.2))
    await sender.send_messages([ServiceBusMessage(str(n)) for n in range(20)])
    got = [await bodies(receiver, 10) for receiver in (one, two)]
    assert [len(texts) for texts in got] == [10, 10]
    assert sorted(got[0] + got[1], key=int) == [str(n) for n in range(20)]
