"""Records of the ledger: one row per job and one row per chunk that has ended.

They are plain data. Each field names the codec of its column, so a new field is added only here:

- `entities` writes and reads every field by its codec.
- `Job.accept` copies the fields marked `given` from the submission.
- `Job.tombstone` keeps the fields marked `kept`, and the state in which the job had ended.

The columns of the ledger's records: the codec of each field, and who copies or keeps its value.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from datetime import datetime
from enum import Enum, StrEnum, auto
from functools import cache
from types import MappingProxyType
from typing import Annotated, Any, Final, NamedTuple, Self, TypeAlias, get_type_hints

from shared.grammar import NO_AMOUNTS, Amounts, minus, plus
from shared.payload import FileBlob, Ranges, Submission


class ColumnCodec(Enum):
    """How a value is written in its column. `entities` has a writer and a reader for each."""

    #: No column: the row's key, or its ETag.
    KEY = auto()
    TEXT = auto()
    WHOLE = auto()
    #: A whole number of 32 bits, because the first version wrote it so.
    SMALL = auto()
    MOMENT = auto()
    JOB_STATE = auto()
    CHUNK_STATE = auto()
    RISK = auto()
    AMOUNTS = auto()
    TOTALS = auto()
    COUNTS = auto()
    #: Stored if it is true.
    FLAG = auto()
    STORY = auto()
    #: A whole number, stored if it is not 0.
    RARE = auto()
    #: A list of names, stored if there is one.
    NAMES = auto()
    #: The sources of a job and the sums that they prove, stored if there are any.
    SOURCES = auto()
    #: Numbers by name, stored if there are any.
    REVISIONS = auto()
    #: The ranges of a file, stored if it is cut by them.
    RANGES = auto()
    #: Three columns, or one.
    PLAN = auto()
    #: All columns that no field has: they are of a newer version.
    OTHERS = auto()


KEY: Final = ColumnCodec.KEY
TEXT: Final = ColumnCodec.TEXT
WHOLE: Final = ColumnCodec.WHOLE
SMALL: Final = ColumnCodec.SMALL
MOMENT: Final = ColumnCodec.MOMENT
JOB_STATE: Final = ColumnCodec.JOB_STATE
CHUNK_STATE: Final = ColumnCodec.CHUNK_STATE
RISK: Final = ColumnCodec.RISK
AMOUNTS: Final = ColumnCodec.AMOUNTS
TOTALS: Final = ColumnCodec.TOTALS
COUNTS: Final = ColumnCodec.COUNTS
FLAG: Final = ColumnCodec.FLAG
STORY: Final = ColumnCodec.STORY
RARE: Final = ColumnCodec.RARE
NAMES: Final = ColumnCodec.NAMES
SOURCES: Final = ColumnCodec.SOURCES
REVISIONS: Final = ColumnCodec.REVISIONS
RANGES: Final = ColumnCodec.RANGES
PLAN: Final = ColumnCodec.PLAN
OTHERS: Final = ColumnCodec.OTHERS


class Column(NamedTuple):
    """The column of a field. None is not stored, and a row without the column has the field's default."""

    codec: ColumnCodec
    #: Copied from the submission's field of this name when the job is accepted.
    given: bool = False
    #: Kept when the job is buried.
    kept: bool = False
    #: Written by every version of Sluice: another program changed a row that lacks it.
    always: bool = False


def columns(record: Any) -> Mapping[str, Column]:
    """Return the column of each field, in the order of the fields."""
    hints = get_type_hints(record, include_extras=True)
    return {one.name: hints[one.name].__metadata__[0] for one in fields(record)}


@cache
def select_fields(record: Any, mark: str) -> tuple[str, ...]:
    """Return the names of the fields whose column has the mark, `given` or `kept`."""
    return tuple(name for name, column in columns(record).items() if getattr(column, mark))


class JobState(StrEnum):
    """The state of a job."""

    PLANNING = "planning"  # Accepted; its plan is being made.
    HELD = "held"  # Planned; its gate is closed.
    DISPATCHING = "dispatching"  # Its chunks are being put on the work queues.
    RUNNING = "running"  # Every chunk was put on a work queue.
    #: A person paused it, too many chunks are parked, or its outputs cannot be made. It waits until a person resumes it.
    PAUSED = "paused"
    FINISHING = "finishing"  # Every chunk has ended; the outputs of this revision are being written.
    COMPLETE = "complete"  # Finished, balanced, nothing parked.
    #: Finished and balanced, with parked transactions; a replay starts another revision.
    COMPLETED_WITH_PARKED = "completed_with_parked"
    UNBALANCED = "unbalanced"  # Every chunk has ended, but items or sums differ from those declared.
    #: A person ended it. Its results count no more, and nothing is published.
    STOPPED = "stopped"
    BURIED = "buried"  # Its retention is over. The row keeps enough to recognize the same submission.
    #: A person had everything of it removed. The row keeps who, when and why, and the proof.
    ERASED = "erased"


#: Nothing more happens unless an operator acts.
FINISHED: Final = frozenset({JobState.COMPLETE, JobState.COMPLETED_WITH_PARKED, JobState.UNBALANCED})
#: Closed, and kept until its retention is over.
KEPT: Final = FINISHED | {JobState.STOPPED}
#: Nothing of its transactions is kept.
TOMBSTONES: Final = frozenset({JobState.BURIED, JobState.ERASED})
#: Closed; a replay begins another revision of one that is finished.
CLOSED: Final = KEPT | TOMBSTONES
#: Results that come are dropped: the numbers of its end are final.
SEALED: Final = CLOSED - FINISHED
#: Every chunk has ended: a chunk that is replayed now starts a new revision.
ENDED: Final = FINISHED | {JobState.FINISHING}


class Risk(StrEnum):
    """Dangers to a deadline, the gravest last."""

    #: Little time is left, and no prediction is possible: the job waits for its gate or has hardly begun.
    WAITS_TOO_LONG = "waits_too_long"
    #: At the rate so far, the job ends after its deadline.
    PREDICTED_LATE = "predicted_late"
    #: The job was not finished at its deadline.
    MISSED = "missed"


class ChunkState(StrEnum):
    """How a chunk ended. A chunk that has not ended has no row."""

    DONE = "done"
    PARKED = "parked"


@dataclass(frozen=True, slots=True)
class Portion:
    """Items and sums that ended in one way. The sums of `unknown` chunks cannot be read and are missing here."""

    items: int = 0
    sums: Amounts = field(default_factory=lambda: NO_AMOUNTS)
    unknown: int = 0

    def __add__(self, other: "Portion") -> "Portion":
        return Portion(self.items + other.items, plus(self.sums, other.sums), self.unknown + other.unknown)

    def __sub__(self, other: "Portion") -> "Portion":
        return Portion(self.items - other.items, minus(self.sums, other.sums), self.unknown - other.unknown)


#: Bytes of a partial for each packed byte, where only those are known.
EXPANDS: Final = 8
#: Created once: nearly every row has it.
NO_OTHERS: Final[Mapping[str, Any]] = MappingProxyType({})
#: Created once, because most rows have it twice.
NO_PORTION: Final = Portion()


@dataclass(frozen=True, slots=True)
class Totals:
    """Everything that ended, by the way it ended."""

    accepted: Portion = NO_PORTION
    rejected: Portion = NO_PORTION
    parked: Portion = NO_PORTION

    def __add__(self, other: "Totals") -> "Totals":
        return Totals(self.accepted + other.accepted, self.rejected + other.rejected, self.parked + other.parked)

    def __sub__(self, other: "Totals") -> "Totals":
        return Totals(self.accepted - other.accepted, self.rejected - other.rejected, self.parked - other.parked)

    @property
    def has_unknown_sums(self) -> bool:
        """True if the sums of some transactions could not be read."""
        return bool(self.accepted.unknown or self.rejected.unknown or self.parked.unknown)

    @property
    def items(self) -> int:
        """All items that ended."""
        return self.accepted.items + self.rejected.items + self.parked.items


@dataclass(frozen=True, slots=True)
class PlanBlob:
    """The blob of a job's plan, and the ETag that it must still have."""

    name: str
    etag: str
    #: Earlier versions stored a plan beside its payload.
    container: str = "payloads"


@dataclass(frozen=True, slots=True)
class PlanText:
    """The plan of a small job, in its own row. It has the payload too, and is gone when the job is buried."""

    text: str


@dataclass(frozen=True, slots=True)
class Sources:
    """How a job is made from others: the first ones that it waits for."""

    #: How many of these.
    count: int
    #: The declared sum of this name is what they accepted of the other.
    sums: Mapping[str, str]
    #: Which of their files, if the publisher says.
    files: str | None = None


class Told(NamedTuple):
    """A state that a job came to: when, under which revision, and why or behind which gate."""

    #: A JobState, or the word of a newer version.
    state: str
    at: datetime
    revision: int
    note: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChunkRow:
    """How one chunk ended. It is replaced only by a replay: a parked row by a done one, a done one by one that extends it."""

    job: Annotated[str, Column(KEY)]
    chunk: Annotated[int, Column(KEY)]
    state: Annotated[ChunkState, Column(CHUNK_STATE, always=True)]
    #: The revision under which the chunk was dispatched. It is part of the name of the result blob.
    revision: Annotated[int, Column(SMALL, always=True)]
    settled_at: Annotated[datetime, Column(MOMENT, always=True)]
    totals: Annotated[Totals, Column(TOTALS, always=True)] = field(default_factory=Totals)
    blob: Annotated[str | None, Column(TEXT)] = None
    offset: Annotated[int | None, Column(WHOLE)] = None  # in a blob with the results of several chunks
    hash: Annotated[str | None, Column(TEXT)] = None
    length: Annotated[int | None, Column(WHOLE)] = None  # stored bytes; rows of earlier versions lack it
    partial: Annotated[int | None, Column(WHOLE)] = None  # bytes of its partial; rows of earlier versions lack it
    #: Those of them that are its lines, the last ones. None: it has none.
    lines: Annotated[int | None, Column(WHOLE)] = None
    extends: Annotated[str | None, Column(TEXT)] = None  # the hash of the result whose place it took
    reason: Annotated[str | None, Column(TEXT)] = None
    milliseconds: Annotated[int, Column(WHOLE, always=True)] = 0
    #: Identifies the write: after a lost reply, a writer recognizes its own rows by it.
    nonce: Annotated[str, Column(TEXT, always=True)] = ""
    etag: Annotated[str, Column(KEY)] = ""
    #: Columns of a newer version, which every write of this row keeps.
    others: Annotated[Mapping[str, Any], Column(OTHERS)] = field(default_factory=lambda: NO_OTHERS)

    @property
    def aside(self) -> int:
        """How many of its transactions were set aside: parked, while the others of its chunk were done."""
        return self.totals.parked.items if self.state is ChunkState.DONE else 0

    @property
    def partial_bytes(self) -> int:
        """The bytes of its partial as JSON, or what they may be."""
        return EXPANDS * (self.length or 0) if self.partial is None else self.partial


@dataclass(frozen=True, slots=True, kw_only=True)
class StretchRow:
    """A stretch of a growing job's payload behind the first one, which is in the job's own row. Written once."""

    job: Annotated[str, Column(KEY)]
    #: The first of its chunks.
    chunk: Annotated[int, Column(KEY)]
    number: Annotated[int, Column(WHOLE, always=True)]
    #: How many chunks and transactions it has, and how many transactions are before it.
    chunks: Annotated[int, Column(WHOLE, always=True)]
    items: Annotated[int, Column(WHOLE, always=True)]
    before: Annotated[int, Column(WHOLE, always=True)]
    id_base: Annotated[int, Column(WHOLE, always=True)]
    plan: Annotated[PlanBlob, Column(PLAN)]
    nonce: Annotated[str, Column(TEXT, always=True)] = ""
    etag: Annotated[str, Column(KEY)] = ""
    #: Columns of a newer version.
    others: Annotated[Mapping[str, Any], Column(OTHERS)] = field(default_factory=lambda: NO_OTHERS)


#: A row that is written beside the job's own.
BesideRow: TypeAlias = ChunkRow | StretchRow


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """One accepted submission."""

    job: Annotated[str, Column(KEY, given=True, kept=True)]
    content_hash: Annotated[str, Column(TEXT, kept=True, always=True)]
    workload: Annotated[str, Column(TEXT, given=True, kept=True, always=True)]
    accepted_at: Annotated[datetime, Column(MOMENT, kept=True, always=True)]
    state: Annotated[JobState, Column(JOB_STATE, always=True)] = JobState.PLANNING
    gate: Annotated[str | None, Column(TEXT, given=True)] = None
    #: The gate's epoch before the job was held. A later opening releases the job, even if its signal was lost.
    held_epoch: Annotated[int | None, Column(WHOLE)] = None
    #: The gate's epoch when a stage read the gate and let the job pass. A job with a gate starts only with this note.
    passed_epoch: Annotated[int | None, Column(WHOLE)] = None
    deadline: Annotated[datetime | None, Column(MOMENT, given=True)] = None
    #: The publisher's file that the app framed again. None: it has none, or an earlier version accepted the job.
    file: Annotated[str | None, Column(TEXT)] = None
    #: How many of its transactions may be rejected, as its publisher says. None: the default.
    most_rejected: Annotated[str | None, Column(TEXT, given=True)] = None
    #: The gravest risk of the deadline that was logged.
    warned: Annotated[Risk | None, Column(RISK)] = None
    #: The number of transactions: declared by the publisher, or counted when the payload was framed.
    items: Annotated[int, Column(WHOLE, kept=True)] = 0
    chunks: Annotated[int, Column(WHOLE, kept=True)] = 0
    #: The declared sums, which the totals must prove.
    declared: Annotated[Amounts, Column(AMOUNTS, always=True)] = field(default_factory=lambda: NO_AMOUNTS)
    #: Whether it has lines of its transactions, as its workload had when it was accepted.
    lines: Annotated[bool, Column(FLAG)] = False
    id_base: Annotated[int | None, Column(WHOLE)] = None
    plan: Annotated[PlanBlob | PlanText | None, Column(PLAN, kept=True)] = None
    revision: Annotated[int, Column(WHOLE, kept=True)] = 1
    #: The first revision of its last rerun: rows and results of those before count no more. 0: it was never run again.
    run_from: Annotated[int, Column(RARE, kept=True)] = 0
    done: Annotated[int, Column(WHOLE)] = 0
    parked_chunks: Annotated[int, Column(WHOLE)] = 0
    totals: Annotated[Totals, Column(TOTALS, always=True)] = field(default_factory=Totals)
    #: Chunks below this number were put on the work queues.
    dispatch_cursor: Annotated[int, Column(WHOLE)] = 0
    #: The work queue of all its messages, where the job was predicted late. None: they are spread.
    lane: Annotated[str | None, Column(TEXT)] = None
    started_at: Annotated[datetime | None, Column(MOMENT)] = None  # when the first chunk was put on a queue
    progressed_at: Annotated[datetime | None, Column(MOMENT)] = None  # when a chunk last ended or was put on a queue
    #: When storage inserted the job's last chunk message. Rows of earlier versions lack it.
    put_until: Annotated[datetime | None, Column(MOMENT)] = None
    #: When the last revision was finished.
    finished_at: Annotated[datetime | None, Column(MOMENT, kept=True)] = None
    nudged_at: Annotated[datetime | None, Column(MOMENT)] = None  # when silent chunks were last put again
    #: The first lost chunk that is still to be put again.
    again_from: Annotated[int | None, Column(WHOLE)] = None
    forgiven: Annotated[int, Column(WHOLE)] = 0  # parked chunks when an operator last resumed the job
    #: Transactions that are set aside, and how many were when an operator last resumed the job. None: none.
    aside: Annotated[int | None, Column(WHOLE)] = None
    aside_forgiven: Annotated[int | None, Column(WHOLE)] = None
    #: Bytes of the merged partial, as its first chunk expected them. It paused the job once.
    sounded: Annotated[int | None, Column(WHOLE)] = None
    #: The rejected transactions that were too many. They paused the job once.
    too_rejected: Annotated[int | None, Column(WHOLE)] = None
    #: Why the job needs an operator: counts that do not add up, a plan or an output that is missing.
    problem: Annotated[str | None, Column(TEXT)] = None
    #: Who paused, stopped or erased the job. None: no person did, or an earlier version paused it.
    by: Annotated[str | None, Column(TEXT)] = None
    #: How often its chunk messages were taken out of the queues. Those that are put now carry this number.
    halts: Annotated[int, Column(RARE)] = 0
    #: When a person erased it, when nothing of it was found any more, and in how many places that was looked for.
    erased_at: Annotated[datetime | None, Column(MOMENT)] = None
    proven_at: Annotated[datetime | None, Column(MOMENT)] = None
    proof: Annotated[Mapping[str, int] | None, Column(COUNTS)] = None
    #: The jobs that must be complete before this one starts, those that it is made from first.
    waits: Annotated[tuple[str, ...], Column(NAMES)] = ()
    #: How many of them it has passed.
    waits_at: Annotated[int, Column(RARE)] = 0
    #: Whether one that has parked transactions is passed too.
    after_parked: Annotated[bool | None, Column(FLAG, given=True)] = None
    #: None: it has its own payload.
    from_jobs: Annotated[Sources | None, Column(SOURCES)] = None
    #: The plan of its own payload while it waits for others. Instances of before start no job without a plan.
    ready: Annotated[PlanBlob | PlanText | None, Column(PLAN)] = None
    #: The revision of each job that its transactions were made from.
    used: Annotated[Mapping[str, int], Column(REVISIONS, kept=True)] = field(
        default_factory=lambda: MappingProxyType({})
    )
    #: The jobs that wait for this one, or were made from it.
    waiters: Annotated[tuple[str, ...], Column(NAMES, kept=True)] = ()
    #: The name that it shares with others in lists and bills.
    night: Annotated[str | None, Column(TEXT, given=True, kept=True)] = None
    #: Of a buried job: the state in which it had ended. None: an earlier version buried it.
    ended: Annotated[str | None, Column(TEXT)] = None
    #: Whether more stretches of its payload may come. Until their end is declared, it does not end. It stays true where it
    #: was stopped before, so such a job is never whole, and is not run again.
    growing: Annotated[bool, Column(FLAG)] = False
    #: The stretches that were taken, and the hash of the blob that described the last one. 0: its payload came whole.
    stretches: Annotated[int, Column(RARE, kept=True)] = 0
    chain: Annotated[str | None, Column(TEXT)] = None
    #: The ranges of its file, each of which is a stretch that a worker cuts. None: its payload came in another way.
    ranges: Annotated[Ranges | None, Column(RANGES, kept=True)] = None
    #: The number of transactions that its publisher declared, which those of its stretches must add up to.
    declared_items: Annotated[int | None, Column(WHOLE)] = None
    #: Milliseconds of work, as the chunks reported them.
    milliseconds: Annotated[int, Column(WHOLE)] = 0
    #: The requests of all stages, by the meter that bills them.
    requests: Annotated[Mapping[str, int], Column(COUNTS, kept=True, always=True)] = field(
        default_factory=lambda: MappingProxyType({})
    )
    #: The W3C trace context of its acceptance, the parent of all later spans. None while tracing is off.
    trace: Annotated[str | None, Column(TEXT)] = None
    #: Its first states and its last ones. Empty: a row of an earlier version, or a buried one.
    story: Annotated[tuple[Told, ...], Column(STORY)] = ()
    listed_at: Annotated[datetime | None, Column(MOMENT)] = None  # when its line in the list of jobs was last written
    #: Whether the list has, or had, a row of it among those under way.
    listed_open: Annotated[bool, Column(FLAG, kept=True)] = False
    #: The kinds of needs that the watch has rows of, or had. None: it never had one.
    needs: Annotated[str | None, Column(TEXT, kept=True)] = None
    nonce: Annotated[str, Column(TEXT, kept=True)] = ""
    etag: Annotated[str, Column(KEY, kept=True)] = ""
    #: Columns of a newer version, which every write of this row keeps until the job is buried.
    others: Annotated[Mapping[str, Any], Column(OTHERS)] = field(default_factory=lambda: NO_OTHERS)

    @classmethod
    def accept(
        cls, submission: Submission, content_hash: str, now: datetime, trace: str | None, *, lines: bool = False
    ) -> Self:
        """Build the new job of a submission, without a plan. `trace` is the trace context of its acceptance."""
        given: dict[str, Any] = {name: getattr(submission, name) for name in select_fields(Job, "given")}
        given["declared"] = dict(submission.declared.sums)
        if isinstance(submission.content, FileBlob):
            given["file"] = submission.content.name
        return cls(**given, content_hash=content_hash, accepted_at=now, trace=trace, lines=lines)

    def tombstone(self) -> "Job":
        """Return the buried job, with only the fields that are kept."""
        kept: dict[str, Any] = {name: getattr(self, name) for name in select_fields(Job, "kept")}
        if isinstance(self.plan, PlanText):
            # The transactions are in it.
            del kept["plan"]
        return Job(**kept, state=JobState.BURIED, ended=self.state.value)

    @property
    def ended_chunks(self) -> int:
        """The number of chunks that are done or parked."""
        return self.done + self.parked_chunks

    def counts(self, row: ChunkRow) -> bool:
        """Check whether a chunk ended in this run of the job. A row of a run before it stays until it is replaced."""
        return row.revision >= self.run_from

    @property
    def awaits_others(self) -> bool:
        """True from its acceptance until all that it waits for have ended. It has no plan until then."""
        return bool(self.waits) and self.plan is None

    @property
    def sources(self) -> tuple[str, ...]:
        """The jobs whose lines are its transactions."""
        return self.waits[: self.from_jobs.count] if self.from_jobs else ()

    @property
    def may_need_a_person(self) -> bool:
        """False for a job that goes its ordinary way, of which no need is looked for."""
        is_in_trouble = self.problem or self.warned or self.parked_chunks or self.state is JobState.PAUSED
        return bool(is_in_trouble or self.needs)

    @property
    def not_run(self) -> int:
        """The number of transactions that have not ended."""
        return self.items - self.totals.items

    @property
    def has_ended(self) -> bool:
        """True if every chunk of its plan has ended, and none may be added."""
        return self.plan is not None and not self.growing and self.ended_chunks == self.chunks

    def add_requests(self, requests: Mapping[str, int]) -> "Job":
        """Add requests to those made for the job."""
        names = sorted({*self.requests, *requests})
        added = {name: self.requests.get(name, 0) + requests.get(name, 0) for name in names}
        return replace(self, requests=MappingProxyType(added))
