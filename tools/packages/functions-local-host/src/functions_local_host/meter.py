"""Counts the storage requests that the host makes for itself, apart from those of the app.

The count sits in the transport, below the SDK's retry policy: a retry is a request of its own, on the bill too.
"""

from collections import Counter
from typing import Any
from urllib.request import getproxies

from azure.core.pipeline.transport import AioHttpTransport, AsyncHttpResponse, HttpRequest


class Meter:
    """Requests by (requester, service, method), for instance ("poll work-00", "queue", "GET")."""

    def __init__(self) -> None:
        self.requests: Counter[tuple[str, str, str]] = Counter()

    def transport(self, requester: str, service: str) -> AioHttpTransport:
        """Return the transport for one client: `QueueClient(..., transport=meter.transport(...))`."""
        return _CountingTransport(self.requests, requester, service)


class _CountingTransport(AioHttpTransport):  # type: ignore[misc]  # the SDK imports it lazily, untyped
    def __init__(self, requests: Counter[tuple[str, str, str]], requester: str, service: str) -> None:
        # Looking for proxies and a .netrc file at each request takes a third of its CPU time.
        super().__init__(use_env_settings=bool(getproxies()))
        self._requests, self._requester, self._service = requests, requester, service

    async def send(self, request: HttpRequest, **config: Any) -> AsyncHttpResponse:
        """Count before sending: a request whose reply is lost is billed too."""
        self._requests[self._requester, self._service, request.method] += 1
        response: AsyncHttpResponse = await super().send(request, **config)
        return response
