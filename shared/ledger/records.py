"""What the ledger holds: one row a job and one row a chunk that has ended; plain data, no storage."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import StrEnum
from types import MappingProxyType
from typing import Final

from shared.ledger.amounts import NO_AMOUNTS, Amounts, minus, plus


def _no_amounts() -> Amounts:
    return NO_AMOUNTS


def _no_counts() -> Mapping[str, int]:
    return MappingProxyType({})


class JobState(StrEnum):
    """Where a job is on its way."""

    #: Accepted; its plan is being made.
    PLANNING = "planning"
    #: Planned; its gate is closed.
    HELD = "held"
    #: Its chunks are being put on the work queues.
    DISPATCHING = "dispatching"
    #: Every chunk was put on a work queue.
    RUNNING = "running"
    #: Too many chunks parked, or its outputs cannot be made: nothing happens until a person resumes it.
    PAUSED = "paused"
    #: Every chunk has ended; the outputs of this revision are being written.
    FINISHING = "finishing"
    #: Finished, balanced, nothing parked.
    COMPLETE = "complete"
    #: Finished and balanced, with parked transactions; a replay starts another revision.
    COMPLETED_WITH_PARKED = "completed_with_parked"
    #: Every chunk has ended and the counts or sums do not add up to what was declared.
    UNBALANCED = "unbalanced"
    #: Its retention is over: only id and content hash are kept, so that the same submission is still known.
    BURIED = "buried"


#: Nothing more happens by itself.
FINISHED: Final = frozenset({JobState.COMPLETE, JobState.COMPLETED_WITH_PARKED, JobState.UNBALANCED})
#: Every chunk has ended: one that is replayed now makes a new revision.
ENDED: Final = FINISHED | {JobState.FINISHING}


class Risk(StrEnum):
    """What endangers a deadline, the gravest last."""

    #: Nothing can be predicted yet, because it waits for its gate or has hardly begun, and little of its time is left.
    WAITS_TOO_LONG = "waits_too_long"
    #: At the rate so far it will end after its deadline.
    PREDICTED_LATE = "predicted_late"
    #: The deadline is over, and the job was not finished by then.
    MISSED = "missed"


class ChunkState(StrEnum):
    """How a chunk ended; a chunk that has not ended has no row."""

    DONE = "done"
    PARKED = "parked"


@dataclass(frozen=True, slots=True)
class Tally:
    """Items and sums that ended in one way; the sums of `unknown` chunks cannot be read and are missing here."""

    items: int = 0
    sums: Amounts = field(default_factory=_no_amounts)
    unknown: int = 0

    def __add__(self, other: "Tally") -> "Tally":
        return Tally(self.items + other.items, plus(self.sums, other.sums), self.unknown + other.unknown)

    def __sub__(self, other: "Tally") -> "Tally":
        return Tally(self.items - other.items, minus(self.sums, other.sums), self.unknown - other.unknown)


@dataclass(frozen=True, slots=True)
class Totals:
    """Everything that ended, by the way it ended."""

    accepted: Tally = field(default_factory=Tally)
    rejected: Tally = field(default_factory=Tally)
    parked: Tally = field(default_factory=Tally)

    def __add__(self, other: "Totals") -> "Totals":
        return Totals(self.accepted + other.accepted, self.rejected + other.rejected, self.parked + other.parked)

    def __sub__(self, other: "Totals") -> "Totals":
        return Totals(self.accepted - other.accepted, self.rejected - other.rejected, self.parked - other.parked)

    @property
    def has_unknown_sums(self) -> bool:
        """Whether the sums of some transactions cannot be known."""
        return bool(self.accepted.unknown or self.rejected.unknown or self.parked.unknown)

    @property
    def items(self) -> int:
        """All items that ended."""
        return self.accepted.items + self.rejected.items + self.parked.items


@dataclass(frozen=True, slots=True)
class PlanBlob:
    """Where a job's plan is, and the ETag that it must still have."""

    name: str
    etag: str
    #: Plans of before lie beside the payloads that they cut.
    container: str = "payloads"


@dataclass(frozen=True, slots=True, kw_only=True)
class ChunkRow:
    """How one chunk ended: written once; only a parked one is ever replaced, by the done one of its replay."""

    job: str
    chunk: int
    state: ChunkState
    #: The revision that the chunk was dispatched under; its result blob lies there.
    revision: int
    settled_at: datetime
    totals: Totals = field(default_factory=Totals)
    blob: str | None = None
    hash: str | None = None
    reason: str | None = None
    milliseconds: int = 0
    #: Which write put it here: after a lost reply, a writer knows its own rows by it.
    nonce: str = ""
    etag: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """One accepted submission."""

    job: str
    content_hash: str
    workload: str
    accepted_at: datetime
    state: JobState = JobState.PLANNING
    gate: str | None = None
    #: The gate's epoch before the job was held: an opening after it released the job, whatever was lost since.
    held_epoch: int | None = None
    #: The epoch by which somebody who read its gate let it pass; a job with a gate starts only with this note.
    passed_epoch: int | None = None
    deadline: datetime | None = None
    #: The gravest risk of the deadline that somebody was told of.
    warned: Risk | None = None
    #: How many transactions there are; declared by the publisher or counted when it was framed.
    items: int = 0
    chunks: int = 0
    #: The declared sums that must be proven.
    declared: Amounts = field(default_factory=_no_amounts)
    id_base: int | None = None
    plan: PlanBlob | None = None
    revision: int = 1
    done: int = 0
    parked_chunks: int = 0
    totals: Totals = field(default_factory=Totals)
    #: Chunks below this number were put on the work queues.
    dispatch_cursor: int = 0
    #: When the first chunk was put, when the last chunk ended or was put, when the last revision was finished.
    started_at: datetime | None = None
    progressed_at: datetime | None = None
    finished_at: datetime | None = None
    #: When chunks without progress were last put again.
    nudged_at: datetime | None = None
    #: Parked chunks that a person has seen and resumed the job in spite of.
    forgiven: int = 0
    #: What did not add up, for a person.
    problem: str | None = None
    #: Milliseconds of work as the chunks reported them, and what all stages requested, as it is billed.
    milliseconds: int = 0
    requests: Mapping[str, int] = field(default_factory=_no_counts)
    #: The W3C trace context of its acceptance, under which all of its later spans stand; None while nobody traces.
    trace: str | None = None
    nonce: str = ""
    etag: str = ""

    @property
    def ended_chunks(self) -> int:
        """Chunks that are done or parked."""
        return self.done + self.parked_chunks

    @property
    def has_ended(self) -> bool:
        """Whether every chunk of its plan has ended."""
        return self.plan is not None and self.ended_chunks == self.chunks

    def charged(self, requests: Mapping[str, int]) -> "Job":
        """Return it with more requests made for it."""
        names = sorted({*self.requests, *requests})
        added = {name: self.requests.get(name, 0) + requests.get(name, 0) for name in names}
        return replace(self, requests=MappingProxyType(added))

    def stamped(self, nonce: str) -> "Job":
        """Return it as the write with this nonce leaves it."""
        return replace(self, nonce=nonce)
