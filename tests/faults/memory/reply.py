"""What is asked of a service, and what it answers."""

import http
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Asked:
    """One request, its path without the account."""

    method: str
    path: str
    query: dict
    headers: Any
    body: bytes


@dataclass(frozen=True)
class Reply:
    """One answer."""

    status: int
    body: bytes = b""
    headers: dict = field(default_factory=dict)

    @property
    def reason(self):
        """The words of the status line."""
        return http.HTTPStatus(self.status).phrase


def refusal(status, code):
    """Return the refusal of the blob or queue service."""
    text = f'<?xml version="1.0" encoding="utf-8"?><Error><Code>{code}</Code><Message>{code}</Message></Error>'
    return Reply(status, text.encode(), {"x-ms-error-code": code, "Content-Type": "application/xml"})


def http_date(moment):
    """Return a time as headers have it."""
    return moment.strftime("%a, %d %b %Y %H:%M:%S GMT")
