"""A submission: the message of a publisher, checked field by field, with its payload in one of five forms.

`OPTIONS` is the one list of its options: the publisher's library, `sluice submit` and docs/formats.md use it.

The wrapper of every queue message: {"sluice": {"v": 1, "kind": ..., ...}}, read strictly, written compactly.

One wrapper key, because the Functions host copies the top-level properties of a JSON body over the trigger's metadata.

A payload has one of five forms: items, stored bytes, a blob with an index, any file, or the output of other jobs. `choose`
says whether it fits into its message.
"""

import base64
import binascii
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from decimal import Decimal
from enum import StrEnum
from functools import partial
from pathlib import PurePosixPath
from typing import Any, Final, Generic, NamedTuple, TypeAlias, TypedDict, TypeVar

import msgspec

from shared.errors import RefusedError
from shared.grammar import SHA256, check_blob, check_bound, check_job, check_name, is_job, read_sum, room_of
from shared.messages import Delivery, unwrap
from shared.payload.frames import Codec, Frame, FrameIndex, check_index
from shared.payload.payload_store import Limits
from shared.payload.transactions import read_json
from shared.refusals import Reason, refuse
from shared.telemetry import context_of
from shared.versions import LOOKS, check_public_message, decode

VERSION: Final = 1
WRAPPER: Final = "sluice"
SUBMISSION: Final = "submission"
#: The depth at which a transaction in `items` begins. Below it, the same depth is allowed as in a payload.
AROUND_AN_ITEM: Final = 3
#: Jobs that one waits for. Their names are in its row.
MOST_PREDECESSORS: Final = 100


class MessageHeader(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True, omit_defaults=True):
    """The fields of every kind of message. Each kind adds its own."""

    v: int = VERSION
    kind: str = SUBMISSION


M = TypeVar("M", bound=MessageHeader)
T = TypeVar("T")


class _Wrapped(msgspec.Struct, Generic[M], frozen=True, forbid_unknown_fields=True):
    sluice: M


@dataclass(frozen=True, slots=True)
class Envelope:
    """A message of a known version. Its kind is not checked yet."""

    kind: str
    body: bytes

    def read(self, kind: type[M]) -> M:
        """Return the message with the fields of a kind, or refuse it, naming the wrong field."""
        wrapped: _Wrapped[M] = _decode(self.body, _Wrapped[kind])  # type: ignore[valid-type]  # msgspec takes the class as an argument, typing wants it named
        return wrapped.sluice


def open_envelope(body: bytes | str, limits: Limits) -> Envelope:
    """Return the kind and the JSON of a message: plain, or Base64 as portals and .NET bindings send it."""
    text = body.encode("utf-8", "surrogatepass") if isinstance(body, str) else body
    if len(text) > limits.message_bytes:
        raise refuse(Reason.MESSAGE_TOO_LARGE, f"it has {len(text)} bytes, the limit is {limits.message_bytes}")
    text = unwrap(text)
    wrapped = _wrap(read_json(text, limits.depth + AROUND_AN_ITEM))
    _check_version(wrapped.get("v", VERSION))
    kind = wrapped.get("kind", SUBMISSION)
    if not isinstance(kind, str):
        raise refuse(Reason.WRONG_TYPE, "kind is not a string")
    return Envelope(kind, text)


def wait_for_newer(delivery: Delivery, refusal: RefusedError) -> None:
    """Raise NewerVersionError if the message is refused for its higher version, as long as a newer instance may come."""
    if refusal.reason != Reason.UNSUPPORTED_VERSION or delivery.count >= LOOKS:
        return
    check_public_message(unwrap(delivery.body), f"a message on {delivery.queue}")


def read_bare(body: bytes, kind: type[T], limits: Limits) -> T:
    """Return the fields of a request, which has no envelope, or refuse it as strictly as a message."""
    if len(body) > limits.message_bytes:
        raise refuse(Reason.MESSAGE_TOO_LARGE, f"it has {len(body)} bytes, the limit is {limits.message_bytes}")
    read_json(body, limits.depth)
    return _decode(body, kind)


def seal(message: MessageHeader, kind: str) -> bytes:
    """Return the body of a message, with its version and kind."""
    fields: dict[str, Any] = {"v": VERSION, "kind": kind}
    for name in message.__struct_fields__:
        value = getattr(message, name)
        if name not in fields and value not in (None, {}):
            fields[name] = value
    return msgspec.json.encode({WRAPPER: fields})


def _decode(body: bytes, kind: type[T]) -> T:
    """Return the value of a body that was read strictly before, or refuse it, naming the wrong field."""
    try:
        return decode(body, kind)
    except msgspec.ValidationError as error:
        raise refuse(_reason(str(error)), str(error)) from error
    except (ValueError, RecursionError) as error:
        raise refuse(Reason.NOT_JSON, str(error)) from error


def _wrap(document: Any) -> dict[str, Any]:
    if not isinstance(document, dict) or not isinstance(wrapped := document.get(WRAPPER), dict):
        raise refuse(Reason.NO_ENVELOPE, f"the top level is {type(document).__name__}")
    return wrapped


def _check_version(version: object) -> None:
    if isinstance(version, bool) or not isinstance(version, int):
        raise refuse(Reason.WRONG_TYPE, "v is not a whole number")
    if version != VERSION:
        raise refuse(Reason.UNSUPPORTED_VERSION, f"v is {str(version)[:20]}, this program knows {VERSION}")


def _reason(message: str) -> Reason:
    """Return the reason for a message of the decoder, whose wording a test holds."""
    if message.startswith("Object contains unknown field"):
        return Reason.UNKNOWN_FIELD
    if message.startswith("Object missing required field"):
        return Reason.MISSING_FIELD
    return Reason.WRONG_TYPE


class Form(StrEnum):
    """How a publisher's payload travels: in the message, as a blob, or in stretches."""

    INLINE = "inline"
    BLOB = "blob"
    #: Other jobs make it.
    JOBS = "jobs"
    STRETCHES = "stretches"


def base64_bytes(stored: int) -> int:
    """Return the length of so many bytes as Base64."""
    return -(-stored // 3) * 4


def choose(stored: int, around: int, limits: Limits) -> Form:
    """Return the form of so many stored bytes, whose message has `around` bytes without them."""
    return Form.INLINE if around + base64_bytes(stored) <= limits.message_bytes else Form.BLOB


class PayloadFields(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """The fields that say where the transactions are."""

    blob: str | None = None
    inline: str | None = None
    codec: str | None = None
    index: str | None = None
    frames: tuple[Frame, ...] | None = None
    #: The jobs whose output lines are the transactions, the sums that these accepted, and which files of them.
    jobs: tuple[str, ...] | None = None
    sums: dict[str, str] | None = None
    files: str | None = None
    #: They come in stretches, each a blob of its own.
    stretches: bool = False


@dataclass(frozen=True, slots=True)
class Items:
    """Transactions in the message itself, one line each."""

    lines: tuple[bytes, ...]


@dataclass(frozen=True, slots=True)
class Inline:
    """Stored bytes in the message itself. Without an index they are a small file."""

    stored: bytes
    codec: Codec | None
    index: FrameIndex | None


@dataclass(frozen=True, slots=True)
class FramedBlob:
    """A blob with an index. An index that is not in the message is a blob of its own."""

    name: str
    codec: Codec
    index_sha256: str
    index: FrameIndex | None


@dataclass(frozen=True, slots=True)
class FileBlob:
    """A blob that any tool wrote: lines of JSON, compressed or not."""

    name: str
    codec: Codec | None


class SourceFiles(StrEnum):
    """The files of a source whose lines are taken."""

    OUTPUT = "output"
    LINES = "lines"


@dataclass(frozen=True, slots=True)
class FromJobs:
    """The output lines of other jobs, in this order."""

    jobs: tuple[str, ...]
    #: The declared sum of this name is what the sources accepted of the other.
    sums: Mapping[str, str]
    #: None: `lines` where a source has them, else `output`.
    files: SourceFiles | None = None


@dataclass(frozen=True, slots=True)
class Stretched:
    """Stretches of a payload that grows: the first is there, and others may come."""


Content: TypeAlias = Items | Inline | FramedBlob | FileBlob | FromJobs | Stretched


#: The workload of a submission that names none.
DEFAULT_WORKLOAD: Final = "billing"
_MOMENT: Final = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d(?::\d\d(?:\.\d{1,6})?)?(?:Z|[+-]\d\d:\d\d)", re.ASCII)
_SUFFIXES: Final = {".gz": Codec.GZIP, ".zst": Codec.ZSTD, ".zstd": Codec.ZSTD}


class DeclaredFields(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """The publisher's own count and sums, as text."""

    items: int | None = None
    sums: dict[str, str] = {}


class SubmissionFields(MessageHeader, frozen=True):
    """The fields of the message, as written."""

    job: str | None = None
    workload: str = DEFAULT_WORKLOAD
    gate: str | None = None
    deadline: str | None = None
    most_rejected: str | None = None
    #: A W3C trace context, for a publisher that traces.
    trace: str | None = None
    after: tuple[str, ...] | None = None
    after_parked: bool | None = None
    night: str | None = None
    declared: DeclaredFields = DeclaredFields()
    payload: PayloadFields | None = None
    items: tuple[msgspec.Raw, ...] | None = None


class SubmissionOptions(TypedDict, total=False):
    """Options of the publisher's library, each a field of the submission."""

    workload: str
    gate: str | None
    deadline: datetime | None
    most_rejected: str | None
    after: Sequence[str] | None
    after_parked: bool | None
    night: str | None


@dataclass(frozen=True, slots=True)
class Declared:
    """The publisher's own count of transactions, and exact sums over their fields."""

    items: int | None = None
    sums: Mapping[str, Decimal] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Submission:
    """A submission with every field validated. The payload is not read yet."""

    job: str
    workload: str
    #: The gate to wait for. None: it starts at once.
    gate: str | None
    declared: Declared
    content: Content
    #: When it should be finished. Two submissions that differ only in it are the same: the first deadline stays.
    deadline: datetime | None = None
    #: How many of its transactions may be rejected: a number, or a share of those that were checked.
    most_rejected: str | None = None
    #: The trace context of the publisher. Two submissions that differ only in it are the same too.
    trace: str | None = None
    #: The jobs of its room that must be complete before it starts, beside those that it is made from.
    after: tuple[str, ...] | None = None
    #: Whether one that has parked transactions counts as complete.
    after_parked: bool | None = None
    #: The name that it shares with others in lists and bills. Two submissions that differ only in it are the same too.
    night: str | None = None

    @property
    def waits(self) -> tuple[str, ...]:
        """Return all jobs that must end before it starts, those that it is made from first."""
        sources = self.content.jobs if isinstance(self.content, FromJobs) else ()
        return tuple(dict.fromkeys((*sources, *(self.after or ()))))


def read_submission(envelope: Envelope, message_id: str, limits: Limits) -> Submission:
    """Return the submission. Without a job id, it takes the id of its message."""
    if envelope.kind != SUBMISSION:
        raise refuse(Reason.UNKNOWN_KIND, f"its kind is {envelope.kind[:50]!r}")
    fields = envelope.read(SubmissionFields)
    job = check_job(fields.job if fields.job is not None else message_id.lower())
    options = {option.name: option.read(getattr(fields, option.name)) for option in OPTIONS}
    content = _content(fields.payload, fields.items, job, limits)
    declared = read_declared(fields.declared)
    submission = Submission(job=job, declared=declared, content=content, **options)
    _check_waits(submission)
    return submission


def write_submission(submission: SubmissionFields) -> bytes:
    """Return the body of the message."""
    return seal(submission, SUBMISSION)


def read_declared(fields: DeclaredFields) -> Declared:
    """Return the declaration of a message, or refuse a sum that is no amount."""
    return Declared(fields.items, {name: _sum(name, text) for name, text in fields.sums.items()})


def check_count(declared: Declared, index: FrameIndex) -> None:
    """Refuse a payload whose number of transactions is not the declared one."""
    if declared.items is not None and declared.items != index.items:
        raise refuse(Reason.COUNT_MISMATCH, f"{declared.items} transactions are declared, its index has {index.items}")


def _content(given: PayloadFields | None, items: tuple[msgspec.Raw, ...] | None, job: str, limits: Limits) -> Content:
    payload = given or PayloadFields()
    forms = (items, payload.inline, payload.blob, payload.jobs, payload.stretches or None)
    if (number := sum(form is not None for form in forms)) != 1:
        names = "items, payload.inline, payload.blob, payload.jobs and payload.stretches"
        raise refuse(Reason.PAYLOAD_FORM, f"it has {number} of {names}")
    if payload.stretches:
        return _check_stretched(payload)
    if items is not None:
        return _items(items, is_alone=given is None)
    if payload.jobs is not None:
        return _from_jobs(payload, payload.jobs)
    if payload.sums is not None or payload.files is not None:
        raise refuse(Reason.PAYLOAD_FORM, "payload.sums and payload.files go with payload.jobs alone")
    codec = None if payload.codec is None else _codec(payload.codec)
    if payload.inline is not None:
        return _inline(payload.inline, payload, codec, limits)
    return _blob(check_blob(payload.blob or ""), payload, codec, job, limits)


def _check_stretched(payload: PayloadFields) -> Stretched:
    if payload != PayloadFields(stretches=True):
        raise refuse(Reason.PAYLOAD_FORM, "beside payload.stretches it has other fields of a payload")
    return Stretched()


def _items(items: tuple[msgspec.Raw, ...], *, is_alone: bool) -> Items:
    if not is_alone:
        raise refuse(Reason.PAYLOAD_FORM, "it has items and a payload")
    if not items:
        raise refuse(Reason.EMPTY, "items is an empty list")
    # In valid JSON a line feed never stands inside a string, so a space means the same.
    return Items(tuple(bytes(item).replace(b"\n", b" ").replace(b"\r", b" ") for item in items))


def _from_jobs(payload: PayloadFields, jobs: tuple[str, ...]) -> FromJobs:
    if any((payload.codec, payload.index, payload.frames)):
        raise refuse(Reason.PAYLOAD_FORM, "payload.jobs has a codec or an index")
    try:
        files = None if payload.files is None else SourceFiles(payload.files)
    except ValueError as error:
        raise refuse(Reason.WRONG_TYPE, f"payload.files is {payload.files!r:.50}, expected output or lines") from error
    sums = {check_name("sum", own): check_name("sum", theirs) for own, theirs in (payload.sums or {}).items()}
    return FromJobs(_check_jobs("payload.jobs", jobs), sums, files)


def _check_jobs(where: str, jobs: Sequence[str]) -> tuple[str, ...]:
    for job in jobs:
        if is_job(job) and room_of(job):
            raise refuse(Reason.BAD_AFTER, f"{where} names {job!r}: a job can follow jobs of its own room only")
    if not 1 <= len(jobs) <= MOST_PREDECESSORS:
        raise refuse(Reason.BAD_AFTER, f"{where} names {len(jobs)} jobs, the limit is {MOST_PREDECESSORS}")
    if len(set(jobs)) < len(jobs):
        raise refuse(Reason.BAD_AFTER, f"{where} names a job twice")
    return tuple(check_job(job) for job in jobs)


def _check_waits(submission: Submission) -> None:
    waits = submission.waits
    if submission.job in waits:
        raise refuse(Reason.BAD_AFTER, f"it waits for itself: {submission.job}, {submission.job}")
    if len(waits) > MOST_PREDECESSORS:
        raise refuse(Reason.BAD_AFTER, f"it waits for {len(waits)} jobs, the limit is {MOST_PREDECESSORS}")
    if submission.after_parked is not None and not waits:
        raise refuse(Reason.BAD_AFTER, "after_parked is there, and no job to wait for")
    if waits and isinstance(submission.content, Stretched):
        # It would start by its first stretch alone, or never see the others.
        raise refuse(Reason.BAD_AFTER, "its payload comes in stretches, and what waits for other jobs comes whole")


def _inline(text: str, payload: PayloadFields, codec: Codec | None, limits: Limits) -> Inline:
    try:
        stored = base64.b64decode(text.encode(), validate=True)
    except (binascii.Error, ValueError) as error:
        raise refuse(Reason.BAD_BASE64, str(error)) from error
    if len(text) != base64_bytes(len(stored)):
        raise refuse(Reason.BAD_BASE64, "it has more padding than its bytes need")
    if not stored:
        raise refuse(Reason.EMPTY, "the inline payload has no bytes")
    index = _index(payload, codec, limits)
    if index is None:
        if payload.index is not None:
            raise refuse(Reason.MISSING_FIELD, "an inline payload has payload.index but no payload.frames")
        return Inline(stored, codec, None)
    if len(stored) != index.stored:
        raise refuse(Reason.LENGTH_MISMATCH, f"{len(stored)} bytes are inline, its index says {index.stored}")
    return Inline(stored, codec or Codec.ZSTD, index)


def _blob(name: str, payload: PayloadFields, codec: Codec | None, job: str, limits: Limits) -> FramedBlob | FileBlob:
    index = _index(payload, codec, limits)
    if index is None and payload.index is None:
        return FileBlob(name, codec or _SUFFIXES.get(PurePosixPath(name).suffix))
    if not name.startswith(f"{job}/"):
        raise refuse(Reason.OTHERS_FOLDER, f"the blob is {name!r}, the job is {job!r}")
    sha256 = payload.index or (index.sha256 if index else "")
    if not SHA256.fullmatch(sha256):
        raise refuse(Reason.WRONG_TYPE, f"payload.index is {sha256[:70]!r}, expected 64 of 0-9 a-f")
    return FramedBlob(name, codec or Codec.ZSTD, sha256, index)


def _index(payload: PayloadFields, codec: Codec | None, limits: Limits) -> FrameIndex | None:
    if payload.frames is None:
        return None
    index = check_index(payload.frames, codec or Codec.ZSTD, limits)
    if payload.index is not None and payload.index != index.sha256:
        raise refuse(
            Reason.INDEX_MISMATCH, f"payload.index is {payload.index[:70]!r}, its frames have {index.sha256!r}"
        )
    return index


def _codec(name: str) -> Codec:
    try:
        return Codec(name)
    except ValueError as error:
        raise refuse(Reason.UNKNOWN_CODEC, f"the codec is {name[:50]!r}") from error


def _deadline(text: str) -> datetime:
    try:
        if _MOMENT.fullmatch(text):
            return datetime.fromisoformat(text).astimezone(UTC)
    except (ValueError, OverflowError) as error:
        raise refuse(Reason.BAD_DEADLINE, f"the deadline is {text!r}: {error}") from error
    raise refuse(Reason.BAD_DEADLINE, f"the deadline is {text[:50]!r}")


def _check_bound(text: str) -> str:
    try:
        return check_bound(text)
    except ValueError as error:
        raise refuse(Reason.BAD_BOUND, f"most_rejected: {error}") from error


def _sum(name: str, text: str) -> Decimal:
    try:
        return read_sum(text)
    except ValueError as error:
        raise refuse(Reason.BAD_SUM, f"the sum of {name[:50]!r}: {error}") from error


class SubmissionOption(NamedTuple):
    """One option: its field, its check and its help."""

    name: str
    #: Returns the value of a message's field, or refuses it.
    check: Callable[[Any], Any]
    help: str

    def read(self, said: Any) -> Any:
        """Return the value, or None if the message has none."""
        return None if said is None else self.check(said)


OPTIONS: Final = (
    SubmissionOption(
        "workload", partial(check_name, "workload"), "the workload that does the work; the default is `billing`"
    ),
    SubmissionOption("gate", partial(check_name, "gate"), "the gate to wait for; without it the job starts at once"),
    SubmissionOption(
        "deadline",
        _deadline,
        "when the job should be finished, a time with its zone like `2026-11-21T06:00:00Z`; it warns, and stops nothing",
    ),
    SubmissionOption(
        "most_rejected",
        _check_bound,
        "how many transactions may be rejected before the job pauses, `1000` or `2.5%` of those that were checked; "
        "the default is half of at least 10,000",
    ),
    SubmissionOption(
        "after",
        partial(_check_jobs, "after"),
        "1 to 100 jobs of its room that must be complete before it starts; they may be dropped later",
    ),
    SubmissionOption(
        "after_parked",
        bool,
        "`true`: a job that it waits for may have parked transactions",
    ),
    SubmissionOption(
        "night",
        partial(check_name, "night"),
        "a name that it shares with other jobs in `sluice nights`; it holds nothing up",
    ),
    SubmissionOption(
        "trace",
        context_of,
        "a W3C trace context (`traceparent`), for a publisher that traces; any other text is ignored",
    ),
)
