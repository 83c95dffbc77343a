"""Deferring: a message that waits for who knows its number, and the sessions that have any message."""

import asyncio
from datetime import UTC, datetime, timedelta

import pytest
from azure.servicebus import ServiceBusMessage, ServiceBusMessageState
from azure.servicebus.exceptions import MessageNotFoundError
from broker_tests.clients import both_clients, take


@both_clients
async def test_a_deferred_message_comes_by_its_number_only(bus, fresh):
    """Other receives pass it by, and its receiver may settle it like any other."""
    queue = fresh("plain")
    sender, receiver = await asyncio.gather(bus.sender(queue), bus.receiver(queue))
    await sender.send_messages(ServiceBusMessage("x"))
    [message] = await take(receiver, 1)
    await receiver.defer_message(message)
    assert await receiver.receive_messages(max_wait_time=0.3) == []
    [seen] = await receiver.peek_messages(sequence_number=1)
    assert seen.state == ServiceBusMessageState.DEFERRED
    [again] = await receiver.receive_deferred_messages([message.sequence_number])
    assert str(again) == "x"
    await receiver.complete_message(again)
    assert await receiver.peek_messages(sequence_number=1) == []


@both_clients
async def test_an_unknown_deferred_message_is_not_found_and_none_is_locked(bus, fresh):
    """All numbers of a request count, or none."""
    queue = fresh("plain")
    sender, receiver = await asyncio.gather(bus.sender(queue), bus.receiver(queue))
    await sender.send_messages(ServiceBusMessage("x"))
    [message] = await take(receiver, 1)
    await receiver.defer_message(message)
    with pytest.raises(MessageNotFoundError):
        await receiver.receive_deferred_messages([message.sequence_number, 99])
    assert len(await receiver.receive_deferred_messages([message.sequence_number])) == 1


@both_clients
async def test_an_empty_session_id_is_an_id(bus, fresh):
    """An empty session id is an id like any other."""
    queue = fresh("sessions")
    sender = await bus.sender(queue)
    await sender.send_messages(ServiceBusMessage("x", session_id=""))
    receiver = await bus.receiver(queue, session_id="")
    assert [str(message) for message in await take(receiver, 1)] == ["x"]


async def _sessions(bus, queue, **options):
    found = bus.client().list_queue_sessions(queue, **options)
    if bus.kind == "aio":
        return [session_id async for session_id in found]
    return await asyncio.to_thread(list, found)


@both_clients
async def test_sessions_with_messages_or_state_are_listed_in_pages(bus, fresh):
    """Other sessions are not listed; the client asks for a hundred at a time."""
    queue = fresh("sessions")
    sender = await bus.sender(queue)
    await sender.send_messages([ServiceBusMessage("x", session_id=f"{number:03}") for number in range(120)])
    receiver = await bus.receiver(queue, session_id="with state")
    await receiver.session.set_state("kept")
    assert await _sessions(bus, queue) == [*(f"{number:03}" for number in range(120)), "with state"]


@both_clients
async def test_sessions_are_listed_by_the_time_when_their_state_was_kept(bus, fresh):
    """A session with messages alone is not listed then, nor one whose state was cleared."""
    queue = fresh("sessions")
    sender, kept, cleared = await asyncio.gather(
        bus.sender(queue), bus.receiver(queue, session_id="kept"), bus.receiver(queue, session_id="cleared")
    )
    await sender.send_messages(ServiceBusMessage("x", session_id="waiting"))
    await kept.session.set_state("x")
    await cleared.session.set_state("x")
    await cleared.session.set_state(None)
    now = datetime.now(UTC)
    assert await _sessions(bus, queue, state_updated_after=now - timedelta(minutes=1)) == ["kept"]
    assert await _sessions(bus, queue, state_updated_after=now + timedelta(minutes=1)) == []
