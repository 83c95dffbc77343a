"""The rehearsal of a migration: what it will read and write, by a sample of homes. It writes nothing."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Final

from shared.azure import MOST_GROUP_ROWS
from shared.clock import Clock
from shared.eventsourcing import Homes
from shared.readmodels.log_pages import call_each
from shared.readmodels.projection import Model, Projection, View, ViewKey, fold_all

#: Homes that are folded.
SAMPLE: Final = 50


@dataclass(frozen=True, slots=True)
class SampleRow:
    """A row that the new version would have."""

    home: str
    key: ViewKey
    view: View


@dataclass(frozen=True, slots=True, kw_only=True)
class Rehearsal:
    """The size of a migration, and some of its rows."""

    homes: int
    events: int
    rows: Sequence[SampleRow]
    #: Requests that building and verifying make together, without races with live events.
    requests: int
    #: How long both take at the speed of the sample.
    seconds: float


def rehearse(
    model: Model, projection: Projection, homes: Homes, clock: Clock, report: Callable[[str, int], None]
) -> Rehearsal:
    """Count the homes, and fold a sample of them."""
    began = clock.monotonic()
    rows = sample(projection, homes, model)
    each = (clock.monotonic() - began) / max(len(rows), 1)
    cursor, pages, number, events = "", 0, 0, 0
    while True:
        page = homes.heads(model.homes, cursor)
        pages, number = pages + 1, number + len(page.heads)
        events += sum(head.version for _, head in page.heads)
        report("counted homes", len(page.heads))
        if page.cursor is None:
            break
        cursor = page.cursor
    # Each reads all heads, and the events of each home. Building writes rows and the cursor, verifying reads the rows.
    requests = 2 * (pages + number) + -(-number // MOST_GROUP_ROWS) + pages + -(-number // 1000)
    return Rehearsal(homes=number, events=events, rows=rows, requests=requests, seconds=2 * number * each)


def sample(projection: Projection, homes: Homes, model: Model) -> list[SampleRow]:
    """Fold some homes in memory. An event that the projection cannot read raises its error here, before any write."""
    first = [home for home, _ in islice(homes.heads(model.homes).heads, SAMPLE)]
    found = []
    for home, events in zip(first, call_each(lambda home: homes.read_tail(home, 0), first), strict=True):
        view, key = fold_all(projection, events).view, projection.key(home, events)
        if view is not None and key is not None:
            found.append(SampleRow(home, key, view))
    return found
