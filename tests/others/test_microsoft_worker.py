"""Microsoft's worker library under the local host: the code that runs functions on Azure runs them here."""

import contextlib
import os
import signal
from pathlib import Path
from uuid import uuid4

import pytest
from azure.servicebus import ServiceBusClient, ServiceBusMessage
from azure.storage.queue import QueueClient, QueueServiceClient
from functions_local_host.errors import StartError
from functions_local_host.launcher import Host
from host_tests.client import eventually, get, get_json, runs
from host_tests.listeners.bus_topology import bus
from servicebus_local.launcher import Broker

from shared import __version__
from shared.azure import STORAGE_CONNECTION
from tools.local.azurite.launcher import Azurite
from tools.local.paths import ROOT, STAMP, WORKER, venv_python
from tools.local.stack import StackOptions, start_host

APP = ROOT / "tools/packages/functions-local-host/tests/host_tests/app"
TIMERS = ("every_second", "hourly", "on_startup", "slow_tick")
PYTHON = str(venv_python(WORKER))
BUS = {"BUS_QUEUE": "plain-0", "BUS_SESSIONS": "ordered-0", "BUS_TOPIC": "topic-0"}

pytestmark = pytest.mark.skipif(
    not (WORKER / STAMP).exists(),
    reason="Microsoft's worker is not installed: `make others` does it where a Python 3.13 is",
)


@pytest.fixture(scope="module", params=["microsoft", "grpc"])
def worker(request):
    """Where the library runs: in the host's process, or in one of its own to which the host speaks Azure's protocol."""
    return request.param


@pytest.fixture(scope="module")
def storage(worker):
    """Storage of this module, new for each place of the library."""
    with Azurite.start() as running:
        yield running


@pytest.fixture(scope="module")
def names(storage):
    """Storage queues of this module, by the setting that names them."""
    found = {name: f"{name.lower().replace('_', '-')}-{uuid4().hex[:8]}" for name in ("WORK_QUEUE", "COPY_IN")}
    with QueueServiceClient.from_connection_string(storage.connection_string) as queues:
        for name in found.values():
            queues.create_queue(name)
    return found


@pytest.fixture(scope="module")
def events(worker):
    """A bus of this module."""
    with Broker.start(bus()) as running:
        yield running


@pytest.fixture(scope="module")
def settings(storage, names, events):
    """The settings of the host's own test app, with its timers off but one."""
    off = {f"AzureWebJobs_{name}_Disabled": "true" for name in TIMERS if name != "every_second"}
    return {
        "AzureWebJobsStorage": storage.connection_string,
        "AzureFunctionsWebHost__hostid": uuid4().hex,
        "HOURLY": "0 0 * * * *",
        "Bus": events.connection_string,
        **names,
        **BUS,
        **off,
    }


@pytest.fixture(scope="module")
def host(settings, worker):
    """The host, with Microsoft's worker in it or in a process of its own."""
    with Host.start(APP, settings, options=["--worker", worker], python=PYTHON) as running:
        yield running


def test_http_functions_run_sync_and_async(host, worker):
    """With the request as they would see it on Azure; the library names the threads of its pool."""
    echo = get_json(host, "/api/echo/5/rest?a=1&b=", method="POST", body=b"hello", headers={"X-Mine": "yes"})
    assert (echo["method"], echo["body"], echo["params"], echo["function"]) == ("POST", "hello", {"a": "1"}, "echo")
    assert (echo["route"], echo["headers"]["x-mine"]) == ({"id": "5", "rest": "rest"}, "yes")
    assert echo["thread"].startswith("ThreadPoolExecutor")
    assert get_json(host, "/api/async")["thread"] == {"microsoft": "worker", "grpc": "MainThread"}[worker]
    assert get(host, "/api/text") == (200, b"plain")
    assert f"[echo {echo['invocation']}] echo was called" in host.log.read_text()


def test_a_failure_is_500_and_its_traceback_is_logged(host):
    """As the library hands it over."""
    assert get(host, "/api/fail")[0] == 500
    assert "RuntimeError: failed on purpose" in host.log.read_text().partition("fail failed (id=")[2]
    assert get(host, "/api/text")[0] == 200


def test_the_caller_s_trace_reaches_the_function(host):
    """By the library's own context."""
    trace = "0af7651916cd43dd8448eb211c80319c"
    headers = {"traceparent": f"00-{trace}-b7ad6b7169203331-01", "tracestate": "a=1"}
    found = get_json(host, "/api/trace", headers=headers)
    assert (found["parent"][:36], found["state"]) == (f"00-{trace}-", "a=1")


def test_a_returned_message_and_an_unset_out(host, storage):
    """The message is sent, and the caller gets an empty success."""
    assert get(host, "/api/queue-only", method="POST", body=b"") == (200, b"")
    with QueueClient.from_connection_string(storage.connection_string, "only") as queue:
        assert eventually(queue.receive_message)


def test_queue_functions_take_messages_and_write_others(host, storage, names):
    """An output binding of several messages, each of which starts the other function."""
    with QueueClient.from_connection_string(storage.connection_string, names["COPY_IN"]) as queue:
        queue.send_message("one two")
    done = eventually(lambda: found if len(found := runs(storage, names["WORK_QUEUE"], "runs")) == 2 else None)
    assert sorted(run["body"] for run in done) == ["one", "two"]
    assert {run["count"] for run in done} == {1}


def test_bus_functions_take_messages_sessions_and_batches(host, storage, events):
    """One by one from a queue and a session, and several at once from a subscription."""
    with ServiceBusClient.from_connection_string(events.connection_string) as client:
        for sender, message in (
            (client.get_queue_sender(BUS["BUS_QUEUE"]), ServiceBusMessage("single", message_id="m-1")),
            (client.get_queue_sender(BUS["BUS_SESSIONS"]), ServiceBusMessage("ordered", session_id="s")),
            (client.get_topic_sender(BUS["BUS_TOPIC"]), ServiceBusMessage("batched", session_id="s")),
        ):
            with sender:
                sender.send_messages(message)
    [single] = eventually(lambda: runs(storage, BUS["BUS_QUEUE"], "runs"))
    assert (single["body"], single["id"]) == ("single", "m-1")
    [ordered] = eventually(lambda: runs(storage, BUS["BUS_SESSIONS"], "runs"))
    assert (ordered["body"], ordered["session"]) == ("ordered", "s")
    [batch] = eventually(lambda: runs(storage, BUS["BUS_TOPIC"], "runs"))
    assert batch["bodies"] == ["batched"]


def test_a_timer_runs(host, storage):
    """By its schedule."""
    assert eventually(lambda: runs(storage, "every_second"))


def test_an_app_that_the_library_refuses_does_not_start(settings, worker, tmp_path):
    """With its reason: this host's own checks let a parameter without a type through, and so on; Microsoft's decide."""
    (tmp_path / "host.json").write_text('{"version": "2.0"}')
    (tmp_path / "function_app.py").write_text(
        "import azure.functions as func\n"
        "app = func.FunctionApp()\n"
        "@app.route('x')\n"
        "def x(req: func.HttpRequest, context: int) -> str:\n"
        "    return ''\n"
    )
    with pytest.raises(StartError, match="context"):
        Host.start(tmp_path, settings, options=["--worker", worker], python=PYTHON)


@pytest.mark.parametrize("worker", ["grpc"], indirect=True, scope="module")
def test_a_process_that_ends_takes_its_instance_with_it(settings, worker):
    """The host starts both anew, and they serve on."""
    with Host.start(APP, settings, options=["--worker", worker], python=PYTHON) as running:
        before = get_json(running, "/api/async")["pid"]
        assert before not in running.instance_pids().values()
        os.kill(before, signal.SIGKILL)

        def served():
            with contextlib.suppress(OSError, AssertionError):
                return get_json(running, "/api/async")["pid"] != before

        assert eventually(served)
        last = get_json(running, "/api/async")["pid"]
        running.kill_instance()
        assert eventually(lambda: not Path(f"/proc/{last}").exists())
        assert "the worker's process ended, and the instance with it" in running.log.read_text()


def test_sluice_itself_runs_in_it(worker, stack_settings):
    """Every function of the app is indexed by the library, and health answers."""
    host = start_host(StackOptions(instances=1, worker=worker), stack_settings)
    try:
        assert STORAGE_CONNECTION in stack_settings
        assert get_json(host, "/api/health")["version"] == __version__
    finally:
        host.stop()
