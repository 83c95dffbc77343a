"""A message by one HTTP request, as the service documents it: what comes out of the queue, and who is refused."""

import hmac
import time
from base64 import b64encode
from hashlib import sha256
from urllib.parse import quote_plus

import pytest
import requests
from azure.servicebus import ServiceBusClient
from servicebus_local.entities import DeliveryRules, Namespace, Queue, Topic
from servicebus_local.launcher import Broker
from servicebus_local.tokens import Policy, Right

ENTITIES = Namespace((Queue("orders"), Queue("halls", DeliveryRules(sessions=True))), (Topic("news", ()),))
SENDER = Policy("sender", "key-of-the-sender", {Right.SEND}, "orders")
LISTENER = Policy("listener", "key-of-the-listener", {Right.LISTEN}, "orders")


@pytest.fixture(scope="module")
def broker():
    """A broker that takes a message of anybody."""
    with Broker.start(ENTITIES) as running:
        yield running


@pytest.fixture(scope="module")
def guarded():
    """A broker with policies."""
    with Broker.start(ENTITIES, sas_policies=(SENDER, LISTENER)) as running:
        yield running


def post(broker, path="orders/messages", body=b"", **headers):
    """Send a request and return its answer."""
    return requests.post(f"http://127.0.0.1:{broker.port}/{path}", data=body, headers=headers, timeout=60)


def received(broker):
    """Take the messages of the queue."""
    client = ServiceBusClient.from_connection_string(broker.connection_string)
    with client, client.get_queue_receiver("orders", receive_mode="receiveanddelete") as receiver:
        return receiver.receive_messages(10, max_wait_time=10)


def token(policy, path="orders", key=None, expires=None):
    """Return a signature as a client makes it."""
    resource, until = quote_plus(f"http://127.0.0.1/{path}"), expires or int(time.time()) + 86_400
    signed = hmac.new((key or policy.key).encode(), f"{resource}\n{until}".encode(), sha256).digest()
    return f"SharedAccessSignature sr={resource}&sig={quote_plus(b64encode(signed))}&se={until}&skn={policy.name}"


def test_a_message_comes_out_as_it_was_posted(broker):
    """Its body, its type, an id, and a property for each header whose value stands in quotation marks."""
    answer = post(broker, "ORDERS/messages", b"12 seats \xff", queue='"submissions"', **{"Content-Type": "text/plain"})
    assert (answer.status_code, answer.text) == (201, "")
    (message,) = received(broker)
    assert b"".join(message.body) == b"12 seats \xff"
    assert message.application_properties == {b"queue": b"submissions"}
    assert (message.content_type, bool(message.message_id)) == ("text/plain", True)


def test_a_message_without_anything_is_one(broker):
    """As a hint is, which says all by its coming."""
    assert post(broker).status_code == 201
    (message,) = received(broker)
    assert (b"".join(message.body), message.application_properties) == (b"", None)


def test_a_receiver_that_waits_gets_it_at_once(broker):
    """Before the broker looks at its clock again."""
    client = ServiceBusClient.from_connection_string(broker.connection_string)
    with client, client.get_queue_receiver("orders", receive_mode="receiveanddelete") as receiver:
        receiver.peek_messages()
        assert post(broker, body=b"now").status_code == 201
        assert [str(one) for one in receiver.receive_messages(1, max_wait_time=60)] == ["now"]


@pytest.mark.parametrize(
    ("path", "size", "status"),
    [
        ("nowhere/messages", 0, 410),
        ("orders/messages", 300 * 1024, 403),
        ("halls/messages", 0, 400),
        ("orders", 0, 501),
    ],
)
def test_what_the_service_refuses_is_refused_by_its_status(broker, path, size, status):
    """No such entity, a message too large, one without a session where each has one, and no message at all."""
    assert post(broker, path, b"x" * size).status_code == status


def test_a_topic_takes_one_too(broker):
    """By the same path."""
    assert post(broker, "news/messages").status_code == 201


def test_properties_of_the_broker_are_refused_and_not_lost(broker):
    """Whoever sets a time to live or a session so learns that this stand-in does not know the header."""
    assert post(broker, BrokerProperties='{"TimeToLive": 5}').status_code == 501


@pytest.mark.parametrize(
    ("given", "status"),
    [
        ({}, 401),
        ({"Authorization": "Bearer x"}, 401),
        ({"Authorization": token(SENDER)}, 201),
        ({"Authorization": token(SENDER, key="another")}, 401),
        ({"Authorization": token(SENDER, expires=1_700_000_000)}, 401),
        ({"Authorization": token(LISTENER)}, 401),
        ({"Authorization": token(SENDER, "orders/deeper")}, 401),
    ],
)
def test_only_a_token_with_the_right_to_send_sends(guarded, given, status):
    """By a policy of the queue; nothing is asked of who holds no key where there are no policies."""
    assert post(guarded, **given).status_code == status
