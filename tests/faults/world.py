"""What outlasts every process of a run: storage, bus, clock and journal; and the processes that work on them."""

from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from types import SimpleNamespace
from unittest.mock import patch

from azure.core.exceptions import HttpResponseError, ResourceExistsError, ResourceNotFoundError
from azure.storage.blob import BlobLeaseClient

from shared.app import App, Stores, Takeovers
from shared.azure import BlobStore
from shared.azure.connection_settings import BUS_CONNECTION, STORAGE_CONNECTION
from shared.dequeue import CONTAINER, BlobSlots, WorkQueue
from shared.gate import TimetableRow
from shared.ids import RangeGenerator
from shared.parked.poison_policy import KillerError, note_item
from shared.payload import Limits
from shared.pending import RETENTION_POINTER, ROLL_POINTER, PendingTable
from shared.pipeline import SHARD_BYTES, SHARDS, Finisher
from shared.pipeline.finish_blobs import SPAN_BYTES
from shared.pipeline.outputs import run_in_parts
from shared.pipeline.segments import CUT_ABOVE
from shared.publish import Publisher
from shared.settings import Settings
from shared.workloads.registry import Workloads
from tests.faults.bus import Bus, BusConnections
from tests.faults.host import HIDDEN, Host
from tests.faults.plan import Plan
from tests.faults.sales import DyingError, LinedSales, LongLinedSales, Sales, SplitSales

NOON = datetime(2026, 11, 20, 12, tzinfo=UTC)
SETTINGS = Settings.parse(
    {
        STORAGE_CONNECTION: "this run's",
        BUS_CONNECTION: "this run's",
        "SLUICE_TICK_SCHEDULE": "by hand",
        "SLUICE_CHUNK_ITEMS": "2",
    }
)
#: Two transactions a frame, and a message so small that a payload needs a blob.
SMALL = Limits(frame_items=2, message_bytes=500)
#: A frame of two transactions is a stretch.
STRETCHED = Limits(frame_items=2, message_bytes=500, stretch_bytes=80)
INLINE = Limits(frame_items=2)
QUEUES = ("submissions", "work-00", "submissions-poison", "work-00-poison")
#: No pointer is due later than that.
FURTHEST = timedelta(days=10_000)
#: Ticks that recovery may take.
MOST_TICKS = 8
GATE = "nightly"


class ManualClock:
    """A clock that a run moves."""

    def __init__(self):
        self.at = NOON

    def now(self):
        """Return the time that was set."""
        return self.at

    def monotonic(self):
        """Return the same in seconds."""
        return self.at.timestamp()

    def of_reply(self, told):
        """Return the time that was set, whatever storage tells."""
        return self.now()

    def advance(self, **duration):
        """Move it."""
        self.at += timedelta(**duration)


class World:
    """One installation and its jobs."""

    settings = SETTINGS
    queues = QUEUES
    #: Chunks of a segment. None: as many as the app takes.
    segment_chunks = None
    #: Chunks of a job that are put at once; the others wait for their turn. None: as many as the app puts.
    direct = None
    #: The bounds of payloads in the app.
    limits = Limits()
    workload, shards, shard_bytes = Sales, SHARDS, SHARD_BYTES
    cut_above, span_bytes = CUT_ABOVE, SPAN_BYTES

    def __init__(self, storage, journal):
        self.storage, self.journal, self.clock = storage, journal, ManualClock()
        storage.follow(self.clock.now)
        self.bus, self.sales = Bus(journal, self.clock.now), self.workload(journal.note)
        self.workloads = Workloads([self.sales])
        self.published, self.letter = {}, b""
        self._observer = storage.connections()

    def app(self, plan=None):
        """Return a process of the app."""
        return Process(self, plan or Plan(note=self.journal.note))

    def depths(self, queues=None):
        """Return how many messages each queue has, hidden ones included."""
        return {name: self.storage.depth(name, self._observer) for name in queues or self.queues}

    def lose_messages(self, *, but_submissions=True):
        """Lose what is on every queue and the whole bus; publishers' messages stay unless they are to go as well."""
        self._observer.queues.get_queue_client("work-00").clear_messages()
        queue = self._observer.queues.get_queue_client("submissions")
        while self.depths(["submissions"])["submissions"] and (found := self._all_of(queue)):
            for message in found:
                queue.delete_message(message)
                if but_submissions:
                    self.journal.note("kept", message.content)
        for (content,) in self.journal.entries("kept"):
            queue.send_message(content, time_to_live=-1)
        self.bus.lose()

    def _all_of(self, queue):
        for _ in range(30):
            if found := list(queue.receive_messages(max_messages=32, visibility_timeout=30)):
                return found
            self.storage.wait(0.1)
        return []

    def unfinished(self):
        """Name everything that still waits for somebody: pointers, held rows, messages on the bus."""
        kept = {RETENTION_POINTER, ROLL_POINTER}
        pending = [f"{one.kind} {one.row_key}" for one in self._pointers() if one.kind not in kept]
        held = [f"held {row['RowKey']}" for row in self._observer.tables.get_table_client("held").list_entities()]
        if held:
            self.end_leases()
        poison = [name for name, count in self.depths().items() if count and name.endswith("-poison")]
        if poison:
            # Whoever took it may have ended; it comes back when nobody hides it any more.
            self.storage.wait(HIDDEN)
        return (
            pending
            + held
            + poison
            + [f"letter to {one.entity}" for name in ("results", "signals") for one in self.bus.waiting(name)]
        )

    def end_leases(self):
        """End the leases on slices, as time does within a minute: what held them may have been killed."""
        for place, begin in (("gates", "_slice"), ("settings", "migrate-")):
            container = self._observer.blobs.get_container_client(place)
            for blob in container.list_blobs(name_starts_with=begin):
                # Its holder may have removed it, or its lease may never have been given.
                with suppress(HttpResponseError):
                    BlobLeaseClient(container.get_blob_client(blob.name)).break_lease(0)

    def retained(self):
        """Return the jobs whose bytes are kept until their retention is over."""
        return {pointer.id for pointer in self._pointers() if pointer.kind == RETENTION_POINTER}

    def kept_rolls(self):
        """Return the rolls that are kept until their retention is over."""
        return {pointer.id for pointer in self._pointers() if pointer.kind == ROLL_POINTER}

    def _pointers(self):
        return list(PendingTable(self._observer.tables.get_table_client("pending")).due(self.clock.now() + FURTHEST))

    def next_id(self):
        """Return the next id of the sequence that transactions are numbered by."""
        store = BlobStore(self._observer.blobs.get_container_client("ids"), "transactions")
        with RangeGenerator(store, prefetch=False) as ids:
            return ids.next_ids(1).start

    def observer(self):
        """Return connections without faults for the checks."""
        return self._observer

    def save(self):
        """Return everything, to be restored in another world."""
        told = self.journal.entries(), self.clock.at, dict(self.published), dict(self.sales.breaks_at), self.letter
        return self.storage.save(), told

    def restore(self, saved):
        """Take over everything."""
        content, (entries, self.clock.at, published, breaks_at, self.letter) = saved
        self.storage.restore(content)
        for entry in entries:
            self.journal.note(*entry)
        self.published, self.sales.breaks_at = dict(published), dict(breaks_at)

    def close(self):
        """Close what is open."""
        self._observer.close()
        self.journal.close()


class SegmentedWorld(World):
    """One whose jobs of three chunks are merged in two segments."""

    segment_chunks = 2


class ShardedWorld(SegmentedWorld):
    """One whose jobs of two segments are published in four shards: the shops x and y are in different ones, two are empty."""

    workload, shards, shard_bytes = SplitSales, 4, 1


class SpannedWorld(SegmentedWorld):
    """One whose jobs of two segments have 32 cuts, each a span: a shard has two, and the shops x, y and w are in some."""

    workload, cut_above, span_bytes = SplitSales, 0, 1


class JoinedWorld(ShardedWorld):
    """One whose segments have cuts, but so few bytes that the finish joins them."""

    shard_bytes = SHARD_BYTES


class LinedWorld(SegmentedWorld):
    """One whose jobs have lines of their transactions."""

    workload = LinedSales


class LongLinedWorld(SegmentedWorld):
    """One whose lines are too long for a message."""

    workload = LongLinedSales


class WaitingWorld(World):
    """One in which a service may fail to answer three times."""

    settings = replace(SETTINGS, poison=replace(SETTINGS.poison, later=3))


class FedWorld(World):
    """One that puts one chunk of a job at once."""

    direct = 1


class UnfedWorld(FedWorld):
    """One that puts no chunk at once."""

    direct = 0


class RangedWorld(World):
    """One that cuts a file of some lines by ranges: a few lines each."""

    limits = Limits(frame_items=2, stretch_bytes=90, block_bytes=512)


class UnfedRangedWorld(RangedWorld):
    """One that puts no chunk at once."""

    direct = 0


class WholeWorld(FedWorld):
    """One that puts all chunks at once, and feeds those that are put again."""

    direct = 100


class NoSlots(BlobSlots):
    """Slots of which no list is read."""

    def list_held(self):
        """Return none, without a request."""
        return frozenset()


class Unsent:
    """Sends no permit."""

    def __call__(self, permits, seconds=0.0):
        """Count them as sent."""
        return len(permits)

    def close(self):
        """Hold nothing."""


class Process:
    """One process of the app, with everything that its functions call."""

    def __init__(self, world, plan):
        self.world, self.plan = world, plan
        storage = world.storage
        self.connections = BusConnections(
            storage.connection_string, world.bus, plan, transport=lambda: storage.transport(plan)
        )
        self.stores = Stores(self.connections, clock=world.clock, parallel=1)
        # The host of these runs delivers the work itself, so nothing is woken.
        self.stores.slots = NoSlots(self.stores.container(CONTAINER), world.clock)
        self.stores.send_permits = Unsent()
        with patch("shared.app.stages.Limits", lambda: world.limits):
            self.app = App(self.connections, world.settings, world.workloads, stores=self.stores)
        processor = self.app.stages.processor
        # The faults end no process by the workload, and its runs are counted in this one.
        processor._tools = replace(processor._tools, run_alone=self._run_here)
        # A thread of its own would make this request at any place among the others.
        self.app.stages.tasks.following._later = lambda seconds, act: None if seconds else act()
        client = self.connections.queues.get_queue_client
        # Waited for on a real storage.
        self.app.takeovers = Takeovers(
            queue=lambda name: WorkQueue(client(name), world.clock, HIDDEN),
            clock=world.clock,
            redeliver_after=lambda *_: 0,
        )
        # The clock stands still while the tick waits for a wave.
        self.stores.replay_stepper.pause = lambda seconds: world.clock.advance(seconds=seconds)
        if world.direct is not None:
            starter = self.app.stages.starter
            object.__setattr__(
                starter,
                "direct",
                SimpleNamespace(
                    take=lambda chunks, _room: min(chunks, world.direct), following=starter.direct.following
                ),
            )
            self._outlive_feeder()
        if world.segment_chunks is not None:
            finisher = self.app.stages.finisher
            made = Finisher(replace(finisher._tools, shard_bytes=world.shard_bytes, span_bytes=world.span_bytes))
            finisher._segments = replace(
                made._segments,
                segment_chunks=world.segment_chunks,
                shards=world.shards,
                cut_above=world.cut_above,
                apart=1,
            )
            finisher._shards = made._shards

    def _run_here(self, *chunk, turns, **more):
        """Run a suspect, and say of a transaction that ends its process what the real runner says."""
        ran = run_in_parts(*chunk, **more)
        died = {one.number: KillerError("SIGSEGV after 0.1 s") for one in ran.left if isinstance(one.error, DyingError)}
        for number, error in died.items():
            note_item(error, number)
        return replace(ran, left=tuple(one._replace(error=died.get(one.number, one.error)) for one in ran.left))

    def _outlive_feeder(self):
        """Have the lease of a feeder in a process of before end, as it does after twenty seconds."""
        blob = self.world.observer().blobs.get_container_client(CONTAINER).get_blob_client("feeder")
        with suppress(ResourceNotFoundError, ResourceExistsError):
            BlobLeaseClient(blob).break_lease(0)

    def host(self, **options):
        """Return the host of this process."""
        return Host(self, **options)

    def submit(self, job, sales, *, gate=None, limits=SMALL, after=None, sources=None, report=None):
        """Publish as a publisher does; with sources the sales are what these make. `report` learns of each stretch."""
        self.plan.stage = "submit"
        # Known before it is sent: whatever becomes of the sending, it may count once and never twice.
        self.world.published[job] = sales
        publisher = Publisher(
            self.connections.queues.get_queue_client("submissions"),
            self.connections.blobs.get_container_client("payloads"),
            limits=limits,
        )
        publisher.on_stretch = report or publisher.on_stretch
        if sources:
            publisher.submit_jobs(job=job, jobs=sources, sums={"amount": "amount"}, workload="sales", gate=gate)
        else:
            publisher.submit(job=job, transactions=sales, workload="sales", gate=gate, sums=("amount",), after=after)

    def open_gate(self):
        """Open the gate as an operator does, again if it was not said to be open."""
        self.plan.stage = "release"
        self.world.journal.note("opening")
        self.stores.gate_operator.open(GATE, by="ann")

    def set_timetable(self):
        """Have the gate open at each quarter of an hour, as an operator does."""
        self.plan.stage = "release"
        self.world.journal.note("opening")
        row = TimetableRow(
            line="*/15 * * * *", zone="Europe/Berlin", minutes=None, by="ann", why="", set_at=self.world.clock.now()
        )
        self.stores.build_timetabler(None).set(GATE, row)

    def end_timetable(self):
        """End that."""
        self.plan.stage = "release"
        self.stores.build_timetabler(None).end(GATE, by="ann", why="")

    def tick(self):
        """Run the timer once."""
        self.plan.stage = "tick"
        self.app.tick()

    def operator(self, pause=None):
        """Return what a person replays with; while they wait, the host of this process works."""
        self.plan.stage = "replay"
        return self.stores.build_parked_operator(pause or self.let_work)

    def let_work(self, _seconds=1):
        """Let the host work for as long as somebody waits."""
        self.world.clock.advance(seconds=1)
        stage = self.plan.stage
        self.host().run()
        self.plan.stage = stage

    def close(self):
        """Let what hung take effect at last, then close."""
        self.plan.catch_up()
        self.app.close()
        self.connections.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


def sales(*shops):
    """Return one sale a shop name, with amounts that tell them apart."""
    return [{"shop": shop, "amount": str(Decimal(n + 1) + Decimal("0.10"))} for n, shop in enumerate(shops)]
