"""Starts the instances of a host, replaces those that end, and leaves nothing running when it ends itself."""

import asyncio
import os
import signal
import socket
import sys
import time
from asyncio.subprocess import Process
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from functions_local_host.errors import StartError
from functions_local_host.logs import HOST_LOG
from functions_local_host.plan import HTTP, Exit, HostArguments, InstanceArguments, groups, instance_name
from functions_local_host.run_folder import RunFolder, read, write

#: The folder that this package lies in: an instance imports it from there.
_ROOT = Path(__file__).resolve().parents[1]
#: An instance that lives at least this long is replaced at once; one that dies sooner waits, doubling each time.
_STABLE_SECONDS = 10.0
#: What an instance gets beyond the drain limit to close its connections.
_CLOSE_SECONDS = 10.0
_REASONS = {
    Exit.TIMED_OUT: "a function ran into functionTimeout, which takes its whole worker process down",
    Exit.LISTENER_FAILED: "a listener failed",
    Exit.DRAIN_LIMIT: "its functions outlasted the drain limit",
    Exit.START_REFUSED: "the app cannot start",
}


class Supervisor:
    """One host: a listening socket per group and the processes behind each."""

    def __init__(self, arguments: HostArguments, environment: Mapping[str, str], instances: int) -> None:
        self._arguments, self._instances = arguments, instances
        path = [str(_ROOT), *filter(None, [environment.get("PYTHONPATH", "")])]
        self._environment = {**environment, "PYTHONPATH": os.pathsep.join(path), "PYTHONUNBUFFERED": "1"}
        self._folder = RunFolder(Path(arguments.run_folder))
        self._processes: set[Process] = set()
        self._stopping = asyncio.Event()
        self._sockets: list[socket.socket] = []

    async def run(self, listening: socket.socket) -> None:
        """Keep the instances running until a signal. Raises when the app cannot start."""
        self._heed_signals()
        self._sockets.append(listening)
        try:
            await self._start_and_keep(listening)
        finally:
            await self._end_processes()
            for bound in self._sockets:
                bound.close()

    def end_with_stdin(self) -> None:
        """Stop when standard input ends: the process that holds the other end is gone."""
        asyncio.get_running_loop().add_reader(sys.stdin.fileno(), self._launcher_is_gone)

    def _launcher_is_gone(self) -> None:
        asyncio.get_running_loop().remove_reader(sys.stdin.fileno())
        self._stop()

    async def _start_and_keep(self, listening: socket.socket) -> None:
        first = asyncio.create_task(
            self._keep(InstanceArguments(instance_name(HTTP, 0), HTTP, listening.fileno(), self._arguments))
        )
        index = await self._index(first)
        if index is None:
            return await first
        rest = self._rest(index, listening)
        plan = {instance_name(HTTP, 0): HTTP} | {arguments.name: arguments.group for arguments in rest}
        write(self._folder.plan, plan)
        await asyncio.gather(first, *(self._keep(arguments) for arguments in rest))
        return None

    async def _index(self, first: asyncio.Task[None]) -> dict[str, str] | None:
        """Return the first instance's findings in the app, None when it ended before its report."""
        while not first.done():
            if self._folder.instance(instance_name(HTTP, 0)).exists():
                found: dict[str, str] = read(self._folder.index)
                return found
            await asyncio.sleep(0.02)
        return None

    def _rest(self, index: Mapping[str, str], listening: socket.socket) -> list[InstanceArguments]:
        rest: list[InstanceArguments] = []
        for group in groups(index.items(), is_flex=self._arguments.is_flex):
            bound = listening if group == HTTP else self._group_socket(group)
            numbers = range(1 if group == HTTP else 0, self._instances)
            rest += [
                InstanceArguments(instance_name(group, n), group, bound.fileno(), self._arguments) for n in numbers
            ]
        return rest

    def _group_socket(self, group: str) -> socket.socket:
        bound = socket.socket(socket.AF_UNIX)
        self._sockets.append(bound)
        bound.bind(str(self._folder.socket(group)))
        bound.listen()
        return bound

    async def _keep(self, arguments: InstanceArguments) -> None:
        """Run one instance again and again."""
        is_first_start, pause = True, 0.0
        while not self._stopping.is_set():
            started = time.monotonic()
            code = await self._run_once(arguments)
            if code == Exit.START_REFUSED and is_first_start:
                raise StartError("the app cannot start")
            if self._stopping.is_set():
                return
            lived = time.monotonic() - started
            is_stable = lived >= _STABLE_SECONDS or is_first_start
            pause = 0.0 if is_stable else min(max(1.0, pause * 2), self._arguments.longest_pause)
            is_first_start = False
            HOST_LOG.warning("instance %s ended: %s; it is started again in %g s", arguments.name, _reason(code), pause)
            with suppress(TimeoutError):
                await asyncio.wait_for(self._stopping.wait(), pause)

    async def _run_once(self, arguments: InstanceArguments) -> int:
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            # Not the working directory first: an app's own folder must not shadow the host's modules.
            "-P",
            *_debugger(arguments.host),
            "-m",
            "functions_local_host.instance",
            arguments.to_json(),
            stdin=asyncio.subprocess.PIPE,
            cwd=arguments.host.app,
            env=self._environment,
            pass_fds=(arguments.socket,),
            # Ctrl-C at the terminal is for the supervisor, which lets the instances drain.
            start_new_session=True,
        )
        self._processes.add(process)
        try:
            if self._stopping.is_set():
                process.terminate()
            return await process.wait()
        finally:
            self._processes.discard(process)
            self._folder.instance(arguments.name).unlink(missing_ok=True)

    def _heed_signals(self) -> None:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._stop)

    def _stop(self) -> None:
        """Let the instances drain. A second signal ends them at once."""
        is_second = self._stopping.is_set()
        self._stopping.set()
        for process in self._processes:
            with suppress(ProcessLookupError):
                process.kill() if is_second else process.terminate()
        if not is_second:
            limit = self._arguments.drain_seconds + _CLOSE_SECONDS
            asyncio.get_running_loop().call_later(limit, self._stop)

    async def _end_processes(self) -> None:
        """After an error: nothing is left running."""
        self._stopping.set()
        for process in list(self._processes):
            with suppress(ProcessLookupError):
                process.kill()
            await process.wait()


def _debugger(host: HostArguments) -> list[str]:
    """Return the words that run a module under debugpy, or none."""
    if host.debug_port is None:
        return []
    # Frozen modules would hide frames from it, of which it warns on each start.
    return ["-Xfrozen_modules=off", "-m", "debugpy", "--listen", f"127.0.0.1:{host.debug_port}"]


def _reason(code: int) -> str:
    if code < 0:
        return f"signal {signal.Signals(-code).name}"
    return _REASONS.get(Exit(code), f"exit status {code}") if code in set(Exit) else f"exit status {code}"
