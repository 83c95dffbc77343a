"""The choice between a message that holds the payload and one that points to a blob, by the size as it is encoded."""

from enum import StrEnum

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
