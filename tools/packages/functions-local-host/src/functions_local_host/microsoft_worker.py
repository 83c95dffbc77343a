"""Microsoft's own worker library in the place of this host's: it indexes and runs user code as it does on Azure.

It takes and gives values in the form that the listeners have, so no protocol stands between them. What the library
builds from the classes of a protocol stays inside of it: plain records stand in for them.
"""

import importlib
from collections.abc import Mapping
from types import SimpleNamespace

from azure.functions.meta import Datum

from functions_local_host.errors import StartError, UserCodeError
from functions_local_host.indexing import AppFunction
from functions_local_host.logs import Running, running
from functions_local_host.microsoft_library import LIBRARY, load_library
from functions_local_host.signature import RETURN, AppRefusedError
from functions_local_host.trace import trace_of
from functions_local_host.worker import Call, Worker

#: Without it the pool has as many threads as on Azure.
_NO_THREADS = 1


class _Record(SimpleNamespace):
    """A message of the protocol, as far as the library reads one back."""


class _Status(_Record):
    Failure, Success = 0, 1


class _Binding(_Record):
    out, inout = 1, 2


class _Protocol:
    StatusResult, BindingInfo = _Status, _Binding

    def __getattr__(self, name: str) -> type[_Record]:
        return _Record


class MicrosoftWorker(Worker):
    """Runs calls in Microsoft's library, on one event loop and the library's own pool of threads."""

    def __init__(self, folder: str, functions: Mapping[str, AppFunction]) -> None:
        super().__init__(folder, _NO_THREADS)
        try:
            self._invoke = importlib.import_module(f"{LIBRARY}.native_invocation").invocation_request_native
            self._library = load_library()
        except ImportError as error:
            raise StartError(
                f"Microsoft's worker cannot be imported ({error}): install the package azure-functions-runtime, "
                "which needs Python 3.13 or later"
            ) from error
        self._ids = self._submit(self._indexed(folder, functions)).result()

    def close(self) -> None:
        """Stop the library's pool too."""
        super().close()
        self._library.stop_threadpool_executor()

    async def _indexed(self, folder: str, functions: Mapping[str, AppFunction]) -> dict[str, str]:
        """Have the library index the app. Return its ids by the functions' names, or refuse the app with its reason."""
        init = _Record(capabilities={}, function_app_directory=folder)
        request = _Record(
            request=_Record(worker_init_request=init), properties={"host": "127.0.0.1", "protos": _Protocol()}
        )
        answer = await self._library.worker_init_request(request)
        if answer.result.status != _Status.Success:
            raise AppRefusedError(f"Microsoft's worker does not load the app: {answer.result.exception.message}")
        found = await self._library.functions_metadata_request(request)
        ids = {one.name: one.function_id for one in found.function_metadata_results or ()}
        if missing := sorted(set(functions) - set(ids)):
            raise AppRefusedError(f"Microsoft's worker does not find the functions {', '.join(missing)}")
        return ids

    async def _run(self, call: Call) -> dict[str, Datum]:
        name = call.function.name
        running.set(Running(name, call.invocation))
        inputs, trace = [(call.function.signature.trigger, call.trigger)], trace_of(call.trigger)
        try:
            succeeded, returned, outputs, error, told = await self._invoke(
                call.invocation, self._ids[name], inputs, dict(call.metadata), trace.parent, trace.state
            )
        except (SystemExit, KeyboardInterrupt) as error:
            # As in this host's own worker: it would end the loop, and hang every other invocation.
            raise RuntimeError(f"function {name} raised {type(error).__name__}") from error
        if not succeeded:
            raise UserCodeError(told or error)
        values = {output: datum for output, datum in outputs if datum is not None}
        return values if returned is None or returned.type is None else {**values, RETURN: returned}
