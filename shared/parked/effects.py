"""Whether a replayed message has had its effect: asked of the ledger, which alone knows."""

from typing import Final, Protocol

from shared.ledger.ledger import Ledger
from shared.ledger.records import FINISHED, ChunkState
from shared.parked.entry import NO_JOB, Entry, Stage
from shared.payload.reasons import Reason

_REFUSALS: Final = frozenset(map(str, Reason))


class Effects(Protocol):
    """Tells whether an entry is needed by nobody any more."""

    def landed(self, entry: Entry, /) -> bool:
        """Whether its effect is there for good."""
        ...


class LedgerEffects:
    """Effects by the ledger's rows."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger

    def landed(self, entry: Entry, /) -> bool:
        """Whether the chunk is done, the job was accepted since, or its outputs are written."""
        if entry.stage in {Stage.PROCESS, Stage.SETTLE} and entry.chunk is not None:
            row = self._ledger.rows_of(entry.job, [entry.chunk]).get(entry.chunk)
            return row is not None and row.state is ChunkState.DONE
        job = None if entry.about == NO_JOB else self._ledger.read(entry.about)
        if job is None:
            return False
        if entry.stage is Stage.FINISH:
            return job.state in FINISHED and job.revision >= (entry.revision or 0)
        if entry.stage is not Stage.ACCEPT:
            return False
        # What was refused made no job: one that was there before is another submission's. What killed its worker, or
        # was given up, may have begun its own before that.
        return job.accepted_at >= entry.last_at or (entry.reason not in _REFUSALS and job.plan is not None)
