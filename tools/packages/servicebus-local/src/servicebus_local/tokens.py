"""Shared access signatures, where the broker was told a key: whose token is right, and for what."""

import hmac
import time
from base64 import b64encode
from collections.abc import Callable
from dataclasses import dataclass
from hashlib import sha256
from urllib.parse import parse_qs, urlsplit

from servicebus_local.refusal import UNAUTHORIZED, Refusal

#: The policy of the one key; it may do everything.
POLICY = "RootManageSharedAccessKey"
_KIND = "SharedAccessSignature "


class Gatekeeper:
    """Knows the key, and takes tokens that were signed with it."""

    def __init__(self, key: str, clock: Callable[[], float] = time.time) -> None:
        self._key = key.encode()
        self._clock = clock

    def scope(self, token: str) -> "Scope":
        """Return what a token is good for, or refuse it in the service's words."""
        if not token.startswith(_KIND):
            raise _refused("MalformedToken: The token is no SharedAccessSignature; this stand-in takes no others.")
        # A plus is a plus in these values, not a blank.
        fields = {name: values[0] for name, values in parse_qs(token[len(_KIND) :].replace("+", "%2B")).items()}
        raw = dict(part.partition("=")[::2] for part in token[len(_KIND) :].split("&"))
        if not {"sr", "sig", "se", "skn"} <= set(fields):
            raise _refused("MalformedToken: The token lacks one of sr, sig, se and skn.")
        digest = hmac.new(self._key, f"{raw['sr']}\n{raw['se']}".encode(), sha256).digest()
        if fields["skn"] != POLICY or not hmac.compare_digest(b64encode(digest).decode(), fields["sig"]):
            raise _refused("InvalidSignature: The token has an invalid signature.")
        expires = float(fields["se"]) if fields["se"].isdecimal() else 0.0
        scope = Scope(urlsplit(fields["sr"]).path.strip("/").lower(), expires)
        if not scope.lasts(self._clock()):
            raise _refused(f"ExpiredToken: The token is expired. It ended at {fields['se']}.")
        return scope


@dataclass(frozen=True, slots=True)
class Scope:
    """What a token is good for."""

    path: str
    expires: float

    def lasts(self, now: float) -> bool:
        """Return true if the token has not ended."""
        return self.expires > now

    def covers(self, path: str) -> bool:
        """Return true if the token is for this entity, or for one above it."""
        return not self.path or f"{path.lower()}/".startswith(f"{self.path}/")


def _refused(why: str) -> Refusal:
    return Refusal(UNAUTHORIZED, why, 401)
