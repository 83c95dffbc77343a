"""Stands in front of a service: answers 503 while it is told to, as busy storage does, or cuts every connection."""

import asyncio
import threading
from contextlib import suppress

HOST = "127.0.0.1"
_BUSY = (
    b"HTTP/1.1 503 Server Busy\r\nx-ms-error-code: ServerBusy\r\nRetry-After: 1\r\n"
    b"Content-Length: 0\r\nConnection: close\r\n\r\n"
)
_END_OF_HEADERS = b"\r\n\r\n"


class Proxy:
    """One listener a service, in a thread of its own; a context manager that ends it."""

    def __init__(self, ports):
        self._targets, self.ports = dict(ports), {}
        self.is_busy = self._is_cut = False
        #: Requests that came, and those that were answered by 503.
        self.taken = self.refused = 0
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="chaos-proxy")
        self._tasks = set()

    def __enter__(self):
        self._thread.start()
        asyncio.run_coroutine_threadsafe(self._listen(), self._loop).result(10)
        return self

    def __exit__(self, *_):
        asyncio.run_coroutine_threadsafe(self._close(), self._loop).result(10)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def cut(self):
        """Cut every connection, and each new one, until it is restored."""
        self._is_cut = True
        self._loop.call_soon_threadsafe(lambda: [task.cancel() for task in self._tasks])

    def restore(self):
        """Take connections again."""
        self._is_cut = False

    async def _listen(self):
        self._servers = [await self._serve(service, port) for service, port in self._targets.items()]

    async def _serve(self, service, target):
        async def connected(reader, writer):
            if self._is_cut:
                writer.close()
                return
            task = asyncio.current_task()
            self._tasks.add(task)
            try:
                with suppress(OSError, asyncio.CancelledError, asyncio.IncompleteReadError):
                    await self._tunnel(reader, writer, target)
            finally:
                self._tasks.discard(task)
                writer.close()

        server = await asyncio.start_server(connected, HOST, 0)
        self.ports[service] = server.sockets[0].getsockname()[1]
        return server

    async def _close(self):
        for server in self._servers:
            server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _tunnel(self, reader, writer, target):
        there, back = await asyncio.open_connection(HOST, target)
        answers = asyncio.create_task(_pump(there, writer))
        try:
            while data := await reader.read(65536):
                # A client sends nothing while it waits for an answer, so this begins a request or goes on with one.
                self.taken += _begins(data)
                if self.is_busy and _begins(data):
                    answers.cancel()
                    await self._refuse(data, reader, writer)
                    return
                back.write(data)
                await back.drain()
        finally:
            answers.cancel()
            await asyncio.gather(answers, return_exceptions=True)
            back.close()

    async def _refuse(self, data, reader, writer):
        while _END_OF_HEADERS not in data:
            data += await reader.read(65536)
        head, _, body = data.partition(_END_OF_HEADERS)
        # All of it is read first: closed on unread bytes, the client would see a broken connection and no answer.
        await reader.readexactly(max(0, _length(head) - len(body)))
        self.refused += 1
        writer.write(_BUSY)
        await writer.drain()


async def _pump(reader, writer):
    with suppress(OSError):
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
    writer.close()


def _begins(data):
    return data.split(b" ", 1)[0] in {b"GET", b"PUT", b"POST", b"DELETE", b"HEAD", b"MERGE", b"PATCH"}


def _length(head):
    found = [line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")]
    return int(found[0].partition(b":")[2]) if found else 0
