"""One instance: an OS process that listens for its group's functions and runs them.

The listeners have this process's main thread and event loop to themselves; user code runs in the worker's.
"""

import asyncio
import os
import signal
import socket
import sys
import traceback
from contextlib import suppress
from pathlib import Path

from azure.core.exceptions import AzureError

from functions_local_host.admin import Admin
from functions_local_host.contract import Listener
from functions_local_host.errors import StartError
from functions_local_host.host_json import HostJsonError, HostOptions, load_host_json
from functions_local_host.http_server import HttpServer
from functions_local_host.indexing import App, AppFunction, load_app
from functions_local_host.invoker import Invoker
from functions_local_host.keys import KeysError, load_keys
from functions_local_host.listeners import Listeners
from functions_local_host.logs import HOST_LOG, set_up_logging
from functions_local_host.meter import Meter
from functions_local_host.outputs import Outputs
from functions_local_host.plan import HTTP, Exit, InstanceArguments
from functions_local_host.run_folder import RunFolder, write
from functions_local_host.signature import AppRefusedError
from functions_local_host.worker_choice import choose_worker

#: How often the counts of requests are saved; a killed instance loses at most this much of them.
_SAVE_SECONDS = 1.0
#: After a timeout the listeners get this long to release their messages before the process is replaced.
_RELEASE_SECONDS = 5.0
#: The binding settings that say where a trigger listens.
_PLACES = ("route", "queueName", "topicName", "subscriptionName", "schedule")


class Instance:
    """The parts of one instance and the order in which they start and stop."""

    def __init__(self, arguments: InstanceArguments, app: App, options: HostOptions) -> None:
        self._arguments, self._app = arguments, app
        host = arguments.host
        self._longest_poll = options.queues.max_polling_interval.total_seconds()
        self._folder = RunFolder(Path(host.run_folder))
        self._meter = Meter()
        self._settings = dict(os.environ)
        self._worker = choose_worker(host, app.functions, self._settings)
        self._listeners = Listeners(arguments, options, self._settings, self._meter)
        self._outputs = Outputs(self._listeners.connect, self._meter, options.queues.message_encoding)
        self._invoke = Invoker(app.functions, self._worker, self._outputs, options.function_timeout)
        self._invoke.on_timeout(lambda: self.stop(Exit.TIMED_OUT))
        keys = load_keys(Path(host.keys), app.functions) if host.keys else None
        admin = Admin(app, arguments, self._invoke)
        self._http = HttpServer(admin, self._invoke, options.route_prefix, keys)
        self._ending: asyncio.Future[Exit] = asyncio.get_running_loop().create_future()

    def stop(self, why: Exit) -> None:
        """Begin to end. The first reason stands."""
        if not self._ending.done():
            self._ending.set_result(why)

    async def run(self) -> Exit:
        """Listen until a signal to stop, then drain."""
        self._heed_signals()
        listeners = self._listeners.make(self._app.functions.values(), self._invoke)
        if self._arguments.group == HTTP:
            enabled = [f for f in self._app.functions.values() if not f.is_disabled]
            self._http.add(f for f in enabled if f.indexed.trigger.type == "httpTrigger")
        await self._http.start(socket.socket(fileno=self._arguments.socket), self._arguments.host.drain_seconds)
        running = [asyncio.create_task(self._listen(name, listener)) for name, listener in listeners.items()]
        saving = asyncio.create_task(self._save())
        self._say("Running")
        why = await self._ending
        self._say("Draining")
        for listener in listeners.values():
            listener.stop()
        why = await self._drain(why, running)
        saving.cancel()
        with suppress(asyncio.CancelledError):
            await saving
        await self._close(why)
        return why

    async def _listen(self, name: str, listener: Listener) -> None:
        """Run one listener. When it cannot go on, the real host stops the application, and so does this one."""
        try:
            await listener.run()
        except AzureError as error:
            HOST_LOG.error("the listener of %s cannot go on, the instance ends: %s", name, str(error).split("\n", 1)[0])
            self.stop(Exit.LISTENER_FAILED)
        except Exception:  # noqa: BLE001  # a fault of the listener's own ends the application too
            HOST_LOG.exception("the listener of %s failed, the instance ends", name)
            self.stop(Exit.LISTENER_FAILED)

    async def _drain(self, why: Exit, running: list[asyncio.Task[None]]) -> Exit:
        limit = _RELEASE_SECONDS if why is Exit.TIMED_OUT else self._arguments.host.drain_seconds
        ending = [*running, asyncio.create_task(self._http.stop())]
        _, late = await asyncio.wait(ending, timeout=limit)
        if late:
            still = ", ".join(sorted(set(self._invoke.in_flight.values()))) or "listeners"
            HOST_LOG.warning("still running after %g s of draining: %s; they are ended", limit, still)
            return why if why is not Exit.DRAINED else Exit.DRAIN_LIMIT
        return why

    async def _close(self, why: Exit) -> None:
        self._folder.write_requests(self._meter.requests)
        if why in {Exit.DRAINED, Exit.LISTENER_FAILED}:
            self._worker.close()
            await self._outputs.close()
            await self._listeners.close()
            self._folder.write_requests(self._meter.requests)

    async def _save(self) -> None:
        while True:
            self._folder.write_requests(self._meter.requests)
            await asyncio.sleep(_SAVE_SECONDS)

    def _say(self, state: str) -> None:
        arguments = self._arguments
        status = {"pid": os.getpid(), "group": arguments.group, "state": state, "longestPoll": self._longest_poll}
        write(self._folder.instance(arguments.name), status)

    def _heed_signals(self) -> None:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self.stop, Exit.DRAINED)
        # The supervisor holds the other end of standard input: its death, however sudden, ends this process too.
        loop.add_reader(sys.stdin.fileno(), self._supervisor_is_gone)

    def _supervisor_is_gone(self) -> None:
        asyncio.get_running_loop().remove_reader(sys.stdin.fileno())
        HOST_LOG.warning("the supervisor is gone, the instance ends")
        self.stop(Exit.DRAINED)


def _load(arguments: InstanceArguments) -> tuple[App, HostOptions]:
    folder = Path(arguments.host.app)
    options = load_host_json(folder / "host.json", os.environ)
    set_up_logging(f"{arguments.name}/{os.getpid()}", options.log_level("Host"), {})
    app = load_app(folder, os.environ, options.functions)
    levels = {name: options.log_level(f"Function.{name}.User") for name in app.functions}
    set_up_logging(f"{arguments.name}/{os.getpid()}", options.log_level("Host"), levels)
    return app, options


def _announce(app: App, options: HostOptions) -> None:
    for warning in options.warnings:
        HOST_LOG.warning("%s", warning)
    for name, reason in app.refused.items():
        HOST_LOG.error("function %s is in error and does not run: %s", name, reason)
    for function in app.functions.values():
        HOST_LOG.info("function %s: %s", function.name, _listening(function, options))
        for warning in function.warnings:
            HOST_LOG.warning("function %s: %s", function.name, warning)


def _listening(function: AppFunction, options: HostOptions) -> str:
    """Return the source of a function's events, in a few words."""
    trigger = function.indexed.trigger
    place = "/".join(str(trigger.settings[key]) for key in _PLACES if key in trigger.settings)
    if trigger.type == "httpTrigger":
        methods = ",".join(map(str, trigger.settings.get("methods") or ("any",)))
        place = f"{methods} /{'/'.join(filter(None, [options.route_prefix, place or function.name]))}"
    return f"{trigger.type} {place}{' (disabled)' if function.is_disabled else ''}"


def main() -> None:
    """Run the instance that the supervisor describes in the one argument."""
    arguments = InstanceArguments.from_json(sys.argv[1])
    folder = RunFolder(Path(arguments.host.run_folder))
    try:
        app, options = _load(arguments)
        if not folder.index.exists():
            _announce(app, options)
            write(folder.index, {name: function.indexed.trigger.type for name, function in app.functions.items()})
        why = asyncio.run(_run(arguments, app, options))
    except (AppRefusedError, HostJsonError, KeysError, StartError) as error:
        sys.stderr.write(f"error: {error}\n")
        if arguments.host.is_verbose:
            traceback.print_exc()
        why = Exit.START_REFUSED
    sys.stderr.flush()
    # User code may have left threads behind that would keep the interpreter from ending.
    os._exit(why)


async def _run(arguments: InstanceArguments, app: App, options: HostOptions) -> Exit:
    return await Instance(arguments, app, options).run()


if __name__ == "__main__":
    main()
