"""Where the broker differs from Azure, as docs/appendix/stand-ins.md lists it, and no other test holds it."""

import asyncio
import datetime as dt

from azure.servicebus import ServiceBusClient, ServiceBusMessage, ServiceBusSubQueue
from broker_tests.clients import both_clients, take
from proton.utils import BlockingConnection
from servicebus_local import session_link


def test_without_a_key_any_token_will_do_and_none_too(broker, fresh):
    """Azure refuses both."""
    queue = fresh("plain")
    wrong = broker.connection_string.replace("SAS_KEY_VALUE", "another")
    assert wrong != broker.connection_string
    with ServiceBusClient.from_connection_string(wrong) as client, client.get_queue_sender(queue) as sender:
        sender.send_messages(ServiceBusMessage("x"))
    connection = BlockingConnection(f"127.0.0.1:{broker.port}", allowed_mechs="ANONYMOUS")
    assert connection.create_receiver(queue).receive(timeout=600)
    connection.close()


@both_clients
async def test_numbers_count_from_one_and_a_dead_message_keeps_its_own(bus, fresh):
    """Azure's have 64 bits, with gaps."""
    queue = fresh("plain")
    sender, receiver, dead = await asyncio.gather(
        bus.sender(queue), bus.receiver(queue), bus.receiver(queue, sub_queue="deadletter")
    )
    await sender.send_messages([ServiceBusMessage(str(n)) for n in range(3)])
    messages = await take(receiver, 3)
    assert [message.sequence_number for message in messages] == [1, 2, 3]
    await receiver.dead_letter_message(messages[1])
    [letter] = await take(dead, 1)
    assert letter.sequence_number == 2


@both_clients
async def test_no_letter_waits_to_be_forwarded(bus, fresh):
    """Azure keeps there what it could not send on; here such a target is refused at the start."""
    queue = fresh("thrice")
    transfer = await bus.receiver(queue, sub_queue=ServiceBusSubQueue.TRANSFER_DEAD_LETTER)
    sender, receiver = await asyncio.gather(bus.sender(queue), bus.receiver(queue))
    await sender.send_messages(ServiceBusMessage("x"))
    [message] = await take(receiver, 1)
    await receiver.dead_letter_message(message)
    assert await transfer.peek_messages(sequence_number=1) == []


def test_the_longest_wait_for_a_session_is_a_minute():
    """On Azure about 65 s."""
    assert session_link._LONGEST_WAIT == 60


@both_clients
async def test_a_repeat_that_is_scheduled_gets_number_0(bus, fresh):
    """Azure's number of it is not known."""
    queue = fresh("unique")
    sender = await bus.sender(queue)
    later = dt.datetime.now(dt.UTC) + dt.timedelta(minutes=5)
    [first] = await sender.schedule_messages(ServiceBusMessage("a", message_id="1"), later)
    assert first > 0
    assert await sender.schedule_messages(ServiceBusMessage("b", message_id="1"), later) == [0]


def test_a_message_of_a_queue_has_what_the_service_writes_and_no_more(broker, fresh):
    """No number of a topic, and no lock's token where nothing is locked: the annotations are there, and empty."""
    queue = fresh("plain")
    with ServiceBusClient.from_connection_string(broker.connection_string) as client:
        with client.get_queue_sender(queue) as sender:
            sender.send_messages(ServiceBusMessage("x"))
        with client.get_queue_receiver(queue, receive_mode="receiveanddelete") as receiver:
            (message,) = receiver.receive_messages(max_wait_time=60)
    assert message.enqueued_sequence_number is None
    assert message.raw_amqp_message.delivery_annotations == {}
