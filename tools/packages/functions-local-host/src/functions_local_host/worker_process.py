"""A process with Microsoft's worker library in it, for a host that speaks the protocol of Azure's host.

It passes messages on, as they are: what they mean is the library's matter.
"""

import argparse
import asyncio
import logging
import os
import queue
import sys
import threading
from collections.abc import Iterator
from contextvars import ContextVar
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from functions_local_host.microsoft_library import load_library
from functions_local_host.protocol import LIMITS, METHOD, SERVICE, grpc, messages

#: The run that the current code belongs to.
_invocation: ContextVar[str] = ContextVar("invocation", default="")
#: The answer's field to each kind of request. The library has a function of each request's name.
_ANSWERS = {
    "worker_init_request": "worker_init_response",
    "functions_metadata_request": "function_metadata_response",
    "function_load_request": "function_load_response",
    "invocation_request": "invocation_response",
}


class _ToHost(logging.Handler):
    """Sends each line of a log to the host."""

    def __init__(self, to_say: "queue.SimpleQueue[Any]") -> None:
        super().__init__()
        self._to_say = to_say

    def emit(self, record: logging.LogRecord) -> None:
        said = messages()
        level = min(record.levelno // 10, said.RpcLog.Critical)
        log = said.RpcLog(
            invocation_id=_invocation.get(), category=record.name, level=level, message=self.format(record)
        )
        self._to_say.put(said.StreamingMessage(rpc_log=log))


class _Process:
    def __init__(self, host: str, worker: str) -> None:
        self._library = load_library()
        self._host = host
        self.to_say: queue.SimpleQueue[Any] = queue.SimpleQueue()
        said = messages()
        self.to_say.put(said.StreamingMessage(start_stream=said.StartStream(worker_id=worker)))

    async def answer(self, message: Any) -> None:
        """Have the library do what a message asks for, and say what came of it."""
        kind = message.WhichOneof("content")
        if kind == "invocation_request":
            _invocation.set(message.invocation_request.invocation_id)
        request = SimpleNamespace(request=message, properties={"protos": messages(), "host": self._host})
        content = await getattr(self._library, kind)(request)
        said = {"request_id": message.request_id, _ANSWERS[kind]: content}
        self.to_say.put(messages().StreamingMessage(**said))


def main() -> None:
    """Answer the host that the command names until it ends the stream."""
    parser = argparse.ArgumentParser()
    for word in ("--host", "--port", "--workerId"):
        parser.add_argument(word, required=True)
    given, _ = parser.parse_known_args()
    sys.path.insert(0, str(Path.cwd()))
    process = _Process(given.host, given.workerId)
    root = logging.getLogger()
    root.addHandler(_ToHost(process.to_say))
    root.setLevel(logging.INFO)
    loop = asyncio.new_event_loop()
    hearing = threading.Thread(target=_hear, args=(f"{given.host}:{given.port}", process, loop), daemon=True)
    hearing.start()
    loop.run_forever()


def _hear(address: str, process: _Process, loop: asyncio.AbstractEventLoop) -> None:
    message = messages().StreamingMessage
    converse = (
        grpc()
        .insecure_channel(address, options=LIMITS)
        .stream_stream(
            f"/{SERVICE}/{METHOD}",
            request_serializer=message.SerializeToString,
            response_deserializer=message.FromString,
        )
    )
    asked: Iterator[Any] = converse(iter(process.to_say.get, None))
    try:
        for one in asked:
            asyncio.run_coroutine_threadsafe(process.answer(one), loop)
    finally:
        # The host is gone, by its own will or not, and user code may have left threads behind.
        os._exit(0)


if __name__ == "__main__":
    main()
