"""The host's administrative requests: its status, its functions, a run by hand, its own storage requests."""

import asyncio
import json
import os
from collections.abc import Awaitable, Callable, Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any
from uuid import uuid4

import aiohttp
from aiohttp import web
from azure.functions.meta import Datum

from functions_local_host.contract import Binding, Invoke
from functions_local_host.datum_values import StringCollection
from functions_local_host.indexing import App
from functions_local_host.message_datums import merged
from functions_local_host.plan import InstanceArguments, group_of
from functions_local_host.run_folder import RunFolder, read
from functions_local_host.timer_listener import timer_datum

_Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class Admin:
    """Answers below /admin. A function of another group is run there, by that group's socket."""

    def __init__(self, app: App, arguments: InstanceArguments, invoke: Invoke) -> None:
        self._app, self._arguments, self._invoke = app, arguments, invoke
        self._folder = RunFolder(Path(arguments.host.run_folder))
        self._runs: set[asyncio.Task[Any]] = set()

    def routes(self) -> list[tuple[str, str, _Handler]]:
        """Return method, path and handler of each."""
        return [
            ("GET", "/admin/host/status", self.status),
            ("GET", "/admin/host/requests", self.requests),
            ("GET", "/admin/host/ping", self.ping),
            ("POST", "/admin/host/ping", self.ping),
            ("GET", "/admin/functions", self.functions),
            ("POST", "/admin/functions/{name}", self.fire),
        ]

    async def finish(self) -> None:
        """Wait for the runs that were started by hand."""
        await asyncio.gather(*self._runs)

    async def status(self, _: web.Request) -> web.Response:
        """Running when every planned instance is, each with its process."""
        planned: dict[str, str] = read(self._folder.plan) or {}
        said = {name: status for name, status in self._folder.instances().items() if status}
        is_complete = bool(planned) and all(said.get(name, {}).get("state") == "Running" for name in planned)
        return web.json_response(
            {
                "id": self._arguments.name,
                "state": "Running" if is_complete else "Starting",
                "version": f"local, azure-functions {version('azure-functions')}",
                "processId": os.getpid(),
                "instances": said,
                "errors": [f"{name}: {reason}" for name, reason in self._app.refused.items()],
            }
        )

    async def ping(self, _: web.Request) -> web.Response:
        """Answer that the host is there."""
        return web.Response()

    async def requests(self, _: web.Request) -> web.Response:
        """The storage requests that the host made for itself, summed over its processes."""
        rows = [
            {"requester": requester, "service": service, "method": method, "count": count}
            for (requester, service, method), count in sorted(self._folder.requests().items())
        ]
        return web.json_response({"total": sum(int(str(row["count"])) for row in rows), "requests": rows})

    async def functions(self, _: web.Request) -> web.Response:
        """The app's functions with their bindings."""
        return web.json_response(
            [
                {
                    "name": function.name,
                    "isDisabled": function.is_disabled,
                    "trigger": _shape(function.indexed.trigger),
                    "outputs": [_shape(binding) for binding in function.indexed.outputs],
                }
                for function in self._app.functions.values()
            ]
        )

    async def fire(self, request: web.Request) -> web.Response:
        """Start a function that has no HTTP trigger. It runs on after the answer."""
        function = self._app.functions.get(request.match_info["name"])
        if function is None:
            return web.Response(status=404)
        trigger = function.indexed.trigger
        if trigger.type == "httpTrigger":
            return web.Response(status=400, text=f"{function.name} has an HTTP trigger: call its route")
        group = group_of(function.name, trigger.type, is_flex=self._arguments.host.is_flex)
        if group != self._arguments.group:
            return await self._forward(group, request)
        datum, metadata = by_hand(trigger, _input(await request.text()))
        run = asyncio.create_task(self._run(function.name, datum, metadata))
        self._runs.add(run)
        run.add_done_callback(self._runs.discard)
        return web.Response(status=202)

    async def _run(self, function: str, datum: Datum, metadata: Mapping[str, Datum]) -> None:
        await self._invoke(function, datum, metadata)

    async def _forward(self, group: str, request: web.Request) -> web.Response:
        connector = aiohttp.UnixConnector(str(self._folder.socket(group)))
        async with (
            aiohttp.ClientSession(connector=connector) as session,
            session.post(
                f"http://localhost{request.path_qs}", data=await request.read(), headers=_keys(request)
            ) as answer,
        ):
            return web.Response(status=answer.status, body=await answer.read())


def _keys(request: web.Request) -> dict[str, str]:
    return {name: value for name, value in request.headers.items() if name.lower() == "x-functions-key"}


def _shape(binding: Binding) -> dict[str, Any]:
    return {"type": binding.type, "name": binding.name, **binding.settings}


def _input(text: str) -> str:
    try:
        given = json.loads(text or "{}")
    except ValueError:
        raise web.HTTPBadRequest(text='the body is not JSON: send {"input": "…"}') from None
    value = given.get("input", "") if isinstance(given, dict) else None
    if not isinstance(value, str):
        raise web.HTTPBadRequest(text='the body has no text "input": send {"input": "…"}')
    return value


def by_hand(trigger: Binding, text: str) -> tuple[Datum, Mapping[str, Datum]]:
    """Return the value of a trigger for a run without a message."""
    if trigger.type == "timerTrigger":
        return timer_datum(None, past_due=False), {}
    if trigger.type == "queueTrigger":
        metadata = {"Id": Datum(str(uuid4()), "string"), "QueueTrigger": Datum(text, "string")}
        return Datum(text, "string"), merged(metadata, text)
    if str(trigger.settings.get("cardinality", "ONE")).upper() == "MANY":
        return Datum(StringCollection((text,)), "collection_string"), {"UserPropertiesArray": Datum("[{}]", "json")}
    metadata = {"MessageId": Datum(str(uuid4()), "string"), "UserProperties": Datum("{}", "json")}
    return Datum(text, "string"), merged(metadata, text)
