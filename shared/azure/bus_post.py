"""Sends an empty message to the bus by one HTTP request, for which no link and no thread is needed.

To open a link of AMQP takes some ten round trips. A program that sends one message needs two or three this way.
"""

import hmac
import time
from base64 import b64encode
from collections.abc import Callable, Mapping
from hashlib import sha256
from typing import Any, Final
from urllib.parse import quote_plus

from azure.core.credentials import TokenCredential
from azure.servicebus import parse_connection_string
from requests import ConnectionError as NoConnectionError, Session, Timeout

from shared.clock import Closing
from shared.errors import SignalNotSentError

#: Seconds for the connection, and for the answer.
PATIENCE: Final = (1.0, 1.0)
#: The scope of the bus in Entra, as Azure's own library spells it.
_SCOPE: Final = "https://servicebus.azure.net//.default"
#: Seconds that a signature lasts: more than two clocks differ.
_SIGNED_FOR: Final = 3600
_CREATED: Final = 201


class BusPost(Closing):
    """Sends to one queue of the bus. Several threads may send. Close it when done."""

    def __init__(self, address: str, authorize: Callable[[], str], queue: str) -> None:
        """Take the address of the namespace, and what returns the header `Authorization`."""
        self._address, self._authorize = f"{address}/{queue}/messages", authorize
        self._session = Session()
        # Without this, the session searches for a login in a file of the user.
        self._session.auth = self._sign

    def __call__(self, properties: Mapping[str, str]) -> None:
        """Send a message with these properties and nothing else. Raise any error of the login, or of the request."""
        headers = {name: f'"{text}"' for name, text in properties.items()}
        try:
            status = self._post(headers)
        except Timeout:
            raise
        except NoConnectionError:
            # The bus closes a connection that was idle. A message that comes twice by this is a hint too many.
            status = self._post(headers)
        if status != _CREATED:
            raise SignalNotSentError(f"the bus answered {status}, and takes a message by {_CREATED}")

    def close(self) -> None:
        """Close the connection."""
        self._session.close()

    def _post(self, headers: Mapping[str, str]) -> int:
        with self._session.post(
            self._address, data=b"", headers=headers, timeout=PATIENCE, allow_redirects=False
        ) as answer:
            return int(answer.status_code)

    def _sign(self, request: Any) -> Any:
        request.headers["Authorization"] = self._authorize()
        return request


def post_by_key(connection: str, queue: str, *, is_local: bool) -> BusPost:
    """Build it from a connection string."""
    parsed = parse_connection_string(connection)
    address = f"{'http' if is_local else 'https'}://{parsed.fully_qualified_namespace}"
    name, key = parsed.shared_access_key_name or "", parsed.shared_access_key or ""
    return BusPost(address, lambda: parsed.shared_access_signature or sign(f"{address}/{queue}", name, key), queue)


def post_by_login(namespace: str, credential: TokenCredential, queue: str) -> BusPost:
    """Build it from the name of a namespace and a login."""
    return BusPost(f"https://{namespace}", lambda: f"Bearer {credential.get_token(_SCOPE).token}", queue)


def sign(resource: str, name: str, key: str, now: Callable[[], float] = time.time) -> str:
    """Return a shared access signature for a queue, by the key of a policy."""
    quoted, expires = quote_plus(resource), int(now()) + _SIGNED_FOR
    digest = hmac.new(key.encode(), f"{quoted}\n{expires}".encode(), sha256).digest()
    signature = quote_plus(b64encode(digest))
    return f"SharedAccessSignature sr={quoted}&sig={signature}&se={expires}&skn={quote_plus(name)}"
