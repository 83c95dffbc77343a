"""Speaks the part of Azure Resource Manager that scaling needs: one app, read and patched; and refuses or fails as it does."""

import copy
import json
import socket
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit

SITE = "/subscriptions/s-1/resourceGroups/rg/providers/Microsoft.Web/sites/sluice-app"
CONFIGURATION = {
    "deployment": {"storage": {"type": "blobContainer", "value": "https://host.blob.core.windows.net/package"}},
    "runtime": {"name": "python", "version": "3.12"},
    "scaleAndConcurrency": {
        "alwaysReady": [{"name": "http", "instanceCount": 1}],
        "maximumInstanceCount": 100,
        "instanceMemoryMB": 2048,
        "triggers": {"http": {"perInstanceConcurrency": 16}},
    },
}
#: What of the app is outside of its configuration; a change must not name it.
OTHERS = {
    "kind": "functionapp,linux",
    "tags": {"azd-env-name": "prod", "cost-center": "42"},
    "identity": {"type": "UserAssigned", "userAssignedIdentities": {"/…/id-sluice": {}}},
}


class Server(ThreadingHTTPServer):
    """The app as it is now, every request that came, and the faults to come."""

    def __init__(self):
        super().__init__(("127.0.0.1", 0), _Handler)
        self.configuration, self.others, self.requests = copy.deepcopy(CONFIGURATION), copy.deepcopy(OTHERS), []
        self.has_flex, self.is_slow, self.refusal = True, False, None
        #: By number of the request, from 1: a status to refuse it with, "dropped" before its effect, "lost" after it.
        self.faults = {}

    @property
    def endpoint(self):
        """Where it listens."""
        return f"http://127.0.0.1:{self.server_address[1]}"

    @property
    def scale(self):
        """The part that changes."""
        return self.configuration["scaleAndConcurrency"]

    @property
    def counts(self):
        """The always-ready instances by group."""
        return {one["name"]: one["instanceCount"] for one in self.scale["alwaysReady"]}

    def site(self):
        """Return the app as Azure shows it."""
        properties = {"state": "Running", "httpsOnly": True}
        properties |= {"functionAppConfig": self.configuration} if self.has_flex else {}
        return {"id": SITE, "name": "sluice-app", "location": "westeurope", **self.others, "properties": properties}

    def handle_error(self, request, client_address):
        """Say nothing: a lost reply is meant to be lost."""


class _Handler(BaseHTTPRequestHandler):
    def do_GET(self):
        self._answered("GET")

    def do_PATCH(self):
        self._answered("PATCH")

    def _answered(self, method):
        address = urlsplit(self.path)
        body = json.loads(self.rfile.read(int(self.headers.get("Content-Length") or 0)) or b"null")
        self.server.requests.append((method, address.path, parse_qs(address.query), dict(self.headers), body))
        fault = self.server.faults.pop(len(self.server.requests), None)
        if fault == "dropped":
            self._hang_up()
            return
        if isinstance(fault, int):
            self._reply(fault, {"error": {"code": "Conflict", "message": "another change is going on"}})
            return
        if address.path != SITE or self.server.refusal:
            code, name = self.server.refusal or (404, "ResourceNotFound")
            self._reply(code, {"error": {"code": name, "message": "as this test wants it"}})
            return
        if method == "PATCH" and not self.server.is_slow:
            # Whole properties take the place of those that were: the stricter reading of a patch.
            self.server.configuration = body["properties"]["functionAppConfig"]
        if fault == "lost":
            self._hang_up()
            return
        self._reply(202 if self.server.is_slow and method == "PATCH" else 200, self.server.site())

    def _hang_up(self):
        self.connection.shutdown(socket.SHUT_RDWR)
        self.close_connection = True

    def _reply(self, code, document):
        content = json.dumps(document).encode()
        self.send_response(code)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_):
        """Say nothing: tests look at what was asked."""


@contextmanager
def running():
    """Run the server."""
    server = Server()
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
