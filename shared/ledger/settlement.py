"""Credits results to a job: checks each against the job, tells new from known ones, and decides the job's next state.

It makes no request. The same results leave the same totals in any order, any grouping and any number of deliveries.
The reason: the set of chunk rows decides, and a done row outranks a parked one. A row that extends a done one takes the place of
that one and no other, so the first of two counts.

After a rerun, a row of a run before counts as none, and is replaced; a result of a run before is dropped.

The turn of a job's messages on the work queues. It tells a job that waits from one whose messages are lost.

The front of a queue says what came before it. A watermark is the time before which a queue has handed out everything:
the insertion time of the first message that was never received. A job whose last message was put before the watermark
of each of its queues has had its turn. Neither depth nor the progress of other jobs counts: under lasting load, a lost
chunk would never be found by them.

Storage promises no order, and a crashed delivery returns behind later messages. So a message that waits may be put
again, which counts once. A lost one is never taken for one that waits. Nothing here makes a request.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from enum import Enum
from typing import Final, NamedTuple

from shared.grammar import amounts, is_share, most_of
from shared.ledger.job_decisions import BY_ITSELF, Turn, is_overdue, may_start, pause, silent_since
from shared.ledger.records import ChunkRow, ChunkState, Job, JobState, Portion, Totals
from shared.memory import MIB
from shared.messages import PortionMessage, Result
from shared.parked import DEFAULT_POLICY, PoisonPolicy
from shared.topology import work_queues_of

_SHA256: Final = re.compile(r"[0-9a-f]{64}", re.ASCII)
#: Items of a chunk: it holds the transactions of a few frames, and a larger number is invalid.
MOST_ITEMS: Final = 10**9
#: Characters of a reason that the row keeps. The whole reason is stored with the parked bytes.
LONGEST_REASON: Final = 500
#: Sums and causes that one job's row may carry, by name. A row has a limit, and others choose the names.
MOST_NAMES: Final = 64
LONGEST_NAME: Final = 100
#: Upper bound of the merged partial of a workload without `split`, in bytes of JSON; as objects it takes some ten times that.
MERGED_MOST: Final = 16 * MIB
#: The transactions that may be rejected of a job whose publisher says nothing, and how many are checked before that counts.
#: A wrong file is found by it, and not a small one of many faults.
MOST_REJECTED: Final = "50%"
LEAST_CHECKED: Final = 10_000
#: A job in one of these states may still have outstanding chunks.
_UNFINISHED: Final = frozenset({JobState.HELD, JobState.DISPATCHING, JobState.RUNNING})


def result_blob(job: str, revision: int, chunk: int, extends: str | None = None) -> str:
    """Name the blob of a chunk's result, or of one that extends the result with this hash."""
    return f"{job}/{revision}/{chunk}" + ("" if extends is None else f"+{extends[:16]}")


def misfit(job: Job, result: Result) -> str:
    """Say why a result cannot belong to the job, or nothing."""
    if job.plan is None:
        return f"job {job.job!r} is {job.state} and has no plan yet, so nothing of it can have been processed"
    if not may_start(job):
        # The note that it may start is written before its first chunk is put; the cursor only afterwards.
        return f"job {job.job!r} is {job.state} and has not passed gate {job.gate!r}, so nothing of it can have been processed"
    if result.chunk >= job.chunks:
        return f"job {job.job!r} has chunks 0 to {job.chunks - 1}, this is for chunk {result.chunk}"
    if result.revision > job.revision:
        return f"job {job.job!r} is at revision {job.revision}, this is for revision {result.revision}"
    return _wrong_end(result) or _wrong_counts(result)


def _wrong_end(result: Result) -> str:
    if result.reason is not None:
        is_done = result.blob or result.content or result.hash
        return "it says both why it is parked and where its result is" if is_done or result.extends else ""
    if result.hash is None or not _SHA256.fullmatch(result.hash):
        return "a done chunk needs the SHA-256 of its result in lower-case hex"
    if result.extends is not None and not _SHA256.fullmatch(result.extends):
        return "it extends a result, and does not say its SHA-256 in lower-case hex"
    if result.content is not None:
        return "it says both where its result is and what it is" if result.blob else ""
    wanted = result_blob(result.job, result.revision, result.chunk, result.extends)
    if result.blob != wanted:
        # The finisher reads this blob with the app's own rights, so a message must not choose another one.
        return f"its result blob is not {wanted}"
    return ""


def _wrong_counts(result: Result) -> str:
    outcomes = (result.accepted, result.rejected, result.parked)
    if result.lines is not None and result.lines >= (result.length or 0):
        # The finisher reads the lines behind the first frame.
        return f"it says {result.lines} bytes of lines in a result of {result.length}"
    if any(outcome.items > MOST_ITEMS for outcome in outcomes):
        return f"a chunk has at most {MOST_ITEMS} items"
    try:
        for outcome in outcomes:
            amounts(outcome.sums or {})
    except ValueError as error:
        return str(error)
    return ""


def row_of(result: Result, now: datetime) -> ChunkRow:
    """Return the row of a result that fits its job."""
    return ChunkRow(
        job=result.job,
        chunk=result.chunk,
        state=ChunkState.DONE if result.reason is None else ChunkState.PARKED,
        revision=result.revision,
        settled_at=now,
        totals=Totals(read_portion(result.accepted), read_portion(result.rejected), read_portion(result.parked)),
        blob=result.blob,
        hash=result.hash,
        length=result.length,
        partial=result.partial,
        lines=result.lines,
        extends=result.extends,
        reason=None if result.reason is None else result.reason[:LONGEST_REASON],
        milliseconds=result.milliseconds,
    )


def read_portion(outcome: PortionMessage) -> Portion:
    """Return the portion that a message tells of."""
    if outcome.sums is None:
        return Portion(outcome.items, unknown=1)
    return Portion(outcome.items, amounts(outcome.sums))


@dataclass(frozen=True, slots=True)
class RefusedResult:
    """A result that cannot belong to its job, with the reason."""

    result: Result
    reason: str


@dataclass(frozen=True, slots=True)
class Settlement:
    """The job and the rows to write after one group of results."""

    job: Job
    inserts: tuple[ChunkRow, ...] = ()
    #: Done rows that replace parked ones, or extend done ones. They carry the ETag of the row that they replace.
    replaces: tuple[ChunkRow, ...] = ()
    #: The results of these rows, in the order of `rows`: of two results of one chunk, one is credited.
    credited: tuple[Result, ...] = ()
    duplicates: tuple[Result, ...] = ()
    #: Those of the duplicates that are not what was credited: the chunk ran twice, with different results.
    differing: tuple[Result, ...] = ()
    refused: tuple[RefusedResult, ...] = ()
    #: True if this settlement ends the last chunk: the settler that commits it sends the finish message.
    finish_due: bool = False

    @property
    def rows(self) -> tuple[ChunkRow, ...]:
        """All rows to write beside the job."""
        return (*self.inserts, *self.replaces)


@dataclass(slots=True)
class _Book:
    """The job and its rows while the results of a group are entered, one after the other."""

    job: Job
    stored: Mapping[int, ChunkRow]
    fresh: dict[int, ChunkRow] = field(default_factory=dict)
    credited: dict[int, Result] = field(default_factory=dict)
    duplicates: list[Result] = field(default_factory=list)
    differing: list[Result] = field(default_factory=list)
    refused: list[RefusedResult] = field(default_factory=list)


def settle(
    job: Job,
    stored: Mapping[int, ChunkRow],
    results: Iterable[Result],
    now: datetime,
    policy: PoisonPolicy = DEFAULT_POLICY,
) -> Settlement:
    """Decide the job and the rows to write for these results.

    `stored` holds the rows known to exist, which may be too few. A row that exists without being among them makes the
    whole write fail. The caller then reads it and decides again.
    """
    book = _Book(job, stored)
    for result in results:
        if result.revision < job.run_from:
            # Of a run before this one.
            book.duplicates.append(result)
            continue
        reason = misfit(job, result) or _add_rows(book, row_of(result, now), result)
        if reason:
            book.refused.append(RefusedResult(result, reason))
    settled = _advance_state(job, book.job, now, policy) if book.fresh else job
    inserts = tuple(row for row in book.fresh.values() if row.chunk not in stored)
    replaces = tuple(row for row in book.fresh.values() if row.chunk in stored)
    return Settlement(
        settled,
        inserts,
        replaces,
        tuple(book.credited[row.chunk] for row in (*inserts, *replaces)),
        tuple(book.duplicates),
        tuple(book.differing),
        tuple(book.refused),
        finish_due=bool(book.fresh) and settled.state is JobState.FINISHING,
    )


def _add_rows(book: _Book, row: ChunkRow, result: Result) -> str:
    """Enter the row of one result into the book, or say why it is refused."""
    stored = book.stored.get(row.chunk)
    known = book.fresh.get(row.chunk) or (stored if stored is not None and book.job.counts(stored) else None)
    if known is None and row.extends is not None:
        # Its rows were read first: the one that it extends is gone.
        return "it extends a result that was not credited"
    if known is not None and not _outranks(row, known):
        book.duplicates.append(result)
        if _differs(row, known):
            book.differing.append(result)
        return ""
    after = credit(book.job, row, known, result.requests)
    if not _has_room(after):
        return f"a job has at most {MOST_NAMES} sums and causes, with names of at most {LONGEST_NAME} characters"
    book.job = after
    # A row that replaces a stored one carries its ETag. A row of the same group that is inserted has none.
    before = book.fresh.get(row.chunk) or stored
    book.fresh[row.chunk] = row if before is None else replace(row, etag=before.etag, others=before.others)
    book.credited[row.chunk] = result
    return ""


def _outranks(row: ChunkRow, known: ChunkRow) -> bool:
    if row.extends is None:
        return known.state is ChunkState.PARKED and row.state is ChunkState.DONE
    # Only of this result is it known that all but its own have passed. So nothing that passed is taken back.
    is_of_known = known.state is ChunkState.DONE and known.hash == row.extends
    return is_of_known and row.totals.items == known.totals.items and row.aside < known.aside


def _differs(row: ChunkRow, known: ChunkRow) -> bool:
    """Check whether two results of one revision differ. The first one stays, as it does for those of two revisions.

    Where transactions were set aside, another try may come to something else. That is no sign of a workload that differs.
    """
    both_done = known.state is ChunkState.DONE and row.state is ChunkState.DONE
    has_aside = row.aside or known.aside or row.extends or known.extends
    return both_done and not has_aside and known.revision == row.revision and known.hash != row.hash


def credit(job: Job, row: ChunkRow, known: ChunkRow | None, requests: Mapping[str, int]) -> Job:
    """Add a row to the job's totals, in place of the row that was known for the chunk."""
    is_done, was_done = row.state is ChunkState.DONE, known is not None and known.state is ChunkState.DONE
    was_parked = known is not None and not was_done
    aside = (job.aside or 0) + row.aside - (0 if known is None else known.aside)
    totals = job.totals if known is None else job.totals - known.totals
    return replace(
        job.add_requests(requests),
        totals=totals + row.totals,
        done=job.done + is_done - was_done,
        parked_chunks=job.parked_chunks + (not is_done) - was_parked,
        aside=aside or None,
        milliseconds=job.milliseconds + row.milliseconds,
    )


def _has_room(job: Job) -> bool:
    tallies = (job.totals.accepted, job.totals.rejected, job.totals.parked)
    names = {name for tally in tallies for name in tally.sums} | set(job.requests)
    return len(names) <= MOST_NAMES and all(len(name) <= LONGEST_NAME for name in names)


def _advance_state(before: Job, job: Job, now: datetime, policy: PoisonPolicy) -> Job:
    """Move the credited job to the state that follows."""
    job = replace(job, progressed_at=now, started_at=job.started_at or now)
    if job.state is JobState.PAUSED:
        # A person resumes it, also if its last chunk ends or a replay succeeds meanwhile.
        return job
    if before.has_ended:
        # The new revision fences off a finisher of the older one, even one that has not ended:
        # it may have read the rows before this one was replaced.
        return replace(job, state=JobState.FINISHING, revision=job.revision + 1, finished_at=None, problem=None)
    if why := judge_rejected(job):
        # Also where its last chunk has ended: its outputs wait for a person then.
        return replace(pause(job, BY_ITSELF, why), too_rejected=job.totals.rejected.items)
    if job.has_ended:
        return replace(job, state=JobState.FINISHING)
    why = _judge_parked(job, policy) if job.state in _UNFINISHED else ""
    return pause(job, BY_ITSELF, why) if why else job


def _judge_parked(job: Job, policy: PoisonPolicy) -> str:
    """Say why too much of the job is parked, or nothing. What a person has forgiven does not count."""
    if policy.pauses(job.parked_chunks - job.forgiven, job.chunks):
        return f"{job.parked_chunks} of {job.chunks} chunks are parked"
    aside = job.aside or 0
    if policy.pauses_items(aside - (job.aside_forgiven or 0), job.items):
        return f"{aside:,} of its {job.items:,} transactions are parked one by one"
    return ""


def judge_rejected(job: Job) -> str:
    """Say why too many of its transactions were rejected, once, or nothing."""
    rejected = job.totals.rejected.items
    checked, bound = rejected + job.totals.accepted.items, job.most_rejected or MOST_REJECTED
    is_early = checked < LEAST_CHECKED and is_share(bound) and not (job.most_rejected and job.has_ended)
    if job.too_rejected is not None or is_early or rejected <= most_of(bound, checked):
        return ""
    return (
        f"{rejected:,} of the {checked:,} transactions that were checked are rejected, most_rejected is {bound}. Read why: "
        f"`sluice jobs output {job.job} --rejected`. If they are right, `sluice jobs resume {job.job}` goes on without "
        "this bound"
    )


def pause_too_large(settlement: Settlement, merged_most: int) -> Settlement:
    """Pause a job, once, whose first chunk says that its merged partial cannot fit. Later chunks may repeat the accounts."""
    job = settlement.job
    expected = next((one.expected for one in settlement.credited if one.chunk == 0), None)
    if expected is None or job.sounded is not None or job.state not in _UNFINISHED:
        return settlement
    problem = (
        f"after chunk 0: the merged partial of workload {job.workload!r} will have about {expected / MIB:.0f} MiB, the limit "
        f"is {merged_most / MIB:.0f} and it has no split. Give it one (split = by_key), deploy and submit anew; or, if "
        f"later chunks repeat its accounts, `sluice jobs resume {job.job}`"
    )
    return replace(settlement, job=replace(pause(job, BY_ITSELF, problem), sounded=expected))


#: Messages that one request shows: storage shows no more.
FRONT: Final = 32
#: Storage names insertion times in whole seconds.
MARGIN: Final = timedelta(seconds=2)
#: How long a watermark may be unknown. After that, silence alone decides.
UNKNOWN_COUNTS_AFTER: Final = timedelta(hours=1)


class Fronted(NamedTuple):
    """One message at the front of a queue: when storage inserted it, and how often it was received."""

    inserted_on: datetime
    received: int


class Watermark(NamedTuple):
    """The time before which a queue has handed out everything. None: unknown."""

    moment: datetime | None
    #: Whether no message on the queue waits for its first delivery.
    is_drained: bool = False


def read_watermark(front: Sequence[Fronted], now: datetime, unknown_since: datetime | None = None) -> Watermark:
    """Return the watermark of a queue by its front: up to `FRONT` messages that could be received now."""
    fresh = [message.inserted_on for message in front if not message.received]
    if fresh:
        return Watermark(min(fresh))
    if len(front) < FRONT:
        return Watermark(now, is_drained=True)
    # Deliveries that failed fill the front. Behind them may be messages that were never received.
    is_too_long = unknown_since is not None and now - unknown_since >= UNKNOWN_COUNTS_AFTER
    return Watermark(now if is_too_long else None)


def read_turn(note: str) -> Turn | None:
    """Read the note of a job's pointer. None: the job waits for no turn. Pointers of earlier versions have no note."""
    put_until, _, rest = note.partition(" ")
    chunks, _, over = rest.partition(" ")
    try:
        over_since = datetime.fromisoformat(over) if over else None
        return Turn(datetime.fromisoformat(put_until), int(chunks), over_since)
    except ValueError:
        # Looking at a job is always right, and only costs a request.
        return None


def turn_of(job: Job) -> Turn | None:
    """Return the turn that the job waits for. None: it waits for no message."""
    silent = silent_since(job)
    if silent is None:
        return None
    if job.state is JobState.FINISHING:
        return Turn(silent, 1)
    # A row of an earlier version does not say when its chunks were put: no later than its silence began.
    return Turn(job.put_until or silent, job.dispatch_cursor) if job.dispatch_cursor else None


class Fronts(NamedTuple):
    """The watermarks of all work queues, by name."""

    watermarks: Mapping[str, Watermark]
    queues: int
    #: The lane, if these are the watermarks of its jobs.
    lane: str | None = None

    def is_over(self, job: str, turn: Turn) -> bool:
        """Check whether the job's queues have handed out everything that was put until then."""
        return all(
            # Nothing waits on a drained queue. So the clocks of its writers do not matter.
            mark.is_drained or (mark.moment is not None and turn.put_until + MARGIN <= mark.moment)
            for mark in self._of(job, turn.chunks)
        )

    def are_drained(self, job: str, turn: Turn) -> bool:
        """Check whether no message on the job's queues waits for its first delivery."""
        return all(mark.is_drained for mark in self._of(job, turn.chunks))

    def _of(self, job: str, chunks: int) -> list[Watermark]:
        names = {self.lane} if self.lane else work_queues_of(job, chunks, self.queues)
        return [self.watermarks[name] for name in sorted(names)]


class Silence(Enum):
    """The meaning of a job's silence."""

    #: It was not silent for long, or no progress is expected.
    SHORT = "short"
    #: Its messages wait on their queues.
    WAITS = "waits"
    #: Its messages were handed out, perhaps just now. Their workers have as much time as any others.
    IN_WORK = "in work"
    #: Its messages had their turn and their time.
    LOST = "lost"


def judge_silence(job: Job, noted: Turn | None, fronts: Fronts, now: datetime, patience: timedelta) -> Silence:
    """Decide whether silent messages are put again. `noted`: the turn in the pointer that led here."""
    if not is_overdue(job, now, patience):
        return Silence.SHORT
    turn = turn_of(job)
    if turn is None or job.again_from is not None:
        return Silence.LOST
    if not fronts.is_over(job.job, turn):
        return Silence.WAITS
    # On drained queues, the silence itself is long enough. Beside a backlog, the delivery may be a second old.
    since = over_since(turn, noted, now)
    return Silence.LOST if now - since >= patience or fronts.are_drained(job.job, turn) else Silence.IN_WORK


def over_since(turn: Turn, noted: Turn | None, now: datetime) -> datetime:
    """Return when a tick first found that this turn was over: as noted, or now."""
    if noted is not None and noted.over_since is not None and noted.put_until == turn.put_until:
        return noted.over_since
    # In whole seconds, as the pointer's due time.
    return now.replace(microsecond=0)
