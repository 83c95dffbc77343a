"""Runs functions to their end and turns every end into an outcome."""

import asyncio
import time
import traceback
from collections.abc import Callable, Mapping
from concurrent.futures import thread
from datetime import timedelta
from typing import Any
from uuid import uuid4

from azure.functions.meta import Datum

from functions_local_host import worker
from functions_local_host.contract import Outcome, WriteOutputs
from functions_local_host.errors import UserCodeError
from functions_local_host.indexing import AppFunction
from functions_local_host.logs import HOST_LOG
from functions_local_host.worker import Call, Worker

#: Frames that every traceback of user code begins with.
_HOST_FILES = frozenset({__file__, worker.__file__, thread.__file__})


class Invoker:
    """The host's side of every invocation: ids, time limit, outputs, one log line each."""

    def __init__(
        self,
        functions: Mapping[str, AppFunction],
        runner: Worker,
        write_outputs: WriteOutputs,
        timeout: timedelta | None,
    ) -> None:
        self._functions, self._worker, self._write_outputs = functions, runner, write_outputs
        self._seconds = timeout.total_seconds() if timeout else None
        #: set with the culprit's name once a timeout has doomed this worker process
        self._doomed: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self.in_flight: dict[str, str] = {}

    def on_timeout(self, act: Callable[[], None]) -> None:
        """Call `act` when a function has run into the time limit. The process has to be replaced then."""
        self._doomed.add_done_callback(lambda _: act())

    async def __call__(self, function: str, trigger: Datum, metadata: Mapping[str, Datum]) -> Outcome:
        """Run one function, as the contract says."""
        call = Call(self._functions[function], str(uuid4()), trigger, metadata)
        started = time.monotonic()
        self.in_flight[call.invocation] = function
        try:
            outcome = await self._outcome(call)
        finally:
            del self.in_flight[call.invocation]
        _log(call, outcome, time.monotonic() - started)
        return outcome

    async def _outcome(self, call: Call) -> Outcome:
        if self._doomed.done():
            return self._lost(call)
        work = asyncio.wrap_future(self._worker.start(call))
        either: set[asyncio.Future[Any]] = {work, self._doomed}
        await asyncio.wait(either, timeout=self._seconds, return_when=asyncio.FIRST_COMPLETED)
        if not work.done():
            return self._lost(call)
        try:
            values = work.result()
            await self._write(call.function, values)
        except (Exception, asyncio.CancelledError) as error:  # noqa: BLE001  # user code may raise anything
            return Outcome(ok=False, error=_described(error))
        return Outcome(ok=True, returned=_http_value(call.function, values))

    def _lost(self, call: Call) -> Outcome:
        """The real host ends the worker process, so every other run in it is lost too."""
        if self._doomed.done():
            return Outcome(ok=False, error=f"the worker process ended because {self._doomed.result()} timed out")
        self._doomed.set_result(call.function.name)
        return Outcome(ok=False, error=f"timeout: still running after {self._seconds} s (functionTimeout)")

    async def _write(self, function: AppFunction, values: Mapping[str, Datum]) -> None:
        http = {binding.name for binding in function.indexed.outputs if binding.type == "http"}
        if written := {name: value for name, value in values.items() if name not in http}:
            await self._write_outputs(function.indexed, written)


def _http_value(function: AppFunction, values: Mapping[str, Datum]) -> Datum | None:
    names = (binding.name for binding in function.indexed.outputs if binding.type == "http")
    return next((values[name] for name in names if name in values), None)


def _described(error: BaseException) -> str:
    """Return the traceback from the first line of user code on."""
    if isinstance(error, UserCodeError):
        return str(error).rstrip()
    trace = error.__traceback__
    while trace and trace.tb_next and trace.tb_frame.f_code.co_filename in _HOST_FILES:
        trace = trace.tb_next
    return "".join(traceback.format_exception(error.with_traceback(trace))).rstrip()


def _log(call: Call, outcome: Outcome, seconds: float) -> None:
    milliseconds = round(seconds * 1000)
    if outcome.ok:
        HOST_LOG.info("%s succeeded (id=%s, %d ms)", call.function.name, call.invocation, milliseconds)
    else:
        HOST_LOG.error("%s failed (id=%s, %d ms): %s", call.function.name, call.invocation, milliseconds, outcome.error)
