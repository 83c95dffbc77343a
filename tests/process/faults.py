"""Faults below the SDK's retry policy, numbered over everything that a process sends."""

from threading import Lock

import requests
from azure.core.exceptions import ServiceRequestError, ServiceResponseError
from azure.core.pipeline.transport import RequestsTransport
from azure.core.pipeline.transport._requests_basic import RequestsTransportResponse
from azure.core.rest import HttpRequest
from azure.core.rest._requests_basic import RestRequestsTransportResponse

MODES = ("kill_before", "kill_after", "lost_request", "lost_reply", "busy_before", "busy_after")
#: What happens to a send on the bus: there is no library's retry to hide it.
FAILURES = {"lost_request", "lost_reply", "busy_before", "busy_after"}


class Killed(BaseException):
    """The process ended here: nothing of it runs any more."""


class Plan:
    """What befalls the k-th request of one process, from 1; 0: nothing ever."""

    def __init__(self, at=0, mode=""):
        self.at, self.mode, self.fired, self.sites = at, mode, False, []
        self._lock = Lock()

    def take(self, site):
        """Count a request and return what befalls it."""
        with self._lock:
            if self.fired and self.mode.startswith("kill"):
                raise Killed
            self.sites.append(site)
            if len(self.sites) != self.at:
                return ""
            self.fired = True
            return self.mode

    def transport(self):
        """Make the transport of one client."""
        return FaultyTransport(self)

    def around(self, site, act, error):
        """Do something that is no storage request, with the same faults."""
        mode = self.take(site)
        if mode == "kill_before":
            raise Killed
        if mode not in {"lost_request", "busy_before"}:
            act()
        if mode == "kill_after":
            raise Killed
        if mode in FAILURES:
            raise error


class FaultyTransport(RequestsTransport):
    """Sends as planned."""

    def __init__(self, plan):
        super().__init__()
        self._plan = plan

    def send(self, request, **options):
        """Send, or end the process, or lose the request or its reply, or say 503 before or after the effect."""
        path = request.url.partition("?")[0].split("/", 4)[-1]
        mode = self._plan.take(f"{request.method} {path.split('/')[0].split('(')[0]}")
        if mode == "kill_before":
            raise Killed
        if mode == "lost_request":
            raise ServiceRequestError("the connection broke before the request")
        if mode == "busy_before":
            return _busy(request)
        response = super().send(request, **options)
        if mode:
            response.internal_response.close()
        if mode == "kill_after":
            raise Killed
        if mode == "lost_reply":
            raise ServiceResponseError("the connection broke before the reply")
        return _busy(request) if mode == "busy_after" else response


def _busy(request):
    reply = requests.Response()
    reply.status_code, reply.reason, reply._content, reply._content_consumed = 503, "Server Busy", b"", True
    reply.headers.update({"x-ms-error-code": "ServerBusy", "content-type": "application/xml"})
    if isinstance(request, HttpRequest):
        return RestRequestsTransportResponse(request=request, internal_response=reply)
    return RequestsTransportResponse(request, reply)
