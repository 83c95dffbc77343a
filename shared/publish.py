"""Publishes submissions: frames while it reads, then sends one message, with the payload in it or beside it.

Sources of transactions: a file of lines from any tool, or objects of the publisher's own program.
"""

import base64
import io
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import PurePath
from types import MappingProxyType
from typing import IO, Any, Final, Self, TypeAlias, Unpack

import msgspec
from azure.core.exceptions import AzureError
from azure.storage.blob import ContainerClient
from azure.storage.queue import QueueClient
from msgspec import structs

from shared.azure import NEVER_EXPIRES, Connections, error_code
from shared.clock import Closing
from shared.errors import SettingsError, StorageUnavailableError
from shared.grammar import check_job, payload_name
from shared.payload import (
    OPTIONS,
    WHOLE,
    Codec,
    CsvForm,
    Cutter,
    Declared,
    DeclaredFields,
    Form,
    Framed,
    Framing,
    Limits,
    PayloadFields,
    PayloadStore,
    StretchStore,
    SubmissionFields,
    SubmissionOptions,
    Table,
    check_count,
    check_room,
    choose,
    convert_csv,
    cut_lines,
    expand_file,
    make_cutter,
    open_envelope,
    read_declared,
    read_submission,
    sniff,
    split_lines,
    spool_for,
    write_submission,
    write_texts,
)
from shared.publish_stretches import OpenJob, StretchCut, StretchSender, send_cut
from shared.refusals import Reason, refuse
from shared.signals import GatheredHints, HttpHints
from shared.telemetry import SILENT, Piece, Telemetry
from shared.topology import payload_container, submission_queue

__all__ = ["Publisher", "Sent", "read_csv", "read_file", "read_parquet"]

#: Lines that are read strictly before anything is sent, unless the whole payload is checked. A file of another kind, or in
#: another encoding, shows itself there. The workers read every line.
CHECKED_FIRST: Final = 10_000
#: In a declaration, the number of transactions. All others are sums.
ITEMS: Final = "items"
NOTHING: Final[Mapping[str, Decimal | int | str]] = MappingProxyType({})
NOTHING_ADDED: Final[Mapping[str, Decimal]] = MappingProxyType({})


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
    #: How many of the transactions were read strictly, from the first on.
    checked: int
    #: Whether a hint was sent or is about to be, so that the app looks at once. Else its next poll finds the submission.
    is_hinted: bool = False
    #: The stretches in which they were sent, and how many of these were there before. 0: they went whole.
    stretches: int = 0
    found: int = 0


#: Cuts a payload into the texts of its frames.
_Source: TypeAlias = Callable[[Cutter], Iterable[tuple[bytes, int]]]


@dataclass(frozen=True, slots=True)
class _Claims:
    """The claims about a payload, and how much of it is read before it is sent."""

    #: The fields to add up, for which every line is read.
    sums: tuple[str, ...]
    #: The totals that another system knows, for which none is read. `items` is the number of transactions.
    declare: Mapping[str, Decimal | int | str]
    check: bool

    @property
    def reads_all(self) -> bool:
        """Whether every line is read strictly before anything is sent."""
        return bool(self.check or self.sums)

    @property
    def checked(self) -> int:
        return sys.maxsize if self.reads_all else CHECKED_FIRST

    def validate(self) -> None:
        """Refuse claims that contradict each other, or that no submission may have, before anything is read."""
        if twice := sorted(set(self.sums) & set(self.declare)):
            raise ValueError(f"the sum of {twice[0]} is declared and is to be added up: leave one of the two out")
        self._read()

    @property
    def declared(self) -> Declared:
        """The totals that another system knows."""
        return self._read()

    def declare_for(self, framed: Framed) -> Declared:
        """Return the declaration, or refuse a payload whose number of transactions is another one."""
        declared = self._read()
        check_count(declared, framed.index)
        return Declared(framed.index.items, {**declared.sums, **framed.sums})

    def _read(self) -> Declared:
        items, sums = (
            self.declare.get(ITEMS),
            {name: _spell(one) for name, one in self.declare.items() if name != ITEMS},
        )
        if items is not None and not str(items).isdecimal():
            raise ValueError(f"{items!r} transactions are declared: give a whole number")
        return read_declared(DeclaredFields(None if items is None else int(items), sums))


def _spell(amount: Decimal | int | str) -> str:
    return format(amount, "f") if isinstance(amount, Decimal) else str(amount)


class Publisher(Closing):
    """Drops submissions into a queue, their payloads into a container when they do not fit a message.

    Sending the same transactions under the same job id again is harmless, and is what to do after an error. After each
    drop a hint makes the app look at once, if there is a bus; one is enough for many drops in a second. Close the
    publisher when done: it keeps that connection.
    """

    def __init__(  # noqa: PLR0913 - each is one part of a publisher
        self,
        queue: QueueClient,
        payloads: ContainerClient,
        *,
        codec: Codec = Codec.ZSTD,
        limits: Limits | None = None,
        telemetry: Telemetry = SILENT,
        hints: GatheredHints | None = None,
    ) -> None:
        self._queue, self._codec, self._limits, self._telemetry = queue, codec, limits or Limits(), telemetry
        self._hints = hints
        #: Gets each message before anything is stored. What it raises stops that submission.
        self.before_send: Callable[[bytes], object] = lambda _body: None
        #: Learns of each stretch of a payload that does not go whole: how many there are, and whether this one was there.
        self.on_stretch: Callable[[int, bool], object] = lambda _number, _is_found: None
        self._store = PayloadStore(payloads, self._limits)
        self._stretches = StretchStore(payloads, self._limits)

    @classmethod
    def connect(cls, connections: Connections, room: str = "", *, hints: bool = True) -> Self:
        """Build the publisher of a room. With `hints=False`, or without a bus, the app finds each drop at its next poll."""
        has_hints = hints and connections.has_bus
        return cls(
            connections.queues.get_queue_client(submission_queue(room)),
            connections.blobs.get_container_client(payload_container(room)),
            telemetry=connections.telemetry,
            hints=GatheredHints(HttpHints(connections, submission_queue(room))) if has_hints else None,
        )

    def close(self) -> None:
        """Close the connection that hints go over."""
        if self._hints is not None:
            self._hints.close()

    def submit(
        self,
        *,
        job: str,
        transactions: Iterable[Any],
        sums: Iterable[str] = (),
        declare: Mapping[str, Decimal | int | str] = NOTHING,
        check: bool = False,
        **options: Unpack[SubmissionOptions],
    ) -> Sent:
        """Send the transactions as one job, and their number and the exact sums of the named fields with them."""
        lines = encode_all(transactions)
        return self.submit_lines(job=job, lines=lines, sums=sums, declare=declare, check=check, **options)

    def submit_lines(
        self,
        *,
        job: str,
        lines: Iterable[tuple[int, bytes]],
        sums: Iterable[str] = (),
        declare: Mapping[str, Decimal | int | str] = NOTHING,
        check: bool = False,
        **options: Unpack[SubmissionOptions],
    ) -> Sent:
        """Send numbered lines of JSON as one job. Refuse an unreadable line among the first by its number."""
        return self._submit(job, lambda one: one.cut_lines(lines), _Claims(tuple(sums), declare, check), options)

    def submit_file(
        self,
        *,
        job: str,
        file: IO[bytes],
        sums: Iterable[str] = (),
        declare: Mapping[str, Decimal | int | str] = NOTHING,
        check: bool = False,
        **options: Unpack[SubmissionOptions],
    ) -> Sent:
        """Send a file of lines as one job: plain, gzip or zstd. Refuse an unreadable line among the first by its number."""
        pieces = _expand(file, self._limits.of_stretches())
        return self._submit(job, lambda one: one.cut_file(pieces), _Claims(tuple(sums), declare, check), options)

    def submit_jobs(
        self,
        *,
        job: str,
        jobs: Sequence[str],
        sums: Mapping[str, str] = MappingProxyType({}),
        files: str | None = None,
        **options: Unpack[SubmissionOptions],
    ) -> Sent:
        """Send a job whose transactions are the output lines of other jobs, in this order.

        It starts when all are complete. Their number is declared for it, and each sum as what the jobs accepted:
        `{"quantity": "amount"}` is the sum of its `quantity` by that of their `amount`. `files`: `output` or `lines`.
        """
        about = SubmissionFields(job=check_job(job), **_texts(options))
        payload = PayloadFields(jobs=tuple(jobs), sums=dict(sums) or None, files=files)
        body = write_submission(structs.replace(about, trace=self._telemetry.current(), payload=payload))
        # As its reader will: what is refused is not sent.
        read_submission(open_envelope(body, self._limits), job, self._limits)
        self.before_send(body)
        message_id, is_hinted = self._drop(job, body)
        return Sent(
            job=job,
            form=Form.JOBS,
            items=0,
            sums=NOTHING_ADDED,
            frames=0,
            stored_bytes=0,
            message_bytes=len(body),
            message_id=message_id,
            blob=None,
            checked=0,
            is_hinted=is_hinted,
        )

    def open(
        self,
        *,
        job: str,
        declare: Mapping[str, Decimal | int | str] = NOTHING,
        **options: Unpack[SubmissionOptions],
    ) -> OpenJob:
        """Open a job for transactions that come slowly. It goes in stretches, and ends with its `with` block."""
        claims = _Claims((), declare, check=False)
        claims.validate()
        about = SubmissionFields(job=check_job(job), **_texts(options), trace=self._telemetry.current())
        framing = Framing(limits=self._limits, codec=self._codec, checked=claims.checked)
        return OpenJob(self._begin(about, claims), framing, claims.declared.items, encode_all)

    def _begin(self, about: SubmissionFields, claims: "_Claims") -> StretchSender:
        """Return the sender of a job's stretches. Nothing is stored yet."""
        job = about.job or ""
        payload = PayloadFields(stretches=True)
        body = write_submission(structs.replace(about, declared=_as_text(claims.declared), payload=payload))
        self.before_send(body)
        stores = self._store, self._stretches
        return StretchSender(job, *stores, self._limits, body, lambda one: self._drop(job, one), self.on_stretch)

    def _submit(self, job: str, source: "_Source", claims: "_Claims", options: SubmissionOptions) -> Sent:
        about = SubmissionFields(job=check_job(job), **_texts(options))
        claims.validate()
        with self._telemetry.span(Piece.PUBLISH, job=job, workload=about.workload, gate=about.gate):
            return self._send(structs.replace(about, trace=self._telemetry.current()), source, claims)

    def _send(self, about: SubmissionFields, source: "_Source", claims: "_Claims") -> Sent:
        wide = self._limits.of_stretches()
        framing = Framing(limits=wide, codec=self._codec, sums=claims.sums, checked=claims.checked)
        cutter = make_cutter(framing)
        cut = StretchCut(source(cutter), self._limits)
        with spool_for(self._limits) as spool:
            # What is to be checked whole is read to its end before anything is sent.
            # One that waits for others comes whole.
            whole = sys.maxsize if about.after else WHOLE
            framed = write_texts(cut.take(sys.maxsize if claims.reads_all else whole), spool, framing, cutter.check)
            if cut.is_over and len(cut.frames) <= whole and framed.index.items <= self._limits.items_most:
                return self._send_whole(about, claims, framed, spool)
            if about.after:
                found = f"it waits for other jobs and has {framed.index.items} transactions"
                raise refuse(Reason.TOO_MANY_ITEMS, f"{found}, the limit is {self._limits.items_most}")
            if claims.reads_all:
                check_count(claims.declared, framed.index)
            sender = self._begin(about, claims)
            send_cut(sender, framed, spool, cut.frames)
        while not cut.is_over:
            with spool_for(self._limits) as spool:
                framed = write_texts(cut.take(1, is_hashed=True), spool, framing, cutter.check)
                sender.send(framed, spool, cut.digest.hexdigest())
        sums, declared = dict(cutter.check.totals), claims.declared
        sender.end(sums, declared.items)
        return Sent(
            job=sender.job,
            form=Form.STRETCHES,
            items=sender.items,
            sums={**declared.sums, **sums},
            frames=sender.frames,
            stored_bytes=sender.stored,
            message_bytes=len(sender.body),
            message_id=sender.sent[0],
            blob=None,
            checked=cutter.check.items,
            is_hinted=sender.sent[1],
            stretches=sender.number,
            found=sender.found,
        )

    def _send_whole(self, about: SubmissionFields, claims: "_Claims", framed: Framed, spool: IO[bytes]) -> Sent:
        job = about.job or ""
        check_room(len(framed.index.frames), framed.index.items, framed.index.stored, self._limits)
        declared = claims.declare_for(framed)
        about = structs.replace(about, declared=_as_text(declared))
        payload, form = self._place(about, framed, spool)
        body = write_submission(structs.replace(about, payload=payload))
        self.before_send(body)
        if form is Form.BLOB:
            self._store_beside(job, framed, spool, has_index=payload.frames is None)
        message_id, is_hinted = self._drop(job, body)
        return Sent(
            job=job,
            form=form,
            items=framed.index.items,
            sums=declared.sums,
            frames=len(framed.index.frames),
            stored_bytes=framed.index.stored,
            message_bytes=len(body),
            message_id=message_id,
            blob=payload.blob,
            checked=framed.checked,
            is_hinted=is_hinted,
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

    def _drop(self, job: str, body: bytes) -> tuple[str, bool]:
        """Send the message. Return its id, and whether a hint was sent."""
        try:
            sent = self._queue.send_message(body.decode(), time_to_live=NEVER_EXPIRES)
        except AzureError as error:
            raise StorageUnavailableError(
                f"could not send the submission of job {job!r} to queue {self._queue.queue_name!r}: {error_code(error)}; "
                "send it again, under the same job id it counts once"
            ) from error
        return str(sent.id), self._hints is not None and self._hints()


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


def _as_text(declared: Declared) -> DeclaredFields:
    return DeclaredFields(declared.items, {name: format(amount, "f") for name, amount in declared.sums.items()})


def _payload(
    framed: Framed, *, blob: str | None = None, inline: str | None = None, index: str | None = None
) -> PayloadFields:
    return PayloadFields(blob=blob, inline=inline, codec=framed.codec, index=index, frames=framed.index.frames)


_ENCODER: Final = msgspec.json.Encoder()
_HEAD: Final = 4


def read_file(file: IO[bytes], limits: Limits | None = None) -> Iterator[tuple[int, bytes]]:
    """Yield the numbered lines of a file of newline-delimited JSON: plain, gzip or zstd, recognised by its first bytes."""
    bounds = limits or Limits()
    yield from split_lines(_expand(file, bounds), bounds)


def read_csv(
    file: IO[bytes],
    *,
    delimiter: str = ",",
    columns: Sequence[str] | None = None,
    numbers: Sequence[str] = (),
    limits: Limits | None = None,
) -> Iterator[tuple[int, bytes]]:
    """Yield the rows of a file of CSV as numbered lines: plain, gzip or zstd. Without `columns` it has a header.

    Every value is text but those of the columns `numbers`, and an empty one is left out. A fault ends it with its line.
    """
    form = CsvForm(delimiter=delimiter, columns=None if columns is None else tuple(columns), numbers=tuple(numbers))
    bounds = limits or Limits()
    return convert_csv(cut_lines(_expand(file, bounds), bounds), form, Table(_name_of(file)), bounds)


def read_parquet(file: IO[bytes], limits: Limits | None = None) -> Iterator[tuple[int, bytes]]:
    """Yield the rows of a Parquet file as numbered lines. It needs the extra `parquet`."""
    try:
        from shared.payload import parquet_rows  # noqa: PLC0415 - it loads pyarrow, which few publishers have
    except ModuleNotFoundError as error:
        if error.name != "pyarrow":
            raise
        raise SettingsError(
            "Parquet is read by pyarrow, which is not installed here: the extra `parquet` brings it (docs/formats.md)"
        ) from error
    return parquet_rows.convert(file, Table(_name_of(file)), limits or Limits())


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


def _expand(file: IO[bytes], bounds: Limits) -> Iterator[bytes]:
    head = file.read(_HEAD)
    return expand_file(_pieces(head, file, bounds.spool_in_memory), sniff(head), bounds)


def _name_of(file: IO[bytes]) -> str:
    """Return what a fault calls the file: the end of its path, or nothing."""
    return PurePath(str(getattr(file, "name", ""))).name


def _pieces(head: bytes, file: IO[bytes], size: int) -> Iterator[bytes]:
    yield head
    while piece := file.read(size):
        yield piece
