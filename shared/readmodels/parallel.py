"""Several requests at the same time."""

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from typing import Final, TypeVar

#: Requests that one call makes at the same time.
PARALLEL: Final = 8
_Item = TypeVar("_Item")
_Outcome = TypeVar("_Outcome")


def call_each(act: Callable[[_Item], _Outcome], items: Iterable[_Item]) -> list[_Outcome]:
    """Call `act` with each item, several at the same time, and return the outcomes in the order of the items."""
    items = list(items)
    if len(items) <= 1:
        return [act(one) for one in items]
    with ThreadPoolExecutor(min(PARALLEL, len(items))) as pool:
        # Each in a copy of this context, so that its requests are counted for their cause.
        return [one.result() for one in [pool.submit(copy_context().run, act, one) for one in items]]
