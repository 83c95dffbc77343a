"""Messages that nobody takes in time."""

import asyncio
import datetime as dt

from azure.servicebus import ServiceBusMessage
from broker_tests.clients import both_clients, left_in, take, until

_ONE_SECOND = dt.timedelta(seconds=1)


async def _empty(receiver):
    return not await left_in(receiver)


@both_clients
async def test_a_message_past_its_own_life_is_dropped(bus, fresh):
    """The sender's time to live ends a message; one without lives on."""
    queue = fresh("plain")
    sender, receiver = await asyncio.gather(bus.sender(queue), bus.receiver(queue))
    await sender.send_messages(ServiceBusMessage("short", time_to_live=_ONE_SECOND))
    await sender.send_messages(ServiceBusMessage("long"))
    assert await left_in(receiver) == ["short", "long"]

    async def only_long():
        return await left_in(receiver) == ["long"]

    assert await until(only_long)


@both_clients
async def test_a_message_past_the_entity_s_life_is_dropped(bus, fresh):
    """The entity's time to live bounds a longer one of the sender."""
    queue = fresh("brief")
    sender, receiver, graves = await asyncio.gather(
        bus.sender(queue), bus.receiver(queue), bus.receiver(queue, sub_queue="deadletter")
    )
    await sender.send_messages(ServiceBusMessage("x", time_to_live=dt.timedelta(hours=1)))
    assert await until(lambda: _empty(receiver))
    assert await left_in(graves) == []


@both_clients
async def test_an_expired_message_is_dead_lettered_where_the_entity_says_so(bus, fresh):
    """The reason is the service's."""
    queue = fresh("buried")
    sender, graves = await asyncio.gather(bus.sender(queue), bus.receiver(queue, sub_queue="deadletter"))
    await sender.send_messages(ServiceBusMessage("x"))
    [dead] = await take(graves, 1)
    assert (str(dead), dead.dead_letter_reason) == ("x", "TTLExpiredException")
    await graves.complete_message(dead)


@both_clients
async def test_a_locked_message_does_not_expire_before_it_comes_back(bus, fresh):
    """Who holds a message may still complete it after its life has ended."""
    queue = fresh("buried")
    sender, receiver, graves = await asyncio.gather(
        bus.sender(queue), bus.receiver(queue), bus.receiver(queue, sub_queue="deadletter")
    )
    await sender.send_messages([ServiceBusMessage("held"), ServiceBusMessage("returned")])
    held, returned = await take(receiver, 2)
    await asyncio.sleep(1.2)
    assert await left_in(graves) == []
    await receiver.abandon_message(returned)
    await receiver.complete_message(held)
    assert await until(lambda: left_in(graves)) == ["returned"]


@both_clients
async def test_a_delivered_message_tells_the_life_it_has(bus, fresh):
    """The time to live on a delivery is the smaller of the sender's and the entity's."""
    queue = fresh("brief")
    sender, receiver = await asyncio.gather(bus.sender(queue), bus.receiver(queue))
    await receiver.receive_messages(max_wait_time=0.1)
    await sender.send_messages(ServiceBusMessage("x", time_to_live=dt.timedelta(hours=1)))
    [message] = await take(receiver, 1)
    await receiver.complete_message(message)
    assert message.time_to_live == _ONE_SECOND
