"""One HTTP GET over asyncio, for workloads that wait on a service of their own; standard library only.

It speaks HTTP/1.0, where the end of an answer is its length or the end of the connection: a service behind it needs no
more, and there is no chunked body to be read wrongly. No TLS, no redirects: a service beside the app has neither.
"""

import asyncio
from dataclasses import dataclass
from typing import Final, Self
from urllib.parse import quote, urlsplit

#: What an answer may have; a service that sends more is not the one that was meant.
MOST_BYTES: Final = 1024 * 1024


@dataclass(frozen=True, slots=True)
class Service:
    """Where a service listens, and how long to wait for it."""

    host: str
    port: int
    path: str
    timeout: float

    @classmethod
    def at(cls, url: str, timeout: float) -> Self:
        """Return the service at an http URL."""
        parts = urlsplit(url)
        if parts.scheme != "http" or not parts.hostname:
            raise ValueError(f"{url!r} is no http URL, for instance http://127.0.0.1:8000/rates")
        return cls(parts.hostname, parts.port or 80, parts.path.rstrip("/"), timeout)

    async def get(self, *segments: str) -> tuple[int, bytes]:
        """Return status and body for the path below the service's own; raises OSError where there is no answer."""
        async with asyncio.timeout(self.timeout):
            reader, writer = await asyncio.open_connection(self.host, self.port)
            try:
                path = "/".join([self.path, *(quote(segment, safe="") for segment in segments)])
                writer.write(f"GET {path} HTTP/1.0\r\nHost: {self.host}:{self.port}\r\n\r\n".encode())
                return await _answer(reader)
            finally:
                writer.close()
                await writer.wait_closed()


async def _answer(reader: asyncio.StreamReader) -> tuple[int, bytes]:
    try:
        status = (await reader.readuntil(b"\r\n")).split()
        headers = (await reader.readuntil(b"\r\n\r\n")).lower().split(b"\r\n")
        lengths = [int(line.partition(b":")[2]) for line in headers if line.startswith(b"content-length:")]
        body = await (reader.readexactly(min(lengths[0], MOST_BYTES)) if lengths else reader.read(MOST_BYTES))
        return int(status[1]), body
    except (asyncio.IncompleteReadError, asyncio.LimitOverrunError, ValueError, IndexError) as error:
        raise ConnectionError(f"the answer is no whole HTTP answer: {type(error).__name__}") from error
