"""The service that the work of `tests.benchmarks.work_calls` calls: a process of its own, with a log of its own. Imports nothing of Sluice.

python -m tests.benchmarks.work_bank      (prints its port, and ends with its standard input)
"""

import asyncio
import json
import subprocess
import sys
import time
import urllib.request
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Self

from tools.local.paths import ROOT

#: What answers a call: a status, no answer at all within the patience of any caller, or an end of the connection.
GOOD, LATER, NEVER, AWAY = 200, 429, "never", "away"
_UNANSWERED = 3_600


@dataclass
class Rules:
    """What the bank answers."""

    #: The transactions that it never answers, and whether it answers none.
    never: list[int] = field(default_factory=list)
    is_away: bool = False
    #: The transaction whose first call is answered by 429, and the seconds of that.
    later: int = -1
    seconds: float = 0.0


class Service:
    """Answers, and logs each call: when it came, when it began, its transaction, the process that called, and the answer."""

    def __init__(self) -> None:
        self.calls: list[tuple[float, float, int, int, int | str]] = []
        self.rules = Rules()

    async def serve(self) -> None:
        """Serve until the standard input ends."""
        server = await asyncio.start_server(self._talk, "127.0.0.1", 0)
        sys.stdout.write(f"{server.sockets[0].getsockname()[1]}\n")
        sys.stdout.flush()
        await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)
        server.close()

    async def _talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                line, *fields = head.decode().split("\r\n")
                lengths = [one.partition(":")[2] for one in fields if one.lower().startswith("content-length:")]
                body = await reader.readexactly(int(lengths[0])) if lengths else b""
                status, more, content = await self._answer(line.split()[1], body)
                writer.write(f"HTTP/1.1 {status} -\r\n{more}Content-Length: {len(content)}\r\n\r\n".encode() + content)
        except (asyncio.IncompleteReadError, asyncio.CancelledError, ConnectionError):
            # A caller that was killed, one that is to be without an answer, or the end.
            pass
        finally:
            writer.close()

    async def _answer(self, path: str, body: bytes) -> tuple[int, str, bytes]:
        if path == "/rules":
            self.rules = Rules(**json.loads(body))
            return GOOD, "", b""
        if path == "/log":
            return GOOD, "", json.dumps(self.calls).encode()
        came, call, rules = time.monotonic(), json.loads(body), self.rules
        number = call["number"]
        found: int | str = NEVER if number in rules.never else AWAY if rules.is_away else GOOD
        if number == rules.later and number not in {one[2] for one in self.calls}:
            found = LATER
        self.calls.append((came, call["sent"], number, call["process"], found))
        if found == NEVER:
            await asyncio.sleep(_UNANSWERED)
        if isinstance(found, str):
            raise ConnectionError
        return found, f"Retry-After: {rules.seconds:g}\r\n" if found == LATER else "", b""


@dataclass(frozen=True, slots=True)
class Call:
    """One call as the bank saw it."""

    at: float
    #: When its caller says that it began: a busy machine delivers calls in bunches.
    sent: float
    number: int
    process: int
    answer: int | str


class Bank:
    """The process, and how others speak with it; a context manager that ends it."""

    def __enter__(self) -> Self:
        words = [sys.executable, "-m", "tests.benchmarks.work_bank"]
        self._process = subprocess.Popen(words, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert self._process.stdout is not None
        self.address = f"http://127.0.0.1:{int(self._process.stdout.readline())}"
        return self

    def __exit__(self, *_: object) -> None:
        self._process.communicate()

    def turn(self, **rules: Any) -> None:
        """Have it answer so from now on."""
        self._speak("/rules", json.dumps(rules).encode())

    def read(self) -> list[Call]:
        """Return its log, the first call first."""
        return [Call(*one) for one in json.loads(self._speak("/log", None))]

    def _speak(self, path: str, body: bytes | None) -> bytes:
        with urllib.request.urlopen(f"{self.address}{path}", body, timeout=30) as answer:
            content: bytes = answer.read()
            return content


def most_in(seconds: float, times: Sequence[float]) -> int:
    """Return the most of these times that any so many seconds had."""
    first = most = 0
    for last, at in enumerate(times):
        while at - times[first] >= seconds:
            first += 1
        most = max(most, last - first + 1)
    return most


if __name__ == "__main__":
    asyncio.run(Service().serve())
