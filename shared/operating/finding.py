"""Finds jobs, gates and causes by a part of their names, for a person who does not know what a text is.

Four requests for a text: jobs by the beginning of their ids, gates, causes. Jobs by any part are looked for among the
newest, by five more, only when a person wants it.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, NamedTuple

from shared.ledger import Job, JobList, Listed
from shared.parked import CauseSums

#: Jobs that are found by the beginning of their ids, and those that are looked through for any part.
MOST_FOUND, NEWEST = 20, 5_000
#: Digits of the largest number.
_DIGITS: Final = 19
#: Characters of a text.
LONGEST: Final = 250


class HitKind(StrEnum):
    """The kinds of things."""

    JOB = "job"
    GATE = "gate"
    CAUSE = "cause"
    ORDER = "order"
    NUMBER = "number"


class Hit(NamedTuple):
    """One thing that was found."""

    kind: HitKind
    name: str
    words: str
    #: The text is its whole name.
    is_exact: bool = False


@dataclass(frozen=True, slots=True)
class Finder:
    """Looks in each place once."""

    jobs: JobList
    gates: Callable[[], Iterable[str]]
    causes: Callable[[], Iterable[CauseSums]]

    def find(self, text: str, *, further: bool = False) -> Iterator[Hit]:
        """Yield what has this text, in any case. `further`: also among the newest jobs, by any part of their ids."""
        if not text or len(text) > LONGEST:
            return
        if text.isascii() and text.isdigit() and len(text) <= _DIGITS:
            yield Hit(HitKind.NUMBER, text, "a number of transactions: its story, and its job")
        found = self.jobs.find(text, MOST_FOUND)
        begun = {job.job for job in found}
        yield from (_hit_of_job(job, text) for job in found)
        if further:
            under_way = {job.job: job for job in self.jobs.list_open()[0]}
            newest = (job for job in self.jobs.newest(NEWEST) if _has(text, job.job) and job.job not in begun)
            shown = (under_way.get(job.job, job) for job, _ in zip(newest, range(MOST_FOUND), strict=False))
            yield from (_hit_of_job(job, text) for job in shown)
        yield from (Hit(HitKind.GATE, gate, "", gate == text) for gate in self.gates() if _has(text, gate))
        for cause in self.causes():
            if cause.fingerprint.startswith(text) or _has(text, cause.reason, cause.found, cause.place):
                words = f"{cause.open + cause.over:,} parked, {cause.reason}: {cause.found}"
                yield Hit(HitKind.CAUSE, cause.fingerprint, words, cause.fingerprint == text)


def _hit_of_job(job: Job | Listed, text: str) -> Hit:
    state = job.state.value.replace("_", " ") if job.state else "state unknown"
    return Hit(HitKind.JOB, job.job, f"{state}, accepted {job.accepted_at:%Y-%m-%d %H:%M} UTC", job.job == text)


def _has(text: str, *names: str) -> bool:
    return any(text.casefold() in name.casefold() for name in names)
