"""Every table, container, queue and topic of an installation, each made once, and a person's operations on them."""

import secrets
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import date, timedelta
from decimal import Decimal
from functools import cached_property, partial
from typing import TYPE_CHECKING, Final

from shared.app.gate_stores import GateStores
from shared.azure import BlobStore, Connections, put_on
from shared.clock import Clock
from shared.concurrency import FleetTable, RulesBlob
from shared.dequeue import CONTAINER, BlobSlots, WorkQueue
from shared.gate import (
    PARALLEL,
    TIMETABLES,
    FirstChunks,
    HeldWork,
    Opening,
    ReceiptTable,
    Rolls,
    Slices,
    TimetableRow,
    Timetables,
)
from shared.ids import RangeGenerator
from shared.ledger import NightTable, TableLedger
from shared.messages import Delivery, Permit
from shared.operating import (
    ActForecaster,
    DiffReader,
    Finder,
    ForecastCheck,
    GateForecaster,
    GateReader,
    JobEraser,
    JobOperator,
    JobReader,
    NightOperator,
    OutputReader,
    ParkedOperator,
    Replayer,
    ReplayTable,
    Timetabler,
    draw_owner,
    nobody,
    note_roll,
)
from shared.outbox import BusAnnouncements, Outbox
from shared.parked import (
    MOST_OF_CAUSE,
    MOST_OF_ROOM,
    Attempts,
    CauseCheck,
    CauseIndex,
    Overflow,
    ParkedTable,
    Parking,
    QueuesPut,
    Stages,
    name_room,
    park_spent,
)
from shared.pending import OUTBOX_POINTER, point_at_work
from shared.pipeline import (
    BusResults,
    FinishCall,
    GroupBlobs,
    Halts,
    JobBytes,
    PlanStore,
    ReadyTable,
    Remains,
    ResultStore,
    SoFarStore,
    Speeds,
    TotalsTable,
    WakeWaiters,
    accept_stage,
    explain_seal,
    is_finishing,
    settle_stage,
    work_stages,
)
from shared.settings import Dequeue
from shared.signals import (
    BusFeedCalls,
    BusPermits,
    HttpHints,
    QueueFeedCalls,
    QueuePermits,
    Signals,
)
from shared.topology import GUARD, URGENT, WAKE, submission_queue, work_queue_names
from shared.usage import DayBudget, Diary, load, price_causes, read_day
from shared.watch import NeedKind, TickNeeds

if TYPE_CHECKING:
    from shared.scaling import WarmChoice

#: Seconds for which a received message is hidden.
VISIBILITY: Final = int(GUARD.total_seconds())
#: The sequence that numbers the transactions of all jobs.
TRANSACTION_IDS: Final = "transactions"


class Stores(GateStores):
    """The stores of one installation, closed with their connections at the latest. Making them makes no request."""

    def __init__(
        self,
        connections: Connections,
        *,
        clock: Clock | None = None,
        signals: Signals | None = None,
        parallel: int = PARALLEL,
        dequeue: Dequeue = Dequeue.PUSH,
    ) -> None:
        """`dequeue` says what carries permits."""
        super().__init__(connections, clock=clock, signals=signals)
        table = connections.tables.get_table_client
        self.tick_needs = TickNeeds(self.watch, self.clock)
        self.ledger = TableLedger(
            table("jobs"), table("jobindex"), clock=self.clock, watch=self.watch, nights=NightTable(table("nights"))
        )
        self.job_list = self.ledger.list
        self.ready = ReadyTable(table("pending"))
        self.plans = PlanStore(self.container)
        self.results, self.groups = ResultStore(self.container("results")), GroupBlobs(self.container("results"))
        self.so_far = SoFarStore(self.container("results"))
        self.totals = TotalsTable(table("totals"))

        point = partial(point_at_work, self.pending, self.clock)
        self.held_work = HeldWork(self.gates, self.held, connections.queues, self.clock, point)
        #: Held rows dispatched at a time.
        self.parallel = parallel
        self.slices = Slices(self.container("gates"), self.clock)
        note_rolled = partial(note_roll, self.audit)
        self.rolls = Rolls(self.container("gates"), self.held_work, self.pending, self.clock, note_rolled)
        self.receipts = ReceiptTable(table("receipts"))
        self.first_chunks = FirstChunks(table("receipts"), self.clock, connections.telemetry)

        self.causes = CauseIndex(table("decisions"), secrets.token_hex(6))
        self.overflow = Overflow(self.container("parked"), self.causes, self.clock, self._note_flood)
        self.parked_table = ParkedTable(table("parked"), self.container("parked"), self.causes, self.overflow)
        self.cause_check = CauseCheck(
            self.parked_table,
            self.causes,
            self.overflow,
            self.clock,
            partial(self.tick_needs.keep, NeedKind.ROOM_FLOODS),
        )
        self.attempts = Attempts(table("parked"), self.clock)
        self.replays = ReplayTable(table("replays"))

        self.fleet = FleetTable(table("decisions"))
        self.halts = Halts(ledger=self.ledger, fleet=self.fleet, pending=self.pending, clock=self.clock)
        self.rules = RulesBlob(self.container("settings"))
        self.timetables = Timetables(BlobStore(self.container("settings"), TIMETABLES))
        self.slots = BlobSlots(self.container(CONTAINER), self.clock)
        self.speeds = Speeds(lambda name: BlobStore(self.container("settings"), f"speed/{name}"))
        self.usage = table("usage")

        # Each connects to the bus at its first send.
        self.send_result = BusResults(connections, self.clock)
        wake, is_pushed = connections.queues.get_queue_client(WAKE), dequeue is Dequeue.PUSH
        self.send_permits = BusPermits(connections, self.clock) if is_pushed else QueuePermits(wake)
        self.call_feeder = BusFeedCalls(connections, self.clock) if is_pushed else QueueFeedCalls(wake)
        self._announce = BusAnnouncements(connections)
        self.send_hint = HttpHints(connections)

        # Every stage that can park. Register another one here.
        self.put, self.put_back = partial(put_on, connections.queues), QueuesPut(connections.queues, point)
        parking_stages = Stages(
            accept_stage(self.ledger, self.put_back),
            *work_stages(self.ledger, self.put_back, self.send_result),
            settle_stage(self.ledger, self.send_result),
        )
        self.parking = Parking(
            self.parked_table,
            self.clock,
            parking_stages,
            lambda job, revision: bool(explain_seal(self.ledger, job, revision)),
        )
        self.outbox = Outbox(
            self.ledger,
            self.pending,
            self._announce,
            self.clock,
            kind=OUTBOX_POINTER,
            awaits=partial(is_finishing, self.ledger),
        )

    def sequence(self, name: str) -> BlobStore:
        """Build the store of a sequence of ids."""
        return BlobStore(self.container("ids"), name)

    @cached_property
    def ids(self) -> RangeGenerator:
        """The ids of transactions. A job takes one block of its own size, so nothing is fetched ahead."""
        return RangeGenerator(self.sequence(TRANSACTION_IDS), prefetch=False)

    @cached_property
    def diary(self) -> Diary:
        """The record of this process's requests."""
        return Diary(self.usage, self.connections.meter.tally, self.clock)

    def build_timetabler(self, choice: "WarmChoice | None") -> Timetabler:
        """Build what sets and follows timetables. `choice`: whose instances their openings warm."""

        def warm(gate: str, row: TimetableRow) -> Callable[[Opening, int], object] | None:
            if choice is None or not choice.site:
                return None
            # An app without the capability warming does not load it.
            from shared.scaling import WarmRequest, records_of  # noqa: PLC0415

            if row.minutes is None:
                return lambda _opening, _epoch: records_of(self).drop(gate)
            wanted = WarmRequest(choice.site, timedelta(minutes=row.minutes), choice.most)
            return partial(records_of(self).plan, gate, wanted)

        return Timetabler(
            timetables=self.timetables,
            gates=self.gates,
            operator=self.gate_operator,
            pending=self.pending,
            audit=self.audit,
            warm=warm,
            foretell=self.gate_forecaster.foretell,
            clock=self.clock,
        )

    @property
    def job_bytes(self) -> JobBytes:
        """The bytes of a job, for its retention and its erasure."""
        return JobBytes(ledger=self.ledger, plans=self.plans, container=self.container)

    @property
    def remains(self) -> Remains:
        """All that is left of a job that is erased."""
        return Remains(
            ledger=self.ledger,
            list=self.job_list,
            bytes=self.job_bytes,
            table=self.connections.tables.get_table_client,
            parked=self.parked_table,
            causes=self.causes,
            overflow=self.overflow,
            watch=self.watch,
        )

    @property
    def job_eraser(self) -> JobEraser:
        """Erases jobs for a person."""
        return JobEraser(
            ledger=self.ledger,
            halts=self.halts,
            pending=self.pending,
            audit=self.audit,
            remains=self.remains,
            wake_waiters=self.wake_waiters,
            clock=self.clock,
        )

    @property
    def night_operator(self) -> NightOperator:
        """Acts on the jobs of a night for a person."""
        return NightOperator(self.job_operator, self.job_eraser)

    def _note_flood(self, room: str) -> None:
        """Note that messages of a room go to files, because so many are parked at its door."""
        found = f"more than {MOST_OF_CAUSE} of a cause, or {MOST_OF_ROOM:,} in all, are parked at its door"
        self.tick_needs.stand(NeedKind.ROOM_FLOODS, name_room(room), found, is_grave=True)

    @property
    def wake_waiters(self) -> WakeWaiters:
        """Sends the hints for the jobs that wait for one."""
        return WakeWaiters(hints=self.signals, pending=self.pending, clock=self.clock)

    @property
    def job_operator(self) -> JobOperator:
        """Pauses, resumes, stops and reruns jobs for a person."""
        return JobOperator(
            ledger=self.ledger,
            halts=self.halts,
            finish=FinishCall(self.put, self.pending, self.clock, self._waking_one),
            pending=self.pending,
            audit=self.audit,
            parked=self.parked_table,
            hints=self.signals,
            wake_waiters=self.wake_waiters,
            clock=self.clock,
        )

    @property
    def diff_reader(self) -> DiffReader:
        """Compares the totals of two runs of a job."""
        return DiffReader(outputs=self.container("outputs"), totals=self.totals)

    def build_parked_operator(
        self, pause: Callable[[float], object], *, wake: Callable[[], object] = nobody, kind: str = "command"
    ) -> ParkedOperator:
        """Build the operator that replays and discards for a person. It calls `wake` after it put work back."""
        return ParkedOperator(
            table=self.parked_table,
            causes=self.causes,
            overflow=self.overflow,
            replays=self.replays,
            pending=self.pending,
            audit=self.audit,
            replayer=Replayer(self.parked_table, self.parking.stages, wake),
            fleet=self.fleet,
            clock=self.clock,
            pause=pause,
            watch=self.watch,
            owner=draw_owner(kind),
        )

    @contextmanager
    def _waking_one(self, _messages: int, _coming: int, _payload_bytes: float | None = None) -> Iterator[None]:
        yield
        self.wake_workers()

    def wake_workers(self) -> None:
        """Have an instance look at the work queues."""
        self.send_permits([Permit(slot=0, depth=1, tasks=1)])

    @cached_property
    def replay_stepper(self) -> ParkedOperator:
        """Goes on with replays in the tick."""
        return self.build_parked_operator(time.sleep, wake=self.wake_workers, kind="tick")

    @property
    def urgent(self) -> WorkQueue:
        """The urgent lane, in the form that a listener takes."""
        return WorkQueue(self.connections.queues.get_queue_client(URGENT), self.clock, VISIBILITY)

    def work_queues(self, number: int) -> list[WorkQueue]:
        """Build the work queues in the form that a listener takes."""
        clients = (self.connections.queues.get_queue_client(name) for name in work_queue_names(number))
        return [WorkQueue(client, self.clock, VISIBILITY) for client in clients]

    def trigger_queue(self, name: str) -> WorkQueue:
        """Build a queue whose messages come by a trigger."""
        return WorkQueue(self.connections.queues.get_queue_client(name), self.clock, VISIBILITY)

    def intake_queues(self, rooms: Sequence[str]) -> list[WorkQueue]:
        """Build the queues of submissions, of the common room and of these, in the form that a listener takes."""
        clients = (self.connections.queues.get_queue_client(submission_queue(room)) for room in ("", *rooms))
        return [WorkQueue(client, self.clock, VISIBILITY) for client in clients]

    def job_reader(self, work_queues: int) -> JobReader:
        """Build the reader of a job and what is around it."""
        return JobReader(
            ledger=self.ledger,
            attempts=self.attempts,
            parked=self.parked_table,
            queues=self.connections.queues,
            ready=self.ready,
            audit=self.audit,
            work_queues=work_queues,
        )

    @property
    def output_reader(self) -> OutputReader:
        """The reader of the outputs of jobs."""
        return OutputReader(
            outputs=self.container("outputs"), totals=self.totals, ledger=self.ledger, results=self.container("results")
        )

    def park_spent(self, delivery: Delivery) -> None:
        """Park a submission that was delivered as often as the host allows."""
        why = f"it was delivered {delivery.count} times from {delivery.queue}"
        park_spent(self.parking, delivery, [delivery.message_id], why)

    def day_budget(self, budget: Decimal | None) -> DayBudget:
        """Build the budget of the day. It makes one request per decision, and none without a budget."""
        return DayBudget(budget=budget, prices=load(), noted_on=lambda day: read_day(self.usage, day))

    def read_costs(self, day: date) -> Mapping[str, float]:
        """Return the cost of a day by the cause of its requests. One request."""
        return price_causes(read_day(self.usage, day), load())

    @property
    def finder(self) -> Finder:
        """Finds jobs, gates and causes by a part of their names."""
        return Finder(self.job_list, self.gate_reader().list_names, lambda: self.parked_table.read_causes().causes)

    @property
    def gate_forecaster(self) -> GateForecaster:
        """Says what opening a gate would start."""
        return GateForecaster(self.held, self.job_list, self.fleet, self.speeds)

    @property
    def act_forecaster(self) -> ActForecaster:
        """Says what an act on jobs or a replay would do."""
        return ActForecaster(ledger=self.ledger, fleet=self.fleet.read, speeds=self.speeds)

    @property
    def forecast_check(self) -> ForecastCheck:
        """Compares the forecast of a gate's last opening with the outcome."""
        return ForecastCheck(self.audit, self.gates, self.job_list, self.ledger)

    def gate_reader(self) -> GateReader:
        """Build the reader of all gates. It remembers what it has read."""
        return GateReader(self.container("gates"), self.gates, self.held)

    def close(self) -> None:
        """Close the senders' connections to the bus."""
        self.send_result.close()
        self.send_permits.close()
        self.call_feeder.close()
        self._announce.close()
        self.send_hint.close()
        super().close()
