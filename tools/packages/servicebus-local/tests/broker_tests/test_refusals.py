"""What the broker does not do, it says."""

import asyncio

import pytest
from azure.servicebus import NEXT_AVAILABLE_SESSION, ServiceBusMessage
from azure.servicebus._common.mgmt_handlers import default
from azure.servicebus.exceptions import MessageSizeExceededError, MessagingEntityNotFoundError, ServiceBusError
from broker_tests.clients import both_clients, left_in
from proton import Terminus
from proton.reactor import LinkOption
from proton.utils import BlockingConnection, LinkDetached

_NOT_DONE = "stand-in does not do"


@pytest.mark.parametrize("name", ["nowhere", "topic-nowhere"])
@both_clients
async def test_sending_to_an_unknown_entity_names_it(bus, name):
    """The error is the service's, and the name is in it."""
    with pytest.raises(MessagingEntityNotFoundError, match=name):
        await bus.sender(name)


@pytest.mark.parametrize("name", ["nowhere", "topic-00/nobody"])
@both_clients
async def test_receiving_from_an_unknown_entity_names_it(bus, name):
    """The error is the service's, and the name is in it."""
    with pytest.raises(MessagingEntityNotFoundError, match=name.rsplit("/", maxsplit=1)[-1]):
        await bus.receiver(name)


@both_clients
async def test_receiving_from_a_topic_is_refused(bus):
    """A topic has no messages of its own."""
    client = bus.client()
    with pytest.raises(ServiceBusError, match="receive from one of its subscriptions"):
        await bus._opened(client.get_queue_receiver("topic-00"))


@both_clients
async def test_sending_to_a_subscription_is_refused(bus):
    """A subscription gets its messages from the topic."""
    client = bus.client()
    with pytest.raises(ServiceBusError, match="send to its queue or topic"):
        await bus._opened(client.get_queue_sender("topic-00/Subscriptions/everything"))


@both_clients
async def test_a_session_queue_needs_a_session(bus, fresh):
    """A receiver without a session cannot read a queue with sessions."""
    with pytest.raises(ServiceBusError, match="has sessions"):
        await bus.receiver(fresh("sessions"))


@pytest.mark.parametrize("session_id", ["a", NEXT_AVAILABLE_SESSION], ids=["named", "next"])
@both_clients
async def test_a_plain_queue_has_no_session(bus, fresh, session_id):
    """A receiver of a session cannot read a queue without sessions."""
    with pytest.raises(ServiceBusError, match="has no sessions"):
        await bus.receiver(fresh("plain"), session_id=session_id, max_wait_time=2)


@both_clients
async def test_a_message_without_a_session_is_refused_with_its_batch(bus, fresh):
    """A queue with sessions takes none without; nothing of the batch arrives."""
    queue = fresh("sessions")
    sender = await bus.sender(queue)
    with pytest.raises(ServiceBusError, match="session id was not set"):
        await sender.send_messages([ServiceBusMessage("ok", session_id="s"), ServiceBusMessage("none")])
    receiver = await bus.receiver(queue, session_id="s")
    assert await left_in(receiver) == []


@both_clients
async def test_too_large_a_message_is_refused_before_it_is_sent(bus, fresh):
    """The broker tells the client its limit, and the client keeps it."""
    sender = await bus.sender(fresh("plain"))
    with pytest.raises(MessageSizeExceededError):
        await sender.send_messages(ServiceBusMessage(b"x" * 300_000))


@both_clients
async def test_too_large_a_message_is_refused_by_the_broker_too(bus, fresh):
    """A client that does not know the limit gets the service's error."""
    queue = fresh("plain")
    sender, receiver = await asyncio.gather(bus.sender(queue), bus.receiver(queue))
    sender.inner._handler._link.remote_max_message_size = 0
    with pytest.raises(MessageSizeExceededError):
        await sender.send_messages(ServiceBusMessage(b"x" * 300_000))
    assert await left_in(receiver) == []


@both_clients
async def test_other_management_operations_are_refused_by_name(bus):
    """An operation that the broker does not know is not taken for done."""
    receiver = await bus.receiver("topic-00/everything")
    with pytest.raises(ServiceBusError, match=f"{_NOT_DONE} the operation .*batch-delete-messages"):
        await receiver._mgmt_request_response_with_retry(b"com.microsoft:batch-delete-messages", {"x": 1}, default)


@both_clients
async def test_a_queue_has_no_rules(bus, fresh):
    """Only a subscription has."""
    receiver = await bus.receiver(fresh("plain"))
    with pytest.raises(ServiceBusError, match="only a subscription has"):
        await receiver._mgmt_request_response_with_retry(b"com.microsoft:enumerate-rules", {"top": 1}, default)


class _Coordinator(LinkOption):
    def apply(self, link):
        link.target.type = Terminus.COORDINATOR


def test_transactions_are_refused(broker):
    """A link to a transaction coordinator, which this SDK never opens, is closed with the reason."""
    connection = BlockingConnection(f"127.0.0.1:{broker.port}", allowed_mechs="ANONYMOUS")
    with pytest.raises(LinkDetached, match="does not do transactions"):
        connection.create_sender(None, options=_Coordinator())
    connection.close()
