"""Wakes somebody for what is put on the work queues, by one of the policies."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass

from shared.dequeue.notify import Notify, Put, When, called_for
from shared.dequeue.permits import Fleet
from shared.dequeue.slots import Slots
from shared.errors import StorageUnavailableError
from shared.pipeline.messages import Permit
from shared.signals import SendPermits
from shared.telemetry import events
from shared.telemetry.event import tell
from shared.telemetry.failure import told


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
        # A receive asks for its share of what is there: what is still coming would let the first tasks take all of it.
        here = min(depth, (put.before or 0) + put.messages)
        if self.policy is Notify.EACH:
            return [Permit(slot=number % slots, depth=here, tasks=tasks) for number in range(put.messages)]
        held = self.slots.held()
        return [Permit(slot=slot, depth=here, tasks=tasks) for slot in range(slots) if slot not in held]
