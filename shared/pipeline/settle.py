"""The Process Controller: credits results to their jobs, many at a time, and calls for the finish of those that ended.

    settler A                     settler B                     table
    reads the job (version 7)
                                  reads the job (version 7)
    writes 60 rows, job           ............................  version 8
                                  writes 40 rows, job           refused as a whole: version 7 is gone
                                  reads the job (8) and the rows, drops what is there, decides again, writes

A lost reply is the same case: what was written is there when the rows are read. Nothing is ever added to something
that was read before.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from time import sleep
from typing import Final

from shared.clock import Clock
from shared.errors import LedgerError, SettleIncompleteError, StorageUnavailableError
from shared.ledger import ChunkRow, Job, JobState, Ledger, Settlement, commit, counting, settle
from shared.messages import Delivery
from shared.parked import DEFAULT_POLICY, Nature, Parking, PoisonPolicy, nature_of
from shared.pending import Pointer
from shared.pipeline.finish_request import FinishCall
from shared.pipeline.received import SETTLE, Arrived, Received, ResultFault, Unsettled, cause_of, claim_of, sort
from shared.pipeline.results import QUEUE
from shared.retry import Retry, all_tried
from shared.telemetry import SILENT, Piece, Telemetry, describe_error, events, metrics, place, tell

#: Seconds: half the lock of a batch of results, which is not renewed, less one attempt against a silent storage.
TIME_OF_A_BATCH: Final = 120.0
#: Eight settlers on one job lose a few races each.
MOST_RACES: Final = 50


@dataclass(frozen=True, slots=True)
class Settled:
    """What became of a batch."""

    credited: int = 0
    duplicates: int = 0
    parked: int = 0
    #: Transactions that were refused because somebody else was first.
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
    """One job's results on their way into the ledger, and what is known after some attempts."""

    arrived: Sequence[Arrived]
    #: Whether these results may have been written before: by an earlier delivery, or by an attempt without an answer.
    is_unsure: bool
    pointer: Pointer | None = None
    races: int = 0
    outcome: Settled | None = None

    @property
    def job(self) -> str:
        return self.arrived[0].result.job


class Settler:
    """Settles batches of results; as many at once as there are instances."""

    def __init__(  # noqa: PLR0913 - the parts of the stage, each of which a test replaces
        self,
        ledger: Ledger,
        call: FinishCall,
        parking: Parking,
        clock: Clock,
        *,
        policy: PoisonPolicy = DEFAULT_POLICY,
        pause: Callable[[float], None] = sleep,
        telemetry: Telemetry = SILENT,
    ) -> None:
        self._ledger, self._call, self._parking, self._clock = ledger, call, parking, clock
        self._policy, self._pause, self._telemetry = policy, pause, telemetry

    def settle(self, messages: Sequence[Received]) -> Settled:
        """Settle a batch, each part by itself; raises SettleIncompleteError when storage was away for too long.

        The whole batch is then delivered again, and what was settled is dropped as duplicates. What fails for any
        other reason is found out alone and parked after a few deliveries, so that no batch comes for ever.
        """
        end = self._clock.monotonic() + TIME_OF_A_BATCH
        retry = Retry(attempts=MOST_RACES, within=lambda: self._clock.monotonic() < end, pause=self._pause)
        found = sort(messages)
        parts = [partial(self._settle_group, group, retry) for group in found.groups]
        parts += [partial(self._park, [bad], retry) for bad in found.unreadable]
        failures: list[Exception] = []
        try:
            return sum(all_tried(parts, failures.append), Settled())
        except Exception as error:
            raise SettleIncompleteError(
                f"{len(failures)} of {len(parts)} groups of results were not settled, the first because: {describe_error(error)}; "
                "the batch is delivered again"
            ) from error

    def _settle_group(self, arrived: Sequence[Arrived], retry: Retry) -> Settled:
        try:
            with counting():
                return self._credit(_Group(arrived, any(one.message.deliveries > 1 for one in arrived)), retry)
        except Exception as error:
            if nature_of(error) is Nature.TRANSIENT:
                raise
            if len(arrived) > 1:
                # One of them is odd, and the others must not wait for it.
                return sum(all_tried(self._each(arrived, retry), lambda _error: None), Settled())
            return self._odd(arrived[0], error, retry)

    def _each(self, arrived: Iterable[Arrived], retry: Retry) -> Iterator[Callable[[], Settled]]:
        return (partial(self._settle_group, (one,), retry) for one in arrived)

    def _odd(self, one: Arrived, error: Exception, retry: Retry) -> Settled:
        """Park a result that fails for a reason of its own, or raise to have it delivered again."""
        tell(events.RESULTS_UNCREDITED, job=one.result.job, results=1, error=describe_error(error), at=place(error))
        if not self._policy.parks(nature_of(error), one.message.deliveries):
            raise error
        return self._park([_to_unsettled(one, ResultFault.FAILED, type(error).__name__)], retry)

    def _credit(self, group: _Group, retry: Retry) -> Settled:
        arrived = group.arrived
        tried = f"settle {len(arrived)} results of job {group.job!r}"
        try:
            retry.until_done(lambda number: self._attempt(group, number), tried)
        except LedgerError as error:
            # This job's rows are unreadable or full: nobody can credit to it, and other jobs must not wait for it.
            tell(
                events.RESULTS_UNCREDITED,
                job=group.job,
                results=len(arrived),
                error=describe_error(error),
                at=place(error),
            )
            return self._park([_to_unsettled(one, ResultFault.LEDGER_UNREADABLE, str(error)) for one in arrived], retry)
        return group.outcome or Settled()

    def _attempt(self, group: _Group, number: int) -> bool:
        """Read, decide and write once; False means that somebody else wrote in between."""
        job = self._ledger.read(group.job)
        if job is None or job.state is JobState.BURIED:
            group.outcome = self._without_job(group, job)
            return True
        chunks = [one.result.trace for one in group.arrived]
        with self._telemetry.span(Piece.SETTLE, job.trace, chunks, job=job.job, results=len(chunks)):
            made = self._decide(group, job, look_first=number > 0)
            if made.rows and not self._try_commit(group, made):
                self._telemetry.add(metrics.RACES)
                group.races += 1
                return False
            self._after(group, job, made)
        self._telemetry.add(metrics.SETTLED, len(made.rows))
        return True

    def _decide(self, group: _Group, job: Job, *, look_first: bool) -> Settlement:
        # The rows are read only where some of these may exist: in the usual case, one read and one write are enough.
        results = [one.result for one in group.arrived]
        known: Mapping[int, ChunkRow] = {}
        if look_first or group.is_unsure or job.has_ended or job.parked_chunks:
            known = self._ledger.rows_of(job.job, {result.chunk for result in results})
        return settle(job, known, results, self._clock.now(), self._policy)

    def _try_commit(self, group: _Group, made: Settlement) -> bool:
        if made.finish_due:
            self._point(group, made.job)
        try:
            return commit(self._ledger, made.job, made.rows) is not None
        except StorageUnavailableError:
            group.is_unsure = True
            raise

    def _point(self, group: _Group, job: Job) -> None:
        wanted = f"{job.job}:{job.revision}"
        if group.pointer is None or group.pointer.id != wanted:
            group.pointer = self._call.point(job.job, job.revision)

    def _after(self, group: _Group, before: Job, made: Settlement) -> None:
        """Send what the settlement calls for; everything here may happen again."""
        is_waiting = group.is_unsure and before.state is JobState.FINISHING
        if made.finish_due or is_waiting:
            self._call.send(made.job.job, made.job.revision)
            if group.pointer is not None:
                self._call.forget_pointer(group.pointer)
        if made.job.state is JobState.PAUSED and before.state is not JobState.PAUSED:
            reason = f"{made.job.parked_chunks} of {made.job.chunks} chunks are parked"
            tell(events.JOB_PAUSED, job=made.job.job, revision=made.job.revision, reason=reason)
        messages = {id(one.result): one for one in group.arrived}
        for refused in made.refused:
            self._keep(_to_unsettled(messages[id(refused.result)], ResultFault.REFUSED, refused.reason))
        group.outcome = Settled(len(made.rows), len(made.duplicates), len(made.refused), group.races)

    def _without_job(self, group: _Group, job: Job | None) -> Settled:
        if job is not None:
            tell(events.RESULTS_DROPPED, job=group.job, results=len(group.arrived))
            return Settled(duplicates=len(group.arrived))
        for one in group.arrived:
            self._keep(_to_unsettled(one, ResultFault.UNKNOWN_JOB, f"there is no job {group.job!r}"))
        return Settled(parked=len(group.arrived))

    def _park(self, unsettled: Sequence[Unsettled], retry: Retry) -> Settled:
        for bad in unsettled:
            retry.until_done(lambda _, bad=bad: self._keep(bad), f"park message {bad.message.id!r}")  # type: ignore[misc]  # mypy cannot infer a lambda with a default
        return Settled(parked=len(unsettled))

    def _keep(self, bad: Unsettled) -> bool:
        job = None if bad.result is None else bad.result.job
        tell(events.RESULT_PARKED, job=job, reason=bad.reason.value, message_id=bad.message.id)
        message = bad.message
        delivery = Delivery(queue=QUEUE, message_id=message.id, body=message.body, count=message.deliveries)
        self._parking.keep(SETTLE, delivery, cause_of(bad), claim_of(bad))
        return True


def _to_unsettled(arrived: Arrived, reason: ResultFault, found: str) -> Unsettled:
    return Unsettled(arrived.message, reason, found, arrived.result)
