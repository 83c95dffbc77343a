"""Storage in memory below the real libraries: their transports call it instead of a network."""

import itertools
import pickle
import threading
import urllib.parse
from datetime import UTC, datetime, timedelta
from functools import partial

import requests
from requests.structures import CaseInsensitiveDict

from capabilities.registration.entities import registration
from shared.azure.connections import Connections
from shared.topology import topology
from tests.faults.memory.blobs import Blobs
from tests.faults.memory.queues import Queues
from tests.faults.memory.reply import Asked
from tests.faults.memory.tables import Tables
from tests.faults.plan import Plan
from tests.faults.transport import FaultyTransport

_ENDPOINTS = "".join(
    f"{service}Endpoint=http://{service.lower()}.memory/sim;" for service in ("Blob", "Queue", "Table")
)
CONNECTION_STRING = f"DefaultEndpointsProtocol=http;AccountName=sim;AccountKey=c2lt;{_ENDPOINTS}"


class MemoryStorages:
    """Gives each run storage of its own."""

    def __init__(self):
        #: What a run began with, by scenario: preparing it again would lead to the same.
        self.prepared = {}

    def fresh(self, _entities=()):
        """Return a storage that nobody has used. It always has the entities of every part."""
        return MemoryStorage()


class MemoryStorage:
    """One account, with a time of its own that only waiting moves."""

    is_real = False
    connection_string = CONNECTION_STRING

    def __init__(self, *parts):
        self._now, self._lock = datetime(2026, 11, 20, 12, tzinfo=UTC), threading.Lock()
        self._versions, self._told = itertools.count(1), lambda: self._now
        whole = topology(entities=[registration(), *parts])
        self._services = {
            "blob": Blobs(self, whole.containers),
            "queue": Queues(self, whole.queues),
            "table": Tables(self, whole.tables),
        }

    @property
    def now(self):
        """The time of this account."""
        return self._now

    def follow(self, clock):
        """Date insertions by a run's clock, which runs ahead of the time that only waiting moves."""
        self._told = clock

    @property
    def inserts_at(self):
        """The time of what is inserted now."""
        return max(self._now, self._told())

    def version(self):
        """Return a number that no other change has."""
        return next(self._versions)

    def connections(self):
        """Return connections without faults."""
        return Connections(CONNECTION_STRING, transport=lambda: self.transport(Plan()))

    def serve(self, connections):
        """Have connections reach this storage below their meter, which counts as over a network."""
        connections.meter.transport = partial(connections.meter.transport, session=MemorySession(self))

    def transport(self, plan):
        """Return a transport with the faults of the plan."""
        return FaultyTransport(plan, MemorySession(self))

    def content(self, service):
        """Return what one service holds: rows by table and key, blobs by container and name, messages by queue."""
        return self._services[service].content

    def put_blob(self, container, name, content, metadata, content_type):
        """Put a blob there without a request."""
        self._services["blob"].put(container, name, content, metadata, content_type)

    def save(self):
        """Return the content, to be restored in another storage."""
        versions = next(self._versions)
        return pickle.dumps((self._now, versions, {name: each.content for name, each in self._services.items()}))

    def restore(self, saved):
        """Take over a content."""
        self._now, version, contents = pickle.loads(saved)
        self._versions = itertools.count(version)
        for name, content in contents.items():
            self._services[name].content = content

    def depth(self, queue, _connections):
        """Return how many messages a queue has; runs ask so often that a request would be a fifth of all."""
        return len(self._services["queue"].content[queue])

    def wait(self, seconds):
        """Let time pass."""
        self._now += timedelta(seconds=seconds)

    def answer(self, method, address, headers, body):
        """Have a request take effect and return its reply."""
        url = urllib.parse.urlsplit(address)
        asked = Asked(
            method,
            urllib.parse.unquote(url.path.split("/", 2)[2]),
            {name: values[0] for name, values in urllib.parse.parse_qs(url.query, keep_blank_values=True).items()},
            CaseInsensitiveDict(headers),
            _bytes(body),
        )
        with self._lock:
            return self._services[url.hostname.partition(".")[0]].answer(asked)


class MemorySession:
    """What the library's transport takes for a session of connections: there is no network below it."""

    def __init__(self, storage):
        self._storage = storage

    def request(self, method, url, *, headers, data, stream=False, **_options):
        """Have the request take effect and return the response as a network would."""
        reply = self._storage.answer(method, url, headers, data)
        made = requests.Response()
        made.status_code, made.reason, made.url, made.raw = reply.status, reply.reason, url, _Raw(reply.body)
        made.headers = CaseInsensitiveDict({"x-ms-version": "2025-07-05", "x-ms-request-id": "sim", **reply.headers})
        made.headers.setdefault("Content-Length", str(len(reply.body)))
        if not stream:
            made._content, made._content_consumed = reply.body, True
        return made

    def close(self):
        """Nothing to close."""


class _Raw:
    """A body that is read as from a connection."""

    def __init__(self, body):
        self._body = body

    def stream(self, _amount, decode_content=None):
        """Yield it."""
        yield self._body

    def close(self):
        """Nothing to close."""

    def release_conn(self):
        """Nothing to give back."""


def _bytes(body):
    body = body.read() if hasattr(body, "read") else body
    return body.encode() if isinstance(body, str) else bytes(body or b"")
