"""The price of each notify policy for the measured dispatches, by the policies' own code.

It assumes that the depth falls evenly while a job runs, and that a slot is held while the depth calls for it.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Final

from shared.dequeue import Notify, Put, SlotPlan, choose_slots
from shared.usage import Prices, price, useful
from tools.planning.comparison import OPERATIONS_OF_A_PERMIT

#: Chunks that a dispatch puts between two writes of its cursor: one put for the notify policies.
CHUNKS_OF_A_PUT: Final = 100


@dataclass(frozen=True, slots=True)
class Dispatch:
    """The chunks of a dispatch, and the time until all of them were done."""

    at: datetime
    chunks: int
    lasted: timedelta

    def count_left(self, moment: datetime) -> int:
        """Count those that are on the queues at a moment."""
        if moment < self.at:
            return 0
        share = (moment - self.at) / self.lasted if self.lasted else 1.0
        return round(self.chunks * max(0.0, 1.0 - share))


@dataclass(frozen=True, slots=True)
class Waking:
    """The requests and the misses of one policy."""

    policy: Notify
    permits: int = 0
    #: Permits for a slot that was held already: each costs a try of the lease, and wakes no instance.
    in_vain: int = 0
    depth_looks: int = 0
    slot_looks: int = 0
    #: Puts that woke no instance although none was running: the tick finds them, up to a minute late.
    missed: int = 0

    def amount(self, tasks: int, prices: Prices) -> Decimal:
        """Return the price: permits over the bus, leases, one empty receive per task, reads of depth and of slots."""
        woken = self.permits - self.in_vain
        usage = useful(
            bus=self.permits * OPERATIONS_OF_A_PERMIT,
            blob_other=self.permits + woken,
            queue=woken * tasks + self.depth_looks,
            blob_list=self.slot_looks,
        )
        return price(usage, prices).total


def wakings(dispatches: Sequence[Dispatch], fleet: SlotPlan, work_queues: int = 1) -> list[Waking]:
    """Return the requests and the misses of each policy for these dispatches."""
    in_order = sorted(dispatches, key=lambda dispatch: dispatch.at)
    return [_waking(policy, in_order, fleet, work_queues) for policy in Notify]


def _waking(policy: Notify, dispatches: Sequence[Dispatch], fleet: SlotPlan, work_queues: int) -> Waking:
    permits = in_vain = depth_looks = slot_looks = missed = 0
    for number, dispatch in enumerate(dispatches):
        earlier = sum(one.count_left(dispatch.at) for one in dispatches[:number])
        # Held are the slots that the earlier depth calls for, and those that this dispatch has woken.
        held = fleet.slots(earlier)
        for done in range(0, dispatch.chunks, CHUNKS_OF_A_PUT):
            messages = min(CHUNKS_OF_A_PUT, dispatch.chunks - done)
            before = earlier + done if policy.reads_depth else None
            depth = choose_slots(
                policy, Put(messages=messages, coming=dispatch.chunks - done, before=before), fleet.count_wanted
            )
            slots = fleet.slots(depth)
            woken = max(0, slots - held)
            sent = messages if policy is Notify.EACH and slots else woken
            permits, in_vain = permits + sent, in_vain + sent - min(sent, woken)
            depth_looks += work_queues * policy.reads_depth
            slot_looks += bool(slots) and policy is not Notify.EACH
            held = max(held, min(slots, held + sent))
            missed += not held
    return Waking(policy, permits, in_vain, depth_looks, slot_looks, missed)
