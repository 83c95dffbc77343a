"""Waits for the end of a job: the loop of `sluice jobs watch` and of `sluice submit --wait`, and what it ends with."""

import time
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Final

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from shared.ledger import CLOSED, Job, JobState
from shared.operating import JobReader, group_later
from shared.parked import Entry
from tools.cli import job_view as view
from tools.cli.options import PROBLEM_FOUND

#: Seconds from one request for a job, or for the effect of a message, to the next. Each is billed.
LOOK_EVERY: Final = 1.0
#: The watch ends in these states: the next step is a person's.
STOPS: Final = CLOSED | {JobState.PAUSED}
#: Looks at a job before one at the door, for a job that is not there. From this look on, an entry from before the
#: watch is believed too.
LOOK_AT_THE_DOOR: Final = 5
LATE_LOOK: Final = 15

NOT_ENDED: Final = 3
STATUS: Final = MappingProxyType(
    {
        JobState.COMPLETE: 0,
        JobState.COMPLETED_WITH_PARKED: 4,
        JobState.UNBALANCED: 5,
        JobState.PAUSED: 6,
        JobState.STOPPED: 7,
        # Its row does not say any more how it ended.
        JobState.BURIED: PROBLEM_FOUND,
        JobState.ERASED: PROBLEM_FOUND,
    }
)
STATUS_WORDS: Final = (
    "0 the job is complete, 1 there is no such job, its end is not known any more, or a submission of its id is parked, "
    "2 the call makes no sense, 3 the time was up first, 4 completed with parked transactions, 5 unbalanced, 6 paused, 7 stopped"
)


@dataclass(frozen=True, slots=True)
class Watched:
    """A job at its end or after the time, and the submissions of its id that were refused."""

    job: Job | None
    refused: Sequence[Entry] = ()
    #: The job has the content of another submission than the one that is waited for.
    is_others: bool = False

    @property
    def later(self) -> Sequence[Entry]:
        """Submissions that were refused after the job was accepted."""
        return group_later([self.job], self.refused).get(self.job.job, ()) if self.job else self.refused


@dataclass(frozen=True, slots=True)
class Watch:
    """Watches one job."""

    reader: JobReader
    job: str
    #: Seconds. None: until it ends.
    timeout: float | None
    is_shown: bool
    #: The hashes of the submission that is waited for. Without them any submission of the id is meant.
    hashes: Collection[str] = ()

    def run(self) -> Watched:
        """Return the job at its end or after the time, or the entries if it was parked at acceptance."""
        began, looks = datetime.now(UTC), 0
        end = None if self.timeout is None else time.monotonic() + self.timeout
        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
        with Progress(*columns, console=Console(stderr=True), disable=not self.is_shown) as bar:
            task = bar.add_task("waiting to be accepted", total=None)
            while True:
                found = self.reader.ledger.read(self.job)
                if found is not None:
                    said = view.on_its_way(found, datetime.now(UTC))
                    bar.update(task, description=said, total=found.chunks or None, completed=found.ended_chunks)
                is_over = end is not None and time.monotonic() >= end
                if (over := self._judge(found, began, looks, is_over=is_over)) is not None:
                    return over
                looks += 1
                time.sleep(LOOK_EVERY)

    def _judge(self, found: Job | None, began: datetime, looks: int, *, is_over: bool) -> Watched | None:
        """Return the outcome, or None to look again."""
        if found is None:
            if not is_over and looks % LOOK_AT_THE_DOOR:
                return None
            refused = self.reader.list_refused(self.job)
            # One that was parked before may have been sent again since, and be on its way.
            is_patient = is_over or looks >= LATE_LOOK
            if new := [one for one in refused if is_patient or one.last_at >= began]:
                return Watched(None, new)
            if refused and not looks and self.is_shown:
                seconds = LATE_LOOK * LOOK_EVERY
                typer.echo(f"sluice: an earlier submission is parked; waits {seconds:.0f} s for another one", err=True)
            return Watched(None) if is_over else None
        is_others = bool(self.hashes) and found.content_hash not in self.hashes
        if is_others or found.state in STOPS or is_over:
            return Watched(found, self.reader.list_refused(self.job), is_others)
        return None


def status_of(found: Watched, *, is_own: bool = False) -> int:
    """Return the exit status. `is_own`: the job has the caller's content, so submissions of others do not change it."""
    if found.job is None or found.is_others:
        return PROBLEM_FOUND
    status = STATUS.get(found.job.state, NOT_ENDED)
    return PROBLEM_FOUND if not status and found.later and not is_own else status


def refused_lines(found: Watched) -> list[str]:
    """Return the fates of other submissions under the id of a job."""
    if found.job is None:
        return []
    return [view.refused_line(one, found.job) for one in found.later]
