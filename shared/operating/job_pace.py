"""How fast jobs of a size ended lately, by the lines of the list. Pure.

Each job needs more than the work of its chunks: it is started, credited and finished. Of many small jobs that is most of
the time. So a forecast takes it from jobs that ended, and promises no more than was seen.
"""

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
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
    runs = sorted(_read_runs(like, speeds))
    paces = [(ends[-1] - ends[0]).total_seconds() / (len(ends) - 1) for ends in _group(runs) if len(ends) > _LEAST]
    return JobPace(min(paces, default=0.0), min((one.rest for one in runs), default=0.0))


def _read_runs(lines: Sequence[Listed], speeds: Mapping[str, Speed]) -> Iterator[_Run]:
    for line in lines:
        if line.started_at is not None and line.finished_at is not None:
            took, speed = (line.finished_at - line.started_at).total_seconds(), speeds.get(line.workload)
            work = line.items / max(1, line.chunks) * speed.milliseconds / speed.items / 1000 if speed else 0.0
            yield _Run(line.started_at, line.finished_at, max(0.0, took - work))


def _group(runs: Sequence[_Run]) -> Iterator[list[datetime]]:
    """Yield the ends of runs that overlap. Between two groups nothing was in work, so that time says nothing."""
    ends, last = list[datetime](), datetime.min.replace(tzinfo=UTC)
    for run in runs:
        if ends and run.began > last:
            yield sorted(ends)
            ends = []
        ends.append(run.ended)
        last = max(last, run.ended)
    if ends:
        yield sorted(ends)
