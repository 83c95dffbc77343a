"""The tasks of this process and of the fleet: the decision how many run, and the wake-ups for a put on the queues."""

from collections.abc import Callable
from functools import cached_property

from shared.app.stores import VISIBILITY, Stores
from shared.concurrency import MOST_HERE, Following, Foresight, Gauge, Limiter, QueueDepths, Tuning, no_top_up
from shared.dequeue import Drain, Notifier, SlotPlan, TopUp
from shared.messages import Delivery
from shared.pipeline import Waking, wake_nobody
from shared.settings import Dequeue, Settings
from shared.topology import work_queue_names


class Tasks:
    """The parts that decide and start tasks, each made at its first use. Making one makes no request."""

    def __init__(self, stores: Stores, settings: Settings) -> None:
        self.stores, self.settings, self.clock = stores, settings, stores.clock

    @cached_property
    def following(self) -> Following:
        """The fleet's decision as this process knows it."""
        stores = self.stores
        return Following(stores.fleet, stores.connections.pushback, Gauge(self.clock), self.clock)

    @cached_property
    def slots(self) -> Limiter:
        """The limit of messages that triggers may handle here at a time."""
        following, full = self.following, MOST_HERE * self.settings.work_queues
        return Limiter(lambda: following.here(full), self.clock)

    @cached_property
    def tuning(self) -> Tuning:
        """Decides how many tasks may run."""
        stores = self.stores
        names = work_queue_names(self.settings.work_queues)
        return Tuning(
            fleet=stores.fleet,
            rules=stores.rules,
            depths=QueueDepths([stores.connections.queues.get_queue_client(name) for name in names], self.clock).sample,
            pushback=stores.connections.pushback,
            record=stores.traces.record,
            clock=self.clock,
            budget=stores.day_budget(self.settings.budget_per_day),
            top_up=self.top_up.run if self.settings.dequeue is Dequeue.PUSH else no_top_up,
        )

    @cached_property
    def waking(self) -> Waking:
        """Wakes instances for a put on the work queues. In push mode only, because triggers poll."""
        if self.settings.dequeue is not Dequeue.PUSH:
            return wake_nobody
        tuning = self.tuning
        return Foresight(following=self.following, decide=tuning.foresee, wake=self.notifier, clock=self.clock)

    @cached_property
    def notifier(self) -> Notifier:
        """Sends permits for a put."""
        stores, sources = self.stores, self.stores.work_queues(self.settings.work_queues)
        return Notifier(
            policy=self.settings.notify,
            when=self.settings.notify_when,
            fleet=self.permitted,
            slots=stores.slots,
            send=stores.send_permits,
            depth=lambda: sum(source.depth() for source in sources),
        )

    @cached_property
    def top_up(self) -> TopUp:
        """Sends the permits that were lost."""
        return TopUp(slots=self.stores.slots, fleet=self.permitted, send=self.stores.send_permits)

    def drain(self, handle: Callable[[Delivery], None]) -> Drain:
        """Build the drain that follows permits."""
        stores = self.stores
        return Drain(
            sources=stores.work_queues(self.settings.work_queues),
            handle=handle,
            fleet=self.permitted,
            slots=stores.slots,
            send=stores.send_permits,
            clock=self.clock,
            look=self.following.look,
            visibility=VISIBILITY,
        )

    @cached_property
    def permitted(self) -> SlotPlan:
        """The tasks of the fleet that permits may start."""
        return SlotPlan(rule=self.following.rule, cap=self.following.cap, tasks=self.settings.permit_tasks)
