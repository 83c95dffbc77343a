"""The meter, on real clients against Azurite."""

from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, HTTPServer
from threading import Thread

import pytest
from azure.core.exceptions import ResourceExistsError, ResourceNotFoundError, ServiceResponseError
from azure.core.pipeline.transport import RequestsTransport
from azure.storage.queue import LinearRetry, QueueServiceClient

from shared.azure.connections import Connections
from shared.azure.meter import BusOperation, Cause, CountedRequest, Meter, RequestKind, because, looking, tally_requests


def by_cause(tally):
    """Return the requests of each cause."""
    causes = Counter()
    for (_, cause), count in tally.counts().items():
        causes[cause.value] += count
    return causes


@pytest.fixture
def meter():
    """A meter of its own for each test."""
    return Meter()


@pytest.fixture
def queues(meter, azurite):
    """A client that the meter counts."""
    connection = azurite.connection_string
    with QueueServiceClient.from_connection_string(
        connection, transport=meter.transport("queue"), retry_policy=LinearRetry(backoff=0, random_jitter_range=0)
    ) as client:
        yield client


def useful(*kind):
    """What a useful request of this kind is counted under."""
    return CountedRequest(RequestKind(*kind), Cause.USEFUL)


def test_each_request_is_counted_once_by_queue_and_operation(meter, queues):
    """Making a queue and sending to it are two requests to that queue."""
    queues.create_queue("meter-one").send_message("x")
    assert meter.tally.counts() == {
        useful(queues.account_name, "queue", "meter-one", "CreateQueue"): 1,
        useful(queues.account_name, "queue", "meter-one", "PutMessage"): 1,
    }


@pytest.fixture
def proxy():
    """A server that says what it was asked for, as a proxy is asked."""
    asked = []

    class Proxy(BaseHTTPRequestHandler):
        def do_GET(self):
            asked.append(self.path)
            self.send_error(404)

        def log_message(self, *_):
            pass

    with HTTPServer(("127.0.0.1", 0), Proxy) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        server.asked = asked
        yield server
        server.shutdown()


def test_a_proxy_of_the_environment_is_asked(meter, proxy, monkeypatch):
    """The environment is read once, and what it says still counts, hosts that pass it by included."""
    monkeypatch.setenv("http_proxy", f"http://127.0.0.1:{proxy.server_port}")
    monkeypatch.setenv("no_proxy", "elsewhere.test")
    connection = "AccountName=a;AccountKey=YQ==;QueueEndpoint=http://far-away.test/a"
    with (
        QueueServiceClient.from_connection_string(connection, transport=meter.transport("queue")) as client,
        pytest.raises(ResourceNotFoundError),
    ):
        client.get_queue_client("q").get_queue_properties()
    assert proxy.asked[0].startswith("http://far-away.test/a/q?")


def test_certificates_of_the_environment_are_the_ones_that_count(meter, monkeypatch, tmp_path):
    """A company's own authority is named there."""
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(tmp_path))
    assert meter.transport("queue").connection_config.verify == str(tmp_path)


def test_the_caller_says_what_only_it_can_know(meter, queues):
    """An empty look and a sweep are told apart from useful work."""
    queue = queues.create_queue("meter-two")
    with because(Cause.IDLE):
        assert queue.receive_message() is None
    with because(Cause.SWEEP):
        queue.get_queue_properties()
    assert by_cause(meter.tally) == {"useful": 1, "idle": 1, "sweep": 1}


def test_a_look_is_idle_when_it_found_nothing(meter, queues):
    """Only who asked knows whether there was work: the request is counted when that is known."""
    queue = queues.create_queue("meter-eight")
    with tally_requests() as asked, looking() as look:
        look.has_found = queue.receive_message() is not None
    assert by_cause(asked) == {"idle": 1}
    queue.send_message("x")
    with looking() as look:
        look.has_found = queue.receive_message() is not None
    assert by_cause(meter.tally) == {"useful": 3, "idle": 1}


def test_a_look_that_fails_is_counted_too(meter, queues):
    """A refused receive is on the bill."""
    with pytest.raises(ResourceNotFoundError), looking():
        queues.get_queue_client("meter-none").receive_message()
    assert by_cause(meter.tally) == {"idle": 1}


def test_each_message_is_an_operation_of_the_bus(meter):
    """A batch is billed by its messages; a receive without any is idle whatever it was for."""
    meter.count_bus(BusOperation.SEND, "results", 100)
    with because(Cause.RETRY):
        meter.count_bus(BusOperation.SEND, "results")
    with tally_requests() as asked:
        meter.count_bus(BusOperation.RECEIVE_EMPTY, "signals")
    assert by_cause(asked) == {"idle": 1}
    assert meter.tally.counts()[useful("", "bus", "results", "send")] == 100
    assert by_cause(meter.tally) == {"useful": 100, "retry": 1, "idle": 1}


def test_a_lost_conditional_write_is_a_conflict(meter, queues):
    """Somebody else was first: the request is on the bill all the same, under its own cause."""
    queues.create_queue("meter-three", metadata={"a": "1"})
    with pytest.raises(ResourceExistsError):
        queues.create_queue("meter-three", metadata={"a": "2"})
    assert by_cause(meter.tally) == {"useful": 1, "conflict": 1}


def test_what_the_sdk_sends_again_is_a_retry(meter, queues, monkeypatch):
    """A lost reply makes the SDK send once more: the first is what it was, the second a retry."""
    queue = queues.create_queue("meter-four")
    send, lost = RequestsTransport.send, []

    def lose_the_first_reply(self, request, **options):
        reply = send(self, request, **options)
        if not lost:
            lost.append(reply)
            raise ServiceResponseError("the reply was lost")
        return reply

    monkeypatch.setattr(RequestsTransport, "send", lose_the_first_reply)
    queue.get_queue_properties()
    assert by_cause(meter.tally) == {"useful": 2, "retry": 1}


def test_a_tally_counts_what_is_made_inside_it_and_only_that(meter, queues):
    """The requests of one job are known beside those of the whole process."""
    queue = queues.create_queue("meter-five")
    with tally_requests() as outer, tally_requests() as inner:
        queue.send_message("x")
    queue.send_message("y")
    assert (outer.total(), inner.total(), meter.tally.total()) == (1, 1, 3)


def test_connections_count_what_all_their_clients_ask(azurite):
    """Blobs, queues and tables are counted by service, in one place."""
    with Connections(azurite.connection_string) as connections:
        connections.blobs.create_container("meter-six")
        connections.queues.create_queue("meter-six")
        connections.tables.create_table("metersix")
        counts = connections.meter.tally.counts()
    assert counts == {
        useful(azurite.account.name, "blob", "meter-six", "CreateContainer"): 1,
        useful(azurite.account.name, "queue", "meter-six", "CreateQueue"): 1,
        useful(azurite.account.name, "table", "", "CreateTable"): 1,
    }


def test_connections_are_kept_for_all_threads_of_a_worker(azurite, caplog):
    """Whoever comes when ten others ask already does not connect anew for each request."""
    with Connections(azurite.connection_string) as connections:
        connections.queues.create_queue("meter-seven")
        with ThreadPoolExecutor(32) as pool:
            list(pool.map(lambda _: connections.queues.get_queue_client("meter-seven").send_message("x"), range(200)))
    assert "Connection pool is full" not in caplog.text
