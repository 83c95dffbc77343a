"""Several requests at the same time, and by them: homes in batches whose events fit into memory together."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from typing import Final, TypeVar

from shared.eventsourcing import Event, Head, Homes

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


#: Events that are in memory at the same time, except those of one large home.
MOST_EVENTS: Final = 5000


def read_homes(homes: Homes, heads: Sequence[tuple[str, Head]]) -> Iterator[list[tuple[str, list[Event]]]]:
    """Yield the homes of a page of heads with all of their events, in batches."""
    for batch in _batches(heads):
        yield list(zip(batch, call_each(lambda home: homes.read_tail(home, 0), batch), strict=True))


def _batches(heads: Sequence[tuple[str, Head]]) -> Iterator[list[str]]:
    some: list[str] = []
    events = 0
    for key, head in heads:
        if some and events + head.version > MOST_EVENTS:
            yield some
            some, events = [], 0
        some.append(key)
        events += head.version
    if some:
        yield some
