"""A job from its results to its outputs on real storage clients: everything that settling and finishing touch."""

import base64
import hashlib
import json
import uuid
from contextlib import ExitStack
from dataclasses import replace
from decimal import Decimal
from functools import partial

import msgspec
import zstandard
from azure.data.tables import TableServiceClient
from azure.storage.blob import BlobServiceClient, LinearRetry

from shared.ledger import ChunkState, JobState, TableLedger, Totals
from shared.ledger.settlement import result_blob
from shared.messages import Finish, PortionMessage, Result, decode
from shared.outbox import Outbox
from shared.parked.parking import Parking, Stages
from shared.payload import Limits
from shared.pending import OUTBOX_POINTER, PendingTable
from shared.pipeline.dispatch import FinishCall
from shared.pipeline.finish import Finisher, FinishTools, is_finishing
from shared.pipeline.halts import Halts
from shared.pipeline.outputs import FENCE_KEY, TotalsTable
from shared.pipeline.plan import Speeds
from shared.pipeline.results import ChunkResult, GroupBlobs, write_result
from shared.pipeline.settle import Settler
from shared.workloads import Line, Total, shard_of
from shared.workloads.registry import Rejection, Workloads
from tests.faults.memory.storage import MemoryStorage
from tests.faults.plan import Plan
from tests.ledger.builders import job
from tests.ledger.stage import ManualClock, MemoryHalts, MemoryParked, delivered

ACCOUNTS = 7
PER_CHUNK = 10


class Payment(msgspec.Struct):
    """One transaction."""

    account: str
    amount: Decimal


class Summing:
    """Adds amounts by account."""

    name = "summing"
    transaction = Payment
    partial = dict[str, Decimal]
    sums = ("amount",)

    def map(self, transaction, number):
        """Return the transaction as it is."""
        return transaction

    def combine(self, mapped):
        """Return the sums of a chunk."""
        found = {}
        for payment in mapped:
            found[payment.account] = found.get(payment.account, Decimal(0)) + payment.amount
        return found

    def merge(self, left, right):
        """Add one partial to another."""
        for account, amount in right.items():
            left[account] = left.get(account, Decimal(0)) + amount
        return left

    def finish(self, partial):
        """Yield a total and a line for each account."""
        for account, amount in sorted(partial.items()):
            yield Total(account, {"amount": str(amount)})
            yield Line({"account": account, "amount": str(amount)})


class Splitting(Summing):
    """Adds amounts by account, and splits them."""

    def split(self, partial, count):
        """Return the amounts in cuts."""
        cuts = [{} for _ in range(count)]
        for account, amount in partial.items():
            cuts[shard_of(account, count)][account] = amount
        return cuts


def payments(chunk):
    """Return the transactions of a chunk; accounts with characters that no key may have among them."""
    return [Payment(f"account/{(chunk + n) % ACCOUNTS}#?", Decimal(n) + Decimal("0.25")) for n in range(PER_CHUNK)]


AMOUNT = sum(payment.amount for payment in payments(0))


class World:
    """One job, its storage, and a settler and a finisher that may be made anew as after a crash."""

    def __init__(
        self,
        connection_string,
        *,
        chunks=3,
        transport=None,
        workload=None,
        segment_chunks=None,
        shards=None,
        cut_above=None,
        **options,
    ):
        self.chunks, self.options = chunks, options
        self._segment_chunks, self._shards, self._cut_above = segment_chunks, shards, cut_above
        self.workload = workload or Summing()
        self.clock, self.parked = ManualClock(), MemoryParked()
        self.sent, self.told, self.later, self.rejected, self.woken = [], [], [], {}, []
        self._connection_string, self._stack = connection_string, ExitStack()
        run = uuid.uuid4().hex[:12]
        self.names = {name: f"{name}{run}" for name in ("jobs", "jobindex", "totals", "pending", "results", "outputs")}
        self.direct = self.connect(None)
        for name in ("jobs", "jobindex", "totals", "pending"):
            self.direct["tables"].create_table(self.names[name])
        for name in ("results", "outputs"):
            self.direct["blobs"].create_container(self.names[name])
        self.service = self.direct if transport is None else self.connect(transport)

    def connect(self, transport):
        """Return clients of the storage, which give up at once or fail by the given transport."""
        options = [{} if transport is None else {"transport": transport()} for _ in range(2)]
        quick = LinearRetry(backoff=0, retry_total=2, random_jitter_range=0)
        tables = TableServiceClient.from_connection_string(
            self._connection_string, retry_total=2, retry_backoff_factor=0, **options[0]
        )
        blobs = BlobServiceClient.from_connection_string(self._connection_string, retry_policy=quick, **options[1])
        return {"tables": self._stack.enter_context(tables), "blobs": self._stack.enter_context(blobs)}

    def close(self):
        """Close every client."""
        self._stack.close()

    def table(self, name, service=None):
        """Return the client of one of the world's tables."""
        return (service or self.service)["tables"].get_table_client(self.names[name])

    def container(self, name, service=None):
        """Return the client of one of the world's containers."""
        return (service or self.service)["blobs"].get_container_client(self.names[name])

    @property
    def ledger(self):
        """The ledger, through whatever transport the world has."""
        return TableLedger(self.table("jobs"), self.table("jobindex"), clock=self.clock)

    @property
    def checked_ledger(self):
        """The ledger without faults."""
        return TableLedger(self.table("jobs", self.direct), self.table("jobindex", self.direct))

    @property
    def pending(self):
        """The index of what needs somebody."""
        return PendingTable(self.table("pending"))

    def accept(self, **changes):
        """Insert the job, whose chunks are all on the work queues."""
        declared = {"amount": AMOUNT * self.chunks}
        made = job(self.chunks, workload=self.workload.name, declared=declared, items=self.chunks * PER_CHUNK)
        return self.checked_ledger.insert(replace(made, **changes))[0]

    def result(self, chunk, *, revision=1, rejected=0):
        """Return the message with the result of a chunk, as a processor sends it."""
        return self._made(chunk, revision, rejected)[0]

    def stored_result(self, chunk, *, revision=1, rejected=0, is_packed=True):
        """Store the result of a chunk in a blob of its own, as a processor does with a large one, and return its message."""
        message, content = self._made(chunk, revision, rejected)
        name = result_blob("nightly", revision, chunk)
        stored = zstandard.compress(content) if is_packed else content
        self.container("results", self.direct).upload_blob(name, stored, overwrite=True)
        return msgspec.structs.replace(message, blob=name, content=None)

    def _made(self, chunk, revision, rejected):
        mapped, self.rejected[chunk] = payments(chunk), rejected
        good, bad = mapped[rejected:], mapped[:rejected]
        outcomes = [
            PortionMessage(items=len(part), sums={"amount": str(sum(p.amount for p in part))}) for part in (good, bad)
        ]
        rejections = [Rejection(chunk * PER_CHUNK + n, "bad", "found", "{}") for n in range(rejected)]
        content = write_result(
            ChunkResult(
                job="nightly",
                chunk=chunk,
                revision=revision,
                workload=self.workload.name,
                accepted=outcomes[0],
                rejected=outcomes[1],
                partial=msgspec.Raw(msgspec.json.encode(self.workload.combine(good))),
            ),
            b"".join(msgspec.json.encode(one) + b"\n" for one in rejections),
            Limits(),
        )
        packed = zstandard.compress(content)
        message = Result(
            job="nightly",
            chunk=chunk,
            revision=revision,
            content=base64.b64encode(packed).decode(),
            hash=hashlib.sha256(content).hexdigest(),
            length=len(packed),
            partial=len(msgspec.json.encode(self.workload.combine(good))),
            accepted=outcomes[0],
            rejected=outcomes[1],
        )
        return message, content

    def lost(self, chunk):
        """Return the message about a chunk that is parked."""
        return Result(
            job="nightly",
            chunk=chunk,
            revision=1,
            parked=PortionMessage(items=PER_CHUNK, sums=None),
            reason="workload_failed",
        )

    def settler(self):
        """Return a new settler."""
        return Settler(
            self.ledger,
            self._call(),
            Parking(self.parked, self.clock, Stages()),
            GroupBlobs(self.container("results")),
            self.clock,
            send_later=self.later.extend,
            halts=Halts(ledger=self.ledger, fleet=MemoryHalts(), pending=self.pending, clock=self.clock),
            pause=self.clock.pause,
        )

    def finisher(self):
        """Return a new finisher."""
        made = Finisher(
            FinishTools(
                ledger=self.ledger,
                results=self.container("results"),
                outputs=self.container("outputs"),
                totals=TotalsTable(self.table("totals")),
                workloads=Workloads([self.workload]),
                outbox=self._outbox(),
                call=self._call(),
                note_speed=Speeds(None).note,
                wake_waiters=lambda job: self.woken.extend(job.waiters),
                clock=self.clock,
                **self.options,
            )
        )
        if self._segment_chunks is not None:
            made._segments = replace(made._segments, segment_chunks=self._segment_chunks, apart=1)
        if self._shards is not None:
            made._segments = replace(made._segments, shards=self._shards)
        if self._cut_above is not None:
            made._segments = replace(made._segments, cut_above=self._cut_above)
        return made

    def _call(self):
        return FinishCall(self._send, self.pending, self.clock)

    def _outbox(self):
        awaits = partial(is_finishing, self.ledger)
        return Outbox(self.ledger, self.pending, self.tell, self.clock, kind=OUTBOX_POINTER, awaits=awaits)

    def tell(self, message):
        """Hear of the end of a job."""
        self.told.append(decode(message.body))

    def settle(self, *results, deliveries=1):
        """Deliver results as one batch."""
        return self.settler().settle([delivered(found, deliveries) for found in results])

    def finish(self, revision=1):
        """Deliver a finish message."""
        return self.finisher().finish(Finish(job="nightly", revision=revision))

    def finish_all(self):
        """Deliver what was sent about the finish until nothing is left, and return how each ended."""
        endings = []
        while self.sent:
            endings.append(self.finisher().finish(self.sent.pop(0)))
        return endings

    def _send(self, queue, message):
        assert queue == "work-00"
        self.sent.append(decode(message))

    # What a person sees.

    def job(self):
        """Return the job."""
        return self.checked_ledger.read("nightly")

    def manifest(self, revision=1):
        """Return the manifest of a revision."""
        blob = self.container("outputs", self.direct).download_blob(f"nightly/{revision}/manifest.json")
        return json.loads(blob.readall())

    def lines(self, name, revision=1):
        """Return the lines of an output that its manifest names."""
        found = []
        for part in self.manifest(revision)["parts"]:
            if part["name"].startswith(name):
                blob = self.container("outputs", self.direct).get_blob_client(f"nightly/{revision}/{part['name']}")
                content = blob.download_blob(decompress=False).readall()
                assert hashlib.sha256(content).hexdigest() == part["sha256"]
                lines = (
                    zstandard.ZstdDecompressor().decompressobj(read_across_frames=True).decompress(content).splitlines()
                )
                assert len(lines) == part["items"]
                found += map(json.loads, lines)
        return found

    def totals(self, revision=1):
        """Return the amounts in the table of totals that have this revision."""
        rows = self.table("totals", self.direct).query_entities(
            "PartitionKey ge 'nightly' and PartitionKey lt 'nightlz'"
        )
        found = [row for row in rows if row["RowKey"] != FENCE_KEY and row["revision"] == revision]
        amounts = {row["account"]: Decimal(row["amount"]) for row in found}
        assert len(amounts) == len(found), "each account is in one partition"
        return amounts

    def fences(self):
        """Return the revision and the number of rows of each partition."""
        rows = self.table("totals", self.direct).query_entities("RowKey eq @key", parameters={"key": FENCE_KEY})
        return {row["PartitionKey"]: (row["revision"], row["written"]) for row in rows}

    def expected(self, chunks):
        """Return the amounts by account of these chunks, added up by hand."""
        found = {}
        for chunk in chunks:
            for payment in payments(chunk)[self.rejected.get(chunk, 0) :]:
                found[payment.account] = found.get(payment.account, Decimal(0)) + payment.amount
        return found

    def check(self):
        """Assert what must hold at every moment, whatever has failed, and return the job."""
        found, rows = self.job(), list(self.checked_ledger.rows("nightly"))
        assert sum((row.totals for row in rows), Totals()) == found.totals, "totals are the sum of the rows"
        assert found.done == sum(row.state is ChunkState.DONE for row in rows), "each chunk counts once"
        assert found.ended_chunks == len(rows)
        assert self.parked.entries == {}, "nothing healthy is parked"
        if found.state in {JobState.COMPLETE, JobState.COMPLETED_WITH_PARKED}:
            self._check_outputs(found, [row.chunk for row in rows if row.state is ChunkState.DONE])
        return found

    def _check_outputs(self, found, done):
        expected = self.expected(done)
        assert self.totals(found.revision) == expected, "the totals are those of the newest revision"
        lines = self.lines("output", found.revision)
        assert {line["account"]: Decimal(line["amount"]) for line in lines} == expected
        assert len(lines) == len(expected), "each line is there once"
        assert self.manifest(found.revision)["state"] == found.state


class MemoryWorld(World):
    """A world on a storage in memory."""

    def __init__(self, plan, **options):
        self.storage = MemoryStorage()
        transport = partial(self.storage.transport, plan)
        super().__init__(self.storage.connection_string, transport=transport, **options)

    def connect(self, transport):
        """Return clients of the storage."""
        return super().connect(transport or partial(self.storage.transport, Plan()))
