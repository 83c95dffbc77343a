"""A worker in a process of its own, to which this host speaks the protocol of Azure's host."""

import asyncio
import contextvars
import logging
import os
import queue
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from typing import Any
from uuid import uuid4

from azure.functions.meta import Datum

from functions_local_host.errors import StartError, UserCodeError
from functions_local_host.indexing import AppFunction
from functions_local_host.logs import HOST_LOG, Running, running
from functions_local_host.plan import Exit
from functions_local_host.protocol import LIMITS, METHOD, SERVICE, from_datum, grpc, messages, to_datum
from functions_local_host.signature import RETURN, AppRefusedError
from functions_local_host.trace import trace_of
from functions_local_host.worker import Call, Worker

#: What runs Microsoft's library in the process.
PROCESS = ("-m", "functions_local_host.worker_process")
_START_SECONDS = 60.0
_STOP_SECONDS = 5.0
_LOOK_SECONDS = 0.2
#: Neither a message is answered by an id of its own, so each kind is awaited once.
_STARTED, _READY, _FOUND = "start_stream", "worker_init_response", "function_metadata_response"


class ProcessWorker(Worker):
    """Runs calls in a process that it starts and ends."""

    def __init__(self, folder: str, functions: Mapping[str, AppFunction], process: Sequence[str] = PROCESS) -> None:
        super().__init__(folder, 1)
        self._waiting: dict[str, Future[Any]] = {}
        self._to_say: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._runs: dict[str, str] = {}
        self._is_closing = False
        self._server, port = self._serve()
        started = self._await(_STARTED)
        self._process = _start(folder, port, process)
        self._result(started)
        self._ids = self._index(folder, functions)

    def start(self, call: Call) -> "Future[dict[str, Datum]]":
        """Begin a call. The result is what it gave to its outputs, by binding name."""
        return self._submit(self._run(call))

    def close(self) -> None:
        """End the process by ending its stream."""
        self._is_closing = True
        self._to_say.put(None)
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(_STOP_SECONDS)
        self._process.kill()
        self._process.wait()
        self._server.stop(0)
        super().close()

    async def _run(self, call: Call) -> dict[str, Datum]:
        said = messages()
        trace = trace_of(call.trigger)
        name = call.function.name
        trigger = said.ParameterBinding(name=call.function.signature.trigger, data=from_datum(call.trigger))
        request = said.InvocationRequest(
            invocation_id=call.invocation,
            function_id=self._ids[name],
            input_data=[trigger],
            trigger_metadata={key: from_datum(value) for key, value in call.metadata.items()},
            trace_context=said.RpcTraceContext(trace_parent=trace.parent, trace_state=trace.state),
        )
        self._runs[call.invocation] = name
        try:
            answer = await asyncio.wrap_future(self._ask(call.invocation, invocation_request=request))
        finally:
            del self._runs[call.invocation]
        if answer.result.status != said.StatusResult.Success:
            raise UserCodeError(_told(answer.result))
        outputs = {output.name: to_datum(output.data) for output in answer.output_data}
        outputs[RETURN] = to_datum(answer.return_value)
        return {output: datum for output, datum in outputs.items() if datum is not None}

    def _index(self, folder: str, functions: Mapping[str, AppFunction]) -> dict[str, str]:
        """Have the worker load the app. Return its ids by the functions' names, or refuse the app with its reason."""
        said = messages()
        init = said.WorkerInitRequest(host_version="4.0.0", function_app_directory=folder)
        ready = self._result(self._ask(_READY, worker_init_request=init))
        if ready.result.status != said.StatusResult.Success:
            raise AppRefusedError(f"the worker's process does not load the app: {ready.result.exception.message}")
        wanted = said.FunctionsMetadataRequest(function_app_directory=folder)
        found = self._result(self._ask(_FOUND, functions_metadata_request=wanted))
        by_name = {one.name: one for one in found.function_metadata_results}
        if missing := sorted(set(functions) - set(by_name)):
            raise AppRefusedError(f"the worker's process does not find the functions {', '.join(missing)}")
        for name in functions:
            one = by_name[name]
            load = said.FunctionLoadRequest(function_id=one.function_id, metadata=one)
            loaded = self._result(self._ask(one.function_id, function_load_request=load))
            if loaded.result.status != said.StatusResult.Success:
                raise AppRefusedError(f"cannot load the function {name}: {_told(loaded.result)}")
        return {name: by_name[name].function_id for name in functions}

    def _result(self, answer: "Future[Any]") -> Any:
        """Return an answer at the start, before which the process may end or stay silent."""
        end = time.monotonic() + _START_SECONDS
        while self._process.poll() is None and time.monotonic() < end:
            with suppress(TimeoutError):
                return answer.result(_LOOK_SECONDS)
        status = self._process.poll()
        self._process.kill()
        how = f"did not answer within {_START_SECONDS:g} s" if status is None else f"ended with status {status}"
        raise StartError(f"the worker's process {how}: what it printed stands above in this log")

    def _ask(self, key: str, **content: Any) -> "Future[Any]":
        answer = self._await(key)
        self._to_say.put(messages().StreamingMessage(request_id=str(uuid4()), **content))
        return answer

    def _await(self, key: str) -> "Future[Any]":
        answer: Future[Any] = Future()
        self._waiting[key] = answer
        return answer

    def _serve(self) -> tuple[Any, int]:
        library, message = grpc(), messages().StreamingMessage
        handler = library.stream_stream_rpc_method_handler(
            self._converse, request_deserializer=message.FromString, response_serializer=message.SerializeToString
        )
        server = library.server(ThreadPoolExecutor(1), options=LIMITS)
        server.add_generic_rpc_handlers((library.method_handlers_generic_handler(SERVICE, {METHOD: handler}),))
        port = server.add_insecure_port("127.0.0.1:0")
        server.start()
        return server, port

    def _converse(self, heard: Iterator[Any], _context: Any) -> Iterator[Any]:
        threading.Thread(target=self._hear_all, args=(heard,), daemon=True).start()
        yield from iter(self._to_say.get, None)

    def _hear_all(self, heard: Iterator[Any]) -> None:
        with suppress(Exception):  # the stream ends by an error of gRPC's
            for message in heard:
                self._hear(message)
        if not self._is_closing:
            HOST_LOG.error("the worker's process ended, and the instance with it")
            logging.shutdown()
            os._exit(Exit.LISTENER_FAILED)

    def _hear(self, message: Any) -> None:
        kind = message.WhichOneof("content")
        content = getattr(message, kind)
        if kind == "rpc_log":
            contextvars.copy_context().run(self._log, content)
            return
        keys = {"invocation_response": "invocation_id", "function_load_response": "function_id"}
        key = getattr(content, keys[kind]) if kind in keys else kind
        if waiting := self._waiting.pop(key, None):
            waiting.set_result(content)

    def _log(self, said: Any) -> None:
        if said.invocation_id in self._runs:
            running.set(Running(self._runs[said.invocation_id], said.invocation_id))
        # The levels of the protocol are those of Python's logging, in tens.
        logging.getLogger(said.category or "worker").log(said.level * 10, "%s", said.message)


def _start(folder: str, port: int, process: Sequence[str]) -> "subprocess.Popen[bytes]":
    name = str(uuid4())
    words = {"host": "127.0.0.1", "port": port, "workerId": name, "requestId": name, "grpcMaxMessageLength": 2**31 - 1}
    command = [
        sys.executable,
        "-P",
        *process,
        *(str(part) for word in words.items() for part in (f"--{word[0]}", word[1])),
    ]
    try:
        return subprocess.Popen(command, cwd=folder, stdin=subprocess.DEVNULL)
    except OSError as error:
        raise StartError(f"the worker's process cannot be started: {error}") from error


def _told(result: Any) -> str:
    return "\n".join(filter(None, (result.exception.message, result.exception.stack_trace))) or str(result.result)
