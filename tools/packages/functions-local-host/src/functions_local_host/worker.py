"""The Python worker: user code on one event loop and one thread pool, apart from the listeners' loop.

Blocking code in an `async def` stalls every invocation of this process, as in Azure, but no lease renewal.
"""

import asyncio
import contextvars
import os
import threading
from collections.abc import Callable, Coroutine, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, TypeVar

import azure.functions as func
from azure.functions.meta import Datum

from functions_local_host.context import InvocationContext
from functions_local_host.conversion import decode, encode
from functions_local_host.indexing import AppFunction
from functions_local_host.logs import Running, running
from functions_local_host.signature import CONTEXT, RETURN
from functions_local_host.trace import trace_of

_T = TypeVar("_T")


class ReturnedWithoutBindingError(RuntimeError):
    """Raised when a function returns a value that no binding takes."""


@dataclass(frozen=True, slots=True)
class Call:
    """One invocation, ready to run."""

    function: AppFunction
    invocation: str
    trigger: Datum
    metadata: Mapping[str, Datum]


class _Out(func.Out[Any]):
    """Where a function puts an output value."""

    def __init__(self) -> None:
        self._value: Any = None

    def set(self, val: Any) -> None:
        self._value = val

    def get(self) -> Any:
        return self._value


def thread_count(settings: Mapping[str, str]) -> int:
    """Return the size of the pool for sync functions. An invalid setting counts as none."""
    text = settings.get("PYTHON_THREADPOOL_THREAD_COUNT", "")
    if text.isdigit() and int(text) >= 1:
        return int(text)
    return min(32, (os.cpu_count() or 1) + 4)


class Worker:
    """Runs calls until it is closed. A call that never ends is only ended with the process."""

    def __init__(self, folder: str, threads: int) -> None:
        self._folder = folder
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="function")
        self._loop = asyncio.new_event_loop()
        # A daemon: blocked user code must not keep the process from ending.
        self._thread = threading.Thread(target=self._loop.run_forever, name="worker", daemon=True)
        self._thread.start()

    def start(self, call: Call) -> "Future[dict[str, Datum]]":
        """Begin a call. The result is what it gave to its outputs, by binding name."""
        return self._submit(self._run(call))

    def close(self) -> None:
        """Stop the loop and the pool when nothing runs any more."""
        self._submit(self._loop.shutdown_asyncgens()).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()
        self._pool.shutdown()

    def _submit(self, work: Coroutine[Any, Any, _T]) -> "Future[_T]":
        return asyncio.run_coroutine_threadsafe(work, self._loop)

    async def _run(self, call: Call) -> dict[str, Datum]:
        running.set(Running(call.function.name, call.invocation))
        arguments, outs = self._arguments(call)
        try:
            if call.function.is_async:
                returned = await call.function.code(**arguments)
            else:
                returned = await self._in_pool(lambda: call.function.code(**arguments))
        except (SystemExit, KeyboardInterrupt) as error:
            # Raised through the loop it would end the worker's thread and hang every other invocation.
            raise RuntimeError(f"function {call.function.name} raised {type(error).__name__}") from error
        return _outputs(call.function, returned, outs)

    async def _in_pool(self, code: Callable[[], Any]) -> Any:
        context = contextvars.copy_context()
        return await self._loop.run_in_executor(self._pool, context.run, code)

    def _arguments(self, call: Call) -> tuple[dict[str, Any], dict[str, _Out]]:
        signature = call.function.signature
        outs = {name: _Out() for name in signature.outputs}
        arguments: dict[str, Any] = {
            signature.trigger: decode(signature.trigger_kind, call.trigger, call.metadata),
            **outs,
        }
        if signature.has_context:
            arguments[CONTEXT] = InvocationContext(
                call.function.name, call.invocation, self._folder, trace_of(call.trigger)
            )
        return arguments, outs


def _outputs(function: AppFunction, returned: Any, outs: Mapping[str, _Out]) -> dict[str, Datum]:
    signature = function.signature
    set_values = {name: out.get() for name, out in outs.items() if out.get() is not None}
    values = {name: encode(signature.outputs[name], value) for name, value in set_values.items()}
    if signature.returns is not None:
        values[RETURN] = encode(signature.returns, returned)
    elif returned is not None:
        raise ReturnedWithoutBindingError(
            f"function {function.name} without a $return binding returned a {type(returned).__name__}: return None"
        )
    return values
