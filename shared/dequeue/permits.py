"""A permit: the right to run a few tasks, of a numbered slot. Pure: who may run how many follows from numbers alone.

Slot 0 stands for the first tasks of the fleet, slot 1 for the next ones, and so on; whoever runs the tasks of a slot
holds its lease. So however many permits there are, doubled, forged or late, no task runs twice at a time, and all
together are never more than the cap.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Final, TypeAlias

import msgspec
from msgspec import Meta, Struct

#: The kind that subscriptions filter by.
KIND: Final = "work"
VERSION: Final = 1
#: More than any fleet has; a number above it was not sent by us.
MOST: Final = 1_000_000

_Number: TypeAlias = Annotated[int, Meta(ge=0, le=MOST)]


class Permit(Struct, frozen=True, kw_only=True, tag_field="kind", tag=KIND):
    """On the topic `signals`: run the tasks of this slot as long as there is work."""

    slot: _Number
    #: Messages, and tasks over the fleet, when it was sent; hints for the size of a receive.
    depth: _Number = 0
    tasks: _Number = 0
    v: int = VERSION


class _Wrapper(Struct, frozen=True):
    sluice: Permit


_encoder: Final = msgspec.json.Encoder()
_decoder: Final = msgspec.json.Decoder(_Wrapper)


def encode(permit: Permit) -> bytes:
    """Return the permit as it goes on the wire."""
    return _encoder.encode({"sluice": permit})


def decode(body: bytes) -> Permit | None:
    """Return the permit; None for anything that is none, of this version."""
    try:
        permit = _decoder.decode(body).sluice
    except (ValueError, RecursionError):
        # The library's own errors are ValueErrors too; of bytes that are no UTF-8 it raises Python's.
        return None
    return permit if permit.v == VERSION else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Fleet:
    """How many tasks there may be over all instances, and how they are shared out into slots."""

    #: Tasks that a depth calls for.
    rule: Callable[[int], int]
    #: Tasks that may run now.
    cap: Callable[[], int]
    #: Tasks of one slot.
    tasks: int

    def wanted(self, depth: int) -> int:
        """Return how many tasks a depth calls for: no more than may run, no more than there are messages."""
        return max(0, min(self.rule(depth), self.cap(), depth))

    def slots(self, depth: int) -> int:
        """Return how many slots that takes."""
        return -(-self.wanted(depth) // self.tasks)

    def allowance(self, slot: int) -> int:
        """Return how many tasks of this slot may run now: all slots together have the cap."""
        return min(max(self.cap() - slot * self.tasks, 0), self.tasks)
