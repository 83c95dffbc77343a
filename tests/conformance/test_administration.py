"""What a run asks of the administration of the bus: entities with its rules, and their removal."""

import re
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import unquote

import pytest
from azure.core.exceptions import AzureError
from servicebus_local.certificates import AUTHORITY, tls_context

from shared.azure import Connections
from tools.conformance.belongings import Belongings
from tools.conformance.bus_site import BusSite
from tools.conformance.bus_wishes import COLOURS, DUPLICATES, SESSIONS


class Administration(ThreadingHTTPServer):
    """Answers as the service's: a PUT by the entity that it was sent, and everything by a refusal where it is told to."""

    daemon_threads = True

    def __init__(self, folder, status=None):
        requests = self.requests = []

        class Handler(BaseHTTPRequestHandler):
            # Who speaks AMQP to it sends no line that ends.
            timeout = 0.5

            def answer(self):
                """Answer one request."""
                body = self.rfile.read(int(self.headers.get("content-length") or 0))
                requests.append((self.command, unquote(self.path.partition("?")[0]), body.decode()))
                self.send_response(status or (201 if self.command == "PUT" else 200))
                self.send_header("content-type", "application/atom+xml")
                self.send_header("content-length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            do_PUT = do_DELETE = answer  # noqa: N815 - names of the library

            def log_message(self, *_):
                """Say nothing."""

        super().__init__(("127.0.0.1", 0), Handler)
        # The handshake is a matter of the connection's own thread: one that is not TLS at all must block no other.
        self.socket = tls_context(folder).wrap_socket(self.socket, server_side=True, do_handshake_on_connect=False)

    def __enter__(self):
        threading.Thread(target=self.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
        return self

    def __exit__(self, *_):
        self.shutdown()
        self.server_close()

    def handle_error(self, *_):
        """Say nothing of those who speak AMQP to it."""

    @property
    def connection_string(self):
        """Where it is."""
        where = f"Endpoint=sb://127.0.0.1:{self.server_port}"
        return f"{where};SharedAccessKeyName=k;SharedAccessKey=SAS_KEY_VALUE;"


@pytest.fixture
def folder(tmp_path, monkeypatch, forgotten_sockets):
    """Where the certificates are. The administration's client takes HTTPS alone."""
    tls_context(tmp_path)
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(tmp_path / AUTHORITY))
    return tmp_path


def rules_of(text):
    """Return the rules in the body of a request."""
    return dict(re.findall(r"<(?:\w+:)?(\w+)[^>]*>([^<]+)</", text))


def test_a_queue_is_made_with_its_rules_and_removed(folder):
    """Sessions and locks as the checks need them, and an end of its own, in case the run dies."""
    belongings = Belongings()
    with Administration(folder) as service, Connections("", service.connection_string) as connections:
        site = BusSite(connections, "n", belongings)
        assert [site.bus_queue(SESSIONS), site.bus_queue(SESSIONS)] == ["sluice-doctor-n-sessions"] * 2
        site.bus_queue(DUPLICATES)
        (first, second) = service.requests
        assert first[:2] == ("PUT", "/sluice-doctor-n-sessions")
        wanted = {
            "LockDuration": "PT5S",
            "RequiresSession": "true",
            "AutoDeleteOnIdle": "PT5M",
            "MaxDeliveryCount": "10",
        }
        assert wanted.items() <= rules_of(first[2]).items()
        window = {"RequiresDuplicateDetection": "true", "DuplicateDetectionHistoryTimeWindow": "PT20S"}
        assert window.items() <= rules_of(second[2]).items()
        assert belongings.remove() == []
        assert {one[:2] for one in service.requests[2:]} == {
            ("DELETE", "/sluice-doctor-n-sessions"),
            ("DELETE", "/sluice-doctor-n-duplicates"),
        }


def test_a_topic_is_made_with_one_rule_for_each_subscription(folder):
    """The rule that passes everything goes: otherwise no filter would be tried."""
    belongings = Belongings()
    with Administration(folder) as service, Connections("", service.connection_string) as connections:
        BusSite(connections, "n", belongings).bus_topic(COLOURS)
        made = [one[:2] for one in service.requests]
        topic = "/sluice-doctor-n-colours"
        assert made[0] == ("PUT", topic)
        for name in COLOURS.passes:
            place = f"{topic}/subscriptions/{name}"
            assert {("PUT", place), ("PUT", f"{place}/rules/colour"), ("DELETE", f"{place}/rules/$Default")} <= set(
                made
            )
        assert belongings.remove() == []
        assert service.requests[-1][:2] == ("DELETE", topic)


@pytest.mark.parametrize(
    ("status", "why"),
    [
        (401, "role Azure Service Bus Data Owner"),
        (403, "role Azure Service Bus Data Owner"),
        (501, "this bus makes no entities"),
    ],
)
def test_a_login_that_may_not_is_named_with_the_role(status, why, folder):
    """It was made by nobody, so nothing is left over."""
    belongings = Belongings()
    with Administration(folder, status) as service, Connections("", service.connection_string) as connections:
        site = BusSite(connections, "n", belongings)
        # Here nothing speaks AMQP, so the prepared queue is not found either.
        with pytest.raises(AzureError):
            site.bus_queue(SESSIONS)
        assert why in site.obstacle
        assert belongings.remove() == []
        assert [one[0] for one in service.requests] == ["PUT"]
