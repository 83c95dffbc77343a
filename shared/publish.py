"""Publishes submissions: frames while it reads, then sends one message, with the payload in it or beside it.

Sources of transactions: a file of lines from any tool, or objects of the publisher's own program.
"""

import base64
import io
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from typing import IO, Any, Final, Self, Unpack

import msgspec
from azure.core.exceptions import AzureError
from azure.storage.blob import ContainerClient
from azure.storage.queue import QueueClient
from msgspec import structs

from shared.azure import BriefSender, Connections, error_code
from shared.clock import Closing
from shared.errors import StorageUnavailableError
from shared.grammar import check_job, payload_name
from shared.payload import (
    OPTIONS,
    Codec,
    DeclaredFields,
    Form,
    Framed,
    Framing,
    Limits,
    PayloadFields,
    PayloadStore,
    SubmissionFields,
    SubmissionOptions,
    choose,
    expand_file,
    sniff,
    split_lines,
    spool_for,
    write_frames,
    write_submission,
)
from shared.refusals import Reason, refuse
from shared.signals import brief_hints
from shared.telemetry import SILENT, Piece, Telemetry
from shared.topology import payload_container, submission_queue

__all__ = ["Publisher", "Sent", "read_file"]

#: A queue's own default would drop a message that is held for longer than a week.
NEVER_EXPIRES: Final = -1


@dataclass(frozen=True, slots=True)
class Sent:
    """The submission that was sent."""

    job: str
    form: Form
    items: int
    sums: Mapping[str, Decimal]
    frames: int
    stored_bytes: int
    message_bytes: int
    message_id: str
    #: None: the payload is in the message.
    blob: str | None
    #: Whether a hint was sent, so that the app looks at once. Else its next poll finds the submission.
    is_hinted: bool = False


class Publisher(Closing):
    """Drops submissions into a queue, their payloads into a container when they do not fit a message.

    Sending the same transactions under the same job id again is harmless, and is what to do after an error. After each
    drop a hint makes the app look at once, if there is a bus. Close the publisher when done: it keeps that connection.
    """

    def __init__(  # noqa: PLR0913 - each is one part of a publisher
        self,
        queue: QueueClient,
        payloads: ContainerClient,
        *,
        codec: Codec = Codec.ZSTD,
        limits: Limits | None = None,
        telemetry: Telemetry = SILENT,
        hints: BriefSender | None = None,
    ) -> None:
        self._queue, self._codec, self._limits, self._telemetry = queue, codec, limits or Limits(), telemetry
        self._hints = hints
        #: Gets each message before anything is stored. What it raises stops that submission.
        self.before_send: Callable[[bytes], object] = lambda _body: None
        self._store = PayloadStore(payloads, self._limits)

    @classmethod
    def connect(cls, connections: Connections, room: str = "", *, hints: bool = True) -> Self:
        """Build the publisher of a room. With `hints=False`, or without a bus, the app finds each drop at its next poll."""
        return cls(
            connections.queues.get_queue_client(submission_queue(room)),
            connections.blobs.get_container_client(payload_container(room)),
            telemetry=connections.telemetry,
            hints=brief_hints(connections, submission_queue(room)) if hints and connections.has_bus else None,
        )

    def close(self) -> None:
        """Close the connection that hints go over."""
        if self._hints is not None:
            self._hints.close()

    def submit(
        self, *, job: str, transactions: Iterable[Any], sums: Iterable[str] = (), **options: Unpack[SubmissionOptions]
    ) -> Sent:
        """Send the transactions as one job, and their number and the exact sums of the named fields with them."""
        return self.submit_lines(job=job, lines=encode_all(transactions), sums=sums, **options)

    def submit_lines(
        self,
        *,
        job: str,
        lines: Iterable[tuple[int, bytes]],
        sums: Iterable[str] = (),
        **options: Unpack[SubmissionOptions],
    ) -> Sent:
        """Send numbered lines of JSON as one job. Refuse an unreadable line by its number."""
        about = SubmissionFields(job=check_job(job), **_texts(options))
        with self._telemetry.span(Piece.PUBLISH, job=job, workload=about.workload, gate=about.gate):
            return self._send(structs.replace(about, trace=self._telemetry.current()), lines, sums)

    def _send(self, about: SubmissionFields, lines: Iterable[tuple[int, bytes]], sums: Iterable[str]) -> Sent:
        job = about.job or ""
        if self._hints is not None:
            self._hints.prepare()
        framing = Framing(limits=self._limits, codec=self._codec, sums=tuple(sums), is_strict=True)
        with spool_for(self._limits) as spool:
            framed = write_frames(lines, spool, framing)
            payload, form = self._place(_with(about, framed, PayloadFields(inline="")), framed, spool)
            body = write_submission(_with(about, framed, payload))
            self.before_send(body)
            if form is Form.BLOB:
                self._store_beside(job, framed, spool, has_index=payload.frames is None)
        return Sent(
            job=job,
            form=form,
            items=framed.index.items,
            sums=framed.sums,
            frames=len(framed.index.frames),
            stored_bytes=framed.index.stored,
            message_bytes=len(body),
            message_id=self._drop(job, body),
            blob=payload.blob,
            is_hinted=self._hints is not None and self._hints.send(),
        )

    def _place(self, empty: SubmissionFields, framed: Framed, spool: IO[bytes]) -> tuple[PayloadFields, Form]:
        """Return the place of the payload. Nothing is stored yet."""
        around = len(write_submission(structs.replace(empty, payload=_payload(framed, inline=""))))
        if choose(framed.index.stored, around, self._limits) is Form.INLINE:
            spool.seek(0)
            return _payload(framed, inline=base64.b64encode(spool.read()).decode()), Form.INLINE
        payload = _payload(framed, blob=payload_name(empty.job or "", framed.sha256), index=framed.index.sha256)
        fits = len(write_submission(structs.replace(empty, payload=payload))) <= self._limits.message_bytes
        return payload if fits else structs.replace(payload, frames=None), Form.BLOB

    def _store_beside(self, job: str, framed: Framed, spool: IO[bytes], *, has_index: bool) -> None:
        self._store.put(job, spool, framed.index.stored, framed.sha256)
        if has_index:
            self._store.put(job, io.BytesIO(text := framed.index.encode()), len(text), framed.index.sha256)

    def _drop(self, job: str, body: bytes) -> str:
        try:
            sent = self._queue.send_message(body.decode(), time_to_live=NEVER_EXPIRES)
        except AzureError as error:
            raise StorageUnavailableError(
                f"could not send the submission of job {job!r} to queue {self._queue.queue_name!r}: {error_code(error)}; "
                "send it again, under the same job id it counts once"
            ) from error
        return str(sent.id)


def _texts(options: SubmissionOptions) -> dict[str, Any]:
    """Return the options as a message has them, each checked as its reader will."""
    given: Mapping[str, Any] = {name: value for name, value in options.items() if value is not None}
    texts = {name: _moment(value) if isinstance(value, datetime) else value for name, value in given.items()}
    for option in OPTIONS:
        option.read(texts.get(option.name))
    return texts


def _moment(deadline: datetime) -> str:
    if deadline.tzinfo is None:
        raise ValueError(f"the deadline {deadline.isoformat()} has no time zone: give it one, as datetime.UTC")
    return deadline.astimezone(UTC).isoformat().replace("+00:00", "Z")


def _with(about: SubmissionFields, framed: Framed, payload: PayloadFields) -> SubmissionFields:
    sums = {name: format(amount, "f") for name, amount in framed.sums.items()}
    return structs.replace(about, declared=DeclaredFields(framed.index.items, sums), payload=payload)


def _payload(
    framed: Framed, *, blob: str | None = None, inline: str | None = None, index: str | None = None
) -> PayloadFields:
    return PayloadFields(blob=blob, inline=inline, codec=framed.codec, index=index, frames=framed.index.frames)


_ENCODER: Final = msgspec.json.Encoder()
_HEAD: Final = 4


def read_file(file: IO[bytes], limits: Limits | None = None) -> Iterator[tuple[int, bytes]]:
    """Yield the numbered lines of a file of newline-delimited JSON: plain, gzip or zstd, recognised by its first bytes."""
    bounds = limits or Limits()
    head = file.read(_HEAD)
    yield from split_lines(expand_file(_pieces(head, file, bounds.spool_in_memory), sniff(head), bounds), bounds)


def encode_all(transactions: Iterable[Any]) -> Iterator[tuple[int, bytes]]:
    """Yield the numbered lines of objects: dictionaries, msgspec structs, dataclasses, or bytes that are lines already."""
    for number, transaction in enumerate(transactions, 1):
        yield number, _encode(number, transaction)


def _encode(number: int, transaction: Any) -> bytes:
    if isinstance(transaction, bytes):
        return transaction.replace(b"\n", b" ")
    try:
        line = _ENCODER.encode(transaction)
    except (TypeError, ValueError, RecursionError) as error:
        raise refuse(Reason.NOT_JSON, f"transaction {number}: {error}") from error
    # The encoder writes NaN as null, which would change an amount silently.
    if b"null" in line and _has_nan(msgspec.to_builtins(transaction)):
        raise refuse(Reason.NOT_A_NUMBER, f"transaction {number} holds NaN or Infinity")
    return line


def _has_nan(value: Any) -> bool:
    if isinstance(value, dict):
        return any(map(_has_nan, value.values()))
    if isinstance(value, list | tuple):
        return any(map(_has_nan, value))
    return isinstance(value, float) and not float("-inf") < value < float("inf")


def _pieces(head: bytes, file: IO[bytes], size: int) -> Iterator[bytes]:
    yield head
    while piece := file.read(size):
        yield piece
