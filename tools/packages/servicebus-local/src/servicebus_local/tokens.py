"""Shared access signatures, where the broker was told policies: whose token is right, for what, and with which rights."""

import hmac
import json
import time
from base64 import b64encode
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from enum import StrEnum
from hashlib import sha256
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

from servicebus_local.refusal import UNAUTHORIZED, Refusal

#: The policy that every namespace of Azure has from its start. It may do everything.
POLICY = "RootManageSharedAccessKey"
_KIND = "SharedAccessSignature "
_FIELDS = frozenset({"name", "key", "rights", "entity"})


class Right(StrEnum):
    """What a policy allows."""

    LISTEN = "Listen"
    SEND = "Send"
    MANAGE = "Manage"


@dataclass(frozen=True, slots=True)
class Policy:
    """A shared access policy of a queue or a topic, or of the namespace."""

    name: str
    key: str
    rights: Collection[Right] = frozenset(Right)
    #: The name of the queue or topic. Empty: the policy is the namespace's.
    entity: str = ""

    def __post_init__(self) -> None:
        if not self.rights or not self.key:
            raise ValueError(f"policy {self.name!r} needs a key, and one right or more")
        if Right.MANAGE in self.rights and set(self.rights) != set(Right):
            raise ValueError(f"policy {self.name!r} has Manage: Service Bus wants Listen and Send with it")


def read_policies(file: Path) -> list[Policy]:
    """Return the policies of a file: a list of objects with `name`, `key`, `rights`, and `entity` if it has one."""
    try:
        return [_policy(one) for one in json.loads(file.read_text(encoding="utf-8"))]
    except (ValueError, LookupError, TypeError, AttributeError) as error:
        raise ValueError(f"{file} holds no policies as expected: {type(error).__name__}: {error}") from error


def _policy(given: dict[str, Any]) -> Policy:
    if strange := sorted(set(given) - _FIELDS):
        raise ValueError(f"a policy has no {strange[0]!r}: it has {', '.join(sorted(_FIELDS))}")
    return Policy(given["name"], given["key"], frozenset(map(Right, given["rights"])), given.get("entity", ""))


def written(policies: Iterable[Policy]) -> str:
    """Return policies as the file that `read_policies` reads."""
    return json.dumps(
        [{"name": one.name, "key": one.key, "rights": [*one.rights], "entity": one.entity} for one in policies]
    )


class Gatekeeper:
    """Knows the policies, and takes tokens that were signed with the key of one."""

    def __init__(self, policies: Iterable[Policy], clock: Callable[[], float] = time.time) -> None:
        self._policies = tuple(policies)
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
        path, signed = urlsplit(fields["sr"]).path.strip("/").lower(), f"{raw['sr']}\n{raw['se']}".encode()
        signer = next((one for one in self._named(fields["skn"], path) if _is_signed(one, signed, fields["sig"])), None)
        if signer is None:
            raise _refused("InvalidSignature: The token has an invalid signature.")
        expires = float(fields["se"]) if fields["se"].isdecimal() else 0.0
        scope = Scope(path, expires, frozenset(signer.rights))
        if not scope.lasts(self._clock()):
            raise _refused(f"ExpiredToken: The token is expired. It ended at {fields['se']}.")
        return scope

    def _named(self, name: str, path: str) -> Iterable[Policy]:
        """Return the policies of this name that may sign for a path: an entity's own sign for nothing above it."""
        return (one for one in self._policies if one.name == name and _is_below(path, one.entity.lower()))


def _is_signed(policy: Policy, signed: bytes, signature: str) -> bool:
    digest = hmac.new(policy.key.encode(), signed, sha256).digest()
    return hmac.compare_digest(b64encode(digest).decode(), signature)


def _is_below(path: str, above: str) -> bool:
    return not above or f"{path}/".startswith(f"{above}/")


@dataclass(frozen=True, slots=True)
class Scope:
    """What a token is good for."""

    path: str
    expires: float
    rights: frozenset[Right]

    def lasts(self, now: float) -> bool:
        """Return true if the token has not ended."""
        return self.expires > now

    def covers(self, path: str) -> bool:
        """Return true if the token is for this entity, or for one above it."""
        return _is_below(path.lower(), self.path)


def demand(scopes: Iterable[Scope], path: str, rights: Iterable[Right], now: float) -> None:
    """Refuse who has no token for a path, or one without a right that is needed. Tokens do not add up."""
    held = [one.rights for one in scopes if one.covers(path) and one.lasts(now)]
    if not held:
        raise _refused(f"Unauthorized access. No valid token was put for {path!r}.")
    needed = list(rights)
    if not any(set(needed) <= one for one in held):
        lacking = ", ".join(one for one in needed if one not in held[-1])
        raise _refused(
            f"Unauthorized access. '{lacking}' claim(s) are required to perform this operation. Resource: '{path}'."
        )


def _refused(why: str) -> Refusal:
    return Refusal(UNAUTHORIZED, why, 401)
