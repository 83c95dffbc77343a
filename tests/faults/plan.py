"""What befalls the requests of one process: numbered below the SDK's retry policy, each repetition on its own."""

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from threading import RLock
from typing import Any

import requests
from azure.core.exceptions import (
    IncompleteReadError,
    ServiceRequestError,
    ServiceResponseError,
    ServiceResponseTimeoutError,
)
from azure.core.pipeline.transport import RequestsTransport, RequestsTransportResponse
from azure.core.rest import HttpRequest
from azure.core.rest._requests_basic import RestRequestsTransportResponse
from azure.servicebus.exceptions import ServiceBusConnectionError
from urllib3.exceptions import IncompleteRead, ProtocolError

MODES = (
    "kill_before",
    "kill_after",
    "reset_before",
    "reset_after",
    "503_before",
    "503_after",
    "hang_then_timeout",
    "truncated_reply",
)
#: Modes in which the request has its effect before the process hears of the fault, or although it never does.
_WITH_EFFECT = {"kill_after", "reset_after", "503_after", "truncated_reply"}


class KilledError(BaseException):
    """The process ended here: no handler of `Exception` sees it."""


@dataclass(frozen=True)
class Fault:
    """One fault: at which request of its process, from 1, and what happens."""

    at: int
    mode: str

    def __str__(self):
        return f"{self.mode}@{self.at}"


def killed():
    """End the process as far as one can within it."""
    raise KilledError


@dataclass
class Plan:
    """The faults of one process, counted over everything that it sends."""

    faults: Iterable[Fault] = ()
    #: Ends the process; in a forked child it really does.
    die: Callable[[], None] = killed
    #: Is told of every request: (stage, site, details).
    note: Callable[..., None] = lambda *_: None
    #: Which stage of the pipeline is at work.
    stage: str = "-"
    fired: set[Fault] = field(default_factory=set)
    count: int = 0

    def __post_init__(self):
        self._modes = {fault.at: fault for fault in self.faults}
        self._lock, self.is_dead = RLock(), False
        self._late: list[Callable[[], Any]] = []

    def after_death(self):
        """Return the plan of the process that follows, which counts on."""
        return replace(self, stage="-", count=self.count)

    def take(self, site, **details):
        """Count a request and return what befalls it."""
        with self._lock:
            if self.is_dead:
                raise KilledError
            self.count += 1
            fault = self._modes.get(self.count)
            self.note("request", self.stage, site, {**details, **({"fault": fault.mode} if fault else {})})
            if fault is None:
                return ""
            self.fired.add(fault)
            if fault.mode == "kill_before":
                self.end()
            return fault.mode

    def end(self):
        """End the process: nothing that still runs in it sends anything any more."""
        self.is_dead = True
        self.die()

    def put_off(self, act):
        """Have a request that hung take effect later, when its sender has long given up."""
        self._late.append(act)

    def catch_up(self):
        """Let what hung take effect now."""
        with self._lock:
            late, self._late = self._late, []
        for act in late:
            act()

    def around(self, site, act):
        """Do something on the bus, with the same faults; they are the library's errors there."""
        mode = self.take(site)
        if mode == "hang_then_timeout":
            self.put_off(act)
        elif not mode or mode in _WITH_EFFECT:
            act()
        if mode == "kill_after":
            self.end()
        if mode:
            raise ServiceBusConnectionError(message=f"{mode}: planned")
        self.catch_up()


class FaultyTransport(RequestsTransport):
    """Sends as planned."""

    def __init__(self, plan):
        super().__init__()
        self._plan = plan

    def deliver(self, request, **options):
        """Have the request take effect and return the response."""
        return super().send(request, **options)

    def send(self, request, **options):
        """Send, or end the process, or lose the request or its reply, or answer 503 before or after the effect."""
        site, details = described(request)
        mode = self._plan.take(site, **details)
        if mode == "reset_before":
            raise ServiceRequestError("the connection broke before the request")
        if mode == "503_before":
            return busy(request)
        if mode == "hang_then_timeout":
            self._plan.put_off(lambda: self._late(request, options))
            raise ServiceResponseTimeoutError("nothing was heard of the request")
        response = self.deliver(request, **options)
        return (
            self._spoilt(mode, request, response, is_stream=bool(options.get("stream")))
            if mode
            else self._on_time(response)
        )

    def _on_time(self, response):
        self._plan.catch_up()
        return response

    def _late(self, request, options):
        self.deliver(request, **options).internal_response.close()

    def _spoilt(self, mode, request, response, *, is_stream):
        if mode == "kill_after":
            self._plan.end()
        if mode == "truncated_reply" and is_stream:
            response.internal_response.raw = _Cut(response.internal_response.raw)
            return response
        has_body = bool(not is_stream and response.internal_response.content)
        response.internal_response.close()
        if mode == "503_after":
            return busy(request)
        if mode == "truncated_reply" and has_body:
            raise IncompleteReadError("IncompleteRead: the reply ended in its middle")
        raise ServiceResponseError("the connection broke before the reply")


class _Cut:
    """A reply's body of which the second half never comes."""

    def __init__(self, raw):
        self._raw = raw

    def stream(self, amount, decode_content=None):
        """Yield half of the body, then fail as the library below does."""
        whole = b"".join(self._raw.stream(amount, decode_content=decode_content))
        yield whole[: len(whole) // 2]
        rest = len(whole) - len(whole) // 2
        raise ProtocolError("IncompleteRead", IncompleteRead(len(whole) // 2, rest))

    def close(self):
        """Close the connection."""
        self._raw.close()

    def release_conn(self):
        """Give the connection back."""
        self._raw.release_conn()

    def __getattr__(self, name):
        return getattr(self._raw, name)


def busy(request):
    """Return the answer of a service that has no time."""
    reply = requests.Response()
    reply.status_code, reply.reason, reply._content, reply._content_consumed = 503, "Server Busy", b"", True
    reply.headers.update({"x-ms-error-code": "ServerBusy", "content-type": "application/xml"})
    if isinstance(request, HttpRequest):
        return RestRequestsTransportResponse(request=request, internal_response=reply)
    return RequestsTransportResponse(request, reply)


#: Names in paths that differ from run to run, and what stands for them in a table of sites.
_VARYING = (
    (re.compile(r"[0-9a-f]{64}"), "<sha256>"),
    (re.compile(r"/messages/[^/]+$"), "/messages/<id>"),
    (re.compile(r"\bjob-[a-z]+\b"), "<job>"),
    (re.compile(r"chunk:?-?\d+(-\d+)?"), "<chunk>"),
    (re.compile(r"(?<=<job>/)(\d+)/\d+$"), "<revision>/<chunk>"),
    (re.compile(r"(?<=<job>/)(\d+)/"), "<revision>/"),
    (re.compile(r"\d{4}-\d\d-\d\dT[\d:%A]+Z"), "<due>"),
    (re.compile(r"'[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}'"), "'<id>'"),
    (re.compile(r"RowKey='(?!job'|%21)[^']*\d[^']*'"), "RowKey='<key>'"),
)


def described(request):
    """Return method and path without account and what differs from run to run, and details for the checks."""
    url, _, query = request.url.partition("?")
    path = url.split("/", 4)[-1]
    for pattern, name in _VARYING:
        path = pattern.sub(name, path)
    parameters = dict(part.partition("=")[::2] for part in query.split("&") if part)
    comp = f"?comp={parameters['comp']}" if "comp" in parameters else ""
    is_put = request.method == "POST" and path.endswith("/messages")
    return f"{request.method} {path}{comp}", {"ttl": parameters.get("messagettl", "default")} if is_put else {}
