"""Stands between clients and a broker: counts connections, cuts them, and holds back acknowledgements."""

import asyncio
import threading
from contextlib import suppress

from tests.waiting import LIMIT

HOST = "127.0.0.1"


class Relay:
    """A listener in a thread of its own, for plain AMQP; a context manager that ends it.

    With `together` set, a connection that has sent `marker` hears nothing more from the broker until so many
    connections have sent it.
    """

    def __init__(self, broker, *, marker=b"held", together=0):
        self._broker, self._marker, self._together = broker, marker, together
        #: Connections that were ever accepted, and those that have sent the marker.
        self.accepted, self.marked = 0, 0
        #: How many of the next connections are closed at once.
        self.refused = 0
        self._pairs = set()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="relay")

    def __enter__(self):
        self._thread.start()
        self._run(self._listen())
        return self

    def __exit__(self, *_):
        self._run(self._close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    @property
    def connection_string(self):
        """What a client needs to connect through here."""
        return self._broker.connection_string.replace(f":{self._broker.port}", f":{self.port}")

    def cut(self):
        """Break every connection that is open."""
        self._run(self._cut())

    def _run(self, what):
        return asyncio.run_coroutine_threadsafe(what, self._loop).result(LIMIT)

    async def _listen(self):
        self._all_there = asyncio.Event()
        self._server = await asyncio.start_server(self._connected, HOST, 0)
        self.port = self._server.sockets[0].getsockname()[1]

    async def _close(self):
        self._server.close()
        await self._cut()

    async def _cut(self):
        tasks = list(self._pairs)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _connected(self, reader, writer):
        if self.refused:
            self.refused -= 1
            writer.transport.abort()
            return
        self.accepted += 1
        task = asyncio.current_task()
        self._pairs.add(task)
        try:
            with suppress(OSError, asyncio.CancelledError):
                await self._join(reader, writer)
        finally:
            self._pairs.discard(task)
            writer.transport.abort()

    async def _join(self, reader, writer):
        from_broker, to_broker = await asyncio.open_connection(HOST, self._broker.port)
        gone = asyncio.Event()
        answers = asyncio.create_task(self._answer(from_broker, writer, gone))
        try:
            while data := await reader.read(65536):
                if self._marker in data and not gone.is_set():
                    gone.set()
                    self.marked += 1
                    if self.marked >= self._together:
                        self._all_there.set()
                to_broker.write(data)
                await to_broker.drain()
        finally:
            answers.cancel()
            await asyncio.gather(answers, return_exceptions=True)
            to_broker.transport.abort()

    async def _answer(self, from_broker, writer, gone):
        while data := await from_broker.read(65536):
            if gone.is_set():
                await self._all_there.wait()
            writer.write(data)
            await writer.drain()
