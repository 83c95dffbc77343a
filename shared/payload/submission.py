"""A submission: the message of a publisher, checked field by field, with its payload in one of four forms.

`OPTIONS` is the one list of its options: the publisher's library, `sluice submit` and docs/formats.md use it.
"""

import base64
import binascii
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from decimal import Decimal
from functools import partial
from pathlib import PurePosixPath
from typing import Any, Final, NamedTuple, TypedDict

import msgspec

from shared.grammar import SHA256, check_blob, check_job, check_name, read_sum
from shared.payload.compression import Codec
from shared.payload.envelope import (
    SUBMISSION,
    Content,
    Envelope,
    FileBlob,
    FramedBlob,
    Inline,
    Items,
    MessageHeader,
    PayloadFields,
    base64_bytes,
    seal,
)
from shared.payload.frames import FrameIndex, check_index
from shared.payload.limits import Limits
from shared.refusals import Reason, refuse
from shared.telemetry import context_of

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
    #: A W3C trace context, for a publisher that traces.
    trace: str | None = None
    declared: DeclaredFields = DeclaredFields()
    payload: PayloadFields | None = None
    items: tuple[msgspec.Raw, ...] | None = None


class SubmissionOptions(TypedDict, total=False):
    """Options of the publisher's library, each a field of the submission."""

    workload: str
    gate: str | None
    deadline: datetime | None


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
    #: The trace context of the publisher. Two submissions that differ only in it are the same too.
    trace: str | None = None


def read_submission(envelope: Envelope, message_id: str, limits: Limits) -> Submission:
    """Return the submission. Without a job id, it takes the id of its message."""
    if envelope.kind != SUBMISSION:
        raise refuse(Reason.UNKNOWN_KIND, f"its kind is {envelope.kind[:50]!r}")
    fields = envelope.read(SubmissionFields)
    job = check_job(fields.job if fields.job is not None else message_id.lower())
    options = {option.name: option.read(getattr(fields, option.name)) for option in OPTIONS}
    content = _content(fields.payload, fields.items, job, limits)
    declared = Declared(fields.declared.items, {name: _sum(name, text) for name, text in fields.declared.sums.items()})
    return Submission(job=job, declared=declared, content=content, **options)


def write_submission(submission: SubmissionFields) -> bytes:
    """Return the body of the message."""
    return seal(submission, SUBMISSION)


def check_count(declared: Declared, index: FrameIndex) -> None:
    """Refuse a payload whose number of transactions is not the declared one."""
    if declared.items is not None and declared.items != index.items:
        raise refuse(Reason.COUNT_MISMATCH, f"{declared.items} transactions are declared, its index has {index.items}")


def _content(given: PayloadFields | None, items: tuple[msgspec.Raw, ...] | None, job: str, limits: Limits) -> Content:
    payload = given or PayloadFields()
    forms = [form for form in (items, payload.inline, payload.blob) if form is not None]
    if len(forms) != 1:
        raise refuse(Reason.PAYLOAD_FORM, f"it has {len(forms)} of items, payload.inline and payload.blob")
    if items is not None:
        return _items(items, is_alone=given is None)
    codec = None if payload.codec is None else _codec(payload.codec)
    if payload.inline is not None:
        return _inline(payload.inline, payload, codec, limits)
    return _blob(check_blob(payload.blob or ""), payload, codec, job, limits)


def _items(items: tuple[msgspec.Raw, ...], *, is_alone: bool) -> Items:
    if not is_alone:
        raise refuse(Reason.PAYLOAD_FORM, "it has items and a payload")
    if not items:
        raise refuse(Reason.EMPTY, "items is an empty list")
    # In valid JSON a line feed never stands inside a string, so a space means the same.
    return Items(tuple(bytes(item).replace(b"\n", b" ").replace(b"\r", b" ") for item in items))


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


def _sum(name: str, text: str) -> Decimal:
    try:
        return read_sum(text)
    except ValueError as error:
        raise refuse(Reason.BAD_SUM, f"the sum of {name[:50]!r}: {error}") from error


class SubmissionOption(NamedTuple):
    """One option: its field, its check and its help."""

    name: str
    #: Returns the value of a text in a message, or refuses it.
    check: Callable[[str], Any]
    help: str

    def read(self, text: str | None) -> Any:
        """Return the value, or None if the message has none."""
        return None if text is None else self.check(text)


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
        "trace",
        context_of,
        "a W3C trace context (`traceparent`), for a publisher that traces; any other text is ignored",
    ),
)
