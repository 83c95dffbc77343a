"""Notes in a job's row how many storage requests its stages made, with the writes that they make anyway.

What a stage does after its last write of the row is in nobody's count: noting it would be one more request.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar

from shared.ledger.ledger import Event, Ledger
from shared.ledger.records import ChunkRow, Job
from shared.usage.bill import Charge, charges
from shared.usage.requests import TABLE
from shared.usage.tally import Tally, current_cause, tallied


class _Count:
    """The requests that a stage made for one job, and how many of them its row has."""

    def __init__(self, tally: Tally) -> None:
        self._tally, self._noted = tally, Counter[str]()

    def commit(self, ledger: Ledger, job: Job, rows: Sequence[ChunkRow], event: Event | None) -> Job | None:
        # The commit itself is a request too.
        made = Counter(charges(self._tally)) + Counter([str(Charge(TABLE, current_cause().value))])
        written = ledger.commit(job.charged(made - self._noted), rows, event)
        if written is not None:
            self._noted = made
        return written


_count: ContextVar[_Count | None] = ContextVar("count", default=None)


@contextmanager
def counting() -> Iterator[Tally]:
    """Count what a stage requests for one job; threads need their caller's context (`copy_context().run`)."""
    with tallied() as tally:
        token = _count.set(_Count(tally))
        try:
            yield tally
        finally:
            _count.reset(token)


def commit(ledger: Ledger, job: Job, rows: Sequence[ChunkRow] = (), event: Event | None = None) -> Job | None:
    """Commit as the ledger does; within `counting`, with every request that no commit has noted, this one included."""
    count = _count.get()
    return ledger.commit(job, rows, event) if count is None else count.commit(ledger, job, rows, event)
