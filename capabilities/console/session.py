"""Lets a person in: on this machine by an address that is good once, and then by a cookie.

Cookies know no ports: with the path `/`, every other server on 127.0.0.1 would get this one. So all pages lie below a
random folder, and the cookie is for that folder alone.
"""

import secrets
from collections.abc import Callable
from dataclasses import dataclass
from threading import Lock
from typing import Final, Protocol

from werkzeug.exceptions import Forbidden, MethodNotAllowed
from werkzeug.utils import redirect
from werkzeug.wrappers import Request, Response

from capabilities.console.guard import check_host, is_same

#: Bytes of a secret value, and of the folder.
_SECRET_BYTES: Final = 16
_FOLDER_BYTES: Final = 12
#: Seconds for which an address that was printed is good.
GOOD_FOR: Final = 60.0
COOKIE: Final = "sluice"
_ENTRANCE: Final = "/enter/"


@dataclass(frozen=True, slots=True)
class Person:
    """A person who was let in."""

    #: The name that the audit keeps.
    who: str
    may_act: bool
    #: The key of the tokens in this person's forms.
    key: bytes
    #: Whether this console is on the person's own machine, where other people cannot open its addresses.
    is_local: bool = True
    #: A cookie to be set by the reply, as the header has it.
    cookie: str = ""


class Login(Protocol):
    """Finds out who sends a request."""

    def admit(self, request: Request) -> Person | Response:
        """Return the person, or the reply that lets one in, or raise the refusal.

        It moves the part of the path that belongs to the login into the request's root path.
        """
        ...

    def find_origin(self, request: Request) -> str:
        """Return the origin of the console's own pages: scheme, host and port."""
        ...


@dataclass(frozen=True, slots=True)
class _Ticket:
    secret: str
    until: float
    page: str


class LocalLogin:
    """Lets in the browser that opens an address which `sluice web` printed."""

    def __init__(self, port: int, who: str, *, may_act: bool, monotonic: Callable[[], float]) -> None:
        self._who, self._may_act, self._monotonic = who, may_act, monotonic
        self._host = f"127.0.0.1:{port}"
        self._folder = f"/{secrets.token_hex(_FOLDER_BYTES)}"
        self._cookie = secrets.token_urlsafe(_SECRET_BYTES)
        self._key = secrets.token_bytes(32)
        self._ticket: _Ticket | None = None
        self._lock = Lock()

    def issue(self, page: str = "/") -> str:
        """Return a new address, good once and for a minute. It leads to this page. The one before is void."""
        ticket = _Ticket(secrets.token_hex(_SECRET_BYTES), self._monotonic() + GOOD_FOR, f"/{page.lstrip('/')}")
        with self._lock:
            self._ticket = ticket
        return f"http://{self._host}{_ENTRANCE}{ticket.secret}"

    def find_origin(self, request: Request) -> str:  # noqa: ARG002 - one of a kind here
        """Return this server's origin."""
        return f"http://{self._host}"

    def admit(self, request: Request) -> Person | Response:
        """Let in by an address that is good, then by the cookie."""
        check_host(request, self._host)
        if request.path.startswith(_ENTRANCE):
            if request.method != "GET":
                # Programs that only look at an address must not use it up.
                raise MethodNotAllowed(["GET"])
            return self._enter(request.path.removeprefix(_ENTRANCE))
        folder, slash, rest = request.path.removeprefix("/").partition("/")
        if (
            not slash
            or not is_same(f"/{folder}", self._folder)
            or not is_same(request.cookies.get(COOKIE), self._cookie)
        ):
            raise Forbidden(
                "this address is not yours: press Enter in the terminal where `sluice web` runs, and open the address "
                "that it prints"
            )
        environ = request.environ
        environ["SCRIPT_NAME"], environ["PATH_INFO"] = self._folder, f"/{rest}".encode().decode("latin-1")
        return Person(self._who, self._may_act, self._key)

    def _enter(self, given: str) -> Response:
        with self._lock:
            ticket = self._ticket
            if ticket is None or self._monotonic() > ticket.until or not is_same(given, ticket.secret):
                raise Forbidden(
                    "this address was used before, or a minute is over: press Enter in the terminal where `sluice web` "
                    "runs, and open the address that it prints"
                )
            self._ticket = None
        response = redirect(f"{self._folder}{ticket.page}", 303)
        response.set_cookie(COOKIE, self._cookie, path=f"{self._folder}/", httponly=True, samesite="Strict")
        return response
