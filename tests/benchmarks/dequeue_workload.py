"""A workload that writes down when it began: one line for each transaction, in the file that DEQUEUE_STAMPS names."""

import time
from pathlib import Path
from typing import Any

import msgspec


class Numbered(msgspec.Struct):
    """A transaction."""

    number: int


class Stamp:
    """The workload; its chunks have one transaction."""

    name, transaction, partial, sums = "stamp", Numbered, int, ()

    def __init__(self, file: Path) -> None:
        self._file = file

    @classmethod
    def configured(cls, settings: Any) -> "Stamp":
        """Return the workload of an app with these settings."""
        return cls(Path(settings["DEQUEUE_STAMPS"]))

    def map(self, transaction: Numbered, _number: int) -> int:
        """Write the time down, in one write: several processes share the file."""
        with self._file.open("a") as file:
            file.write(f"{transaction.number} {time.time()}\n")
        return 1

    def combine(self, mapped: list[int]) -> int:
        """Count."""
        return sum(mapped)

    def merge(self, left: int, right: int) -> int:
        """Count."""
        return left + right

    def finish(self, _partial: int) -> list[Any]:
        """Put nothing out."""
        return []


class Timed(Stamp):
    """The workload that also takes its time, of DEQUEUE_WORK seconds, and writes down when each transaction ended."""

    name = "timed"

    def __init__(self, file: Path, seconds: float) -> None:
        super().__init__(file)
        self._seconds = seconds

    @classmethod
    def configured(cls, settings: Any) -> "Timed":
        """Return the workload of an app with these settings."""
        return cls(Path(settings["DEQUEUE_STAMPS"]), float(settings["DEQUEUE_WORK"]))

    def map(self, transaction: Numbered, _number: int) -> int:
        """Write both times down."""
        self._write(f"begin {transaction.number}")
        time.sleep(self._seconds)
        self._write(f"end {transaction.number}")
        return 1

    def _write(self, what: str) -> None:
        with self._file.open("a") as file:
            file.write(f"{what} {time.time()}\n")
