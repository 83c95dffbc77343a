"""The one way into the parked store, and the registry of the stages that park.

A stage says how a message is identified, how an entry is put back, and when it has had its effect. A new stage is
registered; this module does not change.

Order of writes: the bytes, the row, the stage's message about it. The caller then forgets the note of deliveries. A
crash in between parks the same entry once more.
"""

import base64
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import Protocol

import msgspec
from azure.storage.queue import QueueServiceClient

from shared.azure import expecting_an_answer
from shared.clock import Clock
from shared.errors import NotParkedError
from shared.grammar import is_job
from shared.messages import (
    ChunkMessage,
    Delivery,
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
from shared.parked.cause import FINGERPRINT_SCHEME, FailureCause, cause_of, fingerprint_of
from shared.parked.entry import (
    NO_JOB,
    OTHERWISE,
    Entry,
    EntryState,
    chunk_key,
    content_key,
    finish_key,
    result_key,
    segment_key,
    shard_key,
)
from shared.parked.parked_table import ParkedTable
from shared.telemetry import events, tell


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """The place of a message among the entries: the job and the key that it claims."""

    key: str
    job: str = NO_JOB
    chunk: int | None = None
    revision: int | None = None
    #: The number of the chunk's first transaction.
    first_item: int | None = None
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

    def __init__(self, table: ParkedTable, clock: Clock, stages: Stages) -> None:
        self.table, self.stages, self._clock = table, stages, clock

    def park(self, name: str, delivery: Delivery, error: BaseException, claim: Claim | None = None) -> Entry:
        """Store a message that failed in this stage, then send the stage's message about it. No claim: identify it first."""
        stage = self.stages.find(name)
        delivery = replace(delivery, body=stage.keep(delivery.body))
        claim = claim or stage.identify(delivery) or Claim(key=content_key(name, delivery.body))
        parked = self.keep(name, delivery, cause_of(error, name, stage.remedy), claim)
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

    def keep(self, name: str, delivery: Delivery, cause: FailureCause, claim: Claim) -> Entry:
        """Store the bytes, then the row, for a stage that logs and reports by itself."""
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
            claimed=claim.job if claim.partition else "",
        )
        return self.table.park(entry, delivery.body)


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
        # Not closed: it shares the connections of the service client.
        queue = self._queues.get_queue_client(entry.queue)
        # The job may have ended long ago, and then the tick does not look at the queue for its sake.
        self._point(entry.queue)
        with expecting_an_answer(tried):
            queue.send_message(_text(message), time_to_live=-1)


def read_message(body: bytes) -> Internal | None:
    """Return the app's own message if its job is a valid name. None: any other body."""
    try:
        message = decode(unwrap(body))
    except (msgspec.DecodeError, RecursionError, ValueError):
        return None
    return message if not isinstance(message, Results) and is_job(message.job) else None


def split_bundle(body: bytes) -> list[bytes]:
    """Return each result of a bundle as a message of its own. Any other body stays unchanged."""
    try:
        message = decode(unwrap(body))
    except (msgspec.DecodeError, RecursionError, ValueError):
        return [body]
    return [encode(result) for result in message.results] if isinstance(message, Results) else [body]


def identify_message(stage: str, body: bytes) -> Claim:
    """Return the claim of the app's own message. Its bytes identify any other one."""
    match read_message(body):
        case ChunkMessage(job=job, chunk=chunk, revision=revision, first_id=first):
            return Claim(key=chunk_key(chunk, revision), job=job, chunk=chunk, revision=revision, first_item=first)
        case Result(job=job, chunk=chunk, revision=revision):
            return Claim(key=result_key(chunk, revision), job=job, chunk=chunk, revision=revision)
        case Finish(job=job, revision=revision):
            return Claim(key=finish_key(revision), job=job, revision=revision)
        case Segment(job=job, revision=revision, segment=segment):
            return Claim(key=segment_key(segment, revision), job=job, revision=revision)
        case Shard(job=job, revision=revision, shard=shard):
            return Claim(key=shard_key(shard, revision), job=job, revision=revision)
    return Claim(key=content_key(stage, body))


def _text(body: bytes) -> str:
    try:
        return body.decode()
    except UnicodeDecodeError:
        # A queue takes text only. Each reader of work and submissions recognises Base64.
        return base64.b64encode(body).decode()
