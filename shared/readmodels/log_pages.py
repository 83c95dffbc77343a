"""Homes in batches whose events fit into memory together, with the events that each has."""

from collections.abc import Iterator, Sequence
from typing import Final

from shared.eventsourcing import Event, Head, Homes
from shared.readmodels.parallel import call_each

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
