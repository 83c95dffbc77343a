"""The accept stage: turns a dropped message into a planned job, dispatched or held behind its gate.

Every step may be repeated. The job's row is inserted once, and its plan depends only on its payload and the settings. The
ids that count are those whose reservation was recorded first. After a crash, the next delivery continues.

The row of a small job is inserted with its plan and its ids. If its chunk may be put at once, the row says that it was: then
no cursor is written. After a crash before the put, the next delivery finds no row of the chunk, and puts it.

Only publishers send to its queues, so a message may be anything; none is one of the app's own messages. `Arrivals`
handles the deliveries, and `accept_stage` says how those that are refused are parked and put back.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from datetime import timedelta
from enum import Enum
from typing import Final, Protocol

from shared.clock import Clock
from shared.errors import ContentionError, NewerVersionError, NotParkedError, RefusedError
from shared.grammar import room_job
from shared.ledger import (
    SEALED,
    Collision,
    Job,
    JobState,
    Ledger,
    change,
    counting,
    follow_others,
    insert,
    judge,
)
from shared.memory import Memory
from shared.messages import Delivery
from shared.parked import (
    ACCEPT,
    NO_JOB,
    Claim,
    Deliveries,
    Entry,
    PutOnQueue,
    Stage,
    add_job_id,
    at_the_door,
    read_claimed_job,
    strip_payload,
    submission_note,
)
from shared.payload import (
    WORK,
    Envelope,
    FromJobs,
    Intake,
    Limits,
    Payload,
    PayloadStores,
    Stretched,
    Submission,
    fingerprint,
    fingerprint_before,
    fingerprints_of,
    of_plan,
    of_submission,
    open_envelope,
    read_submission,
    wait_for_newer,
)
from shared.pending import PendingTable, Pointer
from shared.pipeline.plan import ChunkSizes, Plan, PlanStore, plan_of, write_small
from shared.pipeline.start import Placed, Planning, leave_to_gate, point_to_start
from shared.refusals import Reason, refuse
from shared.telemetry import SILENT, Piece, Telemetry, events, metrics, tell
from shared.topology import room_of_queue, submission_queue
from shared.workloads import has_lines

_UNDECIDED: Final = frozenset({JobState.PLANNING, JobState.HELD})
_UNFINISHED: Final = _UNDECIDED | {JobState.DISPATCHING}


class Accepted(Enum):
    """How the accept stage left a submission."""

    #: Its chunks are being dispatched, or wait for their turn.
    DISPATCHED = "dispatched"
    #: It waits behind its gate.
    HELD = "held"
    #: The same submission was accepted before and is past its gate.
    DUPLICATE = "duplicate"


class LookAtWaiting(Protocol):
    """Starts a job that waits for others, when these have ended."""

    def point(self, job: Job) -> Pointer:
        """Leave a pointer to it, before its row."""
        ...

    def look(self, job: Job, until: float | None) -> Placed:
        """Let the job start, or have it wait."""
        ...


class Growing(Protocol):
    """Takes the stretches of a job behind its first one."""

    def follow(self, job: Job, until: float | None) -> Job:
        """Take those that are there."""
        ...


class BeginRanges(Protocol):
    """Has workers cut the ranges of a file."""

    def begin(self, job: Job, *, is_new: bool) -> None:
        """Put the messages of the first ones."""
        ...


class Start(Protocol):
    """Dispatches a planned job, or holds it behind its gate."""

    def start(self, job: Job, *, is_new: bool, until: float | None) -> Placed:
        """Dispatch the job, or have it wait."""
        ...

    def note_place(self, job: Job) -> Job:
        """Return a planned job as its new row says it."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Acceptance:
    """The accept stage. One per process."""

    ledger: Ledger
    stores: PayloadStores
    plans: PlanStore
    planning: Planning
    starter: Start
    waiting: LookAtWaiting
    stretching: Growing
    ranges: BeginRanges
    pending: PendingTable
    clock: Clock
    #: The workloads of this installation, each with the fields that it adds up.
    sums: Mapping[str, Collection[str]]
    limits: Limits
    sizes: ChunkSizes
    #: How long a job may be silent before the tick repairs it.
    overdue: timedelta
    telemetry: Telemetry = SILENT
    memory: Memory = field(default_factory=lambda: Memory(WORK))

    def accept(
        self, envelope: Envelope, message_id: str, room: str = "", *, again: bool = False, until: float | None = None
    ) -> Accepted:
        """Accept one submission. A RefusedError is the publisher's to correct. Every other error may be retried.

        `room`: the room of the message's queue, which identifies the sender. `again`: this message was delivered
        before, so this call also completes an unfinished dispatch. `until`: no further step of the dispatch after this
        moment.
        """
        published = read_submission(envelope, message_id, self.limits)
        self._check(published)
        # From here on the job has its internal id; only its room's container knows it by the publisher's name.
        submission = replace(published, job=room_job(room, published.job))
        with counting(), self.telemetry.span(Piece.ACCEPT, submission.trace, job=submission.job, gate=submission.gate):
            if published.waits:
                return self._follow(room, published, submission, until)
            if isinstance(published.content, Stretched) and self._goes_on(
                room, published, submission, until, again=again
            ):
                return Accepted.DUPLICATE
            taken = self._take(room, published, submission, again=again)
            if taken is None:
                return Accepted.DUPLICATE
            planned_job, is_mine, pointer = taken
            placed = self.starter.start(planned_job, is_new=is_mine, until=until)
            if planned_job.ranges is not None:
                self.ranges.begin(planned_job, is_new=is_mine)
            if planned_job.growing:
                self.stretching.follow(replace(planned_job, etag=""), until)
            if placed is not Placed.HELD:
                return Accepted.DISPATCHED
            leave_to_gate(self.pending, planned_job, pointer, self.clock.now())
            return Accepted.HELD

    def _goes_on(
        self, room: str, published: Submission, submission: Submission, until: float | None, *, again: bool
    ) -> bool:
        """Take more stretches of a job that is there. False: it has no plan yet."""
        job = self.ledger.read(submission.job)
        if job is None or job.plan is None:
            return False
        payload = Intake(room, self.stores, self.limits, self.sizes.least).look(published.job)
        _check_known(job, fingerprint(submission, payload), fingerprint_before(submission, payload))
        if again:
            # Who took stretches before may have died before it put their chunks.
            self.starter.start(job, is_new=False, until=until)
            job = replace(job, etag="")
        self.stretching.follow(job, until)
        return True

    def _take(
        self, room: str, published: Submission, submission: Submission, *, again: bool
    ) -> tuple[Job, bool, Pointer] | None:
        """Return the planned job, whether this call recorded the plan, and this call's pointer to the job.

        None: the job was past this stage before.
        """
        with self.memory.hold(of_submission(published.content, self.sizes.least, self.limits)) as held:
            intake = Intake(room, self.stores, self.limits, self.sizes.least)
            payload = intake.take(published)
            if payload.ranges is not None and self._came_whole(submission.job):
                payload = intake.take(published, whole=True)
            held.keep(of_plan(len(payload.index.frames), payload.index.items, self.sizes.least, self.limits))
            plan = self._plan(submission, payload)
            job, is_new, pointer = self._insert(submission, payload, plan)
            is_over = not is_new and job.state not in (_UNFINISHED if again else _UNDECIDED)
            if is_over:
                return None
            if job.plan is not None:
                return job, is_new, pointer
            return *self._record_plan(job, plan), pointer

    def _came_whole(self, job: str) -> bool:
        """Check whether an earlier version accepted the job, which framed its file as a whole."""
        found = self.ledger.read(job)
        return found is not None and found.ranges is None

    def _follow(self, room: str, published: Submission, submission: Submission, until: float | None) -> Accepted:
        """Accept a job that waits for others. Its own payload is stored now. The lines of others are read when they have ended."""
        hashes, plan = fingerprints_of(published), None
        if not isinstance(published.content, FromJobs):
            with self.memory.hold(of_submission(published.content, self.sizes.least, self.limits)):
                payload = Intake(room, self.stores, self.limits, self.sizes.least).take(published, whole=True)
                plan = self._plan(submission, payload)
                hashes = fingerprint(submission, payload), fingerprint_before(submission, payload)
        content_hash, hash_before = hashes or ("", "")
        lines = has_lines(self.sizes.workloads.find(submission.workload))
        new = Job.accept(submission, content_hash, self.clock.now(), self.telemetry.current(), lines=lines)
        new = follow_others(new, room, published)
        if plan is not None:
            new = replace(
                new, ready=write_small(plan) or self.plans.put(plan), chunks=len(plan.chunks), items=plan.items
            )
        # Before the row: no job may exist that the tick cannot find.
        self.waiting.point(new)
        job, is_new = self.ledger.insert(new)
        if not is_new:
            _check_known(job, content_hash, hash_before)
            if job.state is not JobState.HELD:
                return Accepted.DUPLICATE
        placed = self.waiting.look(job, until) if job.awaits_others else Placed.HELD
        return Accepted.HELD if placed is Placed.HELD else Accepted.DISPATCHED

    def _check(self, submission: Submission) -> None:
        """Refuse a submission that could never balance: no workload would add up its transactions or its sums."""
        if submission.workload not in self.sums:
            known = ", ".join(sorted(self.sums))
            raise refuse(Reason.UNKNOWN_WORKLOAD, f"the workload is {submission.workload!r}, known are: {known}")
        proven, content = self.sums[submission.workload], submission.content
        of_sources = set(content.sums) if isinstance(content, FromJobs) else set[str]()
        if twice := of_sources & set(submission.declared.sums):
            raise refuse(Reason.UNKNOWN_SUM, f"the sum of {min(twice)} is declared, and is that of its sources")
        if strange := sorted((of_sources | set(submission.declared.sums)) - set(proven)):
            found = (
                f"declared are {', '.join(strange)[:200]}; {submission.workload} adds up: {', '.join(proven) or 'none'}"
            )
            raise refuse(Reason.UNKNOWN_SUM, found)

    def _plan(self, submission: Submission, payload: Payload) -> Plan:
        size = self.sizes.of(submission.workload, payload.index.items)
        return plan_of(submission.job, submission.workload, payload, size, self.limits)

    def _insert(self, submission: Submission, payload: Payload, plan: Plan) -> tuple[Job, bool, Pointer]:
        now, content_hash = self.clock.now(), fingerprint(submission, payload)
        # Noted once: later its code may be another, and a chunk that runs twice must make the same.
        lines = has_lines(self.sizes.workloads.find(submission.workload))
        new = Job.accept(submission, content_hash, now, self.telemetry.current(), lines=lines)
        if payload.chain is not None:
            new = replace(
                new,
                growing=True,
                stretches=payload.stretches,
                chain=payload.chain,
                ranges=payload.ranges,
                declared_items=submission.declared.items,
            )
        # Before the row that it points to: no job may exist that the tick cannot find.
        pointer = self.pending.add(point_to_start(new.job, new.deadline, now, self.overdue))
        if (text := write_small(plan)) is None:
            job, is_new = self.ledger.insert(new)
        else:
            # One write instead of three. A submission that is a duplicate leaves a gap in the ids.
            note = self.planning.prepare(plan, text, new.gate)
            job, is_new = insert(self.ledger, self.starter.note_place(note(new)))
        if not is_new:
            _check_known(job, content_hash, fingerprint_before(submission, payload))
        return job, is_new, pointer

    def _record_plan(self, job: Job, plan: Plan) -> tuple[Job, bool]:
        note, is_mine = self.planning.prepare(plan, self.plans.put(plan), job.gate), False

        def decide(found: Job) -> Job:
            nonlocal is_mine
            is_mine = found.plan is None
            return note(found) if is_mine else found

        written = change(self.ledger, job.job, decide, tried="record the plan", known=job)
        if written is None:
            raise ContentionError(f"could not record the plan: job {job.job!r} is gone; its submission is retried")
        return written, is_mine


def _check_known(job: Job, content_hash: str, hash_before: str) -> None:
    """Refuse a submission under the id of a job that was erased, or that had other content."""
    if job.state is JobState.ERASED:
        raise refuse(Reason.ERASED, f"job {job.job!r} was erased at {job.erased_at:%Y-%m-%d %H:%M} UTC")
    judged = judge(job, content_hash, hash_before)
    if judged.collision is Collision.CONFLICT:
        raise refuse(Reason.CONFLICT, judged.reason)


_REFUSALS: Final = frozenset(map(str, Reason))


class Arrivals:
    """Handles the deliveries of the queues of submissions. Safe to call from several threads."""

    def __init__(self, acceptance: Acceptance, deliveries: Deliveries) -> None:
        self._acceptance, self._deliveries = acceptance, deliveries

    def handle(self, delivery: Delivery, until: float | None = None) -> None:
        """Handle a delivery. Return to acknowledge it. Raise to have it redelivered.

        `until`: the moment, by the monotonic clock, after which the dispatch begins no further step.
        """
        note = submission_note(delivery.queue, delivery.body, delivery.message_id)
        attempt = self._deliveries.begin(ACCEPT, delivery, note)
        try:
            if attempt.goes_on:
                self._accept(delivery, until)
        except NewerVersionError as error:
            tell(events.NEWER_VERSION, found=str(error))
            attempt.fail(error)
        except Exception as error:  # noqa: BLE001 - the end of the attempt parks the message for it, or raises it
            if isinstance(error, RefusedError) and error.reason == Reason.ERASED:
                # The entry says that it came, and brings no transaction back.
                attempt.delivery = replace(delivery, body=strip_payload(delivery.body))
            attempt.fail(error)
        self._deliveries.end(attempt)

    def _accept(self, delivery: Delivery, until: float | None) -> None:
        try:
            envelope = open_envelope(delivery.body, self._acceptance.limits)
        except RefusedError as refusal:
            wait_for_newer(delivery, refusal)
            raise
        room, again = room_of_queue(delivery.queue), delivery.count > 1
        outcome = self._acceptance.accept(envelope, delivery.message_id, room, again=again, until=until)
        self._acceptance.telemetry.add(metrics.SUBMISSIONS, outcome=outcome.value)
        tell(events.SUBMISSION_ACCEPTED, message_id=delivery.message_id, outcome=outcome.value)


def accept_stage(ledger: Ledger, put: PutOnQueue) -> Stage:
    """Return the stage of the queues of submissions."""
    return Stage(
        name=ACCEPT,
        reads=lambda queue: queue == submission_queue(room_of_queue(queue)),
        identify=_identify,
        put_back=lambda entry, body: put(entry, _with_job_id(entry, body)),
        has_landed=lambda entry: _has_landed(ledger, entry),
    )


def _identify(delivery: Delivery) -> Claim:
    queue, body, message_id = delivery.queue, delivery.body, delivery.message_id
    return at_the_door(queue, body, message_id, read_claimed_job(queue, body, message_id))


def _with_job_id(entry: Entry, body: bytes) -> bytes:
    """Return the submission with its job id in it, so that a replay makes no second job."""
    message, most = add_job_id(body, entry.about), Limits().message_bytes
    if len(message) > max(most, len(body)):
        raise NotParkedError(
            f"parked {entry.key!r} of job {entry.about!r} is {len(message)} bytes with its job id added, the limit is "
            f"{most}: publish it again under that job id with its transactions in a blob, then discard this entry"
        )
    return message


def _has_landed(ledger: Ledger, entry: Entry) -> bool:
    job = None if entry.about == NO_JOB else ledger.read(entry.about)
    if job is None:
        return False
    # A refused message made no job: a job from before belongs to another submission. A message that killed its worker,
    # or that was parked after its last delivery, may have made its job before.
    is_planned = job.plan is not None or job.state in SEALED
    return job.accepted_at >= entry.last_at or (entry.reason not in _REFUSALS and is_planned)
