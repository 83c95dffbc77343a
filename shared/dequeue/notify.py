"""Whom a put on the work queues wakes: the policies, pure, and the notifier that follows one.

`each`: a permit for each message. `first`: permits when the queues were empty before. `depth`: when the put crosses a
step of the rule. `burst`: permits for what is being put, once for each batch of puts.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from enum import StrEnum

from shared.dequeue.permits import Fleet, Permit
from shared.dequeue.signals import SendPermits
from shared.dequeue.slots import Slots
from shared.errors import StorageUnavailableError
from shared.telemetry import events
from shared.telemetry.event import tell
from shared.telemetry.failure import told


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Notifier:
    """Sends permits around a put; nothing that goes wrong with them keeps the put from being made."""

    policy: Notify
    when: When
    fleet: Fleet
    slots: Slots
    send: SendPermits
    depth: Callable[[], int]

    @contextmanager
    def __call__(self, messages: int, coming: int) -> Iterator[None]:
        """Enter around a put of so many messages, the first of `coming` in the same dispatch."""
        put = Put(messages=messages, coming=coming, before=self._before())
        if self.when is When.BEFORE:
            self._tell(put)
        yield
        if self.when is When.AFTER:
            self._tell(put)

    def _before(self) -> int | None:
        if not self.policy.looks_at_depth:
            return None
        # Not known is as good as empty: somebody is woken rather than nobody.
        with suppress(StorageUnavailableError):
            return self.depth()
        return None

    def _tell(self, put: Put) -> None:
        try:
            self.send(self._permits(put))
        except StorageUnavailableError as error:
            tell(events.PERMITS_UNSENT, permits=self.fleet.slots(put.coming), error=told(error))

    def _permits(self, put: Put) -> list[Permit]:
        depth = called_for(self.policy, put, self.fleet.wanted)
        slots, tasks = self.fleet.slots(depth), self.fleet.wanted(depth)
        if not slots:
            return []
        if self.policy is Notify.EACH:
            return [Permit(slot=number % slots, depth=depth, tasks=tasks) for number in range(put.messages)]
        held = self.slots.held()
        return [Permit(slot=slot, depth=depth, tasks=tasks) for slot in range(slots) if slot not in held]
