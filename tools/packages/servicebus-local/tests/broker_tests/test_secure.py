"""TLS, WebSockets and tokens: what a broker can be told to ask of its clients."""

import socket
import ssl
from datetime import UTC, datetime, timedelta

import pytest
from azure.core.credentials import AzureSasCredential
from azure.servicebus import ServiceBusClient, ServiceBusMessage, TransportType
from azure.servicebus._pyamqp.utils import generate_sas_token
from azure.servicebus.aio import ServiceBusClient as AioServiceBusClient
from azure.servicebus.exceptions import ServiceBusAuthenticationError, ServiceBusError
from proton.utils import BlockingConnection, LinkDetached
from servicebus_local.certificates import AUTHORITY, tls_context
from servicebus_local.entities import Namespace, Queue
from servicebus_local.launcher import Broker
from servicebus_local.tokens import POLICY

ENTITIES = Namespace((Queue("orders"), Queue("orders-too")))
KEY = "a+key/of=this test"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Where the broker's certificates are."""
    return tmp_path_factory.mktemp("tls")


@pytest.fixture(scope="module")
def secure(folder):
    """A broker that takes TLS too, and tokens of its key only."""
    with Broker.start(ENTITIES, tls=folder, sas_key=KEY) as running:
        yield running


@pytest.fixture(scope="module")
def guarded():
    """A broker without TLS that takes tokens of its key only."""
    with Broker.start(ENTITIES, sas_key=KEY) as running:
        yield running


def _there(broker, folder, transport=TransportType.Amqp):
    return {
        "custom_endpoint_address": f"sb://127.0.0.1:{broker.port}",
        "connection_verify": str(folder / AUTHORITY),
        "transport_type": transport,
        "retry_total": 0,
    }


def _there_and_back(client, queue="orders"):
    with client, client.get_queue_sender(queue) as sender, client.get_queue_receiver(queue) as receiver:
        sender.send_messages(ServiceBusMessage("x" * 100_000))
        [message] = receiver.receive_messages(max_wait_time=60)
        receiver.complete_message(message)
        return len(str(message))


async def _there_and_back_aio(client, size=100_000):
    async with client, client.get_queue_sender("orders") as sender, client.get_queue_receiver("orders") as receiver:
        for text in ("a" * size, "b"):
            await sender.send_messages(ServiceBusMessage(text))
        found = []
        while len(found) < 2:
            found += await receiver.receive_messages(max_message_count=2, max_wait_time=60)
        for message in found:
            await receiver.complete_message(message)
        return [len(str(message)) for message in found]


def test_a_client_that_trusts_the_authority_gets_through(secure, folder):
    """With the right key, over TLS."""
    client = ServiceBusClient.from_connection_string(secure.connection_string, **_there(secure, folder))
    assert _there_and_back(client) == 100_000


def test_a_client_that_trusts_nobody_here_does_not(secure, folder):
    """The certificate is no public one."""
    options = _there(secure, folder) | {"connection_verify": None}
    with (
        ServiceBusClient.from_connection_string(secure.connection_string, **options) as client,
        pytest.raises(ServiceBusError),
    ):
        client.get_queue_sender("orders").__enter__()


def test_a_client_without_tls_is_served_on_the_same_port(secure):
    """The first byte of a connection tells; one that says nothing holds up no other."""
    with (
        socket.create_connection(("127.0.0.1", secure.port)),
        socket.create_connection(("127.0.0.1", secure.port)) as plain,
    ):
        plain.sendall(b"AMQP\x03\x01\x00\x00")
        assert plain.recv(100).startswith(b"AMQP")


def test_the_certificate_is_kept_until_it_ends(tmp_path):
    """Who trusts the authority need not trust another one after a restart, unless the broker has a name more."""
    tls_context(tmp_path)
    before = (tmp_path / AUTHORITY).read_bytes()
    tls_context(tmp_path)
    assert (tmp_path / AUTHORITY).read_bytes() == before
    tls_context(tmp_path, "local.servicebus.windows.net")
    named = (tmp_path / AUTHORITY).read_bytes()
    assert named != before
    tls_context(tmp_path)
    assert (tmp_path / AUTHORITY).read_bytes() == named
    (tmp_path / "server.pem").write_text("broken")
    tls_context(tmp_path)
    assert (tmp_path / AUTHORITY).read_bytes() != named


def test_the_certificate_passes_the_strictest_check(folder):
    """Of a client that holds every rule for certificates, as Python's default does from 3.13."""
    tls_context(folder)
    strict = ssl.create_default_context(cafile=str(folder / AUTHORITY))
    strict.verify_flags |= ssl.VERIFY_X509_STRICT
    with (
        Broker.start(ENTITIES, tls=folder) as broker,
        socket.create_connection(("127.0.0.1", broker.port), timeout=600) as plain,
        strict.wrap_socket(plain, server_hostname="localhost") as safe,
    ):
        assert safe.version() == "TLSv1.3"


@pytest.mark.filterwarnings("ignore:ssl=None is deprecated:DeprecationWarning")
async def test_amqp_passes_through_a_websocket_with_tls(secure, folder):
    """Azure's client, with the library that it takes for WebSockets."""
    options = _there(secure, folder, TransportType.AmqpOverWebsocket)
    assert await _there_and_back_aio(
        AioServiceBusClient.from_connection_string(secure.connection_string, **options)
    ) == [100_000, 1]


@pytest.mark.filterwarnings("ignore:ssl=None is deprecated:DeprecationWarning")
async def test_amqp_passes_through_a_websocket_without_tls():
    """On the same port as plain AMQP; a message longer than a frame's longest short form too."""
    with Broker.start(ENTITIES) as plain:
        options = {"custom_endpoint_address": f"sb://127.0.0.1:{plain.port}", "retry_total": 0}
        client = AioServiceBusClient.from_connection_string(
            plain.connection_string, transport_type=TransportType.AmqpOverWebsocket, **options
        )
        assert await _there_and_back_aio(client) == [100_000, 1]


def test_the_right_key_opens(guarded):
    """The connection string of the launcher has it."""
    assert _there_and_back(ServiceBusClient.from_connection_string(guarded.connection_string, retry_total=0)) == 100_000


def test_a_wrong_key_is_refused(guarded):
    """The client keeps the reason to itself; the JavaScript client shows it."""
    wrong = guarded.connection_string.replace(KEY, "another")
    with (
        ServiceBusClient.from_connection_string(wrong, retry_total=0) as client,
        pytest.raises(ServiceBusAuthenticationError),
    ):
        client.get_queue_sender("orders").__enter__()


def _signed(guarded, uri, key=KEY, policy=POLICY, lasts=timedelta(minutes=1)):
    ends = int((datetime.now(UTC) + lasts).timestamp())
    token = generate_sas_token(uri, policy, key, ends)
    client = ServiceBusClient(f"127.0.0.1:{guarded.port}", AzureSasCredential(token), use_tls=False, retry_total=0)
    with client, client.get_queue_sender("orders") as sender:
        sender.send_messages(ServiceBusMessage("x"))


def test_a_token_for_the_entity_is_enough(guarded):
    """And so is one for the whole namespace."""
    _signed(guarded, f"sb://127.0.0.1:{guarded.port}/orders")
    _signed(guarded, f"sb://127.0.0.1:{guarded.port}/")


def test_a_token_that_has_ended_is_refused(guarded):
    """The client shows it all the same."""
    with pytest.raises(ServiceBusAuthenticationError):
        _signed(guarded, f"sb://127.0.0.1:{guarded.port}/orders", lasts=timedelta(minutes=-1))


@pytest.mark.parametrize("queue", ["orders-too", "order"])
def test_a_token_for_another_entity_opens_nothing(guarded, queue):
    """Names that begin alike are not the same."""
    with pytest.raises(ServiceBusError, match="Unauthorized access"):
        _signed(guarded, f"sb://127.0.0.1:{guarded.port}/{queue}")


def test_a_token_of_an_unknown_policy_is_refused(guarded):
    """Even with the right key."""
    with pytest.raises(ServiceBusAuthenticationError):
        _signed(guarded, f"sb://127.0.0.1:{guarded.port}/orders", policy="Other")


def test_a_link_without_a_token_is_refused(guarded):
    """Of a client that shows none."""
    connection = BlockingConnection(f"127.0.0.1:{guarded.port}", allowed_mechs="ANONYMOUS")
    with pytest.raises(LinkDetached, match="Unauthorized access"):
        connection.create_sender("orders")
    connection.close()


@pytest.mark.parametrize("path", ["nowhere", "nowhere/Subscriptions/any"])
def test_a_token_for_an_entity_that_is_not_there_is_answered_by_404(guarded, path):
    """As the service does, before any link; Python's library calls that a failed login."""
    topic, _, subscription = path.partition("/Subscriptions/")
    with ServiceBusClient.from_connection_string(guarded.connection_string, retry_total=0) as client:
        receiver = (
            client.get_subscription_receiver(topic, subscription) if subscription else client.get_queue_receiver(path)
        )
        with pytest.raises(ServiceBusAuthenticationError) as refused, receiver:
            receiver.peek_messages(1)
    assert refused.value.inner_exception.status_code == 404
