"""The broker, used by Microsoft's AMQP library for C: azure-servicebus hands its requests to it where it is told to.

The library chooses the mechanism of a token that comes later, as the client for .NET does, and has its own codec.
"""

import sys
from datetime import timedelta
from pathlib import Path

import pytest
from azure.servicebus import ServiceBusClient, ServiceBusMessage, ServiceBusSubQueue
from azure.servicebus.exceptions import ServiceBusError
from servicebus_local.certificates import AUTHORITY
from servicebus_local.entities import DeliveryRules, Namespace, Queue, Subscription, Topic
from servicebus_local.launcher import Broker

from tools.local.paths import C_LIBRARY, STAMP

KEY = "only-here"
SOON = 10

pytestmark = pytest.mark.skipif(
    sys.version_info >= (3, 13) or not (C_LIBRARY / STAMP).exists(),
    reason="Microsoft's AMQP library for C is not installed: `make others` does it up to Python 3.12",
)


@pytest.fixture(scope="module")
def secure(tmp_path_factory):
    """A broker over TLS, without which the library does not connect, and the file of its authority."""
    entities = Namespace(
        (
            Queue("plain", DeliveryRules(lock=timedelta(seconds=30))),
            Queue("thrice", DeliveryRules(max_delivery_count=3)),
            Queue("unique", duplicate_window=timedelta(minutes=1)),
            Queue("sessions", DeliveryRules(sessions=True)),
        ),
        (Topic("topic", (Subscription("all"),)),),
    )
    folder = tmp_path_factory.mktemp("tls")
    with Broker.start(entities, tls=Path(folder), sas_key=KEY) as running:
        yield running.port, str(folder / AUTHORITY)


@pytest.fixture
def connect(secure, monkeypatch):
    """A function that opens a client with a key. The library knows one port, which the broker cannot have."""
    port, authority = secure
    monkeypatch.syspath_prepend(str(C_LIBRARY))
    from uamqp.authentication.common import AMQPAuth  # noqa: PLC0415 - it is there only where this test runs

    wire = AMQPAuth.set_tlsio
    monkeypatch.setattr(AMQPAuth, "set_tlsio", lambda auth, host, _: wire(auth, host, port))

    def opened(key=KEY):
        told = f"Endpoint=sb://127.0.0.1/;SharedAccessKeyName=RootManageSharedAccessKey;SharedAccessKey={key}"
        return ServiceBusClient.from_connection_string(
            told, uamqp_transport=True, connection_verify=authority, retry_total=0
        )

    return opened


def _take(receiver, count):
    return receiver.receive_messages(count, max_wait_time=SOON)


def test_a_batch_arrives_as_its_messages(connect):
    """With their properties, an id where the sender left it out, and no delivery before."""
    with connect() as client, client.get_queue_sender("plain") as sender:
        sender.send_messages(
            [ServiceBusMessage("a", message_id="x", application_properties={"n": 1}), ServiceBusMessage("b")]
        )
        with client.get_queue_receiver("plain") as receiver:
            found = [message for _ in range(2) for message in _take(receiver, 1)]
            assert [(str(message), message.delivery_count) for message in found] == [("a", 0), ("b", 0)]
            assert (found[0].message_id, found[0].application_properties) == ("x", {b"n": 1})
            assert found[1].message_id
            for message in found:
                receiver.complete_message(message)


def test_abandoned_messages_count_and_end_as_dead_letters(connect):
    """With the service's reason."""
    with connect() as client, client.get_queue_sender("thrice") as sender:
        sender.send_messages(ServiceBusMessage("x"))
        with client.get_queue_receiver("thrice") as receiver:
            for count in range(3):
                (message,) = _take(receiver, 1)
                assert message.delivery_count == count
                receiver.abandon_message(message)
        with client.get_queue_receiver("thrice", sub_queue=ServiceBusSubQueue.DEAD_LETTER) as dead:
            (message,) = _take(dead, 1)
            assert message.dead_letter_reason == "MaxDeliveryCountExceeded"


def test_a_repeat_is_dropped(connect):
    """By its id, in the window."""
    with connect() as client, client.get_queue_sender("unique") as sender:
        for text in ("first", "again"):
            sender.send_messages(ServiceBusMessage(text, message_id="same"))
        sender.send_messages(ServiceBusMessage("last", message_id="other"))
        with client.get_queue_receiver("unique", receive_mode="receiveanddelete") as receiver:
            assert [str(message) for _ in range(2) for message in _take(receiver, 1)] == ["first", "last"]


def test_a_session_keeps_its_order_and_its_state(connect):
    """One by one, by its name."""
    with connect() as client, client.get_queue_sender("sessions") as sender:
        for number in range(5):
            sender.send_messages(ServiceBusMessage(str(number), session_id="one"))
        with client.get_queue_receiver("sessions", session_id="one") as receiver:
            receiver.session.set_state("half")
            assert receiver.session.get_state() == b"half"
            for number in range(5):
                (message,) = _take(receiver, 1)
                assert str(message) == str(number)
                receiver.complete_message(message)


def test_a_subscription_gets_what_its_topic_is_sent(connect):
    """And a scheduled message has a number."""
    with connect() as client, client.get_topic_sender("topic") as sender:
        sender.send_messages(ServiceBusMessage("told", subject="news"))
        with client.get_subscription_receiver("topic", "all", receive_mode="receiveanddelete") as receiver:
            (message,) = _take(receiver, 1)
            assert (str(message), message.subject) == ("told", "news")


def test_a_wrong_key_is_refused(connect):
    """By the broker, when the token is shown."""
    with connect("another") as client, pytest.raises(ServiceBusError), client.get_queue_sender("plain") as sender:
        sender.send_messages(ServiceBusMessage("x"))
