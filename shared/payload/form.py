"""The forms of a payload: items, stored bytes, a blob with an index, any file; and whether it fits into its message."""

from dataclasses import dataclass
from enum import StrEnum
from typing import TypeAlias

import msgspec

from shared.payload.compression import Codec
from shared.payload.frames import Frame, FrameIndex
from shared.payload.limits import Limits


class Form(StrEnum):
    """How a publisher's payload travels."""

    INLINE = "inline"
    BLOB = "blob"


def base64_bytes(stored: int) -> int:
    """Return how many bytes Base64 makes of so many."""
    return -(-stored // 3) * 4


def choose(stored: int, around: int, limits: Limits) -> Form:
    """Return the form for so many stored bytes in a message that has `around` bytes without them."""
    return Form.INLINE if around + base64_bytes(stored) <= limits.message_bytes else Form.BLOB


class PayloadFields(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """Where the transactions are."""

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
    """Stored bytes in the message itself; without an index they are a small file."""

    stored: bytes
    codec: Codec | None
    index: FrameIndex | None


@dataclass(frozen=True, slots=True)
class FramedBlob:
    """A blob with an index; an index that is not in the message is a blob of its own."""

    name: str
    codec: Codec
    index_sha256: str
    index: FrameIndex | None


@dataclass(frozen=True, slots=True)
class FileBlob:
    """A blob that any tool wrote: lines of JSON, perhaps compressed."""

    name: str
    codec: Codec | None


Content: TypeAlias = Items | Inline | FramedBlob | FileBlob
