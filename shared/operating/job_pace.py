"""How fast jobs of a size ended lately, by the lines of the list. Pure.

Each job needs more than the work of its chunks: it is started, credited and finished. Of many small jobs that is most of
the time. So a forecast takes it from jobs that ended, and promises no more than was seen.
"""

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from statistics import median
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


class _Run(NamedTuple):
    began: datetime
    ended: datetime
    #: Seconds beside the work of a chunk.
    rest: float


def measure_pace(lines: Sequence[Listed], chunks: float, speeds: Mapping[str, Speed]) -> JobPace:
    """Return the pace of ended jobs that have about so many chunks."""
    like = [one for one in lines if chunks <= _LIKE * one.chunks and one.chunks <= _LIKE * chunks]
    groups = list(_group(sorted(_read_runs(like, speeds))))
    paces = [_pace_of([run.ended for run in group]) for group in groups if len(group) > _LEAST]
    # Of many, most waited for others.
    alone = [run.rest for group in groups if len(group) <= _LEAST for run in group]
    least = min((run.rest for group in groups for run in group), default=0.0)
    return JobPace(min(paces, default=0.0), median(alone) if alone else least)


def _pace_of(ends: Sequence[datetime]) -> float:
    return (max(ends) - min(ends)).total_seconds() / (len(ends) - 1)


def _read_runs(lines: Sequence[Listed], speeds: Mapping[str, Speed]) -> Iterator[_Run]:
    for line in lines:
        if line.started_at is not None and line.finished_at is not None:
            took, speed = (line.finished_at - line.started_at).total_seconds(), speeds.get(line.workload)
            work = line.items / max(1, line.chunks) * speed.milliseconds / speed.items / 1000 if speed else 0.0
            yield _Run(line.started_at, line.finished_at, max(0.0, took - work))


def _group(runs: Sequence[_Run]) -> Iterator[list[_Run]]:
    """Yield runs that overlap. Between two groups nothing was in work, so that time says nothing."""
    group, last = list[_Run](), datetime.min.replace(tzinfo=UTC)
    for run in runs:
        if group and run.began > last:
            yield group
            group = []
        group.append(run)
        last = max(last, run.ended)
    if group:
        yield group
