"""Sessions: one holder each, order inside, state, and who comes next."""

import asyncio
import datetime as dt

import pytest
from azure.servicebus import NEXT_AVAILABLE_SESSION, ServiceBusMessage
from azure.servicebus.exceptions import (
    OperationTimeoutError,
    ServiceBusError,
    SessionCannotBeLockedError,
    SessionLockLostError,
)
from broker_tests.clients import bodies, both_clients, left_in, take
from broker_tests.topology import BRISK_LOCK


def _messages(session, *texts):
    return [ServiceBusMessage(text, session_id=session) for text in texts]


@both_clients
async def test_a_named_session_gives_its_own_messages_in_order(bus, fresh):
    """A receiver of one session sees that session only, first in, first out."""
    queue = fresh("sessions")
    sender, receiver = await asyncio.gather(bus.sender(queue), bus.receiver(queue, session_id="a"))
    await sender.send_messages([*_messages("a", "a1"), *_messages("b", "b1"), *_messages("a", "a2", "a3")])
    assert await bodies(receiver, 3) == ["a1", "a2", "a3"]
    assert receiver.session.session_id == "a"
    left = receiver.session.locked_until_utc - dt.datetime.now(dt.UTC)
    assert dt.timedelta(seconds=20) < left <= dt.timedelta(seconds=60)
    assert await receiver.receive_messages(max_wait_time=0.2) == []


@both_clients
async def test_next_available_gives_each_receiver_a_session_of_its_own(bus, fresh):
    """Whoever asks for any session gets one that is free and has messages, the oldest first."""
    queue = fresh("sessions")
    sender = await bus.sender(queue)
    await sender.send_messages([*_messages("a", "a1"), *_messages("b", "b1")])
    one = await bus.receiver(queue, session_id=NEXT_AVAILABLE_SESSION, max_wait_time=60)
    two = await bus.receiver(queue, session_id=NEXT_AVAILABLE_SESSION, max_wait_time=60)
    assert [one.session.session_id, two.session.session_id] == ["a", "b"]
    assert [await bodies(one, 1), await bodies(two, 1)] == [["a1"], ["b1"]]


@both_clients
async def test_a_receiver_can_wait_for_a_session(bus, fresh):
    """The request stays open until a message for a free session comes."""
    queue = fresh("sessions")
    sender = await bus.sender(queue)
    waiting = asyncio.create_task(bus.receiver(queue, session_id=NEXT_AVAILABLE_SESSION, max_wait_time=60))
    await asyncio.sleep(0.7)
    assert not waiting.done()
    await sender.send_messages(_messages("late", "x"))
    receiver = await waiting
    assert receiver.session.session_id == "late"
    assert await bodies(receiver, 1) == ["x"]


@both_clients
async def test_no_free_session_is_a_timeout(bus, fresh):
    """Where every session is taken or empty, the wait ends with the service's timeout."""
    queue = fresh("sessions")
    sender = await bus.sender(queue)
    await sender.send_messages(_messages("taken", "x"))
    await bus.receiver(queue, session_id="taken")
    with pytest.raises(OperationTimeoutError):
        await bus.receiver(queue, session_id=NEXT_AVAILABLE_SESSION, max_wait_time=1)


@both_clients
async def test_a_held_session_cannot_be_taken(bus, fresh):
    """A session has one holder."""
    queue = fresh("sessions")
    await bus.receiver(queue, session_id="a")
    with pytest.raises(SessionCannotBeLockedError):
        await bus.receiver(queue, session_id="a")


@both_clients
async def test_a_closed_receiver_hands_its_session_on_uncounted(bus, fresh):
    """The next holder goes on where the last one stopped; closing is no failed attempt."""
    queue = fresh("sessions")
    sender, first = await asyncio.gather(bus.sender(queue), bus.receiver(queue, session_id="a"))
    await sender.send_messages(_messages("a", "1", "2", "3"))
    got = await take(first, 2)
    await first.complete_message(got[0])
    await bus.close_one(first)
    second = await bus.receiver(queue, session_id=NEXT_AVAILABLE_SESSION, max_wait_time=60)
    rest = await take(second, 2)
    assert [(str(message), message.delivery_count) for message in rest] == [("2", 0), ("3", 0)]


@both_clients
async def test_a_session_whose_lock_ends_goes_to_the_next_counted(brisk, fresh):
    """A holder that sleeps loses the session, is told so, and its messages count an attempt."""
    queue = fresh("sessions")
    sender, first = await asyncio.gather(brisk.sender(queue), brisk.receiver(queue, session_id="a"))
    await sender.send_messages(_messages("a", "1", "2"))
    [held] = await take(first, 1)
    second = await brisk.receiver(queue, session_id=NEXT_AVAILABLE_SESSION, max_wait_time=60)
    rest = await take(second, 2)
    assert [(str(message), message.delivery_count) for message in rest] == [("1", 1), ("2", 0)]
    with pytest.raises(SessionLockLostError):
        await first.complete_message(held)


@both_clients
async def test_an_ended_session_lock_closes_the_link(brisk, fresh):
    """The broker says that the lock is lost even to a client that does not watch the clock."""
    queue = fresh("sessions")
    sender, receiver = await asyncio.gather(brisk.sender(queue), brisk.receiver(queue, session_id="a"))
    await sender.send_messages(_messages("a", "1"))
    [held] = await take(receiver, 1)
    await asyncio.sleep(BRISK_LOCK + 0.3)
    receiver.inner._session._locked_until_utc = None
    with pytest.raises(SessionLockLostError):
        await receiver.complete_message(held)


@both_clients
async def test_a_renewed_session_stays(bus, fresh):
    """Renewal moves the end of the lock of a session, whose messages stay with their holder."""
    queue = fresh("sessions")
    sender, receiver = await asyncio.gather(bus.sender(queue), bus.receiver(queue, session_id="a"))
    await sender.send_messages(_messages("a", "1"))
    [held] = await take(receiver, 1)
    before = receiver.session.locked_until_utc
    for _ in range(2):
        await asyncio.sleep(0.1)
        after = await receiver.session.renew_lock()
        assert receiver.session.locked_until_utc == after > before
        before = after
    await receiver.complete_message(held)
    assert await left_in(receiver) == []


@both_clients
async def test_a_session_keeps_state_for_the_next_holder(bus, fresh):
    """State is bytes with the session, not with the receiver; None clears it."""
    queue = fresh("sessions")
    first = await bus.receiver(queue, session_id="a")
    assert await first.session.get_state() is None
    await first.session.set_state(b"at 17")
    await bus.close_one(first)
    second = await bus.receiver(queue, session_id="a")
    assert await second.session.get_state() == b"at 17"
    await second.session.set_state(None)
    assert await second.session.get_state() is None


@both_clients
async def test_abandoned_messages_keep_their_place_in_the_session(bus, fresh):
    """Order within a session survives an abandon."""
    queue = fresh("sessions")
    sender, receiver = await asyncio.gather(bus.sender(queue), bus.receiver(queue, session_id="a"))
    await sender.send_messages(_messages("a", "1", "2", "3"))
    [first] = await take(receiver, 1)
    await receiver.abandon_message(first)
    assert await bodies(receiver, 3) == ["1", "2", "3"]


@both_clients
async def test_a_receiver_peeks_into_its_own_session_only(bus, fresh):
    """Peeking in a session does not show the neighbours."""
    queue = fresh("sessions")
    sender, receiver = await asyncio.gather(bus.sender(queue), bus.receiver(queue, session_id="a"))
    await sender.send_messages([*_messages("b", "b1"), *_messages("a", "a1")])
    assert await left_in(receiver) == ["a1"]


@both_clients
async def test_dead_letters_of_a_session_queue_need_no_session(bus, fresh):
    """The dead-letter sub-queue is plain and keeps the session id on the message."""
    queue = fresh("sessions")
    sender, receiver, graves = await asyncio.gather(
        bus.sender(queue), bus.receiver(queue, session_id="a"), bus.receiver(queue, sub_queue="deadletter")
    )
    await sender.send_messages(_messages("a", "bad"))
    [message] = await take(receiver, 1)
    await receiver.dead_letter_message(message, reason="why")
    [dead] = await take(graves, 1)
    assert (dead.session_id, dead.dead_letter_reason) == ("a", "why")
    await graves.complete_message(dead)


@both_clients
async def test_many_sessions_are_held_at_once_and_none_by_two(bus, fresh):
    """Eight receivers that ask for any session get eight different ones."""
    queue = fresh("sessions")
    sender = await bus.sender(queue)
    await sender.send_messages([message for n in range(8) for message in _messages(f"s{n}", "1", "2")])
    receivers = await asyncio.gather(
        *(bus.receiver(queue, session_id=NEXT_AVAILABLE_SESSION, max_wait_time=60) for _ in range(8))
    )
    assert sorted(receiver.session.session_id for receiver in receivers) == [f"s{n}" for n in range(8)]
    got = await asyncio.gather(*(bodies(receiver, 2) for receiver in receivers))
    assert got == [["1", "2"]] * 8


@both_clients
async def test_the_id_of_a_session_is_a_text(bus, fresh):
    """The service refuses a number, which some client may give by mistake."""
    with pytest.raises(ServiceBusError, match="is a text"):
        await bus.receiver(fresh("sessions"), session_id=1)
