"""The HTTP administration, as Azure's administration clients use it. They speak TLS and nothing else."""

import urllib.request
from datetime import UTC, datetime, timedelta
from types import MappingProxyType

import pytest
from azure.core.exceptions import HttpResponseError, ResourceExistsError, ResourceNotFoundError
from azure.servicebus import ServiceBusClient, ServiceBusMessage, TransportType
from azure.servicebus.aio.management import ServiceBusAdministrationClient as AioAdministrationClient
from azure.servicebus.exceptions import ServiceBusError
from azure.servicebus.management import CorrelationRuleFilter, ServiceBusAdministrationClient, SqlRuleFilter
from servicebus_local.certificates import AUTHORITY
from servicebus_local.entities import CorrelationFilter, DeliveryRules, Namespace, Queue, SqlFilter, Subscription, Topic
from servicebus_local.launcher import Broker

#: More than the clients ask for in one page.
MANY = 105
MINUTE = timedelta(minutes=1)
SYSTEM = {"correlation_id": "c", "group_id": "i", "content_type": "text/plain"}
STRICT = DeliveryRules(
    lock=timedelta(seconds=30),
    max_delivery_count=4,
    sessions=True,
    dead_letter_expired=True,
    time_to_live=timedelta(hours=2),
    forward_dead_letters="graves",
)
FILTERS = (CorrelationFilter(MappingProxyType({"kind": "red", "n": 7, "yes": True}), "s", SYSTEM), SqlFilter("a > 1"))

# The client asks an XML element for its truth, which Python is about to change.
pytestmark = pytest.mark.filterwarnings("ignore:.*:FutureWarning", "ignore:Testing an element:DeprecationWarning")


def _entities():
    queues = [Queue(f"plain-{number:03}") for number in range(MANY)]
    queues += [Queue("strict", STRICT, MINUTE), Queue("graves"), Queue("counted"), Queue("with/slash")]
    topic = Topic("paint", (Subscription("red", FILTERS, STRICT), Subscription("all")), MINUTE)
    return Namespace(tuple(queues), (topic, Topic("quiet", ())))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Where the broker's certificates are."""
    return tmp_path_factory.mktemp("tls")


@pytest.fixture(scope="module")
def secure(folder):
    """A broker that speaks TLS."""
    with Broker.start(_entities(), tls=folder) as running:
        yield running


@pytest.fixture
def client(secure, folder):
    """An administration client that knows the certificate authority."""
    options = {"connection_verify": str(folder / AUTHORITY), "retry_total": 0}
    with ServiceBusAdministrationClient.from_connection_string(secure.connection_string, **options) as made:
        yield made


def test_every_queue_is_listed_over_several_pages(client):
    """In the order of the entities' file."""
    assert [one.name for one in client.list_queues()] == [one.name for one in _entities().queues]


def test_a_queue_says_how_it_is_set(client):
    """Each property that the entities' file has."""
    found = client.get_queue("strict")
    assert (found.lock_duration, found.max_delivery_count) == (timedelta(seconds=30), 4)
    assert (found.requires_session, found.dead_lettering_on_message_expiration) == (True, True)
    assert found.default_message_time_to_live == timedelta(hours=2)
    assert (found.requires_duplicate_detection, found.duplicate_detection_history_time_window) == (True, MINUTE)
    assert (found.forward_dead_lettered_messages_to, found.status) == ("graves", "Active")


def test_a_queue_without_an_end_of_life_says_so_as_the_service_does(client):
    """Its longest time span."""
    found = client.get_queue("counted")
    assert found.default_message_time_to_live > timedelta(days=10_000_000)
    assert (found.requires_session, found.requires_duplicate_detection) == (False, False)
    assert found.forward_dead_lettered_messages_to is None


def test_a_name_with_a_slash_is_a_queue_s(client):
    """Only `subscriptions` and `rules` divide a path."""
    assert client.get_queue("with/slash").name == "with/slash"


def test_counts_say_what_messages_wait_for(client, secure, folder):
    """Waiting, locked and deferred ones are active; dead letters and scheduled ones are counted apart."""
    options = {"custom_endpoint_address": f"sb://127.0.0.1:{secure.port}", "transport_type": TransportType.Amqp}
    options |= {"connection_verify": str(folder / AUTHORITY), "retry_total": 0}
    with (
        ServiceBusClient.from_connection_string(secure.connection_string, **options) as bus,
        bus.get_queue_sender("counted") as sender,
        bus.get_queue_receiver("counted", max_wait_time=60) as receiver,
    ):
        sender.send_messages([ServiceBusMessage(text) for text in ("dead", "deferred", "locked", "waiting")])
        sender.schedule_messages(ServiceBusMessage("later"), datetime.now(UTC) + timedelta(hours=1))
        dead, deferred, _locked = receiver.receive_messages(max_message_count=3)
        receiver.dead_letter_message(dead)
        receiver.defer_message(deferred)
        found = client.get_queue_runtime_properties("counted")
    assert (found.active_message_count, found.dead_letter_message_count, found.scheduled_message_count) == (3, 1, 1)
    assert (found.total_message_count, found.transfer_dead_letter_message_count) == (5, 0)
    assert found.size_in_bytes > 0


def test_topics_and_subscriptions_are_listed_and_described(client):
    """With their counts."""
    assert [one.name for one in client.list_topics()] == ["paint", "quiet"]
    assert client.get_topic("paint").duplicate_detection_history_time_window == MINUTE
    assert client.get_topic_runtime_properties("paint").subscription_count == 2
    assert [one.name for one in client.list_subscriptions("paint")] == ["red", "all"]
    assert list(client.list_subscriptions("quiet")) == []
    found = client.get_subscription("paint", "red")
    assert (found.lock_duration, found.requires_session) == (timedelta(seconds=30), True)
    counted = client.get_subscription_runtime_properties("paint", "red")
    assert (counted.active_message_count, counted.dead_letter_message_count) == (0, 0)
    assert [one.total_message_count for one in client.list_subscriptions_runtime_properties("paint")] == [0, 0]


def test_rules_are_listed_with_their_filters(client):
    """Of both kinds; the values of a correlation filter keep their types."""
    first, second = client.list_rules("paint", "red")
    assert (first.name, second.name) == ("$Default", "rule-2")
    assert isinstance(first.filter, CorrelationRuleFilter)
    assert first.filter.properties == {"kind": "red", "n": 7, "yes": True}
    assert (first.filter.label, first.filter.correlation_id, first.filter.session_id) == ("s", "c", "i")
    assert (first.filter.content_type, first.filter.message_id) == ("text/plain", None)
    assert isinstance(second.filter, SqlRuleFilter)
    assert second.filter.sql_expression == "a > 1"
    assert client.get_rule("paint", "all", "$Default").filter.sql_expression == "1=1"


def test_the_namespace_is_described(client):
    """As one of the tier that Sluice is made for."""
    assert client.get_namespace_properties().messaging_sku == "Standard"


@pytest.mark.parametrize(
    "ask",
    [
        lambda client: client.get_queue("nobody"),
        lambda client: client.get_topic("nobody"),
        lambda client: client.get_subscription("paint", "nobody"),
        lambda client: client.get_subscription_runtime_properties("nobody", "nobody"),
        lambda client: client.get_rule("paint", "all", "nobody"),
    ],
)
def test_what_is_not_there_is_not_found(client, ask):
    """The clients take the service's empty list for that."""
    with pytest.raises(ResourceNotFoundError):
        ask(client)


def test_a_change_of_what_is_there_is_refused_by_name(client):
    """Entities are made and removed, and none is set anew."""
    with pytest.raises(HttpResponseError, match="makes and removes entities, and changes none"):
        client.update_queue(client.get_queue("counted"))


@pytest.fixture
def bus(secure, folder):
    """A client of the data, over the same port."""
    options = {"custom_endpoint_address": f"sb://127.0.0.1:{secure.port}", "transport_type": TransportType.Amqp}
    options |= {"connection_verify": str(folder / AUTHORITY), "retry_total": 0}
    with ServiceBusClient.from_connection_string(secure.connection_string, **options) as made:
        yield made


def test_a_queue_is_made_serves_and_goes(client, bus):
    """As tools of others do before they start: what is there is a conflict that they know."""
    strict = {"lock_duration": timedelta(seconds=20), "max_delivery_count": 3, "requires_session": True}
    client.create_queue("made", dead_lettering_on_message_expiration=True, **strict)
    found = client.get_queue("made")
    assert (found.lock_duration, found.max_delivery_count, found.requires_session) == (timedelta(seconds=20), 3, True)
    assert found.dead_lettering_on_message_expiration
    with pytest.raises(ResourceExistsError, match="is there already"):
        client.create_queue("MADE")
    with bus.get_queue_sender("made") as sender:
        sender.send_messages(ServiceBusMessage("one", session_id="s"))
    with bus.get_queue_receiver("made", session_id="s", max_wait_time=60) as receiver:
        assert [str(one) for one in receiver.receive_messages()] == ["one"]
    client.delete_queue("made")
    with pytest.raises(ResourceNotFoundError):
        client.get_queue("made")
    with pytest.raises(ResourceNotFoundError):
        client.delete_queue("made")
    with pytest.raises(ServiceBusError), bus.get_queue_sender("made") as sender:
        sender.send_messages(ServiceBusMessage("late", session_id="s"))


def test_a_topic_is_made_with_a_subscription_and_its_rules(client, bus):
    """The first rule passes everything until it is removed."""
    client.create_topic("news", requires_duplicate_detection=True)
    client.create_subscription("news", "some", max_delivery_count=2)
    correlation = CorrelationRuleFilter(properties={"kind": "red", "n": 7, "yes": True}, label="s")
    client.create_rule("news", "some", "red", filter=correlation)
    client.create_rule("news", "some", "sql", filter=SqlRuleFilter("a > 1"))
    client.delete_rule("news", "some", "$Default")
    rules = {one.name: one.filter for one in client.list_rules("news", "some")}
    assert rules["red"].properties == correlation.properties
    assert (rules["red"].label, rules["sql"].sql_expression) == ("s", "a > 1")
    with pytest.raises(ResourceExistsError):
        client.create_rule("news", "some", "red", filter=correlation)
    with pytest.raises(ResourceExistsError):
        client.create_subscription("news", "some")
    with bus.get_topic_sender("news") as sender:
        wanted = ServiceBusMessage("in", subject="s", application_properties=correlation.properties)
        sender.send_messages([ServiceBusMessage("out"), wanted])
    with bus.get_subscription_receiver("news", "some", max_wait_time=60) as receiver:
        assert [str(one) for one in receiver.receive_messages(max_message_count=2)] == ["in"]
    client.delete_subscription("news", "some")
    assert list(client.list_subscriptions("news")) == []
    client.delete_topic("news")
    with pytest.raises(ResourceNotFoundError):
        client.get_topic("news")
    assert client.get_queue("counted").name == "counted"


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda client: client.create_queue("odd", forward_to="counted"), "does not do 'ForwardTo'"),
        (lambda client: client.create_queue("odd", lock_duration=timedelta(hours=1)), "outside of"),
        (lambda client: client.create_queue("odd", forward_dead_lettered_messages_to="nobody"), "no other queue"),
        (lambda client: client.create_subscription("nobody", "one"), "could not be found"),
        (lambda client: client.create_rule("paint", "all", "odd", filter=SqlRuleFilter("a LIKE 1 BETWEEN")), "filter"),
    ],
)
def test_what_cannot_be_made_is_refused_with_the_reason(client, make, said):
    """And nothing of it is there."""
    with pytest.raises(HttpResponseError, match=said):
        make(client)
    assert "odd" not in {one.name for one in client.list_queues()}


async def test_the_aio_client_reads_the_same(secure, folder):
    """Both clients parse the same documents."""
    options = {"connection_verify": str(folder / AUTHORITY), "retry_total": 0}
    async with AioAdministrationClient.from_connection_string(secure.connection_string, **options) as aio:
        assert len([one.name async for one in aio.list_queues()]) == len(_entities().queues)
        assert (await aio.get_queue_runtime_properties("strict")).total_message_count == 0


def test_without_tls_it_is_there_for_any_http_client(broker):
    """On the broker's one port."""
    with urllib.request.urlopen(f"http://127.0.0.1:{broker.port}/plain-00", timeout=600) as reply:
        assert b"<d2p1:ActiveMessageCount>" in reply.read()
