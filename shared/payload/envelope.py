"""The wrapper of every queue message: {"sluice": {"v": 1, "kind": ..., ...}}, read strictly, written compactly.

One wrapper key, because the Functions host copies the top-level properties of a JSON body over the trigger's metadata.

A payload has one of four forms: items, stored bytes, a blob with an index, or any file. `choose` says whether it fits
into its message.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final, Generic, TypeAlias, TypeVar

import msgspec

from shared.decoding import decode
from shared.errors import NewerVersionError, RefusedError
from shared.messages import Delivery, unwrap
from shared.payload import strict_json
from shared.payload.compression import Codec
from shared.payload.frames import Frame, FrameIndex
from shared.payload.limits import Limits
from shared.refusals import Reason, refuse
from shared.telemetry import events, tell
from shared.versions import LOOKS, check_public_message

VERSION: Final = 1
WRAPPER: Final = "sluice"
SUBMISSION: Final = "submission"
#: The depth at which a transaction in `items` begins. Below it, the same depth is allowed as in a payload.
AROUND_AN_ITEM: Final = 3


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
    wrapped = _wrap(strict_json.read(text, limits.depth + AROUND_AN_ITEM))
    _check_version(wrapped.get("v", VERSION))
    kind = wrapped.get("kind", SUBMISSION)
    if not isinstance(kind, str):
        raise refuse(Reason.WRONG_TYPE, "kind is not a string")
    return Envelope(kind, text)


def wait_for_newer(delivery: Delivery, refusal: RefusedError) -> None:
    """Raise NewerVersionError if the message is refused for its higher version, as long as a newer instance may come."""
    if refusal.reason != Reason.UNSUPPORTED_VERSION or delivery.count >= LOOKS:
        return
    try:
        check_public_message(unwrap(delivery.body), f"a message on {delivery.queue}")
    except NewerVersionError as error:
        tell(events.NEWER_VERSION, found=str(error))
        raise


def read_bare(body: bytes, kind: type[T], limits: Limits) -> T:
    """Return the fields of a request, which has no envelope, or refuse it as strictly as a message."""
    if len(body) > limits.message_bytes:
        raise refuse(Reason.MESSAGE_TOO_LARGE, f"it has {len(body)} bytes, the limit is {limits.message_bytes}")
    strict_json.read(body, limits.depth)
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
    """How a publisher's payload travels: in the message or as a blob."""

    INLINE = "inline"
    BLOB = "blob"


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


Content: TypeAlias = Items | Inline | FramedBlob | FileBlob
