"""Wakes somebody for what is put on the work queues, by one of the policies.

Whom a put on the work queues wakes: the policies, pure.

`each`: a permit for each message. `first`: permits when the queues were empty before. `depth`: when the put crosses a
step of the rule. `burst`: permits for what is being put, once for each batch of puts.

What the tick does for push: permits for the slots that nobody runs although there is work.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from enum import StrEnum

from shared.dequeue.permits import SlotPlan, Slots
from shared.errors import StorageUnavailableError
from shared.messages import Permit
from shared.signals import SendPermits
from shared.telemetry import describe_error, events, tell


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


def choose_slots(policy: Notify, put: Put, wanted: Callable[[int], int]) -> int:
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
    fleet: SlotPlan
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
            tell(events.PERMITS_UNSENT, permits=self.fleet.slots(put.coming), error=describe_error(error))

    def _permits(self, put: Put) -> list[Permit]:
        depth = choose_slots(self.policy, put, self.fleet.count_wanted)
        slots, tasks = self.fleet.slots(depth), self.fleet.count_wanted(depth)
        if not slots:
            return []
        # A receive asks for its share of what is there: what is still coming would let the first tasks take all of it.
        here = min(depth, (put.before or 0) + put.messages)
        if self.policy is Notify.EACH:
            return [Permit(slot=number % slots, depth=here, tasks=tasks) for number in range(put.messages)]
        held = self.slots.list_held()
        return [Permit(slot=slot, depth=here, tasks=tasks) for slot in range(slots) if slot not in held]


@dataclass(frozen=True, slots=True, kw_only=True)
class TopUp:
    """Sends the permits that were lost, or were never sent; a permit too many finds its slot taken."""

    slots: Slots
    fleet: SlotPlan
    send: SendPermits

    def run(self, depth: int, tasks: int | None = None) -> int:
        """Send a permit for each slot that is wanted and free; returns how many. `tasks` are those over the fleet."""
        wanted = self.fleet.count_wanted(depth) if tasks is None else max(0, min(tasks, depth))
        slots = -(-wanted // self.fleet.tasks)
        if not slots:
            return 0
        held = self.slots.list_held()
        return self.send([Permit(slot=slot, depth=depth, tasks=wanted) for slot in range(slots) if slot not in held])
