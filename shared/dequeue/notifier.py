"""Sends permits for messages that are put on the work queues, by one of four policies.

- `each`: one permit per message.
- `first`: permits if the queues were empty before the put.
- `depth`: permits if the put crosses a step of the rule.
- `burst`: permits for all messages of a batch of puts, once per batch.

`choose_slots` decides by the policy and makes no request. `TopUp` is the tick's part in push mode: it sends permits for
unleased slots while the queues hold work.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from enum import StrEnum

from shared.dequeue.permits import SlotPlan, Slots
from shared.errors import StorageUnavailableError
from shared.permit import Permit
from shared.signals import SendPermits
from shared.telemetry import describe_error, events, tell


class Notify(StrEnum):
    """The policy by which permits are sent."""

    EACH = "each"
    FIRST = "first"
    DEPTH = "depth"
    BURST = "burst"

    @property
    def reads_depth(self) -> bool:
        """True if it reads the depth before a put, which takes one request per queue."""
        return self in {Notify.FIRST, Notify.DEPTH}


class When(StrEnum):
    """The moment of the permits: before or after the put."""

    #: An instance starts while the messages are put. A permit that is faster than the put finds no work and is lost.
    BEFORE = "before"
    AFTER = "after"


@dataclass(frozen=True, slots=True, kw_only=True)
class Put:
    """A put of messages, as its sender knows it."""

    messages: int
    #: These, and those that follow in the same dispatch.
    coming: int
    #: The depth before. None if the policy does not read it, or if it could not be read.
    before: int | None = None


def choose_slots(policy: Notify, put: Put, wanted: Callable[[int], int]) -> int:
    """Return the depth for which permits are sent, 0 for no permits. `wanted` counts the tasks that a depth calls for.

    Makes no request.
    """
    before = put.before or 0
    if policy is Notify.FIRST:
        return 0 if before else put.coming
    if policy is Notify.DEPTH:
        return before + put.messages if wanted(before + put.messages) > wanted(before) else 0
    return put.coming


@dataclass(frozen=True, slots=True, kw_only=True)
class Notifier:
    """Sends permits around a put. A failure to send them does not stop the put."""

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
            self._try_send(put)
        yield
        if self.when is When.AFTER:
            self._try_send(put)

    def _before(self) -> int | None:
        if not self.policy.reads_depth:
            return None
        # An unknown depth counts as empty: a needless permit is better than a missing one.
        with suppress(StorageUnavailableError):
            return self.depth()
        return None

    def _try_send(self, put: Put) -> None:
        try:
            self.send(self._permits(put))
        except StorageUnavailableError as error:
            tell(events.PERMITS_UNSENT, permits=self.fleet.slots(put.coming), error=describe_error(error))

    def _permits(self, put: Put) -> list[Permit]:
        depth = choose_slots(self.policy, put, self.fleet.count_wanted)
        slots, tasks = self.fleet.slots(depth), self.fleet.count_wanted(depth)
        if not slots:
            return []
        # A receive takes its share of this depth. With the messages still to come counted in, the first tasks would
        # take all messages that are there.
        here = min(depth, (put.before or 0) + put.messages)
        if self.policy is Notify.EACH:
            return [Permit(slot=number % slots, depth=here, tasks=tasks) for number in range(put.messages)]
        held = self.slots.list_held()
        return [Permit(slot=slot, depth=here, tasks=tasks) for slot in range(slots) if slot not in held]


@dataclass(frozen=True, slots=True, kw_only=True)
class TopUp:
    """Sends the permits that were lost or never sent. A surplus permit finds its slot taken."""

    slots: Slots
    fleet: SlotPlan
    send: SendPermits

    def run(self, depth: int, tasks: int | None = None) -> int:
        """Send a permit for each unleased slot that the depth calls for. Return how many were sent.

        With `tasks`, that many tasks over the fleet are wanted, instead of the number that the rule gives.
        """
        wanted = self.fleet.count_wanted(depth) if tasks is None else max(0, min(tasks, depth))
        slots = -(-wanted // self.fleet.tasks)
        if not slots:
            return 0
        held = self.slots.list_held()
        return self.send([Permit(slot=slot, depth=depth, tasks=wanted) for slot in range(slots) if slot not in held])
