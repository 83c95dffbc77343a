"""The HTTP front of an instance: the app's routes and the administrative ones, on a socket that instances share."""

import socket
from collections.abc import Awaitable, Callable, Iterable

from aiohttp import web

from functions_local_host.admin import Admin
from functions_local_host.contract import Invoke
from functions_local_host.http_datums import Incoming, request_datum, response
from functions_local_host.indexing import AppFunction
from functions_local_host.keys import HEADER, PARAMETER, Keys
from functions_local_host.routes import Entry, Route, find
from functions_local_host.signature import RETURN

#: The defaults of the real host.
_LARGEST_BODY = 100 * 1024 * 1024
_FRONT_PAGE = "The local Functions host is up and running.\n"
_Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class HttpServer:
    """Serves until it is stopped. Requests in flight may end within the drain limit."""

    def __init__(self, admin: Admin, invoke: Invoke, prefix: str, keys: Keys | None) -> None:
        self._admin, self._invoke, self._prefix, self._keys = admin, invoke, prefix, keys
        self._entries: list[Entry[AppFunction]] = []
        self._runner: web.AppRunner | None = None

    def add(self, functions: Iterable[AppFunction]) -> None:
        """Take the requests of these functions."""
        self._entries += [self._entry(function) for function in functions]

    async def start(self, listening: socket.socket, drain_seconds: float) -> None:
        """Begin to answer on a socket that is bound already."""
        app = web.Application(client_max_size=_LARGEST_BODY)
        for method, path, handler in self._admin.routes():
            app.router.add_route(method, path, self._guarded(handler))
        app.router.add_get("/", _front_page)
        app.router.add_route("*", "/{path:.*}", self._call)
        self._runner = web.AppRunner(app, shutdown_timeout=drain_seconds, access_log=None)
        await self._runner.setup()
        await web.SockSite(self._runner, listening).start()

    async def stop(self) -> None:
        """Take no more requests and wait for those in flight."""
        if self._runner:
            await self._runner.cleanup()
        await self._admin.finish()

    def _entry(self, function: AppFunction) -> Entry[AppFunction]:
        settings = function.indexed.trigger.settings
        template = "/".join(part for part in (self._prefix, str(settings.get("route", function.name))) if part)
        methods = frozenset(str(method).upper() for method in settings.get("methods") or ())
        return Entry(Route.parse(template), methods, function)

    async def _call(self, request: web.Request) -> web.StreamResponse:
        found = find(self._entries, request.method, request.rel_url.raw_path)
        if found is None:
            return web.Response(status=404)
        function, parameters = found
        level = str(function.indexed.trigger.settings.get("authLevel", "function")).lower()
        if not self._may(request, level, function.name):
            return web.Response(status=401)
        datum = request_datum(await _incoming(request), parameters)
        outcome = await self._invoke(function.name, datum, {})
        has_out = any(one.type == "http" and one.name != RETURN for one in function.indexed.outputs)
        return response(outcome.returned, has_out=has_out) if outcome.ok else web.Response(status=500)

    def _guarded(self, handler: _Handler) -> _Handler:
        async def checked(request: web.Request) -> web.StreamResponse:
            if not self._may(request, "admin", ""):
                return web.Response(status=401)
            return await handler(request)

        return checked

    def _may(self, request: web.Request, level: str, function: str) -> bool:
        if self._keys is None:
            return True
        given = request.headers.get(HEADER) or request.query.get(PARAMETER, "")
        return self._keys.allows(level, function, given)


async def _front_page(_: web.Request) -> web.Response:
    return web.Response(text=_FRONT_PAGE)


async def _incoming(request: web.Request) -> Incoming:
    headers, query = tuple(request.headers.items()), tuple(request.query.items())
    return Incoming(request.method, str(request.url), headers, query, await request.read())
