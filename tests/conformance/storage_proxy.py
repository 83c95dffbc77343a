"""Stands in front of Azurite and makes one mistake: it may change each request and each reply, and send more of its own."""

import http.client
import threading
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import NamedTuple
from urllib.parse import parse_qsl, quote, urlencode, urlsplit

from azure.storage.blob import AccountSasPermissions, ResourceTypes, generate_account_sas

from tests.waiting import LIMIT

HOST = "127.0.0.1"
EVERYTHING = AccountSasPermissions(
    read=True, write=True, delete=True, list=True, add=True, create=True, update=True, process=True
)


@dataclass(frozen=True)
class Request:
    """One request, whole."""

    service: str
    method: str
    path: str
    query: dict
    headers: dict
    body: bytes

    def without(self, *names):
        """Return it without these headers."""
        return replace(self, headers={name: value for name, value in self.headers.items() if name not in names})

    def asking(self, **query):
        """Return it with other values in its query; None takes one out."""
        names = {name.replace("_", "-") if name.startswith("x_") else name: value for name, value in query.items()}
        return replace(self, query={k: v for k, v in {**self.query, **names}.items() if v is not None})


class Reply(NamedTuple):
    """One reply, whole."""

    status: int
    headers: dict
    body: bytes

    def saying(self, **headers):
        """Return it with other headers: etag="x" for ETag."""
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        return self._replace(headers={**self.headers, **named})


@contextmanager
def in_front_of(azurite, mistake, rights=None):
    """Yield a connection string of the account behind a proxy that answers by `mistake(request, forward)`.

    It has a shared access signature, which does not cover headers as a key's signature does.
    """
    servers = {service: _serve(service, port, mistake) for service, port in azurite.ports.items()}
    try:
        yield connection_string(azurite, {service: server.server_port for service, server in servers.items()}, rights)
    finally:
        for server in servers.values():
            server.shutdown()
            server.server_close()


def connection_string(azurite, ports, rights=None):
    """Return the connection string of a signature with these rights: (kinds of resources, permissions)."""
    kinds, permissions = rights or (ResourceTypes(service=True, container=True, object=True), EVERYTHING)
    account, until = azurite.account, datetime.now(UTC) + timedelta(hours=1)
    signature = generate_account_sas(account.name, account.key, kinds, permissions, until, services="bqt")
    addresses = account.endpoints(ports)
    return (
        "".join(f"{one.title()}Endpoint={at};" for one, at in addresses.items()) + f"SharedAccessSignature={signature}"
    )


def _serve(service, target, mistake):
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        # A small answer must not wait for the next one.
        disable_nagle_algorithm = True

        def answer(self):
            """Answer one request."""
            address = urlsplit(self.path)
            body = self.rfile.read(int(self.headers.get("content-length") or 0))
            headers = {name.lower(): value for name, value in self.headers.items()}
            query = dict(parse_qsl(address.query, keep_blank_values=True))
            asked = Request(service, self.command, address.path, query, headers, body)
            reply = mistake(asked, lambda one: _forward(target, one))
            self.send_response_only(reply.status)
            for name, value in reply.headers.items():
                if name not in {"content-length", "transfer-encoding", "connection", "keep-alive"}:
                    self.send_header(name, value)
            if reply.status not in {204, 304} and self.command != "HEAD":
                self.send_header("content-length", str(len(reply.body)))
            elif "content-length" in reply.headers and self.command == "HEAD":
                self.send_header("content-length", reply.headers["content-length"])
            self.end_headers()
            if reply.status not in {204, 304} and self.command != "HEAD":
                self.wfile.write(reply.body)

        do_GET = do_PUT = do_POST = do_DELETE = do_HEAD = do_PATCH = do_MERGE = answer  # noqa: N815 - names of the library

        def log_message(self, *_):
            """Say nothing."""

    server = ThreadingHTTPServer((HOST, 0), Handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
    return server


def _forward(target, one):
    connection = http.client.HTTPConnection(HOST, target, timeout=LIMIT)
    try:
        path = f"{one.path}?{urlencode(one.query, quote_via=quote)}" if one.query else one.path
        headers = {**one.headers, "content-length": str(len(one.body)), "connection": "close"}
        connection.request(one.method, path, body=one.body or None, headers=headers)
        found = connection.getresponse()
        return Reply(found.status, {name.lower(): value for name, value in found.getheaders()}, found.read())
    finally:
        connection.close()
