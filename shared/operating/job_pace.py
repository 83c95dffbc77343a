"""How fast jobs of a size ended lately, by the lines of the list. Pure.

Each job needs more than the work of its chunks: it is started, credited and finished. Of many small jobs that is most of
the time. So a forecast takes it from jobs that ended, and promises no more than was seen.
"""

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Final, NamedTuple

from shared.ledger import Listed
from shared.pipeline import Speed

#: Fewer jobs than this say nothing about many.
_LEAST: Final = 20
#: A job has a size like others if its chunks are at most so many times theirs.
_LIKE: Final = 2


class JobPace(NamedTuple):
    """Seconds beside the work of chunks. 0: not known."""

    #: From one end to the next, while many jobs end.
    each: float = 0.0
    #: From the first chunk of a job to its end.
    rest: float = 0.0


def measure_pace(lines: Sequence[Listed], chunks: float, speeds: Mapping[str, Speed]) -> JobPace:
    """Return the pace of ended jobs that have about so many chunks."""
    like = [one for one in lines if chunks <= _LIKE * one.chunks and one.chunks <= _LIKE * chunks]
    ends = sorted(one.finished_at for one in like if one.finished_at)
    # The densest half: between two openings nothing ends.
    half = max(_LEAST, len(ends) // 2)
    spans = [later - earlier for earlier, later in zip(ends, ends[half:], strict=False)]
    each = min(spans, default=timedelta()).total_seconds() / half
    return JobPace(each, min((_rest_of(one, speeds.get(one.workload)) for one in like if one.started_at), default=0.0))


def _rest_of(line: Listed, speed: Speed | None) -> float:
    if line.finished_at is None or line.started_at is None:
        return 0.0
    took = (line.finished_at - line.started_at).total_seconds()
    work = line.items / max(1, line.chunks) * speed.milliseconds / speed.items / 1000 if speed else 0.0
    return max(0.0, took - work)
