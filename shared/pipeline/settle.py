"""The settle stage: credits batches of results to their jobs, and requests the finish of jobs that have ended.

    settler A                     settler B                     table
    reads the job (version 7)
                                  reads the job (version 7)
    writes 60 rows, job           ............................  version 8
                                  writes 40 rows, job           refused as a whole: version 7 is gone
                                  reads the job (8) and the rows, drops what is there, decides again, writes

A lost reply is the same case: the next read of the rows finds the written results. A settler never adds to a job that
it read before a lost race.

Results that came in their messages go into one blob for each transaction, which is written before the rows that name it.

`sort` reads received messages and groups them by job; those that cannot be credited are parked.
"""

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from contextvars import copy_context
from dataclasses import dataclass, replace
from functools import partial
from itertools import groupby
from time import sleep
from typing import Final

import msgspec
from msgspec import Raw, Struct

from shared.azure import trying_once
from shared.clock import Clock, Retry, all_tried
from shared.errors import (
    BudgetSpentError,
    LedgerError,
    NewerVersionError,
    NotParkedError,
    ResultRefusedError,
    SettleIncompleteError,
    StorageUnavailableError,
)
from shared.grammar import is_job
from shared.ledger import (
    MERGED_MOST,
    MOST_ROWS,
    SEALED,
    ChunkRow,
    ChunkState,
    Job,
    JobState,
    Ledger,
    Settlement,
    commit,
    counting,
    pause_too_large,
    settle,
)
from shared.messages import STREAMS_VERSION, VERSION, Delivery, Internal, Result, Results, decode, encode, unwrap
from shared.parked import (
    DEFAULT_POLICY,
    NO_JOB,
    Claim,
    Entry,
    FailureCause,
    Nature,
    Parking,
    PoisonPolicy,
    Stage,
    content_key,
    identify_message,
    nature_of,
    split_bundle,
)
from shared.pending import Pointer
from shared.pipeline.dispatch import FinishCall
from shared.pipeline.halts import Halts
from shared.pipeline.results import QUEUE, GroupBlob, GroupBlobs, Received, SendResult, assemble, open_content
from shared.refusals import ResultReason
from shared.telemetry import SILENT, Piece, Telemetry, describe_error, events, metrics, place, tell
from shared.topology import BATCH_SECONDS
from shared.versions import LOOKS, check_message, decode as decode_json

#: The name of the stage; it is stored.
SETTLE: Final = "settle"
#: Upper bound of a received message, in bytes. The app sends at most three quarters of that.
LONGEST_BODY: Final = 256 * 1024
_FOUND_LENGTH: Final = 1000
_VERSIONS: Final = frozenset({VERSION, STREAMS_VERSION})


@dataclass(frozen=True, slots=True)
class Arrived:
    """A message and one result in it."""

    message: Received
    result: Result
    #: The packed result, if the message has it.
    packed: bytes | None = None
    is_bundled: bool = False

    def alone(self) -> Received:
        """Return the message that has this result alone: the others in its bundle are not parked with it."""
        return replace(self.message, body=encode(self.result)) if self.is_bundled else self.message


@dataclass(frozen=True, slots=True)
class Unsettled:
    """A message that cannot be credited, with the reason."""

    message: Received
    reason: ResultReason
    found: str
    result: Result | None = None


@dataclass(frozen=True, slots=True)
class Newer:
    """A message of a newer version, or a message whose row is of one. `found` says which."""

    message: Received
    found: str


@dataclass(frozen=True, slots=True)
class Sorted:
    """A batch: groups of one job that fit one transaction, the unreadable messages, and the newer ones."""

    groups: tuple[tuple[Arrived, ...], ...]
    unreadable: tuple[Unsettled, ...]
    newer: tuple[Newer, ...] = ()


def sort(messages: Iterable[Received]) -> Sorted:
    """Read and group a batch. An unreadable message does not hold up the others."""
    jobs: dict[str, list[Arrived]] = {}
    unreadable: list[Unsettled] = []
    newer: list[Newer] = []
    for message in messages:
        for read in _read(message):
            match read:
                case Arrived():
                    jobs.setdefault(read.result.job, []).append(read)
                case Newer():
                    newer.append(read)
                case Unsettled():
                    unreadable.append(read)
    groups = [tuple(found[n : n + MOST_ROWS]) for found in jobs.values() for n in range(0, len(found), MOST_ROWS)]
    return Sorted(tuple(groups), tuple(unreadable), tuple(newer))


def _read(message: Received) -> list[Arrived | Unsettled | Newer]:
    if len(message.body) > LONGEST_BODY:
        found_size = f"it is {len(message.body)} bytes, the limit is {LONGEST_BODY}"
        return [Unsettled(message, ResultReason.UNREADABLE, found_size)]
    body = unwrap(message.body)
    try:
        found = decode(body)
    except msgspec.DecodeError as error:
        whole, read = _refuse(message, body, str(error)), _read_each(message, body)
        # What a newer bundle means by its results is not known. One without any that is read is a single fault.
        is_apart = isinstance(whole, Unsettled) and not all(isinstance(one, Unsettled) for one in read)
        return read if is_apart else [whole]
    if not isinstance(found, Results) or found.v != VERSION:
        return [_read_one(message, found)]
    if any(result.v not in _VERSIONS for result in found.results):
        return _read_each(message, body)
    return [_open(Arrived(message, result, is_bundled=True)) for result in found.results]


class _Bundle(Struct):
    results: list[Raw]


class _WrappedBundle(Struct):
    sluice: _Bundle


def _read_each(message: Received, body: bytes) -> list[Arrived | Unsettled | Newer]:
    """Read each result of a bundle as a message of its own: a newer one keeps the fields that this version does not know."""
    try:
        results = decode_json(body, _WrappedBundle).sluice.results
    except (ValueError, RecursionError):
        return []
    read: list[Arrived | Unsettled | Newer] = []
    for result in results:
        alone = replace(message, body=b'{"sluice":' + bytes(result) + b"}")
        try:
            read.append(_read_one(alone, decode(alone.body)))
        except msgspec.DecodeError as error:
            read.append(_refuse(alone, alone.body, str(error)))
    return read


def _read_one(message: Received, found: Internal) -> Arrived | Unsettled | Newer:
    if isinstance(found, Result):
        return _open(Arrived(message, found))
    kind = found.__struct_config__.tag
    return _refuse(
        message, unwrap(message.body), f"it is a {kind} of version {found.v}, not a result of version {VERSION}"
    )


def _refuse(message: Received, body: bytes, found: str) -> Unsettled | Newer:
    try:
        check_message(body, "a result message")
    except NewerVersionError as error:
        return Newer(message, str(error))
    return Unsettled(message, ResultReason.UNREADABLE, found)


def _open(arrived: Arrived) -> Arrived | Unsettled | Newer:
    """Check one result by itself: the others in its message do not depend on it."""
    result = arrived.result
    if result.v not in _VERSIONS:
        return _refuse(
            arrived.message,
            unwrap(arrived.message.body),
            f"its version is {result.v}, known are {VERSION} and {STREAMS_VERSION}",
        )
    if not is_job(result.job):
        # No table takes every name as a key, so reading the job would fail at every delivery, like an outage.
        found = f"no job can be called {result.job[:100]!r}"
        return Unsettled(arrived.alone(), ResultReason.UNREADABLE, found)
    if result.content is None:
        return arrived
    try:
        name = f"{result.job}/{result.revision}/{result.chunk}"
        return replace(arrived, packed=open_content(name, result.content, result.hash, result.lines))
    except ResultRefusedError as error:
        return Unsettled(arrived.alone(), ResultReason.REFUSED, str(error), result)


def claim_of(unsettled: Unsettled) -> Claim:
    """Return the claim of a message that cannot be credited. Each different content is an entry of its job."""
    key, result = content_key(SETTLE, unsettled.message.body), unsettled.result
    if result is None:
        return Claim(key=key)
    return Claim(key=key, job=result.job, chunk=result.chunk, revision=result.revision)


def cause_of(unsettled: Unsettled) -> FailureCause:
    """Return the cause. All messages that cannot be credited for the same reason share it."""
    reason = unsettled.reason.value
    fingerprint = hashlib.sha256(reason.encode()).hexdigest()[:12]
    return FailureCause(reason, unsettled.found[:_FOUND_LENGTH], unsettled.reason.instead, fingerprint)


def settle_stage(ledger: Ledger, send: SendResult) -> Stage:
    """Return the stage of the bus queue `results`."""

    def put_back(entry: Entry, body: bytes) -> None:
        # An earlier version parked a whole bundle, which it could not read.
        for alone in split_bundle(body):
            send(_result(entry, alone))

    return Stage(
        name=SETTLE,
        reads=lambda queue: queue == QUEUE,
        identify=lambda delivery: identify_message(SETTLE, delivery.body),
        put_back=put_back,
        has_landed=lambda entry: is_chunk_done(ledger, entry.job, entry.chunk, entry.revision),
        refuse=partial(refuse_sealed, ledger),
    )


def refuse_sealed(ledger: Ledger, entry: Entry) -> str:
    """Say why nothing can come of an entry any more, or nothing."""
    return "" if entry.job == NO_JOB else explain_seal(ledger, entry.job)


def explain_seal(ledger: Ledger, job: str, revision: int | None = None) -> str:
    """Say why nothing of a job counts any more, or nothing of a run before its last. A row that cannot be read is not closed."""
    with suppress(LedgerError, NewerVersionError):
        found = ledger.read(job)
        if found is not None and found.state in SEALED:
            return f"job is {found.state}: {'rerun it' if found.state is JobState.STOPPED else 'its payload is gone'}"
        if found is not None and revision is not None and revision < found.run_from:
            return f"job runs again since revision {found.run_from}"
    return ""


def find_done(ledger: Ledger, job: str, chunk: int | None, revision: int | None) -> ChunkRow | None:
    """Return the row of a chunk that is done at this revision or a later one, by one request. None: it is not done.

    After a rerun, the row of a revision before says nothing about a message of this one.
    """
    if chunk is None:
        return None
    row = ledger.rows_of(job, [chunk]).get(chunk)
    is_done = row is not None and row.state is ChunkState.DONE and row.revision >= (revision or 0)
    return row if is_done else None


def is_chunk_done(ledger: Ledger, job: str, chunk: int | None, revision: int | None) -> bool:
    """Check whether a chunk is done, by one request: the one effect that a replay of it or of its result can have."""
    return find_done(ledger, job, chunk, revision) is not None


def _result(entry: Entry, body: bytes) -> Result:
    with suppress(msgspec.DecodeError, RecursionError):
        message = decode(unwrap(body))
        if isinstance(message, Result):
            return message
    raise NotParkedError(
        f"could not put back parked {entry.key!r} of job {entry.job!r}: its bytes are not a result; discard it, "
        "the tick dispatches its chunk again"
    )


#: Eight settlers on one job lose a few races each.
MOST_RACES: Final = 50


@dataclass(frozen=True, slots=True)
class Settled:
    """How a batch was settled."""

    credited: int = 0
    duplicates: int = 0
    parked: int = 0
    #: Transactions that storage refused because another writer was first.
    races: int = 0

    def __add__(self, other: "Settled") -> "Settled":
        return Settled(
            self.credited + other.credited,
            self.duplicates + other.duplicates,
            self.parked + other.parked,
            self.races + other.races,
        )


@dataclass(slots=True)
class _Group:
    """Results of one job, and the state of the attempts to credit them."""

    arrived: Sequence[Arrived]
    #: Whether these results may have been written before: by an earlier delivery, or by an attempt without an answer.
    is_unsure: bool
    pointer: Pointer | None = None
    #: That of a pause.
    halt: Pointer | None = None
    #: The blob of its results. A later attempt mostly credits fewer of the same, and names the same blob.
    blob: GroupBlob | None = None
    races: int = 0
    outcome: Settled | None = None

    @property
    def job(self) -> str:
        return self.arrived[0].result.job


class Settler:
    """Settles batches of results. Any number of instances may do so at once."""

    def __init__(  # noqa: PLR0913 - the parts of the stage, each of which a test replaces
        self,
        ledger: Ledger,
        call: FinishCall,
        parking: Parking,
        groups: GroupBlobs,
        clock: Clock,
        *,
        send_later: Callable[[Sequence[Received]], object],
        halts: Halts,
        policy: PoisonPolicy = DEFAULT_POLICY,
        merged_most: int = MERGED_MOST,
        parallel: int = 1,
        pause: Callable[[float], None] = sleep,
        telemetry: Telemetry = SILENT,
    ) -> None:
        """`parallel`: of so many jobs at once. Results of hundreds of small jobs come in one batch."""
        self._ledger, self._call, self._parking, self._clock = ledger, call, parking, clock
        self._groups, self._policy, self._pause, self._telemetry = groups, policy, pause, telemetry
        self._send_later, self._halts, self._merged_most = send_later, halts, merged_most
        self._parallel = parallel

    def settle(self, messages: Sequence[Received]) -> Settled:
        """Settle a batch, each group by itself. Raises SettleIncompleteError when some could not be settled.

        The host then redelivers the whole batch, and the settled results are dropped as duplicates. After an outage
        that is enough. A result that fails for another reason is tried alone and parked after a few deliveries, so no
        batch is redelivered without end.
        """
        end = self._clock.monotonic() + BATCH_SECONDS
        retry = Retry(attempts=MOST_RACES, within=lambda: self._clock.monotonic() < end, pause=self._pause)
        try:
            with trying_once():
                return self._settle(messages, retry)
        except SettleIncompleteError:
            # It comes again at once: so an outage uses up no more than one delivery in this time.
            if (left := end - self._clock.monotonic()) > 0:
                self._pause(left)
            raise

    def _settle(self, messages: Sequence[Received], retry: Retry) -> Settled:
        found = sort(messages)
        # Groups of one job would only race each other.
        jobs = groupby(found.groups, key=lambda group: group[0].result.job)
        parts = [partial(self._settle_groups, list(groups), retry) for _, groups in jobs]
        parts += [partial(self._park, [bad], retry) for bad in found.unreadable]
        parts += [partial(self._put_off, [one], retry) for one in found.newer]
        failures: list[Exception] = []
        try:
            return sum(self._try_all([partial(_begin, part, retry) for part in parts], failures.append), Settled())
        except Exception as error:
            raise SettleIncompleteError(
                f"could not settle {len(failures)} of {len(parts)} groups of results, the first because: "
                f"{describe_error(error)}; the batch is redelivered"
            ) from error

    def _try_all(
        self, parts: Sequence[Callable[[], Settled]], failed: Callable[[Exception], object]
    ) -> Sequence[Settled]:
        if (parallel := min(self._parallel, len(parts))) <= 1:
            return all_tried(parts, failed)
        with ThreadPoolExecutor(parallel, "settler") as pool:
            running = [pool.submit(copy_context().run, part) for part in parts]
            return all_tried([one.result for one in running], failed)

    def _settle_groups(self, groups: Sequence[Sequence[Arrived]], retry: Retry) -> Settled:
        each = (partial(_begin, partial(self._settle_group, group, retry), retry) for group in groups)
        return sum(all_tried(each, lambda _error: None), Settled())

    def _put_off(self, newer: Sequence[Newer], retry: Retry) -> Settled:
        """Send results once more for a newer instance, or park them when none came for ten minutes.

        So the others of the batch are not delivered again. A crash after the send leaves a result twice, which settling
        bears.
        """
        waiting = [one.message for one in newer if one.message.looks < LOOKS]
        for one in newer:
            tell(events.NEWER_VERSION, found=one.found)
        if waiting:
            self._send_later(waiting)
        late = [Unsettled(one.message, ResultReason.NEWER, one.found) for one in newer if one.message.looks >= LOOKS]
        return self._park(late, retry)

    def _settle_group(self, arrived: Sequence[Arrived], retry: Retry) -> Settled:
        try:
            with counting():
                return self._credit(_Group(arrived, any(one.message.deliveries > 1 for one in arrived)), retry)
        except NewerVersionError as error:
            # The job's row, or a row of its chunks, is newer.
            return self._put_off([Newer(one.alone(), str(error)) for one in arrived], retry)
        except Exception as error:
            if nature_of(error) is Nature.TRANSIENT:
                raise
            if len(arrived) > 1:
                # One of them fails for a reason of its own, and the others must not wait for it.
                each = (partial(_begin, partial(self._settle_group, (one,), retry), retry) for one in arrived)
                return sum(all_tried(each, lambda _error: None), Settled())
            return self._park_odd(arrived[0], error, retry)

    def _park_odd(self, one: Arrived, error: Exception, retry: Retry) -> Settled:
        """Park a result that fails for a reason of its own, or raise to have it redelivered."""
        tell(events.RESULTS_UNCREDITED, job=one.result.job, results=1, error=describe_error(error), at=place(error))
        if not self._policy.parks(nature_of(error), one.message.deliveries):
            raise error
        return self._park([_to_unsettled(one, ResultReason.FAILED, type(error).__name__)], retry)

    def _credit(self, group: _Group, retry: Retry) -> Settled:
        arrived = group.arrived
        tried = f"settle {len(arrived)} results of job {group.job!r}"
        try:
            retry.until_done(lambda number: self._attempt(group, number), tried)
        except LedgerError as error:
            # This job's rows are unreadable or full: no settler can credit to it, and other jobs must not wait.
            tell(
                events.RESULTS_UNCREDITED,
                job=group.job,
                results=len(arrived),
                error=describe_error(error),
                at=place(error),
            )
            return self._park(
                [_to_unsettled(one, ResultReason.LEDGER_UNREADABLE, str(error)) for one in arrived], retry
            )
        return group.outcome or Settled()

    def _attempt(self, group: _Group, number: int) -> bool:
        """Read, decide and write once. False: another writer was first."""
        job = self._ledger.read(group.job)
        if job is None or job.state in SEALED:
            group.outcome = self._drop_or_park(group, job)
            return True
        chunks = [one.result.trace for one in group.arrived]
        with self._telemetry.span(Piece.SETTLE, job.trace, chunks, job=job.job, results=len(chunks)):
            settlement = self._decide(group, job, look_first=number > 0)
            if settlement.rows and not self._try_commit(group, job, settlement):
                self._telemetry.add(metrics.RACES)
                group.races += 1
                return False
            self._send_follow_ups(group, job, settlement)
        self._telemetry.add(metrics.SETTLED, len(settlement.rows))
        return True

    def _decide(self, group: _Group, job: Job, *, look_first: bool) -> Settlement:
        # The rows are read only where some of these may exist: usually one read and one write are enough.
        results = [one.result for one in group.arrived]
        known: Mapping[int, ChunkRow] = {}
        extends = any(result.extends for result in results)
        if look_first or group.is_unsure or extends or job.has_ended or job.parked_chunks or job.run_from:
            known = self._ledger.rows_of(job.job, {result.chunk for result in results})
        settlement = settle(job, known, results, self._clock.now(), self._policy)
        return pause_too_large(settlement, self._merged_most)

    def _try_commit(self, group: _Group, before: Job, settlement: Settlement) -> bool:
        rows = self._store(group, settlement)
        if settlement.job.halts > before.halts and group.halt is None:
            group.halt = self._halts.point(group.job)
        if settlement.finish_due:
            self._point(group, settlement.job)
        try:
            is_written = commit(self._ledger, settlement.job, rows) is not None
        except StorageUnavailableError:
            group.is_unsure = True
            raise
        # What follows may fail, and the next attempt finds these rows.
        group.is_unsure |= is_written
        return is_written

    def _store(self, group: _Group, settlement: Settlement) -> list[ChunkRow]:
        """Write the results that came in their messages, and return the rows with their places."""
        packed = {id(one.result): one.packed for one in group.arrived}
        pairs = zip(settlement.rows, settlement.credited, strict=True)
        brought = [(row, content) for row, result in pairs if (content := packed[id(result)]) is not None]
        if not brought:
            return list(settlement.rows)
        if group.blob is None or not group.blob.holds(row for row, _ in brought):
            blob = assemble(group.job, brought)
            self._groups.put(blob)
            # Not before: another attempt would take it as stored, and credit rows to a blob that is not there.
            group.blob = blob
        return [group.blob.place(row) for row in settlement.rows]

    def _point(self, group: _Group, job: Job) -> None:
        wanted = f"{job.job}:{job.revision}"
        if group.pointer is None or group.pointer.id != wanted:
            group.pointer = self._call.point(job.job, job.revision)

    def _send_follow_ups(self, group: _Group, before: Job, settlement: Settlement) -> None:
        """Request the finish, log a pause, park refused results. Every step may be repeated."""
        job = settlement.job
        is_waiting = group.is_unsure and before.state is JobState.FINISHING
        if settlement.finish_due or is_waiting:
            self._call.send(job)
            if group.pointer is not None:
                self._call.forget_pointer(group.pointer)
        if job.state is JobState.PAUSED and before.state is not JobState.PAUSED:
            if group.halt is not None:
                # The job is paused, and the tick writes a halt row that is missing.
                with suppress(StorageUnavailableError):
                    self._halts.put(job, group.halt)
            tell(events.JOB_PAUSED, job=job.job, revision=job.revision, reason=job.problem)
        messages = {id(one.result): one for one in group.arrived}
        for result in settlement.differing:
            tell(events.RESULT_DIFFERS, job=job.job, chunk=result.chunk, revision=result.revision)
            self._telemetry.add(metrics.DIFFERING)
        for refused in settlement.refused:
            self._park_one(_to_unsettled(messages[id(refused.result)], ResultReason.REFUSED, refused.reason))
        group.outcome = Settled(len(settlement.rows), len(settlement.duplicates), len(settlement.refused), group.races)

    def _drop_or_park(self, group: _Group, job: Job | None) -> Settled:
        """Drop results of a stopped or buried job. Park those of an unknown one."""
        if job is not None:
            tell(events.RESULTS_DROPPED, job=group.job, results=len(group.arrived))
            return Settled(duplicates=len(group.arrived))
        for one in group.arrived:
            self._park_one(_to_unsettled(one, ResultReason.UNKNOWN_JOB, f"there is no job {group.job!r}"))
        return Settled(parked=len(group.arrived))

    def _park(self, unsettled: Sequence[Unsettled], retry: Retry) -> Settled:
        for bad in unsettled:
            retry.until_done(lambda _, bad=bad: self._park_one(bad), f"park message {bad.message.id!r}")  # type: ignore[misc]  # mypy cannot infer a lambda with a default
        return Settled(parked=len(unsettled))

    def _park_one(self, bad: Unsettled) -> bool:
        job = None if bad.result is None else bad.result.job
        tell(events.RESULT_PARKED, job=job, reason=bad.reason.value, message_id=bad.message.id)
        message = bad.message
        delivery = Delivery(queue=QUEUE, message_id=message.id, body=message.body, count=message.deliveries)
        self._parking.keep(SETTLE, delivery, cause_of(bad), claim_of(bad))
        return True


def _begin(part: Callable[[], Settled], retry: Retry) -> Settled:
    """Settle a part, or raise BudgetSpentError if the time of the batch is over: its lock is not renewed."""
    if not retry.within():
        raise BudgetSpentError(f"could not begin a group of results within {BATCH_SECONDS:.0f} s: it comes again")
    return part()


def _to_unsettled(arrived: Arrived, reason: ResultReason, found: str) -> Unsettled:
    return Unsettled(arrived.alone(), reason, found, arrived.result)
