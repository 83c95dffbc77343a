"""Workloads that write down each call of `map`: when it began and ended, for which transaction, and in which process."""

import asyncio
import os
import threading
import time
from pathlib import Path
from typing import Any

import msgspec

from sluice.workloads import Line, Rejected, Total

#: Settings: the file of the stamps, and the seconds of a call.
STAMPS, SECONDS = "ACTS_STAMPS", "ACTS_SECONDS"


class Counted(msgspec.Struct):
    """A transaction."""

    number: int
    account: str
    units: int


class Stamped:
    """Adds up units by account, makes a line of each transaction, and takes its time."""

    name, transaction, partial, sums = "stamped", Counted, dict[str, int], ("units",)

    def __init__(self, file: Path, seconds: float) -> None:
        self._file, self._seconds = file, seconds

    @classmethod
    def configured(cls, settings: Any) -> Any:
        """Return the workload of an app with these settings."""
        return cls(Path(settings[STAMPS]), float(settings[SECONDS]))

    def map(self, counted: Counted, _number: int) -> Any:
        """Work on one."""
        self._stamp("begin", counted)
        time.sleep(self._seconds)
        self._stamp("end", counted)
        return counted.account, counted.units

    def combine(self, mapped: list[tuple[str, int]]) -> dict[str, int]:
        """Add up by account."""
        partial: dict[str, int] = {}
        for account, units in mapped:
            partial[account] = partial.get(account, 0) + units
        return partial

    def merge(self, left: dict[str, int], right: dict[str, int]) -> dict[str, int]:
        """Add up two partials."""
        return {account: left.get(account, 0) + right.get(account, 0) for account in left | right}

    def finish(self, partial: dict[str, int]) -> Any:
        """Yield a line and a total for each account."""
        for account, units in sorted(partial.items()):
            yield Line({"account": account, "units": units})
            yield Total(account, {"units": units})

    def _stamp(self, what: str, counted: Counted) -> None:
        # In one write: several processes share the file.
        with self._file.open("a") as file:
            file.write(f"{what} {counted.number} {os.getpid()} {time.time():.3f}\n")


class Calling(Stamped):
    """The same, by calls that wait."""

    name = "calling"

    async def map(self, counted: Counted, _number: int) -> Any:
        """Wait for one."""
        self._stamp("begin", counted)
        await asyncio.sleep(self._seconds)
        self._stamp("end", counted)
        return counted.account, counted.units


class Rated(Stamped):
    """The same without a pause, with a line for each accepted transaction. It writes down the first of neighbours alone."""

    name = "rated"

    def __init__(self, file: Path, seconds: float) -> None:
        super().__init__(file, seconds)
        self._last = threading.local()

    def map(self, counted: Counted, number: int) -> Any:
        """Reject one in a hundred."""
        if number != getattr(self._last, "number", None):
            self._stamp("begin", counted)
        self._last.number = number + 1
        if number % 100 == 99:
            return Rejected("not_wanted")
        return counted.account, counted.units

    def lines(self, counted: Counted, _number: int, _value: Any) -> Any:
        """Yield it for the stage that follows."""
        yield Line({"number": counted.number, "account": counted.account, "units": counted.units})
