"""Processes that a benchmark starts and kills, and the lines that each of them writes down."""

import itertools
import json
import signal
import subprocess
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from shared.azure.meter import tally_requests

#: A process of a busy machine takes its time.
PATIENCE = 600.0


class Record:
    """Lines of one process, written at once; several threads may write."""

    def __init__(self, path: Path) -> None:
        self._file, self._lock = path.open("a", encoding="utf-8"), threading.Lock()

    def write(self, what: str, **fields: object) -> None:
        """Write a line."""
        with self._lock:
            self._file.write(json.dumps({"what": what, "at": time.time(), **fields}) + "\n")
            self._file.flush()

    @contextmanager
    def invocation(self, name: str) -> Iterator[dict[str, object]]:
        """Write a line before and after an invocation, with its seconds and requests."""
        number = f"{name}-{time.monotonic_ns()}"
        self.write("begin", invocation=number)
        began, found = time.monotonic(), dict[str, object]()
        with tally_requests() as tally:
            yield found
        seconds = time.monotonic() - began
        self.write("end", invocation=number, seconds=seconds, requests=tally.total(), **found)


class Fleet:
    """Processes of one module, each of which has a record of its own."""

    def __init__(self, module: str, folder: Path) -> None:
        self._module, self._folder = module, folder
        self._numbers = itertools.count(1)
        self.running: list[subprocess.Popen[bytes]] = []
        self.killed_at: dict[str, float] = {}
        self._records: dict[int, str] = {}

    def start(self, **role: object) -> subprocess.Popen[bytes]:
        """Start one process, which is told its role and the path of its record."""
        record = str(self._folder / f"record-{next(self._numbers)}")
        words = [sys.executable, "-m", self._module, json.dumps({"record": record, **role})]
        process = subprocess.Popen(words)
        self.running.append(process)
        self._records[process.pid] = record
        return process

    def kill(self, process: subprocess.Popen[bytes]) -> None:
        """Kill one with SIGKILL. It may be dead already."""
        process.send_signal(signal.SIGKILL)
        process.wait()
        self.running.remove(process)
        self.killed_at[self._records[process.pid]] = time.time()

    def record_of(self, process: subprocess.Popen[bytes]) -> str:
        """Return the path of a process's record."""
        return self._records[process.pid]

    def lines(self) -> Iterator[dict[str, Any]]:
        """Yield what all of them recorded; a line that was cut off by a kill is left out."""
        for record in self._records.values():
            path = Path(record)
            for line in path.read_text(encoding="utf-8").splitlines() if path.exists() else ():
                try:
                    yield {**json.loads(line), "record": record}
                except ValueError:
                    continue

    def busy(self, kind: str = "") -> list[subprocess.Popen[bytes]]:
        """Return the processes that are in the midst of an invocation of this kind."""
        begun, ended = defaultdict[str, set[str]](set), set[str]()
        for line in self.lines():
            if line["what"] == "begin" and line["invocation"].startswith(kind):
                begun[line["record"]].add(line["invocation"])
            elif line["what"] == "end":
                ended.add(line["invocation"])
        return [process for process in self.running if begun[self._records[process.pid]] - ended]

    def wait_until_ready(self, number: int) -> None:
        """Wait until so many listen."""
        end = time.monotonic() + PATIENCE
        while sum(line["what"] == "ready" for line in self.lines()) < number:
            if time.monotonic() > end:
                raise RuntimeError("the instances do not start")
            time.sleep(0.2)


@contextmanager
def fleet(module: str, folder: Path) -> Iterator[Fleet]:
    """Yield a fleet, and kill what is left of it at the end."""
    made = Fleet(module, folder)
    try:
        yield made
    finally:
        for process in list(made.running):
            made.kill(process)
