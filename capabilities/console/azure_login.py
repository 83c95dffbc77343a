"""Lets a person in by Azure's own login (Easy Auth), which puts a header before the app that no sender can set."""

import base64
import re
import secrets
from dataclasses import dataclass
from typing import Final
from urllib.parse import quote

import msgspec
from werkzeug.exceptions import Forbidden
from werkzeug.http import dump_cookie
from werkzeug.wrappers import Request, Response

from capabilities.console.guard import READS
from capabilities.console.session import Person
from shared.versions import decode

PRINCIPAL: Final = "X-MS-CLIENT-PRINCIPAL"
READER, OPERATOR = "Reader", "Operator"
#: Its prefix binds it to this host, and to the whole of it. Not strict: it would be missing after the login.
COOKIE: Final = "__Host-sluice"
_ENTRA: Final = "aad"
_LOGIN: Final = f"/.auth/login/{_ENTRA}?post_login_redirect_uri="
_ROLES: Final = "roles"
_OBJECT_IDS: Final = frozenset({"oid", "http://schemas.microsoft.com/identity/claims/objectidentifier"})
_SESSION_BYTES: Final = 32
_SESSION: Final = re.compile(r"[A-Za-z0-9_-]{43}")
#: Characters of a name that the audit keeps.
_MOST_NAME: Final = 100


class _Claim(msgspec.Struct):
    typ: str
    val: str | None = None


class _Token(msgspec.Struct):
    auth_typ: str
    claims: list[_Claim]
    name_typ: str | None = None
    role_typ: str | None = None

    def find(self, *kinds: str | None) -> set[str]:
        """Return the values of the claims of these kinds."""
        return {one.val for one in self.claims if one.val and one.typ and one.typ in kinds}


@dataclass(frozen=True, slots=True)
class Principal:
    """The sender of a request, as Azure's login names it."""

    who: str
    roles: frozenset[str]


def read_principal(header: str) -> Principal:
    """Return the sender. Refuse a header that cannot be read, or that names two."""
    try:
        # Strict: two headers arrive as one text with a comma.
        token = decode(base64.b64decode(header, validate=True), _Token)
    except (ValueError, RecursionError, msgspec.MsgspecError) as error:
        raise Forbidden(
            "what Azure's login says of you cannot be read: log out at /.auth/logout and in again"
        ) from error
    if token.auth_typ != _ENTRA:
        raise Forbidden("this console lets in by Microsoft Entra alone, and you came by another login")
    names = token.find(token.name_typ) or token.find("preferred_username")
    ids = token.find(*_OBJECT_IDS)
    if len(names) > 1 or len(ids) != 1:
        raise Forbidden("what Azure's login says of you names no person, or two: log out at /.auth/logout and in again")
    name = " ".join("".join(names).split())[:_MOST_NAME]
    return Principal(f"{name} ({ids.pop()})".strip(), frozenset(token.find(token.role_typ, _ROLES)))


class AzureLogin:
    """Lets in who has one of the two roles. Keeps nothing: any process of the app answers the next request."""

    def admit(self, request: Request) -> Person | Response:
        """Return the person, or the way to the login, or raise the refusal."""
        header = request.headers.get(PRINCIPAL)
        if not header:
            return _send_to_login(request)
        principal = read_principal(header)
        if not principal.roles & {READER, OPERATOR}:
            raise Forbidden(f"you have neither the role {READER} nor {OPERATOR} of this console: ask its owner for one")
        if OPERATOR not in principal.roles:
            # No form, so nothing to sign.
            return Person(principal.who, may_act=False, key=secrets.token_bytes(_SESSION_BYTES), is_local=False)
        known = request.cookies.get(COOKIE, "")
        session = known if _SESSION.fullmatch(known) else secrets.token_urlsafe(_SESSION_BYTES)
        cookie = "" if session == known else _make_cookie(session)
        return Person(principal.who, may_act=True, key=session.encode(), is_local=False, cookie=cookie)

    def find_origin(self, request: Request) -> str:
        """Return the origin under which the sender knows this app."""
        return request.host_url.rstrip("/")


def _send_to_login(request: Request) -> Response:
    """Return the way to the login and back. An act is refused, and so is a page that looks again: neither can be repeated after the login."""
    if request.method not in READS or "part" in request.args:
        raise Forbidden("your login has ended: open the page again; nothing was done")
    query = f"?{request.query_string.decode('latin-1')}" if request.query_string else ""
    back = f"{quote(request.root_path + request.path)}{query}"
    return Response(status=302, headers={"Location": f"{_LOGIN}{quote(back, safe='')}"})


def _make_cookie(session: str) -> str:
    return dump_cookie(COOKIE, session, path="/", secure=True, httponly=True, samesite="Lax")
