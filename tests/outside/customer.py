"""A customer, who asks the app over HTTP with a function key."""

import json
import time
import urllib.error
import urllib.request
from dataclasses import dataclass
from urllib.parse import urlencode

from tests.waiting import LIMIT


@dataclass
class Answer:
    """What came back over HTTP."""

    status: int
    headers: object
    body: object
    seconds: float
    #: What came, byte for byte.
    content: bytes = b""


class _Stay(urllib.request.HTTPRedirectHandler):
    """Follows nobody elsewhere."""

    def redirect_request(self, *_):
        """Return no further request."""


class Customer:
    """Asks the app over HTTP."""

    def __init__(self, base, key):
        self.base, self.key = base, key
        self._opener = urllib.request.build_opener(_Stay)

    def ask(self, method, path, body=None, *, key=True, **headers):
        """Send a request and return its answer, also a refusal."""
        names = {name.replace("_", "-"): value for name, value in headers.items()}
        sent = {**({"x-functions-key": self.key} if key is True else {}), **names}
        data = body if isinstance(body, bytes | None) else json.dumps(body).encode()
        request = urllib.request.Request(self.base + path, data=data, headers=sent, method=method)
        began = time.monotonic()
        try:
            with self._opener.open(request, timeout=LIMIT) as answer:
                return self._answer(answer.status, answer.headers, answer.read(), began)
        except urllib.error.HTTPError as refused:
            return self._answer(refused.code, refused.headers, refused.read(), began)

    def _answer(self, status, headers, content, began):
        is_json = "json" in (headers.get("Content-Type") or "") and content
        return Answer(status, headers, json.loads(content) if is_json else content, time.monotonic() - began, content)

    def place(self, order, seats, **more):
        """Place an order."""
        return self.ask("POST", "/api/orders", {"order": order, "conference": "pycon", "seats": seats, **more})

    def show(self, order, code, **query):
        """Read an order."""
        return self.ask("GET", f"/api/orders/{order}?{urlencode(query)}", X_Access_Code=code)
