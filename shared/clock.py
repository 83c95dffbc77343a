"""The clock that is handed to all code. Only this module of `shared` reads the operating system's time.

Base classes of objects that are closed when done: by `with`, or by `async with` without blocking the event loop.
"""

import asyncio
import time
from abc import ABC, abstractmethod
from datetime import UTC, datetime
from types import TracebackType
from typing import Protocol, Self


class Clock(Protocol):
    """Tells the time of day, which may jump, and a time that only moves forward."""

    def now(self) -> datetime:
        """Return the time of day in UTC, aware."""
        ...

    def monotonic(self) -> float:
        """Return seconds since an unknown moment, never fewer than before."""
        ...

    def of_reply(self, named: datetime | None) -> datetime:
        """Return the time that a reply of storage named, by its one clock for all instances. None: it named no time."""
        ...


class SystemClock:
    """The clock of this machine."""

    def now(self) -> datetime:
        """Return the time of day in UTC, aware."""
        return datetime.now(UTC)

    def monotonic(self) -> float:
        """Return seconds since an unknown moment, never fewer than before."""
        return time.monotonic()

    def of_reply(self, named: datetime | None) -> datetime:
        """Return the time that a reply named, or this machine's time if it named none."""
        return named or self.now()


class Closing(ABC):
    """Closed at the end of its `with` block."""

    @abstractmethod
    def close(self) -> None:
        """Close it. Safe to call twice."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class ClosingEitherWay(Closing):
    """Closed at the end of its `with` block or of its `async with` block."""

    async def aclose(self) -> None:
        """Close it without blocking the event loop."""
        await asyncio.to_thread(self.close)

    async def __aenter__(self) -> Self:
        return self.__enter__()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()
