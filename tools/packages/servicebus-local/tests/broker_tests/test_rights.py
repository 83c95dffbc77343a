"""Shared access policies: a client has the rights of the policy whose key it holds, and is refused the rest by name."""

from datetime import UTC, datetime, timedelta

import pytest
from azure.core.exceptions import ClientAuthenticationError
from azure.servicebus import ServiceBusClient, ServiceBusMessage, TransportType
from azure.servicebus.exceptions import ServiceBusAuthenticationError, ServiceBusAuthorizationError, ServiceBusError
from azure.servicebus.management import ServiceBusAdministrationClient, SqlRuleFilter
from servicebus_local.certificates import AUTHORITY
from servicebus_local.entities import Namespace, Queue, Subscription, Topic
from servicebus_local.launcher import Broker
from servicebus_local.tokens import Policy, Right

ENTITIES = Namespace((Queue("orders"), Queue("parcels")), (Topic("news", (Subscription("all"),)),))
SENDER = Policy("sender", "key-of-the-sender", {Right.SEND}, "orders")
LISTENER = Policy("listener", "key-of-the-listener", {Right.LISTEN}, "orders")
BOTH = Policy("both", "key-of-both", {Right.SEND, Right.LISTEN})
MANAGER = Policy("manager", "key-of-the-manager")
READER = Policy("reader", "key-of-the-reader", {Right.LISTEN}, "news")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Where the broker's certificates are."""
    return tmp_path_factory.mktemp("tls")


@pytest.fixture(scope="module")
def guarded(folder):
    """A broker with policies of the namespace and of single entities. Administration clients speak TLS alone."""
    with Broker.start(ENTITIES, tls=folder, sas_policies=(SENDER, LISTENER, BOTH, MANAGER, READER)) as running:
        yield running


@pytest.fixture
def client(guarded, folder):
    """A function that opens a client with the key of a policy."""
    opened = []

    def connect(policy):
        made = ServiceBusClient.from_connection_string(
            guarded.connection_string_of(policy),
            custom_endpoint_address=f"sb://127.0.0.1:{guarded.port}",
            connection_verify=str(folder / AUTHORITY),
            transport_type=TransportType.Amqp,
            retry_total=0,
        )
        opened.append(made)
        return made

    yield connect
    for one in opened:
        one.close()


@pytest.fixture
def administrator(guarded, folder):
    """A function that opens an administration client with the key of a policy."""

    def connect(policy):
        return ServiceBusAdministrationClient.from_connection_string(
            guarded.connection_string_of(policy).partition("EntityPath")[0],
            connection_verify=str(folder / AUTHORITY),
            retry_total=0,
        )

    return connect


def _send(client, queue="orders"):
    with client.get_queue_sender(queue) as sender:
        sender.send_messages(ServiceBusMessage("x"))


def _receive(client, queue="orders"):
    with client.get_queue_receiver(queue) as receiver:
        [message] = receiver.receive_messages(max_wait_time=60)
        receiver.complete_message(message)
        return str(message)


def test_each_policy_does_what_its_rights_are(client):
    """One sends and the other receives; neither does the other's work."""
    _send(client(SENDER))
    assert _receive(client(LISTENER)) == "x"
    with pytest.raises(ServiceBusAuthorizationError, match="'Listen' claim"):
        _receive(client(SENDER))
    with pytest.raises(ServiceBusAuthorizationError, match="'Send' claim"):
        _send(client(LISTENER))


def test_a_policy_of_an_entity_opens_no_other_one(client):
    """The service finds no policy of that name there, and calls the signature wrong."""
    connection = client(BOTH)
    _send(connection, "parcels")
    assert _receive(connection, "parcels") == "x"
    with pytest.raises((ServiceBusAuthenticationError, ValueError)):
        _send(client(SENDER), "parcels")


def test_a_message_is_scheduled_with_both_rights(client):
    """The service demands Listen for it too, as its table says."""
    due = datetime.now(UTC) + timedelta(hours=1)
    for policy in (SENDER, LISTENER, BOTH):
        with client(policy) as opened:
            if policy is BOTH:
                with opened.get_queue_sender("orders") as sender:
                    sender.cancel_scheduled_messages(sender.schedule_messages(ServiceBusMessage("later"), due))
            else:
                with pytest.raises(ServiceBusError, match="claim"), opened.get_queue_sender("orders") as sender:
                    sender.schedule_messages(ServiceBusMessage("later"), due)


def test_a_peek_and_a_lock_need_the_right_to_listen(client):
    """They go by the entity's own channel, which a sender may open."""
    _send(client(SENDER))
    with client(LISTENER).get_queue_receiver("orders") as receiver:
        assert len(receiver.peek_messages(1)) == 1
        [message] = receiver.receive_messages(max_wait_time=60)
        assert receiver.renew_message_lock(message) > datetime.now(UTC)
        receiver.complete_message(message)


def test_entities_are_managed_with_the_right_to_manage_alone(administrator):
    """They are listed, described, made and removed by it; another policy is refused by the claim that it lacks."""
    with administrator(MANAGER) as manager:
        manager.create_queue("another")
        assert {"another", "orders", "parcels"} == {one.name for one in manager.list_queues()}
        manager.delete_queue("another")
    with administrator(BOTH) as other, pytest.raises(ClientAuthenticationError) as refused:
        other.get_queue("orders")
    assert "'Manage' claim" in str(refused.value)


def test_rules_of_a_subscription_are_listed_by_who_listens_and_made_by_who_manages(client, administrator):
    """A policy of the topic reaches its subscriptions."""
    with client(READER).get_subscription_receiver("news", "all") as receiver:
        assert receiver.peek_messages(1) == []
    with administrator(MANAGER) as manager:
        manager.create_rule("news", "all", "red", filter=SqlRuleFilter("colour = 'red'"))
        assert "red" in [one.name for one in manager.list_rules("news", "all")]
