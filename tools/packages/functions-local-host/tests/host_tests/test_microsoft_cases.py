"""The cases of Microsoft's own end-to-end tests of its Python worker: HTTP, queues, Service Bus and timers, v2 model."""

import base64
import contextlib
import json
import sys
from pathlib import Path
from uuid import uuid4

import pytest
from azure.core.exceptions import ResourceNotFoundError
from azure.storage.queue import QueueServiceClient
from functions_local_host.launcher import Host
from host_tests.client import eventually, get
from servicebus_local.entities import Namespace, Queue
from servicebus_local.launcher import Broker

from tools.local.paths import STAMP, WORKER, venv_python

APP = Path(__file__).parent / "cases_app"
NEEDS_WORKER = pytest.mark.skipif(
    not (WORKER / STAMP).exists(), reason="Microsoft's worker is not installed: `make others`"
)


@pytest.fixture(scope="module")
def queues(azurite):
    """The storage queues as an operator sees them."""
    with QueueServiceClient.from_connection_string(azurite.connection_string) as service:
        yield service


@pytest.fixture(
    scope="module",
    params=["local", pytest.param("microsoft", marks=NEEDS_WORKER), pytest.param("grpc", marks=NEEDS_WORKER)],
)
def host(request, azurite, tmp_path_factory):
    """The host with the app of these cases, and each worker in it."""
    with Broker.start(Namespace((Queue("events"),))) as bus, pytest.MonkeyPatch.context() as patch:
        patch.setattr("functions_local_host.launcher.LOGS", tmp_path_factory.mktemp("logs"))
        settings = {
            "AzureWebJobsStorage": azurite.connection_string,
            "AzureFunctionsWebHost__hostid": uuid4().hex,
            "CASES": f"cases-{uuid4().hex[:8]}",
            "Bus": bus.connection_string,
            "CASES_BUS": "events",
        }
        python = str(venv_python(WORKER)) if request.param != "local" else sys.executable
        with Host.start(APP, settings, options=["--worker", request.param], python=python) as running:
            running.cases = settings["CASES"]
            yield running


def _left(queues, host, name):
    """Return what the trigger of a case left behind."""
    queue = queues.get_queue_client(f"{host.cases}-{name}")

    def ask():
        with contextlib.suppress(ResourceNotFoundError):  # the queue is made by the first message
            return queue.receive_message()

    return base64.b64decode(eventually(ask).content).decode()


@pytest.mark.parametrize(
    ("path", "body", "said"),
    [
        ("/api/template", b"", "Nobody was named."),
        ("/api/template?name=query", b"", "Hello, query."),
        ("/api/template", b'{ "name": "body" }', "Hello, body."),
    ],
)
def test_the_template_answers(host, path, body, said):
    """Without a name, by the query, by a JSON body."""
    assert get(host, path, method="POST" if body else "GET", body=body or None) == (200, said.encode())


def test_the_index_page_is_there(host):
    """Whatever the app has."""
    assert get(host, "/")[0] == 200


def test_a_ping_that_asks_for_health_is_answered(host):
    """By POST, as the platform does."""
    assert get(host, "/admin/host/ping?checkHealth=1", method="POST", body=b"")[0] == 200


def test_threads_of_user_code_log(host):
    """Each line once, the threads' own as well."""
    assert get(host, "/api/threads") == (200, b"done")
    assert get(host, "/api/threads-async") == (200, b"done")
    lines = ("before threads", "in thread 0", "in thread 1", "in thread 2", "after threads", "in an executor")
    eventually(lambda: [host.log.read_text().count(line) for line in lines] == [1] * len(lines))


def test_a_message_set_as_text_is_seen_with_all_its_fields(host, queues):
    """And the function's own answer reaches the caller."""
    assert get(host, "/api/put", method="POST", body=b"test-message") == (200, b"OK")
    seen = json.loads(_left(queues, host, "seen-plain"))
    assert seen.pop("body") == "test-message"
    assert seen.pop("dequeue_count") == 1
    assert all(seen.values()), seen


def test_a_message_object_that_is_returned(host, queues):
    """The response was left unset. Microsoft's test expects the body alone: docs/appendix/stand-ins.md has why it differs."""
    assert get(host, "/api/put-object", method="POST", body=b"object")[0] == 200
    assert json.loads(_left(queues, host, "seen-object")) == {"id": None, "body": "object"}


def test_bytes_that_are_returned_reach_a_trigger_that_takes_text(host, queues):
    """As text."""
    assert get(host, "/api/put-return", method="POST", body=b"returned")[0] == 200
    assert _left(queues, host, "seen-returned") == "returned"


def test_a_response_and_a_message_are_both_set(host, queues):
    """As outputs."""
    assert get(host, "/api/put-both", method="POST", body=b"foo") == (200, b"HTTP response: foo")
    assert json.loads(_left(queues, host, "both")) == {"id": None, "body": "foo"}


def test_a_list_is_several_messages(host):
    """Each starts the trigger."""
    assert 200 <= get(host, "/api/put-list", method="POST", body=b"foo")[0] < 300
    for word in ("one", "two"):
        eventually(lambda word=word: f"trigger on message: {word}" in host.log.read_text())


def test_a_bus_message_is_seen_with_all_its_fields(host, queues):
    """Each of the 28 is there; those that a message does not have are null."""
    assert get(host, "/api/put-event", method="POST", body=b"1700000000") == (200, b"OK")
    seen = json.loads(_left(queues, host, "seen-event"))
    assert seen["body"] == "1700000000"
    assert len(seen) == 28
    for name in ("message_id", "lock_token", "sequence_number", "enqueued_time_utc", "delivery_count"):
        assert seen[name], name


def test_a_timer_of_each_second_runs(host):
    """And says so in the log."""
    eventually(lambda: host.log.read_text().count("the timer ran") >= 2)
