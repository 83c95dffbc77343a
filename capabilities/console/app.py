"""The application: from a request to a reply. Each page says what it has cost."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from decimal import Decimal
from functools import partial
from hashlib import blake2b
from typing import Any, Final
from wsgiref.types import StartResponse

from markupsafe import Markup
from werkzeug.exceptions import Conflict, Forbidden, HTTPException, InternalServerError, ServiceUnavailable
from werkzeug.http import dump_options_header
from werkzeug.routing import Map, MapAdapter, RequestRedirect, Rule
from werkzeug.utils import redirect
from werkzeug.wrappers import Request, Response

from capabilities.console import pages
from capabilities.console.acts import Form, draw_form
from capabilities.console.guard import READS, check_origin, protect
from capabilities.console.render import render
from capabilities.console.session import Login, Person
from capabilities.console.static_files import address_of, serve
from capabilities.console.visit import Download, Page, View, Visit
from shared import __version__
from shared.azure import RequestTally, tally_requests, usage_of_counts
from shared.errors import ActRepeatedError, SluiceError, StorageUnavailableError
from shared.operating import LONGEST as MOST_TEXT
from shared.telemetry import describe_error, events, place, tell
from shared.usage import price

#: A page that looks again gets its moving part alone.
PART: Final = "part"
_STATIC: Final = "static"
#: Seconds after which a browser opens a page again that storage did not answer for.
_TRIES_EACH: Final = "10"
_NOT_FOUND, _UNAVAILABLE = 404, 503
_INSET: Final = "<!--inset-->"
#: A page that is open when another build answers loads itself again.
BUILD: Final = f"{__version__} {address_of('console.js')}"
#: Tells a page that this process is there. No request to storage.
_ALIVE: Final = "alive"


def _rules(routes: Iterable[pages.Route]) -> Iterable[Rule]:
    for route in routes:
        yield Rule(route.path, endpoint=route.name, methods=[route.method])
    yield Rule("/static/<version>/<name>", endpoint=_STATIC, methods=["GET"])
    yield Rule("/alive", endpoint=_ALIVE, methods=["GET"])


class _SmallRequest(Request):
    """A form has a few fields."""

    max_content_length = 64 * 1024
    max_form_memory_size = 64 * 1024


class Application:
    """The console as a WSGI application."""

    def __init__(self, view: View, login: Login) -> None:
        self._view, self._login = view, login
        routes = (*pages.ROUTES, *(route for own in view.pages for route in own.routes))
        self._map = Map(list(_rules(routes)), strict_slashes=False, redirect_defaults=False)
        self._pages = {route.name: route.page for route in routes}
        self._sections = (*pages.SECTIONS, *(section for own in view.pages for section in own.sections))
        #: The requests of all pages of this process.
        self._all = RequestTally()

    def __call__(self, environ: dict[str, Any], start: StartResponse) -> Iterable[bytes]:
        """Answer one request. No fault leaves this function: a reply says what is wrong and what to do."""
        request = _SmallRequest(environ)
        try:
            response = self._answer(request)
        except HTTPException as refusal:
            response = show_refusal(environ, refusal)
        except Exception as error:  # noqa: BLE001 - the last place before the server, which would show nothing
            response = show_refusal(environ, _note_fault(request, error))
        return protect(response)(environ, start)

    def _answer(self, request: Request) -> Response:
        person = self._login.admit(request)
        if isinstance(person, Response):
            return person
        # The login has moved a part of the path.
        request = _SmallRequest(request.environ)
        adapter = self._map.bind_to_environ(request.environ)
        try:
            response = self._serve(request, adapter, person)
        except HTTPException as refusal:
            response = self._refuse(request, adapter, person, refusal)
        except Exception as error:  # noqa: BLE001 - a person who is let in gets a page with ways on
            response = self._refuse(request, adapter, person, _note_fault(request, error))
        if person.cookie:
            response.headers.add("Set-Cookie", person.cookie)
        return response

    def _serve(self, request: Request, adapter: MapAdapter, person: Person) -> Response:
        try:
            endpoint, arguments = adapter.match()
        except RequestRedirect as redirection:
            return Response(status=308, headers={"Location": redirection.new_url})
        if request.method not in READS:
            check_origin(request, self._login.find_origin(request))
            if not person.may_act:
                # Before the page: no act need remember it.
                raise Forbidden("you may read and not act: nothing was done")
        if endpoint == _STATIC:
            return serve(**arguments)
        if endpoint == _ALIVE:
            return Response(status=204)
        return self._show(request, adapter, person, partial(self._pages[endpoint], **arguments))

    def _refuse(self, request: Request, adapter: MapAdapter, person: Person, refusal: HTTPException) -> Response:
        """Return a page in the frame, with ways on. One that looks again reads the status alone."""
        if PART in request.args:
            return show_refusal(request.environ, refusal)
        link = partial(_link, adapter)
        values = {"said": _say(refusal), "ways": list(_list_ways(request, link, refusal))}
        moving = render("refused_inside.html", values)
        html = render(
            "base.html",
            {
                **self._describe(link, person, RequestTally()),
                "page": Page(title=refusal.name, section="", template="refused_inside.html"),
                "moving": moving,
                "acts": "",
                "version": "",
                "now": self._view.clock.now(),
                "own_path": _own_path(request),
            },
        )
        response = Response(html, refusal.code or 500, content_type="text/html; charset=utf-8")
        _keep_allowed(response, request.environ, refusal)
        if refusal.code == _UNAVAILABLE and request.method in READS:
            response.headers["Refresh"] = _TRIES_EACH
        return response

    def _show(
        self, request: Request, adapter: MapAdapter, person: Person, make: Callable[[Visit], Page | Download | str]
    ) -> Response:
        is_look = PART in request.args
        visit = Visit(
            view=self._view,
            person=person,
            query={name: "\n".join(request.args.getlist(name)) for name in request.args if name != PART},
            is_look=is_look,
            now=self._view.clock.now(),
            link=partial(_link, adapter),
            fields=request.form.to_dict() if request.method not in READS else {},
        )
        with tally_requests() as tally:
            try:
                page = make(visit)
            except StorageUnavailableError as error:
                raise ServiceUnavailable(str(error)) from error
            except ActRepeatedError as error:
                raise Conflict(str(error)) from error
        self._note(tally)
        if isinstance(page, Download):
            return self._send(page)
        if isinstance(page, str):
            return redirect(page, 303)
        moving = render(page.template, {**page.values, "link": visit.link, "now": visit.now, "person": person})
        # After an upgrade a page is news, although it says the same.
        version = blake2b(f"{BUILD}{page.is_busy}{moving}".encode(), digest_size=12).hexdigest()
        if is_look and request.if_none_match.contains(version):
            return Response(status=304, headers={"ETag": f'"{version}"'})
        if page.inset:
            # Text of others is escaped, so the mark is the template's own.
            inset = render(page.inset, {**page.values, "link": visit.link})
            moving = Markup(moving.replace(_INSET, inset))  # noqa: S704 - both are made by templates that escape
        html = render(
            "part.html" if is_look else "base.html",
            {
                **self._describe(visit.link, person, tally),
                "page": page,
                "moving": moving,
                "acts": self._render_acts(page, visit),
                "version": version,
                "now": visit.now,
                "own_path": _own_path(request),
            },
        )
        return Response(html, page.status, {"ETag": f'"{version}"'}, content_type="text/html; charset=utf-8")

    def _note(self, tally: RequestTally) -> None:
        for (kind, cause), number in tally.counts().items():
            self._all.add(kind, cause, number)

    def _send(self, file: Download) -> Response:
        """Return a file. A browser stores it and never shows it."""

        def pieces() -> Iterator[bytes]:
            with tally_requests() as tally:
                yield from file.pieces
            self._note(tally)

        headers = {"Content-Disposition": dump_options_header("attachment", {"filename": file.name})}
        return Response(pieces(), headers=headers, content_type="application/x-ndjson")

    def _render_acts(self, page: Page, visit: Visit) -> str:
        if not page.acts or not visit.person.may_act or visit.is_look:
            return ""
        return render(page.acts, {**page.values, "link": visit.link, "draw": partial(_draw, visit)})

    def _describe(self, link: Callable[..., str], person: Person | None, tally: RequestTally) -> Mapping[str, Any]:
        return {
            "link": link,
            "build": BUILD,
            "sections": self._sections,
            "person": person,
            "static": lambda name: f"{link('now').rstrip('/')}{address_of(name)}",
            "requests": tally.total(),
            "amount": self._price(tally),
            "all_requests": self._all.total(),
            "all_amount": self._price(self._all),
            "currency": self._view.prices.currency,
        }

    def _price(self, tally: RequestTally) -> str:
        return _show_amount(price(usage_of_counts(tally.counts()), self._view.prices).total)


def show_refusal(environ: Mapping[str, Any], refusal: HTTPException) -> Response:
    """Return a page without anything of the installation, because perhaps the sender was not let in."""
    html = render("refused.html", {"code": refusal.code or 500, "name": refusal.name, "said": _say(refusal)})
    response = Response(html, refusal.code or 500, content_type="text/html; charset=utf-8")
    _keep_allowed(response, environ, refusal)
    return response


def _note_fault(request: Request, error: Exception) -> InternalServerError:
    tell(events.CONSOLE_FAILED, page=request.path[-200:], error=describe_error(error), at=place(error))
    return InternalServerError(original_exception=error)


def _say(refusal: HTTPException) -> str:
    error = getattr(refusal, "original_exception", None)
    if error is None:
        return refusal.description or ""
    return (
        str(error)
        if isinstance(error, SluiceError)
        else "its place and kind are in the log, as `sluice.console.failed`"
    )


def _keep_allowed(response: Response, environ: Mapping[str, Any], refusal: HTTPException) -> None:
    for name, value in refusal.get_headers(dict(environ)):
        if name == "Allow":
            response.headers[name] = value


def _list_ways(request: Request, link: Callable[..., str], refusal: HTTPException) -> Iterator[tuple[str, str]]:
    """Yield the words and the address of each way on."""
    name = request.path.rstrip("/").rpartition("/")[2][:MOST_TEXT]
    if refusal.code == _UNAVAILABLE:
        yield (
            "try again now: this page does so each ten seconds",
            f"{request.script_root}{request.full_path.rstrip('?')}",
        )
    elif refusal.code == _NOT_FOUND and name:
        yield f"look for {name}", link("find", q=name)
    yield "Now: what needs you", link("now")


def _link(adapter: MapAdapter, name: str, **values: Any) -> str:
    return adapter.build(name, {key: value for key, value in values.items() if value not in {None, ""}})


def _draw(visit: Visit, name: str, seen: str, **values: Any) -> Form:
    return draw_form(visit.person, visit.link(name, **values), seen, visit.now)


def _own_path(request: Request) -> str:
    """Return the address of this page below the console's root: the one that a colleague can open."""
    query = "&".join(part for part in request.query_string.decode().split("&") if part and part != f"{PART}=1")
    return f"{request.path}?{query}" if query else request.path


def _show_amount(amount: Decimal) -> str:
    rounded = f"{amount:.7f}".rstrip("0").rstrip(".")
    return rounded if amount == 0 or rounded != "0" else "less than 0.0000001"
