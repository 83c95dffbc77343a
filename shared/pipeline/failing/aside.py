"""Sets transactions aside: a chunk of which few fail for good ends with the others, and only those few are parked.

Its result counts them as parked, with their sums, and lists them in the stream `parked`. An entry only leads there: the
credited result is the one list. Its replay runs those few, and makes a result that extends the credited one. Of two such
results the first counts.

A delivery of which some are left writes the outcome so far and its note. At the last try it writes the entry, and then the
result. docs/appendix/ledger.md says what follows if its process dies between.
"""

from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from io import BytesIO
from typing import Final

from msgspec import Struct, json

from shared.errors import HaltedError, NoSlotError, PutOffError, ResultRefusedError, StorageUnavailableError
from shared.ledger import ChunkRow, Ledger
from shared.messages import ChunkMessage
from shared.parked import OTHERWISE, Attempt, Park, cause_of, kind_of, place_of
from shared.pipeline.failing.put_off import WARNED_FROM, Leftover, Waits, judge_left, rank_failure
from shared.pipeline.failing.so_far import SoFar, SoFarStore, join
from shared.pipeline.outputs import Ran
from shared.pipeline.results import Opened, read_parked, read_partial
from shared.pipeline.settle import find_done
from shared.pipeline.streams import LINES, PARKED, Stream, StreamWriter, join_rows
from shared.refusals import DeliveryReason
from shared.telemetry import contain, events, origin_of, tell
from shared.versions import decode
from shared.workloads import LONGEST_LINE, MOST_LEFT, AnyWorkload, Calls, Left, PartialPiece, first_of, is_uncalled

#: The name of the stage; it is stored.
TRANSACTIONS: Final = "transactions"
#: Characters of the text of an error: a chunk may have many of them.
LONGEST_FOUND: Final = 1000
#: Reasons of transactions that a process died of, or stood still at.
_OF_ITS_PROCESS: Final = frozenset({DeliveryReason.KILLED_ITS_WORKER, DeliveryReason.TOOK_TOO_LONG})
#: What was credited lies before all that is run later.
_BEFORE_ALL: Final = 0


class ParkedTransaction(Struct, frozen=True, omit_defaults=True):
    """A transaction that was set aside, as stored in the stream and in the outputs."""

    number: int
    reason: str
    found: str
    #: The transaction as sent, cut at `LONGEST_LINE` characters.
    line: str
    #: The functions that its error passed through, the innermost first.
    place: str = ""
    fingerprint: str = ""


def set_aside(workload: AnyWorkload, ran: Ran) -> Ran:
    """Return the outcome of a chunk with those that are left parked, and the others in one partial."""
    # Nothing may come between them any more: those that pass later are merged behind the others.
    pieces = join(workload, ran.pieces or (), ())
    with contain():
        partial = pieces[0].partial if pieces else workload.combine([])
    made = _write(ran.left)
    # Lines are the last stream.
    return replace(ran, partial=partial, streams=({} if made is None else {PARKED: made}) | join_rows(ran.rows))


def _write(left: tuple[Left, ...]) -> Stream | None:
    writer = StreamWriter()
    for one in left:
        cause, raised = cause_of(one.error, TRANSACTIONS, OTHERWISE), origin_of(one.error)
        parked = ParkedTransaction(
            number=one.number,
            reason=cause.reason,
            # The cause of the first one also counts the others.
            found=_storable(f"{type(raised).__name__}: {raised}"[:LONGEST_FOUND]),
            line=one.line.decode(errors="replace")[:LONGEST_LINE],
            place=cause.place,
            fingerprint=cause.fingerprint,
        )
        writer.add(json.encode(parked) + b"\n", 1)
    return writer.close()


def _storable(text: str) -> str:
    # An exception may quote half a character (a lone surrogate).
    return text.encode(errors="replace").decode()


def list_parked(opened: Opened) -> Iterator[ParkedTransaction]:
    """Yield the transactions that a result set aside."""
    for line in read_parked(opened):
        try:
            yield decode(line, ParkedTransaction)
        except (ValueError, RecursionError) as error:
            raise ResultRefusedError(
                f"a parked transaction of result {opened.row.blob!r} cannot be read: {error}"
            ) from error


def resume_from(opened: Opened, chunk: ChunkMessage, workload: AnyWorkload) -> SoFar:
    """Return the credited result of a chunk as its outcome so far, of which those are left that it set aside."""
    result, parked = opened.result, list(list_parked(opened))
    left = {one.number: Waits() for one in parked}
    if not left or not left.keys() <= frozenset(range(chunk.first_id, chunk.first_id + chunk.items)):
        raise ResultRefusedError(f"result {opened.row.blob!r} parks transactions that are not of its chunk")
    piece = PartialPiece(_BEFORE_ALL, read_partial(result, workload.partial))
    packed = opened.streams.get(LINES)
    rows = {} if packed is None else {_BEFORE_ALL: Stream(result.streams[LINES], BytesIO(packed))}
    return SoFar(
        accepted=result.accepted,
        rejected=result.rejected,
        pieces=(piece,),
        rejections=b"".join(opened.rejections),
        left=left,
        since=0,
        milliseconds=0,
        etag="",
        rows=rows,
        is_alone=any(one.reason in _OF_ITS_PROCESS for one in parked),
    )


@dataclass(frozen=True, slots=True)
class Run:
    """A run of a chunk, or of those of it that are called now."""

    work: ChunkMessage
    workload: AnyWorkload
    calls: Calls
    started: float
    #: What the chunk came to before, and those that are called now. None: all.
    before: SoFar | None
    chosen: frozenset[int] | None
    #: The hash of the credited result, of which these were set aside.
    extends: str | None
    #: How many of the chunk may be left: all, or those that were set aside.
    most: int
    is_suspect: bool

    @property
    def items(self) -> int:
        """How many are called."""
        return self.work.items if self.chosen is None else len(self.chosen)

    @property
    def waits(self) -> Mapping[int, Waits]:
        """How often those that are left waited before."""
        return {} if self.before is None else self.before.left

    @property
    def resting(self) -> Mapping[int, Waits]:
        """Those that are not called now."""
        chosen = self.chosen
        return {} if chosen is None else {one: waits for one, waits in self.waits.items() if one not in chosen}


@dataclass(frozen=True, slots=True)
class Failing:
    """A run of which transactions are left."""

    run: Run
    #: The failure that says most. It is the one for which the chunk is parked.
    error: Exception
    outcome: Leftover
    ran: Ran
    #: Whether the chunk may end with the others.
    is_few: bool
    #: Deliveries that were put off before.
    put_off: int
    requests: Mapping[str, int] = field(default_factory=dict)


def leave(  # noqa: PLR0913 - a delivery, and what was known before
    run: Run, ran: Ran, so_far: SoFarStore, *, now: float, most: int, milliseconds: int, put_off: int
) -> Failing:
    """Judge those that are left of a run, and keep what the others came to. `most`: the tries of one that waits."""
    calls = run.calls
    since = 0 if run.before is None else run.before.since
    # The notes are read from the third delivery on.
    put_off = max(put_off, since > 0)
    uncalled = sum(is_uncalled(one.error) for one in ran.left)
    ended = ran.accepted.items + ran.rejected.items
    outcome = judge_left(
        ran.left,
        run.waits,
        run.resting,
        ended=ended,
        has_called=uncalled < run.items,
        is_outage=calls.is_outage,
        rest=calls.rest,
        since=since,
        now=now,
        most=most,
        put_off=put_off,
    )
    has_passed = len(ran.left) < run.items
    if has_passed or (outcome.waits and outcome.left != run.waits):
        since = since or (int(now) if outcome.waits else 0)
        # Without it, the next try calls all of them again.
        with suppress(StorageUnavailableError):
            left, before = outcome.left, run.before
            so_far.put(run.work, ran, left, since, milliseconds, before, run.extends, is_alone=run.is_suspect)
    _raise_halted(ran)
    if not ran.left:
        # The others are not due.
        raise PutOffError(outcome.seconds)
    errors = sorted(ran.left, key=lambda one: rank_failure(one.error))
    # Its result waits for them. At its last try, a chunk of which few fail ends with the others.
    some_passed = len(outcome.left) < run.most
    is_few = some_passed and ran.pieces is not None and len(ran.left) <= MOST_LEFT
    is_few = is_few and not outcome.is_endless
    error = first_of(errors, run.work.items)
    return Failing(run, error, outcome, ran, is_few, put_off)


def _raise_halted(ran: Ran) -> None:
    """Raise the error of a run that was halted: those that were not called have not failed."""
    for one in ran.left:
        if isinstance(one.error, HaltedError):
            raise one.error


def judge_failing(attempt: Attempt, failing: Failing) -> None:
    """Judge a chunk of which some are left."""
    outcome, policy, work = failing.outcome, attempt.deliveries.policy, failing.run.work
    if not outcome.waits:
        attempt.fail(failing.error)
        return
    has_tried = not outcome.has_faults or attempt.tries >= policy.deliveries
    if outcome.is_endless or (outcome.is_spent and has_tried):
        attempt.verdict = Park(failing.error)
        return
    attempt.put_off = failing.put_off
    # One in which a transaction failed of itself is a try of it.
    attempt.deliveries.put_off(attempt, failing.error, outcome.seconds, is_try=outcome.has_faults)
    times = max(waits.times for waits in outcome.left.values())
    kind, left = kind_of(failing.error), len(outcome.left)
    tell(
        events.TRANSACTIONS_LATER,
        job=work.job,
        chunk=work.chunk,
        left=left,
        kind=kind,
        place=place_of(failing.error),
        seconds=outcome.seconds,
    )
    if max(times, attempt.put_off + 1) >= WARNED_FROM and not is_uncalled(failing.error):
        tell(events.TRANSACTIONS_STALLED, job=work.job, chunk=work.chunk, left=left, kind=kind)


def find_aside(ledger: Ledger, work: ChunkMessage) -> ChunkRow | None:
    """Return the credited row of a chunk of which transactions are set aside. None: all have passed, or ran again."""
    row = find_done(ledger, work.job, work.chunk, work.revision)
    if row is None:
        found = f"could not replay what was set aside of chunk {work.chunk} of job {work.job!r}: it is not credited yet"
        raise NoSlotError(found, waits_for="the result of its chunk")
    return row if row.aside and row.revision == work.revision else None
