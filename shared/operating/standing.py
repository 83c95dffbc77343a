"""Needs that stand now: the rows of needs, and what follows from the last point and from parked messages. Pure.

The first page of the console and `sluice now` say the same by it.
"""

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Final

from shared.parked import ParkedCount
from shared.watch import PARKED, WORK_WAITS, Need, Standing, find_last_point, find_silence, sort_needs

#: Work that waits this long while no process reports has no worker.
NO_WORKER: Final = timedelta(minutes=2)


def find_needs(standing: Standing, parked: ParkedCount, now: datetime) -> list[Need]:
    """Return the needs of a person, the grave first. `now`: of the reading, since an older one says nothing of later."""
    return sort_needs([*standing.needs, *_find_others(standing, parked, now)])


def _find_others(standing: Standing, parked: ParkedCount, now: datetime) -> Iterator[Need]:
    if silence := find_silence(standing.hours, now):
        yield silence
    last = find_last_point(standing.hours)
    point = last and last.point
    if last and point and point.depth and not point.processes and (point.oldest_age or 0) > NO_WORKER.total_seconds():
        found = f"{point.depth:,} messages wait, and no process reports"
        since = last.at - timedelta(seconds=point.oldest_age or 0)
        yield Need(WORK_WAITS, "the queues", found, last.at, since)
    if parked.number:
        yield Need(PARKED, "what is parked", str(parked), now, is_grave=False)
