"""Whom a put on the work queues wakes: the policies, pure.

`each`: a permit for each message. `first`: permits when the queues were empty before. `depth`: when the put crosses a
step of the rule. `burst`: permits for what is being put, once for each batch of puts.
"""

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum


class Notify(StrEnum):
    """When permits are sent."""

    EACH = "each"
    FIRST = "first"
    DEPTH = "depth"
    BURST = "burst"

    @property
    def looks_at_depth(self) -> bool:
        """Whether it asks for the depth before a put, which is a request for each queue."""
        return self in {Notify.FIRST, Notify.DEPTH}


class When(StrEnum):
    """On which side of the put."""

    #: An instance starts while the messages are put; a permit that is faster finds nothing, and is lost.
    BEFORE = "before"
    AFTER = "after"


@dataclass(frozen=True, slots=True, kw_only=True)
class Put:
    """A put of messages, as far as it is known."""

    messages: int
    #: These, and those that follow in the same dispatch.
    coming: int
    #: The depth before; None where the policy does not look.
    before: int | None = None


def called_for(policy: Notify, put: Put, wanted: Callable[[int], int]) -> int:
    """Return the depth that permits are sent for; 0: none are. `wanted` says how many tasks a depth calls for."""
    before = put.before or 0
    if policy is Notify.FIRST:
        return 0 if before else put.coming
    if policy is Notify.DEPTH:
        return before + put.messages if wanted(before + put.messages) > wanted(before) else 0
    return put.coming
