"""One fault at one storage request, below the retries of the clients, so that each repetition is a request of its own."""

import threading
from enum import StrEnum

from azure.core.exceptions import ServiceRequestError, ServiceResponseError, ServiceResponseTimeoutError
from azure.core.pipeline.transport import RequestsTransport


class CrashError(BaseException):
    """Stands for the end of the process: nothing that handles errors may catch it."""


class Mode(StrEnum):
    """What goes wrong."""

    CRASH_BEFORE = "the process ends before the request is sent"
    CRASH_AFTER = "the process ends after the request took effect"
    LOST_REQUEST = "the request is lost"
    LOST_REPLY = "the reply is lost"
    SLOW_REPLY = "the reply comes after the client gave up"
    UNAVAILABLE = "the service is unavailable"
    UNAVAILABLE_AFTER = "the service says unavailable although the request took effect"


_BEFORE = {Mode.CRASH_BEFORE: CrashError("before"), Mode.LOST_REQUEST: ServiceRequestError("lost on purpose")}
_AFTER = {
    Mode.CRASH_AFTER: CrashError("after"),
    Mode.LOST_REPLY: ServiceResponseError("lost on purpose"),
    Mode.SLOW_REPLY: ServiceResponseTimeoutError("too slow on purpose"),
}


class Fault:
    """The k-th request of a run meets the fault; every request is counted."""

    def __init__(self, k: int, mode: Mode) -> None:
        self.k, self.mode = k, mode
        self.seen = 0
        self.site = ""
        self._lock = threading.Lock()

    @property
    def has_fired(self):
        """Whether the run came as far as the fault."""
        return self.seen > self.k

    def transport(self):
        """Return the transport of one client."""
        return _FaultyTransport(self)

    def is_here(self, request):
        """Count one request, and say whether this is the one."""
        with self._lock:
            here = self.seen == self.k
            self.seen += 1
            if here:
                self.site = f"{request.method} {request.url.split('?')[0].rsplit('/', 2)[-1][:60]}"
            return here


class _FaultyTransport(RequestsTransport):
    def __init__(self, fault):
        super().__init__()
        self._fault = fault

    def send(self, request, **options):
        """Send the request, unless it is the one."""
        mode = self._fault.mode if self._fault.is_here(request) else None
        if mode in _BEFORE:
            raise _BEFORE[mode]
        address = request.url
        if mode is Mode.UNAVAILABLE:
            # Nothing is there, so nothing takes effect; of the answer only the status matters.
            request.url = address.split("?")[0].rsplit("/", 1)[0] + "/no/such/thing"
        response = super().send(request, **options)
        request.url = address
        if mode in _AFTER:
            response.internal_response.close()
            raise _AFTER[mode]
        if mode in {Mode.UNAVAILABLE, Mode.UNAVAILABLE_AFTER}:
            # Read to its end, or its connection would be left open.
            _ = response.internal_response.content
            response.status_code = response.internal_response.status_code = 503
            response.reason = "Server Busy"
        return response
