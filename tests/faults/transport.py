"""Sends storage requests as planned: with their effect, their reply, both or neither."""

import re

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
from urllib3.exceptions import IncompleteRead, ProtocolError

from shared.azure.transport import SignedSession

_ACCEPTED = 202
_REFUSED_PART = re.compile(rb"HTTP/1\.1 ([45]\d\d)")


class FaultyTransport(RequestsTransport):
    """Sends as planned."""

    def __init__(self, plan, session=None):
        super().__init__(session=session or SignedSession())
        self._plan = plan

    def send(self, request, **options):
        """Send, or end the process, or lose the request or its reply, or answer 503 before or after the effect."""
        site, details = described(request)
        mode = self._plan.take(site, **details)
        if mode == "reset_before":
            raise ServiceRequestError("the connection broke before the request")
        if mode == "503_before":
            return busy(request)
        if mode == "hang_then_timeout":
            self._plan.put_off(lambda: self._late(site, request, options))
            raise ServiceResponseTimeoutError("nothing was heard of the request")
        response = super().send(request, **options)
        if mode:
            return self._spoilt(mode, request, response, is_stream=bool(options.get("stream")))
        self._plan.heard(site, _status(response))
        self._plan.catch_up()
        return response

    def _late(self, site, request, options):
        response = super().send(request, **options)
        self._plan.heard(site, _status(response), is_late=True)
        response.internal_response.close()

    def _spoilt(self, mode, request, response, *, is_stream):
        if mode == "kill_after":
            # As the end of a process does; where it is an exception, nobody else would.
            response.internal_response.close()
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


def _status(response):
    """Return the status, or that of the part of a transaction that was refused."""
    if response.status_code != _ACCEPTED:
        return response.status_code
    refused = _REFUSED_PART.search(response.internal_response.content)
    return int(refused[1]) if refused else response.status_code


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


def busy(request, headers=None):
    """Return the answer of a service that has no time."""
    reply = requests.Response()
    reply.status_code, reply.reason, reply._content, reply._content_consumed = 503, "Server Busy", b"", True
    reply.headers.update({"x-ms-error-code": "ServerBusy", "content-type": "application/xml", **(headers or {})})
    if isinstance(request, HttpRequest):
        return RestRequestsTransportResponse(request=request, internal_response=reply)
    return RequestsTransportResponse(request, reply)


#: Names in paths that differ from run to run, and what stands for them in a table of sites.
_VARYING = (
    (re.compile(r"[0-9a-f]{64}"), "<sha256>"),
    (re.compile(r"/messages/[^/]+$"), "/messages/<id>"),
    (re.compile(r"\bjob-[a-z]+\b"), "<job>"),
    (re.compile(r"(?<=%2B)[0-9a-f]{16}"), "<hash>"),
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
    is_range = is_put and '"kind":"range"' in str(request.data)
    details = {"ttl": parameters.get("messagettl", "default"), "is_range": is_range} if is_put else {}
    return f"{request.method} {path}{comp}", details
