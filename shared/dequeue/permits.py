"""The slots of the fleet: each is the right to run a few dequeue tasks, held by one instance at a time.

Slot 0 stands for the first tasks of the fleet, slot 1 for the next ones, and so on. An instance runs the tasks of a
slot only while it holds the slot's lease. So permits may be doubled, forged or late: no task runs twice at a time, and
all tasks together never exceed the cap.

Sends permits for messages that are put on the work queues, by one of four policies.

- `each`: one permit per message.
- `first`: permits if the queues were empty before the put.
- `depth`: permits if the put crosses a step of the rule.
- `burst`: permits for all messages of a batch of puts, once per batch.

`choose_slots` decides by the policy and makes no request. `TopUp` is the tick's part in push mode: it sends permits for
unleased slots while the queues hold work.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from enum import StrEnum
from math import inf
from threading import Lock
from typing import Final, Protocol

from azure.storage.blob import ContainerClient

from shared.azure import BlobLease, expecting_an_answer, try_lease
from shared.clock import Clock
from shared.errors import StorageUnavailableError
from shared.messages import Permit
from shared.signals import SendPermits
from shared.telemetry import describe_error, events, tell
from shared.topology import LEASE_SECONDS, RENEW_AFTER


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotPlan:
    """The tasks allowed over all instances, and their division into slots. Makes no request."""

    #: Tasks that a depth calls for.
    rule: Callable[[int], int]
    #: Tasks that may run now.
    cap: Callable[[], int]
    #: Tasks of one slot.
    tasks: int

    def count_wanted(self, depth: int) -> int:
        """Return how many tasks a depth calls for: at most the cap, and at most one per message."""
        return max(0, min(self.rule(depth), self.cap(), depth))

    def slots(self, depth: int) -> int:
        """Return how many slots hold the tasks that a depth calls for."""
        return self.count_slots(self.count_wanted(depth))

    def count_slots(self, tasks: int) -> int:
        """Return how many slots hold so many tasks."""
        return -(-tasks // self.tasks)

    def allowance(self, slot: int) -> int:
        """Return how many tasks of this slot may run now."""
        return self.share(slot, self.cap())

    def share(self, slot: int, cap: int) -> int:
        """Return how many tasks of this slot may run under a cap, which all slots together share exactly."""
        return min(max(cap - slot * self.tasks, 0), self.tasks)


CONTAINER: Final = "permits"
#: Seconds between two renewals while they fail: two may, before the lease is given up.
RENEW_AGAIN_AFTER: Final = 2.0
#: A holder stops this many seconds before its lease can end. A task looks at the lease before each message, so only a
#: receive may be late.
MARGIN: Final = 5.0


class SlotLease(Protocol):
    """The right to run the tasks of one slot."""

    @property
    def is_held(self) -> bool:
        """True while no other process can hold the lease."""
        ...

    @property
    def due(self) -> float:
        """The moment of the next renewal, in the clock's monotonic seconds."""
        ...

    def renew(self) -> None:
        """Extend the lease by its full length. Makes one request."""
        ...

    def release(self) -> None:
        """Free the slot for others. Makes one request."""
        ...


class Slots(Protocol):
    """All slots of a fleet."""

    def lease(self, slot: int) -> SlotLease | None:
        """Lease a slot, or return None if it is leased. Makes one request, three at the very first use of a slot."""
        ...

    def list_held(self) -> frozenset[int]:
        """Return the leased slots. Makes one request."""
        ...


#: The blob whose holder alone feeds. It has no number, so it is no slot.
FEEDER: Final = "feeder"
#: Before the name of a lot of a limit of calls. These are no slots either.
_RATE: Final = "rate-"


class BlobSlots:
    """Slots as leases on blobs. Storage alone decides when they end, so no clocks have to agree."""

    def __init__(self, container: ContainerClient, clock: Clock) -> None:
        self._container, self._clock = container, clock

    def lease(self, slot: int) -> SlotLease | None:
        """Lease a slot, or return None if it is leased."""
        return self._lease(_name(slot), f"lease slot {slot} of the dequeue tasks")

    def lease_feeder(self) -> SlotLease | None:
        """Lease the right to feed, or return None if it is leased. Makes as many requests as for a slot."""
        return self._lease(FEEDER, "lease the right to feed")

    def lease_lot(self, limit: str, number: int) -> SlotLease | None:
        """Lease a lot of a limit of calls, or return None if it is leased. Makes as many requests as for a slot."""
        return self._lease(f"{_RATE}{limit}-{number:03}", f"lease a lot of the limit {limit}")

    def list_leased_lots(self, limit: str) -> frozenset[int]:
        """Return the leased lots of a limit. Makes one request."""
        prefix = f"{_RATE}{limit}-"
        with expecting_an_answer(f"list the lots of the limit {limit}"):
            found = self._container.list_blobs(name_starts_with=prefix)
            leased = [blob.name.removeprefix(prefix) for blob in found if blob.lease.state == "leased"]
        # A limit whose name goes on behind this one has a letter or a hyphen there.
        return frozenset(int(number) for number in leased if number.isdecimal())

    def _lease(self, name: str, tried: str) -> SlotLease | None:
        # Read before the request: storage counts the lease from some moment after it.
        requested_at = self._clock.monotonic()
        with expecting_an_answer(tried):
            lease = try_lease(self._container, name, LEASE_SECONDS)
        return None if lease is None else _Lease(lease, self._clock.monotonic, requested_at)

    def list_held(self) -> frozenset[int]:
        """Return the leased slots."""
        with expecting_an_answer("list the slots of the dequeue tasks"):
            leased = [blob.name for blob in self._container.list_blobs() if blob.lease.state == "leased"]
        return frozenset(int(name) for name in leased if name.isdecimal())


class _Lease:
    """A lease that counts as held while it cannot have ended, even if its last renewal had no reply."""

    def __init__(self, lease: BlobLease, monotonic: Callable[[], float], since: float) -> None:
        self._lease, self._monotonic = lease, monotonic
        self._hold(since)

    @property
    def is_held(self) -> bool:
        """True while no other process can hold the lease."""
        return self._monotonic() < self._until

    def renew(self) -> None:
        """Extend the lease by its full length. A lease that ended meanwhile is not taken again."""
        requested_at = self._monotonic()
        if requested_at >= self._until:
            self.due = inf
        elif self._lease.renew():
            self._hold(requested_at)
        else:
            self.due = requested_at + RENEW_AGAIN_AFTER

    def release(self) -> None:
        """Free the slot for others."""
        self._lease.release()

    def _hold(self, since: float) -> None:
        self._until, self.due = since + LEASE_SECONDS - MARGIN, since + RENEW_AFTER


def _name(slot: int) -> str:
    return f"{slot:06}"


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


#: Slots beyond the wanted ones of which one is woken if all of these are held: a killed holder holds its slot for
#: LEASE_SECONDS more.
SPARES: Final = 2
#: Seconds between two permits for spare slots.
SPARE_EVERY: Final = 2.0


class Spare:
    """Says when a permit for a spare slot goes, for all puts of one process. Several threads may ask."""

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._monotonic, self._lock, self._arrives = monotonic, Lock(), -inf

    def delay(self) -> float | None:
        """Return the seconds after which one goes for this put. None: one arrives behind it already."""
        with self._lock:
            now = self._monotonic()
            if now < self._arrives:
                return None
            self._arrives = max(now, self._arrives + SPARE_EVERY)
            return self._arrives - now


#: Seconds within which one permit serves all messages that come again.
WAKES_EVERY: Final = 1.0


class Wakes:
    """The permits of one process that come when hidden messages come again. Several threads may ask."""

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._monotonic, self._lock, self._arrive = monotonic, Lock(), list[float]()

    def delay(self, seconds: float) -> float | None:
        """Return the seconds after which one goes for a message that hides so long. None: one serves it already."""
        with self._lock:
            now = self._monotonic()
            self._arrive = [at for at in self._arrive if at > now]
            if any(0 <= at - now - seconds <= WAKES_EVERY for at in self._arrive):
                return None
            self._arrive.append(now + seconds + WAKES_EVERY)
            return seconds + WAKES_EVERY


@dataclass(frozen=True, slots=True, kw_only=True)
class Notifier:
    """Sends permits around a put. A failure to send them does not stop the put.

    Where all wanted slots are held, no holder need be alive. So a spare slot is woken, seldom and within the cap.
    """

    policy: Notify
    when: When
    fleet: SlotPlan
    slots: Slots
    send: SendPermits
    depth: Callable[[], int]
    spare: Spare

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
            self._send(put)
        except StorageUnavailableError as error:
            tell(events.PERMITS_UNSENT, permits=self.fleet.slots(put.coming), error=describe_error(error))

    def _send(self, put: Put) -> None:
        depth = choose_slots(self.policy, put, self.fleet.count_wanted)
        slots, tasks = self.fleet.slots(depth), self.fleet.count_wanted(depth)
        if not slots:
            return
        # A receive takes its share of this depth. With the messages still to come counted in, the first tasks would
        # take all messages that are there.
        here = min(depth, (put.before or 0) + put.messages)
        if self.policy is Notify.EACH:
            self.send([Permit(slot=number % slots, depth=here, tasks=tasks) for number in range(put.messages)])
            return
        held, seconds = self.slots.list_held(), 0.0
        chosen = [slot for slot in range(slots) if slot not in held]
        if not chosen:
            spares = range(slots, slots + SPARES)
            chosen = [slot for slot in spares if slot not in held and self.fleet.allowance(slot)][:1]
            if not chosen or (delay := self.spare.delay()) is None:
                return
            seconds = delay
        self.send([Permit(slot=slot, depth=here, tasks=tasks) for slot in chosen], seconds)


@dataclass(frozen=True, slots=True, kw_only=True)
class TopUp:
    """Sends the permits that were lost or never sent. A surplus permit finds its slot taken."""

    slots: Slots
    fleet: SlotPlan
    send: Callable[[Sequence[Permit]], int]

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
