"""The tasks of this process and of the fleet: the decision how many run, and the wake-ups for a put on the queues."""

from collections.abc import Callable
from dataclasses import replace
from functools import cached_property, partial
from threading import Event

from shared.app.stores import VISIBILITY, Stores
from shared.concurrency import LOOK_EVERY, Following, Foresight, Gauge, QueueDepths, Tuning, no_lane, no_top_up
from shared.dequeue import (
    DepthSample,
    Drain,
    HintFollower,
    Notifier,
    PermitWorker,
    SlotPlan,
    TopUp,
    Turns,
    UrgentLane,
    sweep,
)
from shared.messages import Delivery
from shared.pipeline import Overtaking, Stranded, Waking, wake_nobody
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
        gauge, decide = Gauge(self.clock), lambda: self.tuning.catch_up()  # noqa: PLW0108 - made at its first use
        return Following(stores.fleet, stores.connections.pushback, gauge, self.clock, decide=decide)

    @cached_property
    def turns(self) -> Turns:
        """The turns of messages that triggers delivered."""
        # A trigger has the message already, and the host gives up what it delivered too often. So one may always run.
        plan = replace(self.permitted, cap=lambda: max(1, self._cap_at_work()))
        return Turns(plan, self.stores.slots, self.clock)

    def _cap_at_work(self) -> int:
        self.following.notice_work()
        return self.following.cap()

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
            lane=self.stores.urgent.depth if self.settings.dequeue is Dequeue.PUSH else no_lane,
            top_up=self.top_up.run if self.settings.dequeue is Dequeue.PUSH else no_top_up,
        )

    @cached_property
    def waking(self) -> Waking:
        """Decides before a put on the work queues. In push mode it also wakes instances, because no process polls."""
        wake = self.notifier if self.settings.dequeue is Dequeue.PUSH else wake_nobody
        return Foresight(following=self.following, decide=self.tuning.foresee, wake=wake, clock=self.clock)

    @cached_property
    def urgent(self) -> UrgentLane:
        """The urgent lane, which all tasks of this process ask first while it may hold something."""
        return UrgentLane(self.stores.urgent, self.following.may_hold_urgent, self.clock.monotonic)

    @cached_property
    def depth(self) -> DepthSample:
        """The messages on the work queues, for predictions. Read for jobs with a deadline only."""
        sources = self.stores.work_queues(self.settings.work_queues)
        return DepthSample(lambda: sum(source.depth() for source in sources), self.clock, LOOK_EVERY)

    @cached_property
    def overtaking(self) -> Overtaking | None:
        """Chooses the urgent lane. By push only: a trigger on one more queue would be polled, also when idle."""
        if self.settings.dequeue is not Dequeue.PUSH:
            return None
        return Overtaking(ledger=self.stores.ledger, following=self.following, depth=self.depth.depth)

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

    def worker(self, handle: Callable[[Delivery], None], stop: Event, lanes: int) -> PermitWorker:
        """Build the worker that receives permits in a process of its own."""
        drain = replace(self.drain(handle), stop=stop)
        return PermitWorker(self.stores.connections, drain, lanes=lanes)

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
            urgent=self.urgent,
            look=self.following.notice_work,
            visibility=VISIBILITY,
        )

    def hint_follower(self, handle: Callable[[Delivery, float], None]) -> HintFollower:
        """Build the follower of hints."""
        stores = self.stores
        return HintFollower(
            sweep=partial(sweep, stores.intake_queues(self.settings.rooms), clock=self.clock, visibility=VISIBILITY),
            handle=handle,
            put_poison=stores.put_poison,
            send_hint=stores.send_hint,
            monotonic=self.clock.monotonic,
        )

    @cached_property
    def permitted(self) -> SlotPlan:
        """The tasks of the fleet that permits may start."""
        return SlotPlan(rule=self.following.rule, cap=self.following.cap, tasks=self.settings.permit_tasks)

    @cached_property
    def stranded(self) -> Stranded:
        """Finds work that no instance was woken for."""
        stores, settings = self.stores, self.settings
        queues = [*stores.work_queues(settings.work_queues), stores.urgent]
        return Stranded(
            depths={queue.name: queue.depth for queue in queues},
            pending=stores.pending,
            clock=self.clock,
            is_push=settings.dequeue is Dequeue.PUSH,
        )
