"""Decides which needs a job has, by its row. Pure.

The row keeps marks: the kinds that stand, and behind a minus those that stood. By them a commit sees that a need has
begun or ended, and a tick sees which rows of the watch it must write again. A need that time alone brings is noted in the
row by the tick first, as `warn` in `shared/pipeline/sweep.py` does.
"""

from collections.abc import Iterator, Mapping
from datetime import datetime
from types import MappingProxyType
from typing import Final, NamedTuple

from shared.ledger.growth import describe_growth
from shared.ledger.job_decisions import is_failed_entirely
from shared.ledger.records import CLOSED, Job, JobState, Risk
from shared.watch import Need, NeedKind, cut_found, is_kind_of_job

_RISKS: Final[Mapping[Risk, str]] = MappingProxyType(
    {
        Risk.MISSED: "its deadline has passed",
        Risk.PREDICTED_LATE: "at its rate it ends after its deadline",
        Risk.WAITS_TOO_LONG: "little time is left before its deadline",
    }
)
_ENDED: Final = "-"


class _Found(NamedTuple):
    words: str
    since: datetime | None
    #: A need of another degree is written again.
    degree: str = ""
    is_grave: bool = True


def _find(job: Job) -> Iterator[tuple[NeedKind, _Found]]:
    since = job.story[-1].at if job.story else None
    parked = f"{job.parked_chunks:,} of {job.chunks:,} chunks are parked"
    if job.state is JobState.PAUSED:
        yield NeedKind.PAUSED, _Found(job.problem or parked, since)
    elif job.state is JobState.UNBALANCED:
        yield NeedKind.UNBALANCED, _Found(job.problem or "its counts do not add up", since)
    elif job.problem and (job.state is JobState.PLANNING or describe_growth(job)):
        yield NeedKind.PLANLESS, _Found(job.problem, since)
    elif is_failed_entirely(job):
        yield NeedKind.FAILED, _Found(parked, since)
    # The deadline was for the first revision.
    if job.warned and job.deadline and job.revision == 1 and job.state not in CLOSED:
        behind = f", held behind gate {job.gate}" if job.state is JobState.HELD and not job.awaits_others else ""
        words = f"{_RISKS[job.warned]}, {job.deadline:%Y-%m-%d %H:%M} UTC{behind}"
        since = job.deadline if job.warned is Risk.MISSED else None
        yield NeedKind.LATE, _Found(words, since, job.warned.value, job.warned is not Risk.WAITS_TOO_LONG)


def needs_of(job: Job, now: datetime) -> Mapping[str, Need]:
    """Return the needs that the job has by its row, by kind."""
    return {kind: Need(kind, job.job, cut_found(one.words), now, one.since, one.is_grave) for kind, one in _find(job)}


def mark_needs(job: Job) -> str | None:
    """Return the marks that the job's row gets: its needs, and each of before that has ended."""
    marks = {kind: _ENDED if kind in _OURS else mark for kind, mark in _read_marks(job.needs).items()}
    marks |= {kind.value: one.degree for kind, one in _find(job)}
    words = (f"-{kind}" if mark == _ENDED else f"{kind}:{mark}" if mark else kind for kind, mark in marks.items())
    return " ".join(sorted(words)) or None


def find_changed(before: str | None, after: str | None) -> list[str]:
    """Return the kinds that begin, end, or change their degree between two marks."""
    known = _read_marks(before)
    return [kind for kind, mark in _read_marks(after).items() if known.get(kind) != mark]


def list_marked(marks: str | None) -> list[str]:
    """Return the kinds of this version that the watch may have rows of."""
    return [kind for kind in _read_marks(marks) if kind in _OURS]


#: A kind of a later version is left to instances of that version.
_OURS: Final = frozenset(kind.value for kind in NeedKind if is_kind_of_job(kind))


def _read_marks(text: str | None) -> dict[str, str]:
    """Return the degree of each kind, or that it has ended."""
    found = {}
    for word in (text or "").split():
        kind, _, degree = word.removeprefix("-").partition(":")
        found[kind] = _ENDED if word.startswith("-") else degree
    return found
