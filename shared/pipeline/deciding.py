"""Writes what is decided about a job, deciding anew on what others wrote in between."""

from collections.abc import Callable
from typing import Final, NamedTuple

from shared.errors import ContentionError
from shared.ledger.counting import commit
from shared.ledger.ledger import Ledger
from shared.ledger.records import Job

#: Others write the row of a job before its dispatch only where it is accepted or released by several at once.
MOST_ATTEMPTS: Final = 20


class Decided(NamedTuple):
    """The job as it is now, and whether this call wrote it; else it was decided already, by whomever."""

    job: Job
    is_mine: bool


def decide_on(ledger: Ledger, job: Job, decide: Callable[[Job], Job]) -> Decided:
    """Write the decision; raises ContentionError where others are faster each time, or the job is gone."""
    current: Job | None = job
    for _ in range(MOST_ATTEMPTS):
        if current is None:
            break
        decided = decide(current)
        if decided is current:
            return Decided(current, is_mine=False)
        written = commit(ledger, decided)
        if written is not None:
            return Decided(written, is_mine=True)
        current = ledger.read(job.job)
    raise ContentionError(
        f"could not write job {job.job!r}: others changed it {MOST_ATTEMPTS} times in a row, or it is gone; "
        "it is tried again"
    )
