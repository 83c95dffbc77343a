"""Faults below the SDK's retry policy: each repetition of a request is a request of its own here."""

import threading
from collections import Counter

from azure.core.exceptions import ServiceResponseError
from azure.core.pipeline.transport import RequestsTransport


class Crash(BaseException):
    """The process ended here."""


class Plan:
    """What befalls the k-th request of one process, counted over all its clients from 1; 0: nothing ever."""

    def __init__(self, at=0, mode=""):
        self.at, self.mode = at, mode
        self.requests = []
        self.fired = False
        self._lock = threading.Lock()

    @property
    def counts(self):
        """How many requests went to each service."""
        return Counter(service for service, _method, _path in self.requests)

    def transport(self):
        """Make the transport of one client: the factory that Connections takes."""
        return FaultyTransport(self)

    def take(self, request):
        """Count a request and return what befalls it."""
        with self._lock:
            if self.fired and self.mode.startswith("kill"):
                raise Crash
            self.requests.append(described(request))
            if len(self.requests) != self.at:
                return ""
            self.fired = True
            return self.mode


class FaultyTransport(RequestsTransport):
    """Sends as planned: kill_before, kill_after, lost_reply."""

    def __init__(self, plan):
        super().__init__()
        self._plan = plan

    def send(self, request, **config):
        """Send, or end the process, or lose its reply."""
        mode = self._plan.take(request)
        if mode == "kill_before":
            raise Crash
        response = super().send(request, **config)
        if mode in {"kill_after", "lost_reply"}:
            response.internal_response.close()
        if mode == "kill_after":
            raise Crash
        if mode == "lost_reply":
            raise ServiceResponseError("the connection broke before the reply")
        return response


#: A request that is lost before it has an effect is only repeated; the interesting ones have had theirs.
MODES = ("kill_after", "lost_reply")


def described(request):
    """Return service, method and path, without the account and the query."""
    path = request.url.partition("?")[0].split("/", 4)[-1]
    service = "blob" if path.startswith("gates/") else "queue" if path.endswith("/messages") else "table"
    return service, request.method, path
