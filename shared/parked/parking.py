"""The one way into the parked store, and the registry of the stages that park.

A stage says how a message is identified, how an entry is put back, and when it has had its effect. A new stage is
registered; this module does not change.

Order of writes: the bytes, the row, the stage's message about it. The caller then forgets the note of deliveries. A
crash in between parks the same entry once more.

Entries at the door: refused submissions, and any other message that a publisher put on their queue.

Nothing in such a message is believed. It lies in a partition of its own, and its key is the hash of its bytes. The job
that it claims is only a column, by which it is listed.

Parks the messages that the host and the bus gave up on, so that there is one place to look.

`Deliveries` has the verdict of each attempt: done, park, or redeliver. Order: note begun, work, note the failure, park,
forget the notes. The limits of poison are in `poison_policy`.

Order per message: park it, delete it from the poison queue, forget its note. A crash in between parks the same message
again, which changes nothing. Parked again, it must find the same id, so the note goes last.
"""

import base64
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import partial
from hashlib import sha256
from typing import Final, Protocol

import msgspec
from azure.storage.queue import QueueClient, QueueMessage, QueueServiceClient

from shared.azure import expecting_an_answer, put_on
from shared.clock import Clock, all_tried
from shared.errors import NotParkedError, PutOffError, RefusedError, StorageUnavailableError
from shared.grammar import NAME, is_job, room_job, room_of
from shared.messages import (
    LINES_VERSION,
    NEVER_HALTED,
    ChunkMessage,
    Delivery,
    FileRange,
    Finish,
    Internal,
    Result,
    Results,
    Segment,
    Shard,
    decode,
    encode,
    unwrap,
)
from shared.parked.entry import (
    ACCEPT,
    DOOR,
    NO_JOB,
    OTHERWISE,
    Entry,
    EntryState,
    chunk_key,
    content_key,
    finish_key,
    range_key,
    result_key,
    segment_key,
    shard_key,
    submission_note,
    transactions_key,
)
from shared.parked.parked_table import ParkedTable
from shared.parked.poison_policy import (
    DEFAULT_POLICY,
    FINGERPRINT_SCHEME,
    Attempts,
    FailureCause,
    KillerError,
    Nature,
    PoisonPolicy,
    cause_of,
    count_deaths,
    fingerprint_of,
    nature_of,
)
from shared.payload import SUBMISSION, WRAPPER, Limits, read_json
from shared.refusals import DeliveryReason, refuse
from shared.telemetry import describe_error, events, place, tell
from shared.topology import POISON_SUFFIX, room_of_queue
from shared.versions import make_decoder

#: The words about a suspect in the note of its deliveries.
SUSPECTED: Final = "its process ended, so it runs in one of its own"


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """The place of a message among the entries: the job and the key that it claims."""

    key: str
    job: str = NO_JOB
    chunk: int | None = None
    revision: int | None = None
    #: The number of the chunk's first transaction.
    first_item: int | None = None
    #: How many of its transactions are parked one by one.
    items: int | None = None
    #: The partition of a claim that is not believed: the job is then only a column. None: the entry lies under the job.
    partition: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """A stage that parks. Its name is stored, so it is permanent."""

    name: str
    #: Says whether it reads this queue.
    reads: Callable[[str], bool]
    #: None: the message belongs to another stage of the same queue. Stages are tried in the order of registration.
    identify: Callable[[Delivery], Claim | None]
    #: Sends the bytes of an entry again; repeating it has no further effect. Raises NotParkedError if that is impossible.
    put_back: Callable[[Entry, bytes], object]
    #: Says whether the effect of an entry is there for good.
    has_landed: Callable[[Entry], bool]
    #: The remedy of an entry whose error and reason bring none.
    remedy: str = OTHERWISE
    #: Sends the message about an entry: after the row is written, before the note of deliveries goes. May be repeated.
    on_parked: Callable[[Entry, Claim, bytes], object] | None = None
    #: Whether a worker must be woken for an entry that was put back.
    wakes: bool = False
    #: Whether a replay closes an entry whose effect is there already, and does not send it.
    is_read_first: bool = False
    #: Says why nothing can come of an entry any more, or nothing. A replay then closes it with these words.
    refuse: Callable[[Entry], str] = lambda _entry: ""
    #: Returns the bytes of a message that may be stored. Its own results stay as they are.
    keep: Callable[[bytes], bytes] = bytes


class Stages:
    """The stages of one installation, by name and by queue."""

    def __init__(self, *stages: Stage) -> None:
        self._stages: dict[str, Stage] = {}
        for stage in stages:
            self.register(stage)

    def register(self, stage: Stage) -> None:
        """Add a stage. Its name must be new."""
        if stage.name in self._stages:
            raise ValueError(f"stage {stage.name!r} is registered already: a name is stored with its entries")
        self._stages[stage.name] = stage

    def find(self, name: str) -> Stage:
        """Return the stage, or raise NotParkedError."""
        if name not in self._stages:
            raise NotParkedError(
                f"no stage of this version is called {name!r}: deploy the version that has it, or discard the entry"
            )
        return self._stages[name]

    def identify(self, delivery: Delivery) -> tuple[Stage, Claim]:
        """Return the stage that a message belongs to, and its claim."""
        return next(self._claims(delivery))

    def _claims(self, delivery: Delivery) -> Iterator[tuple[Stage, Claim]]:
        for stage in self._stages.values():
            if stage.reads(delivery.queue) and (claim := stage.identify(delivery)) is not None:
                yield stage, claim
        raise NotParkedError(f"no stage reads queue {delivery.queue!r}: register one, or leave its messages there")


class Parking:
    """Parks messages. Safe to repeat."""

    def __init__(
        self,
        table: ParkedTable,
        clock: Clock,
        stages: Stages,
        is_over: Callable[[str, int | None], bool] = lambda _job, _revision: False,
    ) -> None:
        """`is_over` says of a job and a revision that the job is closed for good, or ran again since: such a message is dropped."""
        self.table, self.stages, self._clock, self._is_over = table, stages, clock, is_over

    def now(self) -> datetime:
        """Return the time."""
        return self._clock.now()

    def park(self, name: str, delivery: Delivery, error: BaseException, claim: Claim | None = None) -> Entry | None:
        """Store a message that failed in this stage, then send the stage's message about it. No claim: identify it first.

        None: it was dropped, see `keep`.
        """
        stage = self.stages.find(name)
        delivery = replace(delivery, body=stage.keep(delivery.body))
        claim = claim or stage.identify(delivery) or Claim(key=content_key(name, delivery.body))
        parked = self.keep(name, delivery, cause_of(error, name, stage.remedy), claim)
        if parked is None:
            return None
        tell(
            events.MESSAGE_PARKED,
            job=claim.job,
            key=claim.key,
            stage=name,
            reason=parked.reason,
            fingerprint=parked.fingerprint,
        )
        if stage.on_parked is not None:
            stage.on_parked(parked, claim, delivery.body)
        return parked

    def is_back(self, name: str, delivery: Delivery, error: Exception) -> bool:
        """Return whether a message was replayed for the cause that it fails for now: further attempts are in vain."""
        claim = self.stages.find(name).identify(delivery)
        if claim is None:
            return False
        known = self.table.find(claim.partition or claim.job, claim.key)
        if known is None or known.stage != name or known.scheme != FINGERPRINT_SCHEME:
            return False
        is_replayed = known.state in {EntryState.REPLAYING, EntryState.REPLAYED}
        return is_replayed and known.fingerprint == fingerprint_of(error, name)

    def keep(self, name: str, delivery: Delivery, cause: FailureCause, claim: Claim) -> Entry | None:
        """Store the bytes, then the row, for a stage that logs and reports by itself.

        None: the job is stopped, buried or erased, so its message is dropped. Parked, it would bring its bytes back. One of
        a run before the last is dropped as well, since no replay could send it again.
        """
        if claim.partition is None and claim.job != NO_JOB and self._is_over(claim.job, claim.revision):
            tell(events.MESSAGE_DROPPED, job=claim.job, key=claim.key, stage=name)
            return None
        now = self._clock.now()
        entry = Entry(
            job=claim.partition or claim.job,
            key=claim.key,
            stage=name,
            queue=delivery.queue,
            **cause._asdict(),
            scheme=FINGERPRINT_SCHEME,
            attempts=delivery.count,
            first_at=now,
            last_at=now,
            message_id=delivery.message_id,
            sha256=sha256(delivery.body).hexdigest(),
            size=len(delivery.body),
            chunk=claim.chunk,
            revision=claim.revision,
            first_item=claim.first_item,
            items=claim.items,
            claimed=claim.job if claim.partition else "",
        )
        return self.table.park(entry, delivery.body)


@dataclass(frozen=True, slots=True)
class Done:
    """The work has not failed: the message is acknowledged."""


@dataclass(frozen=True, slots=True)
class Park:
    """The message is parked for this error."""

    error: Exception


@dataclass(frozen=True, slots=True)
class Redeliver:
    """The message comes again: its error may pass."""

    error: Exception


@dataclass(slots=True, kw_only=True)
class Attempt:
    """One delivery of a message to a stage, and the verdict on it so far."""

    deliveries: "Deliveries"
    stage: str
    delivery: Delivery
    #: The key of the notes of its deliveries.
    note: str
    verdict: Done | Park | Redeliver
    #: Whether an earlier delivery began and never ended, so that this one should run in a process of its own.
    is_suspect: bool = False
    #: Earlier deliveries that were put off, as far as known. They are no failures.
    put_off: int = 0

    @property
    def tries(self) -> int:
        """The deliveries so far that were not put off, with this one."""
        return self.delivery.count - self.put_off

    @property
    def goes_on(self) -> bool:
        """Return whether the work may be done. It may not if it killed its workers before."""
        return isinstance(self.verdict, Done)

    def fail(self, error: Exception) -> None:
        """Take the error of the work: the verdict follows from it, and it is noted."""
        self.verdict = self.deliveries.judge(self, error)


class Deliveries:
    """The attempts at the messages of all stages: begin, work, end."""

    def __init__(self, attempts: Attempts, parking: Parking, policy: PoisonPolicy = DEFAULT_POLICY) -> None:
        self._attempts, self._parking, self.policy = attempts, parking, policy

    def begin(
        self, stage: str, delivery: Delivery, note: str, *, can_run_alone: bool = False, is_step: bool = False
    ) -> Attempt:
        """Begin an attempt. A message that killed its workers is known here, from the notes of its deliveries.

        `is_step`: whether it is a step of a finish, in which its process may well die of others.
        """
        count, policy = delivery.count, self.policy
        attempt = Attempt(deliveries=self, stage=stage, delivery=delivery, note=note, verdict=Done())
        # Before this delivery there is no note that counts: no request.
        is_known = count > policy.noted_from and (can_run_alone or count >= policy.deliveries)
        marks, attempt.put_off = self._attempts.of(note) if is_known else ({}, 0)
        deaths = count_deaths(marks, count) if marks else 0
        if can_run_alone:
            attempt.is_suspect = deaths > 0
        elif deaths and policy.is_killer(deaths, count, is_step=is_step):
            # Before any work: it would be the next death.
            found = f"at least {policy.most_deaths(is_step=is_step)} of the {count - 1} deliveries before this one ended with the process"
            attempt.verdict = Park(KillerError(found))
            return attempt
        if count >= policy.noted_from:
            self._attempts.note_begun(note, count, SUSPECTED if attempt.is_suspect else "")
        return attempt

    def judge(self, attempt: Attempt, error: Exception) -> Park | Redeliver:
        """Return the verdict on an attempt that failed, and note the failure."""
        count, is_parked = attempt.delivery.count, self._parks(attempt, error)
        if self._is_worth_a_note(error, count, is_parked=is_parked):
            # An outage may prevent this note. Such a delivery counts as a death, but one is below the limit.
            with suppress(StorageUnavailableError):
                tries = self.policy.deliveries if nature_of(error) is Nature.UNKNOWN else 0
                self._attempts.note_failure(attempt.note, count, error, tries)
        return Park(error) if is_parked else Redeliver(error)

    def put_off(self, attempt: Attempt, error: Exception | None, seconds: int, *, is_try: bool = False) -> None:
        """Have the message delivered again after so many seconds, because it waits for something, and note it.

        No error: it waits for the same as before. `is_try`: whether the delivery was one of its tries nevertheless.
        """
        due = self._parking.now() + timedelta(seconds=seconds)
        with suppress(StorageUnavailableError):
            # Without an end, this delivery would count as a death.
            count, put_off = attempt.delivery.count, attempt.put_off + (not is_try)
            self._attempts.note_failure(attempt.note, count, error, put_off=(due, put_off))
        attempt.verdict = Redeliver(PutOffError(seconds))

    def end(self, attempt: Attempt) -> None:
        """Carry out the verdict. Return to acknowledge the message. Raise to have it redelivered."""
        if isinstance(attempt.verdict, Redeliver):
            raise attempt.verdict.error
        if isinstance(attempt.verdict, Park):
            self._parking.park(attempt.stage, attempt.delivery, attempt.verdict.error)
        self.forget(attempt.note, attempt.delivery.count)

    def _parks(self, attempt: Attempt, error: Exception) -> bool:
        nature = nature_of(error)
        if nature is not Nature.UNKNOWN or self.policy.parks(nature, attempt.tries):
            return self.policy.parks(nature, attempt.tries)
        try:
            # What was replayed for this very failure is parked at once.
            return self._parking.is_back(attempt.stage, attempt.delivery, error)
        except StorageUnavailableError:
            # The next delivery asks again.
            return False

    def _is_worth_a_note(self, error: Exception, count: int, *, is_parked: bool) -> bool:
        if count >= self.policy.noted_from:
            return True
        # The entry has the whole failure, and storage that is down takes no note either.
        return not is_parked and not isinstance(error, StorageUnavailableError)

    def forget(self, note: str, count: int) -> None:
        """Forget the notes of a message, only once its effect or its entry is stored: a crash before still needs them."""
        # At its first delivery a message has none.
        if count > 1:
            # A note that stays is never read again.
            with suppress(StorageUnavailableError):
                self._attempts.forget(note)


class PutOnQueue(Protocol):
    """Put a message on the queue that an entry names."""

    def __call__(self, entry: Entry, message: bytes, /) -> None:
        """Put the message."""
        ...


class QueuesPut:
    """PutOnQueue for storage queues."""

    def __init__(self, queues: QueueServiceClient, point: Callable[[str], object]) -> None:
        """Take the queues. `point` leaves a pointer to a queue, before a message is put there."""
        self._queues, self._point = queues, point

    def __call__(self, entry: Entry, message: bytes, /) -> None:
        """Put the message without an expiry."""
        tried = f"put parked {entry.key!r} of job {entry.job!r} back on queue {entry.queue!r}"
        # The job may have ended long ago, and then the tick does not look at the queue for its sake.
        self._point(entry.queue)
        put_on(self._queues, entry.queue, _text(message), tried=tried)


def read_message(body: bytes) -> Internal | None:
    """Return the app's own message if its job is a valid name. None: any other body."""
    try:
        message = decode(unwrap(body))
    except (msgspec.DecodeError, RecursionError, ValueError):
        return None
    return message if not isinstance(message, Results) and is_job(message.job) else None


def mark_again(body: bytes) -> bytes:
    """Return the message of a chunk with the mark that another one was sent before. Any other body stays unchanged.

    A person wants it to run: no halt of its job drops it.
    """
    if not isinstance(read_message(body), ChunkMessage):
        return body
    # Fields that this version does not know stay.
    return msgspec.json.encode(
        {WRAPPER: {**_AS_WRITTEN.decode(unwrap(body))[WRAPPER], "again": True, "halts": NEVER_HALTED}}
    )


def mark_aside(body: bytes) -> bytes:
    """Return the message of a chunk as one of which only those run that its credited result set aside."""
    fields = _AS_WRITTEN.decode(unwrap(body))[WRAPPER]
    return msgspec.json.encode({WRAPPER: {**fields, "aside": True, "halts": NEVER_HALTED, "v": LINES_VERSION}})


def split_bundle(body: bytes) -> list[bytes]:
    """Return each result of a bundle as a message of its own. Any other body stays unchanged."""
    try:
        message = decode(unwrap(body))
    except (msgspec.DecodeError, RecursionError, ValueError):
        return [body]
    return [encode(result) for result in message.results] if isinstance(message, Results) else [body]


def identify_message(stage: str, body: bytes) -> Claim:  # noqa: PLR0911 - one return for each kind of message
    """Return the claim of the app's own message. Its bytes identify any other one."""
    match read_message(body):
        case ChunkMessage(job=job, chunk=chunk, revision=revision, first_id=first, aside=is_aside):
            key = transactions_key(chunk, revision) if is_aside else chunk_key(chunk, revision)
            return Claim(key=key, job=job, chunk=chunk, revision=revision, first_item=first)
        case Result(job=job, chunk=chunk, revision=revision):
            return Claim(key=result_key(chunk, revision), job=job, chunk=chunk, revision=revision)
        case Finish(job=job, revision=revision):
            return Claim(key=finish_key(revision), job=job, revision=revision)
        case Segment(job=job, revision=revision, segment=segment):
            return Claim(key=segment_key(segment, revision), job=job, revision=revision)
        case Shard(job=job, revision=revision, shard=shard):
            return Claim(key=shard_key(shard, revision), job=job, revision=revision)
        case FileRange(job=job, stretch=stretch):
            return Claim(key=range_key(stretch), job=job)
    return Claim(key=content_key(stage, body))


def _text(body: bytes) -> str:
    try:
        return body.decode()
    except UnicodeDecodeError:
        # A queue takes text only. Each reader of work and submissions recognises Base64.
        return base64.b64encode(body).decode()


#: Keeps every value byte for byte: with other blanks or digits, it would be another job than a killed worker began.
_AS_WRITTEN: Final = make_decoder(dict[str, dict[str, msgspec.Raw]])
_NULL: Final = b"null"
_HEAD: Final = frozenset({"v", "kind", "job", "workload", "gate"})
_SUBMISSION: Final = msgspec.json.encode(SUBMISSION)


def read_claimed_job(queue: str, body: bytes, message_id: str = "") -> str:
    """Return the job that a message claims, or NO_JOB. A nameless submission claims the id of its message.

    The room is always the queue's: no message can claim a job of another room.
    """
    if is_nameless(body):
        name: object = message_id.lower()
    else:
        try:
            name = msgspec.json.decode(unwrap(body))[WRAPPER]["job"]
        except (msgspec.DecodeError, ValueError, RecursionError, TypeError, KeyError, IndexError):
            return NO_JOB
    if isinstance(name, str) and NAME.fullmatch(name):
        return room_job(room_of_queue(queue), name)
    return NO_JOB


def is_nameless(body: bytes) -> bool:
    """Return whether the body is a submission without a job id: its job takes the id of the message."""
    return _read_nameless(body) is not None


def add_job_id(body: bytes, job: str) -> bytes:
    """Return a nameless submission with its job id added, for a replay has a new message id. Others stay unchanged."""
    fields = None if job == NO_JOB else _read_nameless(body)
    # Without the room: the queue names it, and a replay goes to the queue that the submission came from.
    name = job.removeprefix(room_job(room_of(job), ""))
    return body if fields is None else msgspec.json.encode({WRAPPER: {**fields, "job": name}})


def strip_payload(body: bytes) -> bytes:
    """Return a submission with its head alone: no transactions, nothing that is declared of them. Others stay unchanged."""
    try:
        fields = _AS_WRITTEN.decode(unwrap(body))[WRAPPER]
    except (msgspec.DecodeError, ValueError, RecursionError, KeyError):
        return body
    return msgspec.json.encode({WRAPPER: {name: fields[name] for name in fields if name in _HEAD}})


def door_key(queue: str, body: bytes, job: str) -> str:
    """Return the key of a message that claims a job: the hash of the bytes that a replay sends.

    So a replayed message that fails again finds its entry. The same bytes in another room are another message: its
    replay goes to another queue.
    """
    room = room_of_queue(queue)
    return content_key(ACCEPT, (f"{room}|".encode() if room else b"") + add_job_id(body, job))


def at_the_door(queue: str, body: bytes, message_id: str, claimed: str) -> Claim:
    """Return the claim of a message from a queue of submissions: it lies at the door, listed by the job it claims."""
    is_unnamed = claimed == NO_JOB and is_nameless(body)
    # Two submissions without any known id may be two jobs of the same content: each has its own entry.
    unnamed_key = content_key(ACCEPT, body + b"|" + message_id.encode())
    return Claim(key=unnamed_key if is_unnamed else door_key(queue, body, claimed), job=claimed, partition=DOOR)


def _read_nameless(body: bytes) -> dict[str, msgspec.Raw] | None:
    """Return the fields of a submission without a job id. None: it has one, or accept would refuse it."""
    text = unwrap(body)
    try:
        # Two readers could read some JSON differently, such as a key that stands twice. One must not decide for both.
        read_json(text, Limits().depth)
        wrapper = _AS_WRITTEN.decode(text)
    except (RefusedError, msgspec.DecodeError, ValueError, RecursionError):
        return None
    fields = wrapper.get(WRAPPER, {})
    is_submission = wrapper.keys() == {WRAPPER} and bytes(fields.get("kind", _SUBMISSION)) == _SUBMISSION
    return fields if is_submission and bytes(fields.get("job", _NULL)) == _NULL else None


RESULTS: Final = "results"
#: The upper bound of messages per receive, and the seconds for which other readers do not see them.
_PAGE: Final = 32
_HIDDEN: Final = 60


def drain_poison(queue: QueueClient, parking: Parking, attempts: Attempts, most: int = 10 * _PAGE) -> int:
    """Park the messages of a poison queue and return their number. An empty queue costs one request.

    A message that cannot be parked now stays, and those behind it do not wait for it. Its error is raised at the end.
    """
    drain = _Drain(queue, parking, attempts)
    try:
        all_tried(
            (partial(drain.park, message) for message in drain.receive(most)),
            lambda error: tell(
                events.POISON_KEPT, queue=queue.queue_name, error=describe_error(error), at=place(error)
            ),
        )
    finally:
        if drain.parked:
            tell(events.POISON_DRAINED, queue=queue.queue_name, messages=drain.parked)
    return drain.parked


@dataclass(slots=True)
class _Drain:
    """One pass over a poison queue."""

    queue: QueueClient
    parking: Parking
    attempts: Attempts
    parked: int = 0

    def receive(self, most: int) -> Iterator[QueueMessage]:
        """Yield the messages on the queue, one page per request."""
        received = 0
        while received < most:
            with expecting_an_answer(f"drain queue {self.queue.queue_name!r}"):
                messages = self.queue.receive_messages(messages_per_page=_PAGE, visibility_timeout=_HIDDEN)
                page = list(next(messages.by_page(), ()))
            if not page:
                return
            yield from page
            received += len(page)

    def park(self, message: QueueMessage) -> None:
        """Park one message, then delete it from the queue."""
        body, source = message.content.encode(), self.queue.queue_name.removesuffix(POISON_SUFFIX)
        why = f"the host moved it from {source} to {self.queue.queue_name}"
        delivery = Delivery(queue=source, message_id=message.id, body=body, count=1)
        is_submission = self.parking.stages.identify(delivery)[0].name == ACCEPT
        known_ids = self.attempts.list_drops(source, body) if is_submission and is_nameless(body) else []
        park_spent(self.parking, delivery, known_ids, why)
        with expecting_an_answer(f"delete a parked message from queue {self.queue.queue_name!r}"):
            self.queue.delete_message(message)
        self.parked += 1
        if len(known_ids) == 1:
            self.attempts.forget(submission_note(source, body, known_ids[0]))


def park_spent(parking: Parking, delivery: Delivery, dropped_as: list[str], why: str) -> None:
    """Park a message that was delivered as often as the host allows. `dropped_as`: the ids that a submission may have."""
    stage, claim = parking.stages.identify(delivery)
    error = refuse(DeliveryReason.DELIVERED_TOO_OFTEN, why)
    if stage.name == ACCEPT:
        claim, error = _explain_failure(delivery, dropped_as, why)
    parking.park(stage.name, delivery, error, claim)


def _explain_failure(delivery: Delivery, known_ids: list[str], why: str) -> tuple[Claim, RefusedError]:
    """Return claim and error of a submission.

    The poison copy has another id than the publisher's message, so the id comes from the notes of late deliveries.
    """
    body, reason = delivery.body, DeliveryReason.DELIVERED_TOO_OFTEN
    claimed = read_claimed_job(delivery.queue, body, known_ids[0] if len(known_ids) == 1 else "")
    if claimed == NO_JOB and is_nameless(body):
        reason = DeliveryReason.UNNAMED
        why = f"{why}; it has no job id, and {len(known_ids)} messages with its bytes were noted: one is needed for its id"
    claim = at_the_door(delivery.queue, body, delivery.message_id, claimed)
    return claim, refuse(reason, why)


def park_dead_result(parking: Parking, body: bytes, message_id: str, why: str) -> None:
    """Park a message from the dead letters of the bus queue `results`. Its chunks still count as not ended."""
    found = f"the bus moved it to its dead letters: {why[:500]}"
    for alone in split_bundle(body):
        delivery = Delivery(queue=RESULTS, message_id=message_id, body=alone, count=1)
        stage, claim = parking.stages.identify(delivery)
        parking.park(stage.name, delivery, refuse(DeliveryReason.DEAD_LETTERED, found), claim)
