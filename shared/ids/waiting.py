"""Waiting for work that another thread does for all, with a deadline instead of a spin."""

import asyncio
from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeAlias, TypeVar

from shared.clock import Clock
from shared.errors import SluiceError, WaitExpiredError

#: Work under way for whoever waits; its result is the failure, if any: a failure that nobody waits for is no error.
Flight: TypeAlias = Future[SluiceError | None]
_Taken = TypeVar("_Taken")


def take(attempt: Callable[[], _Taken | Flight], clock: Clock, wait: float, what: str) -> _Taken:
    """Return what the attempt yields, waiting for the flights it names for up to `wait` seconds in all."""
    deadline = None
    while isinstance(flight := attempt(), Future):
        deadline = clock.monotonic() + wait if deadline is None else deadline
        try:
            failure = flight.result(max(deadline - clock.monotonic(), 0))
        except TimeoutError as expired:
            raise _expired(what, wait) from expired
        if failure is not None:
            raise failure
    return flight


async def take_async(attempt: Callable[[], _Taken | Flight], clock: Clock, wait: float, what: str) -> _Taken:
    """Return what the attempt yields, as `take` does, without blocking the event loop."""
    deadline = None
    while isinstance(flight := attempt(), Future):
        deadline = clock.monotonic() + wait if deadline is None else deadline
        # asyncio.wait cancels nothing when time is up: the flight is for others too.
        done, _ = await asyncio.wait([asyncio.wrap_future(flight)], timeout=max(deadline - clock.monotonic(), 0))
        if not done:
            raise _expired(what, wait)
        failure = flight.result()
        if failure is not None:
            raise failure
    return flight


def _expired(what: str, wait: float) -> WaitExpiredError:
    return WaitExpiredError(f"no {what} within {wait:g} s, and storage has not answered yet; check it, then ask again")
