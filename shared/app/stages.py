"""Builds each stage of a process, once, from stores and settings."""

from functools import cached_property, partial

from shared.app.stores import Stores
from shared.app.tasks import Tasks
from shared.gate import Batches, Outflow, Releaser
from shared.memory import Memory
from shared.parked import Deliveries
from shared.payload import WORK, Limits, PayloadReader, PayloadStores
from shared.pipeline import (
    MOST,
    Acceptance,
    Arrivals,
    ChunkSizes,
    Dispatcher,
    Enclosing,
    FinishCall,
    Finisher,
    FinishTools,
    Orphans,
    Processor,
    PutAgain,
    QueueFronts,
    Retention,
    Rooms,
    Settler,
    Starter,
    Sweep,
    Tools,
    WaitingResults,
    point_at,
)
from shared.scaling import Warmer, connect_manager
from shared.settings import Settings
from shared.topology import URGENT, work_queue_names
from shared.workloads import Workloads


class AppStages:
    """The stages of one process, each made at its first use. Making one makes no request."""

    def __init__(self, stores: Stores, settings: Settings, workloads: Workloads) -> None:
        self.stores, self.settings, self.workloads = stores, settings, workloads
        self.clock, self.telemetry = stores.clock, stores.connections.telemetry
        #: Lent to chunks and submissions alike: one bound per process.
        self.memory, self.limits = Memory(WORK), Limits()
        self.deliveries = Deliveries(stores.attempts, settings.poison)
        self.tasks = Tasks(stores, settings)

    @cached_property
    def arrivals(self) -> Arrivals:
        """Accepts submissions."""
        stores = self.stores
        acceptance = Acceptance(
            ledger=stores.ledger,
            stores=PayloadStores(stores.container, self.limits, point_at(stores.pending)),
            plans=stores.plans,
            ids=stores.ids,
            gates=stores.held_work,
            start=self.starter.start,
            pending=stores.pending,
            clock=self.clock,
            sums={name: self.workloads.find(name).sums for name in self.workloads},
            limits=self.limits,
            sizes=ChunkSizes(self.settings.chunk_items, stores.speeds, self.workloads),
            overdue=self.settings.chunk_overdue,
            memory=self.memory,
            telemetry=self.telemetry,
        )
        return Arrivals(acceptance, stores.parking, self.deliveries)

    @cached_property
    def starter(self) -> Starter:
        """Dispatches jobs that may start and holds the others."""
        stores = self.stores
        return Starter(
            ledger=stores.ledger,
            gates=stores.held_work,
            dispatcher=self.dispatcher,
            again=PutAgain(ledger=stores.ledger, dispatcher=self.dispatcher, clock=self.clock),
            hints=stores.signals,
            pending=stores.pending,
            clock=self.clock,
            overdue=self.settings.chunk_overdue,
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
            finish=finish.send,
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
        return FinishCall(stores.put, stores.pending, self.clock, tasks.waking, lane=tasks.overtaking, **sizes)

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
                send=stores.send_result,
                parking=stores.parking,
                deliveries=self.deliveries,
                finishing=self.finisher,
                note_first=stores.first_chunks.note,
                weigh=self.tasks.following.gauge.weigh,
                clock=self.clock,
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
            ledger, call, parking, groups, self.clock, send_later=later, policy=policy, telemetry=self.telemetry
        )

    @cached_property
    def releaser(self) -> Releaser:
        """Starts the work held behind gates."""
        stores = self.stores
        batches = Batches(stores.held_work, self.starter, self.clock, stores.parallel)
        return Releaser(
            stores.gates,
            Outflow(stores.held_work, batches, stores.slices, self.clock, self.tasks.following.chunk_seconds),
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
            fronts=self.fronts,
            results=WaitingResults(stores.connections, self.clock),
            finish=self.finish_call,
            retention=Retention(
                ledger=stores.ledger,
                parked=stores.parked_table,
                pending=stores.pending,
                plans=stores.plans,
                container=stores.container,
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
        lane = client(URGENT) if self.tasks.overtaking else None
        return QueueFronts(queues, stores.pending, self.clock, lane)

    @cached_property
    def warmer(self) -> Warmer:
        """Warms instances before planned openings, by an identity that is loaded for this alone."""
        stores, settings = self.stores, self.settings
        return Warmer(
            records=stores.warm_records,
            sources=stores.warm_sources,
            manager=partial(connect_manager, settings.warm.endpoint, client_id=settings.warm.identity, retries=0),
            site=settings.warm.site,
            wanted=settings.instance_request,
            overdue=settings.chunk_overdue,
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
        )
