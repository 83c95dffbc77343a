"""Records of the ledger: one row per job and one row per chunk that has ended; plain data, no storage.

Each field names the codec of its column, so a field is added here and nowhere else: `entities` writes and reads every
field by its codec, `Job.accept` copies the given ones from the submission, and a burial keeps those marked `kept`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import StrEnum
from types import MappingProxyType
from typing import Annotated, Any, Final, Self

from shared.grammar import NO_AMOUNTS, Amounts, minus, plus
from shared.ledger.columns import (
    AMOUNTS,
    CHUNK_STATE,
    COUNTS,
    JOB_STATE,
    KEY,
    MOMENT,
    PLAN,
    RISK,
    SMALL,
    TEXT,
    TOTALS,
    WHOLE,
    Column,
    select_fields,
)
from shared.payload import Submission


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
class Portion:
    """Items and sums that ended in one way; the sums of `unknown` chunks cannot be read and are missing here."""

    items: int = 0
    sums: Amounts = field(default_factory=_no_amounts)
    unknown: int = 0

    def __add__(self, other: "Portion") -> "Portion":
        return Portion(self.items + other.items, plus(self.sums, other.sums), self.unknown + other.unknown)

    def __sub__(self, other: "Portion") -> "Portion":
        return Portion(self.items - other.items, minus(self.sums, other.sums), self.unknown - other.unknown)


#: Made once: most rows have it twice.
NO_TALLY: Final = Portion()


@dataclass(frozen=True, slots=True)
class Totals:
    """Everything that ended, by the way it ended."""

    accepted: Portion = NO_TALLY
    rejected: Portion = NO_TALLY
    parked: Portion = NO_TALLY

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

    job: Annotated[str, Column(KEY)]
    chunk: Annotated[int, Column(KEY)]
    state: Annotated[ChunkState, Column(CHUNK_STATE, always=True)]
    #: The revision that the chunk was dispatched under; its result blob lies there.
    revision: Annotated[int, Column(SMALL, always=True)]
    settled_at: Annotated[datetime, Column(MOMENT, always=True)]
    totals: Annotated[Totals, Column(TOTALS, always=True)] = field(default_factory=Totals)
    blob: Annotated[str | None, Column(TEXT)] = None
    hash: Annotated[str | None, Column(TEXT)] = None
    reason: Annotated[str | None, Column(TEXT)] = None
    milliseconds: Annotated[int, Column(WHOLE, always=True)] = 0
    #: Which write put it here: after a lost reply, a writer knows its own rows by it.
    nonce: Annotated[str, Column(TEXT, always=True)] = ""
    etag: Annotated[str, Column(KEY)] = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """One accepted submission."""

    job: Annotated[str, Column(KEY, given=True, kept=True)]
    content_hash: Annotated[str, Column(TEXT, kept=True, always=True)]
    workload: Annotated[str, Column(TEXT, given=True, kept=True, always=True)]
    accepted_at: Annotated[datetime, Column(MOMENT, kept=True, always=True)]
    state: Annotated[JobState, Column(JOB_STATE, always=True)] = JobState.PLANNING
    gate: Annotated[str | None, Column(TEXT, given=True)] = None
    #: The gate's epoch before the job was held: an opening after it released the job, whatever was lost since.
    held_epoch: Annotated[int | None, Column(WHOLE)] = None
    #: The epoch by which somebody who read its gate let it pass; a job with a gate starts only with this note.
    passed_epoch: Annotated[int | None, Column(WHOLE)] = None
    deadline: Annotated[datetime | None, Column(MOMENT, given=True)] = None
    #: The gravest risk of the deadline that somebody was told of.
    warned: Annotated[Risk | None, Column(RISK)] = None
    #: How many transactions there are; declared by the publisher or counted when it was framed.
    items: Annotated[int, Column(WHOLE, kept=True)] = 0
    chunks: Annotated[int, Column(WHOLE, kept=True)] = 0
    #: The declared sums that must be proven.
    declared: Annotated[Amounts, Column(AMOUNTS, always=True)] = field(default_factory=_no_amounts)
    id_base: Annotated[int | None, Column(WHOLE)] = None
    plan: Annotated[PlanBlob | None, Column(PLAN, kept=True)] = None
    revision: Annotated[int, Column(WHOLE, kept=True)] = 1
    done: Annotated[int, Column(WHOLE)] = 0
    parked_chunks: Annotated[int, Column(WHOLE)] = 0
    totals: Annotated[Totals, Column(TOTALS, always=True)] = field(default_factory=Totals)
    #: Chunks below this number were put on the work queues.
    dispatch_cursor: Annotated[int, Column(WHOLE)] = 0
    #: When the first chunk was put, when the last chunk ended or was put, when the last revision was finished.
    started_at: Annotated[datetime | None, Column(MOMENT)] = None
    progressed_at: Annotated[datetime | None, Column(MOMENT)] = None
    finished_at: Annotated[datetime | None, Column(MOMENT, kept=True)] = None
    #: When chunks without progress were last put again.
    nudged_at: Annotated[datetime | None, Column(MOMENT)] = None
    #: Parked chunks that a person has seen and resumed the job in spite of.
    forgiven: Annotated[int, Column(WHOLE)] = 0
    #: What did not add up, for a person.
    problem: Annotated[str | None, Column(TEXT)] = None
    #: Milliseconds of work as the chunks reported them, and what all stages requested, as it is billed.
    milliseconds: Annotated[int, Column(WHOLE)] = 0
    requests: Annotated[Mapping[str, int], Column(COUNTS, kept=True, always=True)] = field(default_factory=_no_counts)
    #: The W3C trace context of its acceptance, under which all of its later spans stand; None while nobody traces.
    trace: Annotated[str | None, Column(TEXT)] = None
    nonce: Annotated[str, Column(TEXT, kept=True)] = ""
    etag: Annotated[str, Column(KEY, kept=True)] = ""

    @classmethod
    def accept(cls, submission: Submission, content_hash: str, now: datetime, trace: str | None) -> Self:
        """Return the new job of a submission, without a plan; `trace`: the acceptance, as later spans refer to it."""
        given: dict[str, Any] = {name: getattr(submission, name) for name in select_fields(Job, "given")}
        declared = dict(submission.declared.sums)
        return cls(**given, content_hash=content_hash, accepted_at=now, declared=declared, trace=trace)

    def tombstone(self) -> "Job":
        """Return the buried job: the fields that are kept."""
        kept: dict[str, Any] = {name: getattr(self, name) for name in select_fields(Job, "kept")}
        return Job(**kept, state=JobState.BURIED)

    @property
    def ended_chunks(self) -> int:
        """Chunks that are done or parked."""
        return self.done + self.parked_chunks

    @property
    def has_ended(self) -> bool:
        """Whether every chunk of its plan has ended."""
        return self.plan is not None and self.ended_chunks == self.chunks

    def add_requests(self, requests: Mapping[str, int]) -> "Job":
        """Return it with more requests made for it."""
        names = sorted({*self.requests, *requests})
        added = {name: self.requests.get(name, 0) + requests.get(name, 0) for name in names}
        return replace(self, requests=MappingProxyType(added))

    def stamp(self, nonce: str) -> "Job":
        """Return it as the write with this nonce leaves it."""
        return replace(self, nonce=nonce)
