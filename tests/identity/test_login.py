"""Connections without a key, by the real credential, over TLS: Azurite checks the tokens, the broker is shown them."""

import json
import os
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest

from shared.azure.connection_settings import BUS_CONNECTION, STORAGE_CONNECTION
from shared.azure.connections import Connections
from shared.errors import ResultNotSentError, SignalNotSentError, StorageUnavailableError
from shared.messages import Result
from shared.pending import PendingTable
from shared.pipeline.results import BusResults
from shared.settings import Settings
from shared.signals import BusSignals
from tests.waiting import LIMIT

STORAGE_RESOURCE, BUS_RESOURCE = "https://storage.azure.com", "https://servicebus.azure.net/"
SLUICE = Path(sys.executable).parent / "sluice"
pytestmark = pytest.mark.usefixtures("trusting")


@pytest.fixture
def connections(settings, identity):
    """Clients of a deployed app."""
    with Connections.parse(settings) as made:
        yield made


def test_the_settings_of_a_deployed_app_are_accepted(settings):
    """Identity settings alone are a whole installation, also where no key may be."""
    Settings.parse({**settings, "SLUICE_TICK_SCHEDULE": "0 * * * * *", "WEBSITE_SITE_NAME": "sluice"})


def test_one_token_of_the_named_identity_opens_all_three_services(connections, identity):
    """Writes pass on each of them; the token is asked for once."""
    connections.queues.get_queue_client("work-00").send_message("by login")
    connections.queues.get_queue_client("work-00").clear_messages()
    connections.blobs.get_container_client("payloads").upload_blob("login/1", b"here", overwrite=True)
    connections.tables.get_table_client("audit").upsert_entity({"PartitionKey": "login", "RowKey": "1"})
    assert [(one["resource"], one["client_id"]) for one in identity.asked] == [(STORAGE_RESOURCE, "the-apps-own")]


def test_a_request_with_a_login_is_counted_as_any_other(connections):
    """The meter sits below: one request is one, and the token is none."""
    connections.queues.get_queue_client("work-00").get_queue_properties()
    assert connections.meter.tally.total() == 1


def test_results_go_over_the_bus_with_a_token(connections, identity, bus):
    """The bus is shown a token for the bus, over TLS, and takes the message."""
    with BusResults(connections) as send:
        send(Result(job="by-login", chunk=1, revision=1))
    with connections.bus_client() as client, client.get_queue_receiver("results") as receiver:
        (found,) = receiver.receive_messages(max_wait_time=LIMIT)
        receiver.complete_message(found)
    assert found.correlation_id == "by-login"
    assert {one["resource"] for one in identity.asked} == {BUS_RESOURCE}
    assert b"jwt" in bus.sent
    assert b"SharedAccessSignature" not in bus.sent


def test_a_login_that_storage_refuses_is_told_as_that(settings, identity):
    """The token is out of date: the error says that it is the login to look at, and not the account."""
    identity.seconds = -60
    with (
        Connections.parse(settings) as connections,
        pytest.raises(StorageUnavailableError, match="check whether you are logged in"),
    ):
        list(PendingTable(connections.tables.get_table_client("pending")).due(datetime.now(UTC)))


def test_a_bus_without_a_token_is_told_in_the_words_of_each_part(settings, monkeypatch):
    """Nobody serves the identity: what could not be done is said, and tried again by whoever does that."""
    monkeypatch.setenv("IDENTITY_ENDPOINT", "http://127.0.0.1:9/msi/token")
    monkeypatch.setenv("IDENTITY_HEADER", "any")
    with Connections.parse(settings) as connections:
        with pytest.raises(SignalNotSentError):
            BusSignals(connections).send("nightly", 1)
        with BusResults(connections) as send, pytest.raises(ResultNotSentError):
            send(Result(job="by-login", chunk=1, revision=1))


def doctor(settings, identity, tls):
    """Run `sluice doctor --json` as somebody who is logged in, without a key of the account."""
    kept = {name: os.environ[name] for name in ("PATH", "HOME", "PYTHONPATH") if name in os.environ}
    environment = {**kept, **settings, **identity.environment, "REQUESTS_CA_BUNDLE": str(tls.authority)}
    done = subprocess.run(
        [SLUICE, "doctor", "--json"], env=environment, capture_output=True, text=True, check=False, timeout=LIMIT
    )
    assert done.stdout, done.stderr
    return done.returncode, json.loads(done.stdout)["findings"]


@pytest.fixture
def storage_by_login(settings, stack_settings):
    """Settings with storage by the app's identity; a command of its own believes no test's authority on the bus."""
    kept = {name: value for name, value in settings.items() if name.startswith(f"{STORAGE_CONNECTION}__")}
    return {
        **kept,
        **{name: value for name, value in stack_settings.items() if name != STORAGE_CONNECTION},
        BUS_CONNECTION: stack_settings[BUS_CONNECTION],
    }


def test_the_command_logs_in_as_whoever_runs_it(storage_by_login, identity, tls):
    """The app's own identity is of no use to a person: the settings' addresses are taken, the person's login is used."""
    status, findings = doctor(storage_by_login, identity, tls)
    assert (status, [one for one in findings if one["problem"]]) == (0, [])
    assert {one.get("client_id") for one in identity.asked} == {None}


def test_the_doctor_tells_a_refused_login_from_a_service_that_is_down(storage_by_login, identity, tls):
    """The account answers, but not to this login."""
    identity.seconds = -60
    status, findings = doctor(storage_by_login, identity, tls)
    assert status == 1
    assert all("refuses your login" in one["problem"] for one in findings if one["kind"] == "queue")


def test_a_connection_string_does_not_load_the_library_of_credentials():
    """What has a key does not wait for it."""
    program = (
        "import sys; from shared.azure.connections import Connections; made = Connections('UseDevelopmentStorage=true');"
        "made.blobs, made.queues, made.tables; sys.exit('azure.identity' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
