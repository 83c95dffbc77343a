"""One job whose chunk is processed by one process after another, as the Functions host would deliver it."""

import hashlib
import itertools
import json
import uuid
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from functools import partial
from io import BytesIO

import msgspec
from azure.servicebus.exceptions import ServiceBusError

from shared.azure.connections import Connections
from shared.errors import ResultNotSentError
from shared.ledger import MERGED_MOST, ChunkRow, Job, JobState, PlanBlob, TableLedger, settle
from shared.memory import Memory
from shared.messages import ChunkMessage, Delivery, encode
from shared.parked.cause_index import CauseIndex
from shared.parked.entry import chunk_key, transactions_key
from shared.parked.overflow import Overflow
from shared.parked.parked_table import ParkedTable
from shared.parked.parking import Deliveries, Parking
from shared.parked.poison_policy import Attempts
from shared.payload.frames import Codec, compress
from shared.payload.payload_store import PayloadStore, PayloadStores
from shared.payload.reading import WORK, PayloadReader
from shared.pipeline.failing.so_far import SoFarStore
from shared.pipeline.outputs import run_in_parts
from shared.pipeline.process import Processor, Tools
from shared.pipeline.results import (
    GroupBlobs,
    ResultStore,
    StoredResult,
    assemble,
    hash_result,
    open_content,
    read_result,
    unpack_result,
)
from shared.workloads import Calls, Line, Rejected, Total
from shared.workloads.registry import Workloads
from tests.faults.plan import Plan
from tests.parked.stages import stages

NOON = datetime(2026, 11, 20, 12, tzinfo=UTC)
_numbers = itertools.count(1)


class ManualClock:
    """A clock that a test moves."""

    def __init__(self):
        self.at = NOON

    def now(self):
        """Return the time that was set."""
        return self.at

    def monotonic(self):
        """Return the same in seconds."""
        return self.at.timestamp()

    def advance(self, seconds):
        """Move it."""
        self.at += timedelta(seconds=seconds)


class Sale(msgspec.Struct, frozen=True):
    """A transaction of these tests."""

    shop: str
    amount: Decimal


class Sales:
    """Adds sales up by shop; `fault` is called for each one first."""

    name, transaction, partial, sums = "sales", Sale, dict[str, Decimal], ("amount",)

    def __init__(self, fault=lambda sale: None):
        self.fault, self.runs = fault, 0

    def map(self, sale, _number):
        """Reject what has no shop."""
        self.fault(sale)
        return (sale.shop, sale.amount) if sale.shop else Rejected("no_shop", "the shop is empty")

    def combine(self, mapped):
        """Add up."""
        self.runs += 1
        totals = {}
        for shop, amount in mapped:
            totals[shop] = totals.get(shop, Decimal()) + amount
        return totals

    def merge(self, left, right):
        """Add up."""
        return {shop: left.get(shop, Decimal()) + right.get(shop, Decimal()) for shop in sorted({*left, *right})}

    def finish(self, partial):
        """Yield a row and a line a shop."""
        for shop, amount in sorted(partial.items()):
            yield Line({"shop": shop, "amount": str(amount)})
            yield Total(shop, {"amount": str(amount)})


LINES = [f'{{"shop":"s{n % 3}","amount":"{n}.10"}}'.encode() for n in range(10)]


class Finishing:
    """A finisher that remembers; `fault` is called first."""

    def __init__(self):
        self.finished, self.paused, self.fault = [], [], lambda message: None

    def finish(self, message):
        """Remember it."""
        self.fault(message)
        self.finished.append(message)

    def pause(self, message, error):
        """Remember it."""
        self.paused.append((message, type(error)))


class World:
    """What outlasts a process: storage, the bus, and the work message."""

    def __init__(self, storage, lines=LINES):
        self.storage, self.clock = storage, ManualClock()
        self.job = f"job-{next(_numbers)}-{id(self):x}"
        self.sent, self.begun, self.finishing, self.workload = [], [], Finishing(), Sales()
        self.merged_most = MERGED_MOST
        self.message = self._published(lines)
        #: Runs a suspect. None of these tests ends a process by its workload, but those that hand in the real one.
        self.run_alone = self._run_here
        #: The number of the job's halt row, and what a look finds meanwhile.
        self.halts, self.look_beside = 0, lambda: None
        #: Lets a chunk with limits begin.
        self.pace = None
        self.body = encode(self.message)

    def is_halted(self, _job, halts):
        """Check by the halt row."""
        return halts < self.halts

    def _run_here(self, workload, parts, first_number, limits, *, turns, **more):
        return run_in_parts(workload, parts, first_number, limits, calls=Calls(turns=turns), **more)

    def _published(self, lines):
        frames, stored = [], b""
        for start in range(0, len(lines), 4):
            text = b"".join(line + b"\n" for line in lines[start : start + 4])
            frame = compress(text, Codec.ZSTD)
            frames.append((len(stored), len(frame), text.count(b"\n"), _sha256(frame)))
            stored += frame
        with self.connect(Plan()) as connections:
            store = PayloadStore(connections.blobs.get_container_client("payloads"))
            blob = store.put(self.job, BytesIO(stored), len(stored), _sha256(stored))
        return ChunkMessage(
            job=self.job, chunk=0, revision=1, workload="sales", codec="zstd", frames=frames, first_id=100,
            blob=blob.name, etag=blob.etag,
        )  # fmt: skip

    def connect(self, plan):
        """Return connections whose requests are faulted as planned."""
        return Connections(self.storage.connection_string, transport=plan.transport)

    def process(self, plan=None):
        """Return a process of the app, whose requests are faulted as planned."""
        return Process(self, plan or Plan())

    def deliver(self, count=1, plan=None, body=None):
        """Have one process handle one delivery."""
        with self.process(plan) as process:
            process.deliver(body or self.body, count)

    @property
    def entry(self):
        """What is parked of the chunk."""
        with self.process() as process:
            return process.parked.find(self.job, chunk_key(0, 1))

    @property
    def aside(self):
        """The entry of what was set aside of the chunk."""
        with self.process() as process:
            return process.parked.find(self.job, transactions_key(0, 1))

    @property
    def stored(self):
        """The stored result of the chunk."""
        with self.process() as process:
            return process.results.find(self.message)

    def deliver_again(self, plan, *, count=1, is_put_again=False):
        """Have one process handle the chunk once more: delivered again, or put again."""
        body = encode(msgspec.structs.replace(self.message, again=True)) if is_put_again else self.body
        self.deliver(count=count, plan=plan, body=body)

    def credit(self, state):
        """Write the chunk's row, as a settler does."""
        with self.process() as process:
            job = Job(
                job=self.job, content_hash="", workload="sales", accepted_at=NOON, chunks=1, plan=PlanBlob("p", "e")
            )
            row = ChunkRow(job=self.job, chunk=0, state=state, revision=1, settled_at=NOON)
            assert process.ledger.commit(process.ledger.insert(job)[0], [row])

    def settle(self):
        """Have the results in the messages credited, as settlers do, and the messages gone."""
        with self.process() as process:
            groups = GroupBlobs(process.connections.blobs.get_container_client("results"))
            for result in self.sent:
                job = process.ledger.read(self.job) or process.ledger.insert(self.planned)[0]
                known = process.ledger.rows_of(self.job, [0])
                settled = settle(job, known, [result], NOON)
                assert not settled.refused
                if settled.rows:
                    (row,) = settled.rows
                    if result.content is not None:
                        blob = assemble(self.job, [(row, open_content("", result.content, result.hash, result.lines))])
                        groups.put(blob)
                        row = blob.place(row)
                    assert process.ledger.commit(settled.job, [row])
            self.sent.clear()

    @property
    def planned(self):
        """The job's row before anything of it has ended: one more chunk is left."""
        return Job(
            job=self.job,
            content_hash="",
            workload="sales",
            accepted_at=NOON,
            state=JobState.RUNNING,
            items=2 * self.message.items,
            chunks=2,
            dispatch_cursor=2,
            plan=PlanBlob("p", "e"),
        )

    @property
    def row(self):
        """The row of the chunk."""
        with self.process() as process:
            return process.ledger.rows_of(self.job, [0]).get(0)

    @property
    def told(self):
        """The result in the last message, and the lines of its rejections."""
        message = self.sent[-1]
        packed = open_content("", message.content, message.hash, message.lines)
        content, _ = unpack_result("", packed)
        result, lines = read_result(content)
        return StoredResult("", hash_result(content), len(packed), result), list(map(json.loads, lines))

    @property
    def rejections(self):
        """The rejections in the last message."""
        return self.told[1]


class MemoryWorld(World):
    """One whose storage is in memory."""

    def connect(self, plan):
        """Return connections whose requests are faulted as planned."""
        return Connections(self.storage.connection_string, transport=partial(self.storage.transport, plan))


class Process:
    """One process of the app."""

    def __init__(self, world, plan):
        self._world, self.plan = world, plan
        self.connections = world.connect(plan)
        blobs, table = self.connections.blobs, self.connections.tables.get_table_client("parked")
        tables = self.connections.tables
        self.ledger = TableLedger(tables.get_table_client("jobs"), tables.get_table_client("jobindex"))
        self.results = ResultStore(blobs.get_container_client("results"))
        self.so_far = SoFarStore(blobs.get_container_client("results"))
        self.causes = CauseIndex(tables.get_table_client("decisions"), uuid.uuid4().hex)
        container = blobs.get_container_client("parked")
        self.overflow = Overflow(container, self.causes, world.clock)
        self.parked = ParkedTable(table, container, self.causes, self.overflow)
        self.attempts = Attempts(table, world.clock)
        parking = Parking(self.parked, world.clock, stages(send=self._send))
        self.processor = Processor(
            Tools(
                weigh=lambda _stored, _items: None,
                workloads=Workloads([world.workload]),
                read=PayloadReader(PayloadStores(blobs.get_container_client), Memory(WORK)),
                ledger=self.ledger,
                results=self.results,
                so_far=self.so_far,
                send=self._send,
                parking=parking,
                deliveries=Deliveries(self.attempts, parking),
                finishing=world.finishing,
                ranging=None,
                run_alone=world.run_alone,
                is_halted=world.is_halted,
                look_beside=world.look_beside,
                pace=world.pace,
                note_first=world.begun.append,
                clock=world.clock,
                pause=world.clock.advance,
                merged_most=world.merged_most,
            )
        )

    def deliver(self, body, count):
        """Handle one delivery."""
        self.processor.handle(Delivery(queue="work-00", message_id="m1", body=body, count=count))

    def _send(self, result):
        try:
            self.plan.around("SEND results", lambda: self._world.sent.append(result))
        except ServiceBusError as error:
            raise ResultNotSentError("the bus is down") from error

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.plan.catch_up()
        self.connections.close()


def _sha256(content):
    return hashlib.sha256(content).hexdigest()
