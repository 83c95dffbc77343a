"""The door of publishers on this machine: TLS and a login without a key, as in Azure, in front of Azurite and the broker.

Azure's libraries send a token over TLS only, and Azurite takes tokens only over TLS of its own, which the app then needs
too. So this door has the certificate, knows the token, and goes on to Azurite by a signature with a publisher's rights.
"""

import json
import os
import secrets
import ssl
import threading
import time
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Final, NamedTuple
from urllib.parse import urlsplit

import certifi
from azure.storage import blob, queue
from servicebus_local.certificates import AUTHORITY, tls_context
from servicebus_local.post import properties_of

from shared.azure import FAILURES, STORAGE_CONNECTION, BusMessage, BusSender, Connections, Destination
from shared.clock import Closing

#: Seconds for a request of a publisher, and for the answer to it.
PATIENCE: Final = 60
#: As long as the certificate.
_LIFE: Final = timedelta(days=30)
_TOKEN_SECONDS: Final = 3600
#: Headers of one connection, and the login of the other side.
_OWN: Final = frozenset(
    {"host", "connection", "authorization", "content-length", "transfer-encoding", "expect", "date"}
)
#: What `az` prints for a script, and nothing else of it. The token is also in the environment.
_AZ: Final = """#!/bin/sh
# Written by `make up`. Here the token of `sluice publisher-env`; everything else is done by your own az.
case "$*" in
"account get-access-token --resource "*" --query accessToken --output tsv") printf '%s\\n' "$IDENTITY_HEADER" ;;
*) PATH=${PATH#"${0%/*}":} && exec az "$@" ;;
esac
"""


class _Service(NamedTuple):
    """Where a service of Azurite answers, and the signature that gets in."""

    address: str
    folder: str
    signature: str


class Door(Closing):
    """The open door. Close it when done."""

    def __init__(self, settings: Mapping[str, str], folder: Path) -> None:
        self._folder = folder
        self.token = secrets.token_urlsafe(32)
        self.services = _services(settings[STORAGE_CONNECTION])
        self._connections = Connections.parse(settings)
        self._sender = BusSender(self._connections)
        self._server = _Server(self, tls_context(folder))
        self._trust = _bundle(folder)
        _write(folder / "az", _AZ, 0o700)
        threading.Thread(target=self._server.serve_forever, name="door", daemon=True).start()

    @property
    def described(self) -> dict[str, Any]:
        """The parts that `sluice publisher-env` reads: the addresses, further variables, and the folder of `az`."""
        address = f"https://127.0.0.1:{self._server.server_port}"
        # Each of Azure's libraries requests the token of a managed identity there.
        login = {"IDENTITY_ENDPOINT": f"{address}/token", "IDENTITY_HEADER": self.token}
        # curl, Python and Node read the trusted certificates from different variables.
        trust = dict.fromkeys(("CURL_CA_BUNDLE", "REQUESTS_CA_BUNDLE", "NODE_EXTRA_CA_CERTS"), str(self._trust))
        return {
            "addresses": {service: f"{address}/{service}" for service in (*self.services, "bus")},
            "environment": login | trust,
            "path": str(self._folder),
        }

    def send(self, name: str, body: bytes, headers: Mapping[str, str]) -> None:
        """Send a message to a queue of the bus, as the service does for a request over HTTP."""
        properties = json.loads(headers.get("BrokerProperties") or "{}")
        message = BusMessage(
            body=body,
            id=properties.get("MessageId"),
            session=properties.get("SessionId"),
            subject=properties.get("Label"),
            content_type=None,
            properties=properties_of(headers),
        )
        self._sender.send(Destination("bus", name), [message])

    def close(self) -> None:
        """Close it, and its connections."""
        self._server.shutdown()
        self._server.server_close()
        self._sender.close()
        self._connections.close()


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, door: Door, tls: ssl.SSLContext) -> None:
        self.door = door
        super().__init__(("127.0.0.1", 0), _Handler)
        # The handshake belongs to the connection's own thread: who says nothing holds up no other.
        self.socket = tls.wrap_socket(self.socket, server_side=True, do_handshake_on_connect=False)

    def handle_error(self, *_: object) -> None:
        """Say nothing of a connection that broke."""


class _Handler(BaseHTTPRequestHandler):
    server: _Server
    timeout = PATIENCE
    protocol_version = "HTTP/1.1"

    def _answer(self) -> None:
        door, (service, _, rest) = self.server.door, self.path.lstrip("/").partition("/")
        if service.partition("?")[0] == "token":
            self._give_token(door.token)
        elif not secrets.compare_digest(self.headers.get("Authorization", ""), f"Bearer {door.token}"):
            self._reply(401, b"sign in: the token is that of `sluice publisher-env`\n")
        elif service in door.services:
            self._go_on(door.services[service], rest)
        elif service == "bus" and self.command == "POST":
            self._send(door, urlsplit(rest).path.removesuffix("/messages"))
        else:
            self._reply(404, b"there is no such place\n")

    do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = _answer  # noqa: N815 - names of the library

    def _give_token(self, token: str) -> None:
        if not secrets.compare_digest(self.headers.get("X-IDENTITY-HEADER", ""), token):
            self._reply(401, b"the header X-IDENTITY-HEADER is wrong\n")
            return
        expires = str(int(time.time()) + _TOKEN_SECONDS)
        said = {"access_token": token, "expires_on": expires, "token_type": "Bearer"}
        self._reply(200, json.dumps(said).encode(), {"Content-Type": "application/json"})

    def _go_on(self, service: _Service, rest: str) -> None:
        path, _, query = rest.partition("?")
        target = f"{service.folder}/{path}?{query}{'&' if query else ''}{service.signature}"
        connection = HTTPConnection(service.address, timeout=PATIENCE)
        try:
            headers = {name: value for name, value in self.headers.items() if name.lower() not in _OWN}
            connection.request(self.command, target, self._body(), headers)
            reply = connection.getresponse()
            kept = {name: value for name, value in reply.getheaders() if name.lower() not in _OWN}
            self._reply(reply.status, reply.read(), kept)
        except OSError:
            self._reply(502, b"the storage of this stack does not answer\n")
        finally:
            connection.close()

    def _send(self, door: Door, name: str) -> None:
        try:
            door.send(name, self._body(), dict(self.headers.items()))
        except FAILURES as error:
            self._reply(400, f"the queue {name!r} took no message: {type(error).__name__}\n".encode())
        else:
            self._reply(201, b"")

    def _body(self) -> bytes:
        return self.rfile.read(int(self.headers.get("Content-Length") or 0))

    def _reply(self, status: int, body: bytes, headers: Mapping[str, str] | None = None) -> None:
        self.send_response(status)
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        # The body of a refused request was not read.
        self.close_connection = status in {401, 404}
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Say nothing: the terminal is the stack's."""


def _services(connection: str) -> dict[str, _Service]:
    said = dict(part.split("=", 1) for part in connection.strip(";").split(";"))
    account, key, until = said["AccountName"], said["AccountKey"], datetime.now(UTC) + _LIFE
    # A publisher writes payloads and sends messages: no reading, no listing, no deleting.
    signatures = {
        "blob": blob.generate_account_sas(
            account,
            key,
            blob.ResourceTypes(object=True),
            blob.AccountSasPermissions(write=True, create=True),
            until,
            services=blob.Services(blob=True),
        ),
        "queue": queue.generate_account_sas(
            account,
            key,
            queue.ResourceTypes(object=True),
            queue.AccountSasPermissions(add=True),
            until,
            services=queue.Services(queue=True),
        ),
    }
    places = {name: urlsplit(said[f"{name.title()}Endpoint"]) for name in signatures}
    return {name: _Service(places[name].netloc, places[name].path, signature) for name, signature in signatures.items()}


def _bundle(folder: Path) -> Path:
    """Write what a publisher's programs trust: what they trusted before, and the certificate of this door."""
    before = Path(os.environ.get("REQUESTS_CA_BUNDLE") or os.environ.get("SSL_CERT_FILE") or certifi.where())
    file = folder / "trusted.pem"
    _write(file, f"{before.read_text()}\n{(folder / AUTHORITY).read_text()}", 0o600)
    return file


def _write(file: Path, text: str, mode: int) -> None:
    file.touch(mode=mode)
    file.chmod(mode)
    file.write_text(text)
