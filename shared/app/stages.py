"""Builds each stage of a process, once, from stores and settings.

The tasks of this process and of the fleet: the decision how many run, and the wake-ups for a put on the queues.
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from functools import cached_property, partial
from threading import Event

from shared.app.recorder import Recorder
from shared.app.stores import VISIBILITY, Stores
from shared.azure import read_front, send_on
from shared.concurrency import LOOK_EVERY, Following, Foresight, Gauge, QueueDepths, Tuning
from shared.dequeue import (
    DepthSample,
    Drain,
    HintFollower,
    Notifier,
    OwnPuts,
    PermitWorker,
    SlotPlan,
    Spare,
    TopUp,
    UrgentLane,
    Wakes,
    sweep,
)
from shared.gate import Batches, Outflow, Releaser
from shared.memory import Memory
from shared.messages import Delivery
from shared.parked import Deliveries, drain_poison
from shared.payload import WORK, Limits, PayloadReader, PayloadStores, StretchStore
from shared.pipeline import (
    MOST,
    Acceptance,
    Alone,
    Arrivals,
    CallLimits,
    ChunkSizes,
    DirectPuts,
    Dispatcher,
    Enclosing,
    Erasures,
    Feeder,
    FinishCall,
    Finisher,
    FinishTools,
    HaltFollower,
    Orphans,
    Overtaking,
    Planning,
    Processor,
    PutAhead,
    QueueFronts,
    RangeCall,
    RangeCutter,
    Retention,
    Rooms,
    Settler,
    SourceLines,
    Starter,
    Stranded,
    Stretching,
    Succession,
    Sweep,
    Tools,
    WaitingResults,
    Waking,
    point_at,
)
from shared.settings import Settings
from shared.topology import PLANS, URGENT, work_queue_names
from shared.workloads import Workloads


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
    def tuning(self) -> Tuning:
        """Decides how many tasks may run."""
        stores = self.stores
        names = work_queue_names(self.settings.work_queues)
        return Tuning(
            fleet=stores.fleet,
            rules=stores.rules,
            depths=QueueDepths([stores.connections.queues.get_queue_client(name) for name in names], self.clock).sample,
            pushback=stores.connections.pushback,
            record=self.recorder.note,
            needs=self.stores.tick_needs,
            clock=self.clock,
            budget=stores.day_budget(self.settings.budget_per_day),
            lane=self.stores.urgent.depth,
            top_up=self.top_up.run,
        )

    @cached_property
    def recorder(self) -> Recorder:
        """Writes down what each tick saw."""
        stores = self.stores
        return Recorder(watch=stores.watch, needs=stores.tick_needs, clock=self.clock, read_costs=stores.read_costs)

    @cached_property
    def waking(self) -> Waking:
        """Decides before a put on the work queues, and wakes instances, because no process polls them."""
        return Foresight(following=self.following, decide=self.tuning.foresee, wake=self.notifier, clock=self.clock)

    @cached_property
    def urgent(self) -> UrgentLane:
        """The urgent lane, which all tasks of this process ask first while it may hold something."""
        return UrgentLane(self.stores.urgent, self.following.may_hold_urgent, self.clock.monotonic)

    @cached_property
    def own(self) -> OwnPuts:
        """The last messages that this process put ahead of others."""
        return OwnPuts(self.stores.trigger_queue, self.clock)

    @cached_property
    def wakes(self) -> Wakes:
        """The permits that come when hidden messages of this process do."""
        return Wakes(self.clock.monotonic)

    def put_ahead(self, is_due: Callable[[], object]) -> PutAhead:
        """Build what puts messages that tasks of this process take before those on the queues, while it is due."""
        return PutAhead(partial(send_on, self.stores.connections.queues), is_due, self.own.note)

    @cached_property
    def depth(self) -> DepthSample:
        """The messages on the work queues, for predictions. Read for jobs with a deadline only."""
        return DepthSample(lambda: self.read_depth() + self.following.waiting(), self.clock, LOOK_EVERY)

    def read_depth(self) -> int:
        """Read how many messages the work queues hold."""
        return sum(source.depth() for source in self.stores.work_queues(self.settings.work_queues))

    @cached_property
    def overtaking(self) -> Overtaking:
        """Chooses the urgent lane."""
        return Overtaking(ledger=self.stores.ledger, following=self.following, depth=self.depth.depth)

    @cached_property
    def notifier(self) -> Notifier:
        """Sends permits for a put."""
        stores = self.stores
        return Notifier(
            policy=self.settings.notify,
            when=self.settings.notify_when,
            fleet=self.permitted,
            slots=stores.slots,
            send=stores.send_permits,
            depth=self.read_depth,
            spare=Spare(self.clock.monotonic),
        )

    @cached_property
    def top_up(self) -> TopUp:
        """Sends the permits that were lost."""
        return TopUp(slots=self.stores.slots, fleet=self.permitted, send=self.stores.send_permits)

    def worker(self, handle: Callable[[Delivery], object], feeder: Feeder, stop: Event, lanes: int) -> PermitWorker:
        """Build the worker that receives permits in a process of its own."""
        feed = replace(feeder, stop=stop, pause=stop.wait).follow
        drain = replace(self.drain(handle, feed), stop=stop)
        return PermitWorker(self.stores.connections, drain, lanes=lanes)

    def drain(self, handle: Callable[[Delivery], object], feed: Callable[[int], object]) -> Drain:
        """Build the drain that follows permits. A feed call it gives to `feed`."""
        stores = self.stores
        return Drain(
            sources=stores.work_queues(self.settings.work_queues),
            handle=handle,
            fleet=self.permitted,
            slots=stores.slots,
            send=stores.send_permits,
            clock=self.clock,
            urgent=self.urgent,
            own=self.own,
            wakes=self.wakes,
            look=self.following.notice_work,
            feed=feed,
            waiting=self.following.waiting,
            visibility=VISIBILITY,
        )

    def hint_follower(self, handle: Callable[[Delivery, float], None]) -> HintFollower:
        """Build the follower of hints."""
        stores = self.stores
        return HintFollower(
            sources=stores.intake_queues(self.settings.rooms),
            sweep=partial(sweep, clock=self.clock, visibility=VISIBILITY),
            handle=handle,
            park=stores.park_spent,
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
        )


class AppStages:
    """The stages of one process, each made at its first use. Making one makes no request."""

    def __init__(self, stores: Stores, settings: Settings, workloads: Workloads) -> None:
        self.stores, self.settings, self.workloads = stores, settings, workloads
        self.clock, self.telemetry = stores.clock, stores.connections.telemetry
        #: Lent to chunks and submissions alike: one bound per process.
        self.memory, self.limits = Memory(WORK), Limits()
        self.deliveries = Deliveries(stores.attempts, stores.parking, settings.poison)
        self.tasks = Tasks(stores, settings)

    @cached_property
    def arrivals(self) -> Arrivals:
        """Accepts submissions."""
        stores = self.stores
        acceptance = Acceptance(
            ledger=stores.ledger,
            stores=self.payload_stores,
            plans=stores.plans,
            planning=self.planning,
            starter=self.starter,
            waiting=self.succession,
            stretching=self.stretching,
            ranges=self.range_call,
            pending=stores.pending,
            clock=self.clock,
            sums=self.sums,
            limits=self.limits,
            sizes=self.sizes,
            overdue=self.settings.chunk_overdue,
            memory=self.memory,
            telemetry=self.telemetry,
        )
        return Arrivals(acceptance, self.deliveries)

    @cached_property
    def payload_stores(self) -> PayloadStores:
        """The payloads of rooms. A room whose container is gone gets a pointer."""
        return PayloadStores(self.stores.container, self.limits, point_at(self.stores.pending))

    @cached_property
    def sums(self) -> Mapping[str, Collection[str]]:
        """The workloads of this installation, each with the fields that it adds up."""
        return {name: self.workloads.find(name).sums for name in self.workloads}

    @cached_property
    def sizes(self) -> ChunkSizes:
        """Chooses the sizes of chunks."""
        return ChunkSizes(self.settings.chunk_items, self.stores.speeds, self.workloads)

    @cached_property
    def planning(self) -> Planning:
        """Numbers planned jobs, and asks their gates."""
        return Planning(self.stores.ids, self.stores.held_work)

    @cached_property
    def succession(self) -> Succession:
        """Starts jobs that wait for others."""
        stores = self.stores
        return Succession(
            ledger=stores.ledger,
            pending=stores.pending,
            plans=stores.plans,
            planning=self.planning,
            make_plan=SourceLines(
                outputs=stores.container("outputs"),
                stores=self.payload_stores,
                sums=self.sums,
                limits=self.limits,
                sizes=self.sizes,
                memory=self.memory,
            ),
            starter=self.starter,
            hints=stores.signals,
            clock=self.clock,
            overdue=self.settings.chunk_overdue,
        )

    @cached_property
    def stretching(self) -> Stretching:
        """Takes the stretches of growing jobs."""
        stores = self.stores
        return Stretching(
            ledger=stores.ledger,
            stores=self.payload_stores,
            plans=stores.plans,
            ids=stores.ids,
            sizes=self.sizes,
            sums=self.sums,
            limits=self.limits,
            starter=self.starter,
            ranges=self.range_call,
            finish=self.finish_call,
            halts=stores.halts,
            pending=stores.pending,
            clock=self.clock,
            overdue=self.settings.chunk_overdue,
            retention=self.settings.retention,
            memory=self.memory,
        )

    @cached_property
    def range_call(self) -> RangeCall:
        """Puts the messages of ranges of files."""
        stores = self.stores
        return RangeCall(
            ledger=stores.ledger,
            cuts=StretchStore(stores.container(PLANS), self.limits, check=str),
            put=stores.put,
            waking=self.tasks.waking,
            work_queues=self.settings.work_queues,
            clock=self.clock,
        )

    @cached_property
    def range_cutter(self) -> RangeCutter:
        """Cuts ranges of files."""
        return RangeCutter(
            ledger=self.stores.ledger,
            stores=self.payload_stores,
            sizes=self.sizes,
            limits=self.limits,
            call=self.range_call,
            stretching=self.stretching,
            starter=self.starter,
            clock=self.clock,
            memory=self.memory,
        )

    @cached_property
    def starter(self) -> Starter:
        """Dispatches jobs that may start and holds the others."""
        stores = self.stores
        return Starter(
            ledger=stores.ledger,
            gates=stores.held_work,
            dispatcher=self.dispatcher,
            direct=DirectPuts(following=self.tasks.following, depth=self.tasks.read_depth, clock=self.clock),
            ready=stores.ready,
            call_feeder=stores.call_feeder,
            pending=stores.pending,
            clock=self.clock,
            overdue=self.settings.chunk_overdue,
            list_failures=lambda job: stores.attempts.list_failures(job),  # noqa: PLW0108 - made at its first use
            look_at_waiting=lambda job, until: self.succession.look(job, until),  # noqa: PLW0108 - made at its first use
            go_on_growing=lambda job, until: self.stretching.go_on(job, until),  # noqa: PLW0108 - made at its first use
        )

    @cached_property
    def feeder(self) -> Feeder:
        """Puts the chunks of jobs that wait for their turn."""
        stores, tasks = self.stores, self.tasks
        return Feeder(
            ledger=stores.ledger,
            ready=stores.ready,
            dispatcher=self.dispatcher,
            fleet=stores.fleet,
            following=tasks.following,
            lease=stores.slots.lease_feeder,
            call=stores.call_feeder,
            queues=[*stores.work_queues(self.settings.work_queues), tasks.urgent],
            speed=stores.speeds.read,
            clock=self.clock,
            parallel=stores.parallel,
        )

    @cached_property
    def dispatcher(self) -> Dispatcher:
        """Puts chunks on the work queues."""
        stores, finish = self.stores, self.finish_call
        return Dispatcher(
            ledger=stores.ledger,
            plans=stores.plans,
            enclose=Enclosing(PayloadStores(stores.container, self.limits), self.limits),
            send=stores.put,
            send_first=self.tasks.put_ahead(lambda: True),
            finish=finish.send,
            halts=stores.halts,
            clock=self.clock,
            work_queues=self.settings.work_queues,
            most_puts=partial(self.tasks.following.puts, MOST),
            waking=self.tasks.waking,
            lane=self.tasks.overtaking,
            memory=self.memory,
            telemetry=self.telemetry,
        )

    @cached_property
    def finish_call(self) -> FinishCall:
        """Requests the finish of jobs."""
        stores, tasks, settings = self.stores, self.tasks, self.settings
        sizes = {"work_queues": settings.work_queues, "slot_tasks": settings.permit_tasks}
        return FinishCall(
            stores.put,
            stores.pending,
            self.clock,
            tasks.waking,
            lane=tasks.overtaking,
            send_finish=tasks.put_ahead(tasks.following.waiting),
            **sizes,
        )

    @cached_property
    def processor(self) -> Processor:
        """Processes chunks and finishes jobs."""
        stores = self.stores
        return Processor(
            Tools(
                workloads=self.workloads,
                read=PayloadReader(PayloadStores(stores.container), self.memory),
                ledger=stores.ledger,
                results=stores.results,
                so_far=stores.so_far,
                send=stores.send_result,
                parking=stores.parking,
                deliveries=self.deliveries,
                finishing=self.finisher,
                ranging=self.range_cutter,
                pace=CallLimits(stores.slots, self.clock, self.settings.limits).pace,
                is_halted=self.tasks.following.is_halted,
                look_beside=self.tasks.following.look_beside,
                run_alone=Alone(loaded=self.workloads.loaded, policy=self.settings.poison, clock=self.clock),
                note_first=stores.first_chunks.note,
                weigh=self.tasks.following.gauge.weigh,
                clock=self.clock,
                merged_most=self.settings.merged_most,
                telemetry=self.telemetry,
            )
        )

    @cached_property
    def finisher(self) -> Finisher:
        """Finishes jobs."""
        stores = self.stores
        return Finisher(
            FinishTools(
                ledger=stores.ledger,
                results=stores.container("results"),
                outputs=stores.container("outputs"),
                totals=stores.totals,
                workloads=self.workloads,
                outbox=stores.outbox,
                call=self.finish_call,
                note_speed=stores.speeds.note,
                wake_waiters=stores.wake_waiters,
                clock=self.clock,
                merged_most=self.settings.merged_most,
                telemetry=self.telemetry,
            )
        )

    @cached_property
    def settler(self) -> Settler:
        """Credits results to jobs."""
        stores, call, policy = self.stores, self.finish_call, self.settings.poison
        ledger, parking, groups, later = stores.ledger, stores.parking, stores.groups, stores.send_result.send_later
        return Settler(
            ledger,
            call,
            parking,
            groups,
            self.clock,
            send_later=later,
            halts=stores.halts,
            policy=policy,
            merged_most=self.settings.merged_most,
            parallel=stores.parallel,
            telemetry=self.telemetry,
        )

    @cached_property
    def releaser(self) -> Releaser:
        """Starts the work held behind gates."""
        stores = self.stores
        batches = Batches(stores.held_work, self.starter, self.clock, stores.parallel)
        return Releaser(
            stores.gates,
            Outflow(
                stores.held_work,
                batches,
                stores.slices,
                stores.rolls,
                self.clock,
                self.tasks.following.chunk_seconds,
            ),
            self.starter,
            stores.receipts,
            stores.signals,
            clock=self.clock,
            telemetry=self.telemetry,
        )

    @cached_property
    def sweep(self) -> Sweep:
        """Follows the pointers to jobs."""
        stores = self.stores
        return Sweep(
            ledger=stores.ledger,
            pending=stores.pending,
            starter=self.starter,
            stretching=self.stretching,
            fronts=self.fronts,
            results=WaitingResults(stores.connections, self.clock),
            finish=self.finish_call,
            retention=Retention(
                ledger=stores.ledger,
                parked=stores.parked_table,
                pending=stores.pending,
                bytes=stores.job_bytes,
                forget_night=stores.job_list.forget_night,
                clock=self.clock,
                period=self.settings.retention,
            ),
            clock=self.clock,
            overdue=self.settings.chunk_overdue,
        )

    @cached_property
    def fronts(self) -> QueueFronts:
        """Reads what the work queues have handed out."""
        stores = self.stores
        client = stores.connections.queues.get_queue_client
        queues = list(map(client, work_queue_names(self.settings.work_queues)))
        return QueueFronts(queues, stores.pending, self.clock, client(URGENT))

    @cached_property
    def halt_follower(self) -> HaltFollower:
        """Follows the pointers to halted jobs."""
        return HaltFollower(halts=self.stores.halts, fronts=self.fronts.of)

    @cached_property
    def erasures(self) -> Erasures:
        """Proves that nothing of an erased job is left."""
        stores = self.stores
        return Erasures(
            ledger=stores.ledger,
            pending=stores.pending,
            remains=stores.remains,
            read_halted=lambda: stores.fleet.read().halts,
            read_results=partial(read_front, stores.connections, "results"),
            queue=stores.connections.queues.get_queue_client,
            work_queues=self.settings.work_queues,
            clock=self.clock,
        )

    @cached_property
    def orphans(self) -> Orphans:
        """Deletes payloads without a submission."""
        stores = self.stores
        return Orphans(
            ledger=stores.ledger,
            parked=stores.parked_table,
            pending=stores.pending,
            container=stores.container,
            queue=stores.connections.queues.get_queue_client,
            rooms=self.settings.rooms,
            clock=self.clock,
            retention=self.settings.retention,
        )

    @cached_property
    def rooms(self) -> Rooms:
        """Keeps the containers and queues of rooms in order."""
        return Rooms(
            rooms=self.settings.rooms,
            work_queues=self.settings.work_queues,
            blobs=self.stores.connections.blobs,
            queues=self.stores.connections.queues,
            pending=self.stores.pending,
            clock=self.clock,
            drain=partial(drain_poison, parking=self.stores.parking, attempts=self.stores.attempts),
        )
