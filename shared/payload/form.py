"""The choice between a message that holds the payload and one that points to a blob, by the size as it is encoded."""

from dataclasses import dataclass
from enum import StrEnum

from shared.payload.limits import Limits


class Form(StrEnum):
    """How a publisher's payload travels."""

    INLINE = "inline"
    BLOB = "blob"


@dataclass(frozen=True, slots=True)
class Requests:
    """What publishing one submission takes."""

    queue: int
    blob: int


def base64_bytes(stored: int) -> int:
    """Return how many bytes Base64 makes of so many."""
    return -(-stored // 3) * 4


def choose(stored: int, around: int, limits: Limits) -> Form:
    """Return the form for so many stored bytes in a message that has `around` bytes without them."""
    return Form.INLINE if around + base64_bytes(stored) <= limits.message_bytes else Form.BLOB


def most_inline_items(item_bytes: float, around: int, limits: Limits) -> int:
    """Return the break-even: how many transactions of so many stored bytes still travel in the message."""
    room = (limits.message_bytes - around) // 4 * 3
    return max(int(room / item_bytes), 0)


def requests_to_publish(stored: int, form: Form, limits: Limits, *, is_index_apart: bool = False) -> Requests:
    """Return what publishing costs: a blob larger than one block is looked for, staged and committed."""
    if form is Form.INLINE:
        return Requests(queue=1, blob=0)
    blocks = -(-stored // limits.block_bytes)
    return Requests(queue=1, blob=(1 if blocks == 1 else blocks + 2) + is_index_apart)
