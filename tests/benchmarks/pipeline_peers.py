"""What else could do the same work: one message for each transaction, and a job that batches all it can.

Each has two consumer processes, as Sluice has two workers, and a publisher in the benchmark's own process; all of them
rate the same file with the same workload, and a run whose charges do not add up to the plain loop's is refused.
"""

import asyncio
import base64
import multiprocessing
import os
import time
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from decimal import Decimal
from multiprocessing.sharedctypes import Synchronized
from multiprocessing.synchronize import Event
from typing import Any, Final, TypeAlias

import msgspec
import zstandard
from azure.data.tables import TableServiceClient, UpdateMode
from azure.storage.queue import QueueClient
from azure.storage.queue.aio import QueueClient as AioQueueClient

from shared.azure import BlobStore, connect
from shared.ids import RangeGenerator
from shared.workloads.billing import Billing, UsageCharge, UsageRecord
from tests.benchmarks.pipeline_measure import RequestLog, Run, cpu_of, file_of, warm_up
from tools.local.azurite.launcher import Azurite

QUEUE: Final = "peers"
THREADS: Final = 8
PAGE: Final = 32
POLL_EVERY: Final = 0.05
PATIENCE: Final = 300.0
_SPAWNED = multiprocessing.get_context("spawn")

Lines: TypeAlias = Sequence[bytes]
#: A message's text, its id and its pop receipt are all that a consumer needs.
Message: TypeAlias = Any


def rate(lines: Iterable[bytes]) -> list[UsageCharge]:
    """Return the charges of some lines."""
    decode, billing = msgspec.json.Decoder(UsageRecord).decode, Billing()
    return [charge for charge in billing.map_many(list(map(decode, lines)), ()) if isinstance(charge, tuple)]


def added(charges: Iterable[UsageCharge]) -> Decimal:
    """Return what all charges come to, whatever their currency."""
    return sum((amount for *_, amount in charges), Decimal())


class OneEach:
    """One message for each transaction, in threads."""

    who = "one message each, threads"

    def __init__(self, connection: str) -> None:
        self.connection = connection
        self.queue = QueueClient.from_connection_string(connection, QUEUE)
        self.opened = ExitStack()
        self.opened.enter_context(self.queue)

    def publish(self, lines: Lines) -> None:
        """Put everything."""
        with ThreadPoolExecutor(THREADS) as pool:
            list(pool.map(self.put, lines))

    def put(self, line: bytes) -> None:
        """Put one."""
        self.queue.send_message(line.decode())

    def consume(self, tally: "Tally") -> None:
        """Take a page, rate and delete what is on it, until everybody is done."""
        with ThreadPoolExecutor(THREADS) as pool:
            while not tally.stop.is_set():
                # Without `max_messages` a short page is followed by another, and what goes beyond PAGE waits for 30 s.
                page = list(self.queue.receive_messages(messages_per_page=PAGE, max_messages=PAGE))
                list(pool.map(lambda message: self._finish(message, tally), page))
                if not page:
                    time.sleep(POLL_EVERY)

    def _finish(self, message: Message, tally: "Tally") -> None:
        tally.add(*self.work(message))
        self.queue.delete_message(message)

    def work(self, message: Message) -> tuple[int, Decimal]:
        """Return how many transactions the message held and what they come to."""
        return 1, added(rate([message.content.encode()]))


class OneEachAio(OneEach):
    """One message for each transaction, in tasks of one event loop."""

    who = "one message each, aio"

    def publish(self, lines: Lines) -> None:
        """Put everything."""
        asyncio.run(self._publish(lines))

    async def _publish(self, lines: Lines) -> None:
        left = iter(lines)
        async with AioQueueClient.from_connection_string(self.connection, QUEUE) as queue:

            async def put() -> None:
                for line in left:
                    await queue.send_message(line.decode())

            await asyncio.gather(*(put() for _ in range(THREADS)))

    def consume(self, tally: "Tally") -> None:
        """Take, rate and delete until everybody is done."""
        asyncio.run(self._all(tally))

    async def _all(self, tally: "Tally") -> None:
        async with AioQueueClient.from_connection_string(self.connection, QUEUE) as queue:
            while not tally.stop.is_set():
                page = [message async for message in queue.receive_messages(messages_per_page=PAGE, max_messages=PAGE)]
                for message in page:
                    tally.add(*self.work(message))
                await asyncio.gather(*map(queue.delete_message, page))
                if not page:
                    await asyncio.sleep(POLL_EVERY)


class Naive(OneEach):
    """A whole job that lasts through a crash: an id, a message and a table row for each transaction."""

    who = "whole job, naive: an id, a message and a row each"

    def __init__(self, connection: str) -> None:
        super().__init__(connection)
        blobs = self.opened.enter_context(connect(connection, QUEUE))
        self.ids = self.opened.enter_context(RangeGenerator(BlobStore(blobs, "transactions"), prefetch=False))
        tables = self.opened.enter_context(TableServiceClient.from_connection_string(connection))
        self.rows = tables.get_table_client(QUEUE)

    def put(self, line: bytes) -> None:
        """Put one with its id."""
        self.queue.send_message(f"{self.ids.next_id()} {line.decode()}")

    def work(self, message: Message) -> tuple[int, Decimal]:
        """Write the row of the transaction; a message that is delivered again writes it again."""
        key, line = message.content.split(" ", 1)
        ((account, currency, quantity, amount),) = rate([line.encode()])
        row = {"PartitionKey": account, "RowKey": key, "currency": currency}
        self.rows.upsert_entity({**row, "quantity": str(quantity), "amount": str(amount)}, mode=UpdateMode.REPLACE)
        return 1, amount


class Ideal(Naive):
    """A whole job that batches all it can: ranges of ids, 1,000 a message inline, one row a chunk."""

    who = "whole job, batched ideal: 1,000 a message, a range of ids and a row each"
    chunk: Final = 1_000

    def publish(self, lines: Lines) -> None:
        """Put a chunk at a time."""
        chunks = [lines[first : first + self.chunk] for first in range(0, len(lines), self.chunk)]
        with ThreadPoolExecutor(THREADS) as pool:
            list(pool.map(self._put_chunk, chunks))

    def _put_chunk(self, lines: Lines) -> None:
        packed = zstandard.ZstdCompressor(level=1).compress(b"\n".join(lines))
        first = self.ids.next_ids(len(lines)).start
        self.queue.send_message(f"{first} {base64.b64encode(packed).decode()}")

    def work(self, message: Message) -> tuple[int, Decimal]:
        """Write the row of the chunk."""
        key, text = message.content.split(" ", 1)
        lines = zstandard.ZstdDecompressor().decompress(base64.b64decode(text)).split(b"\n")
        charges = rate(lines)
        invoices = Billing().combine(charges)
        amount = added(charges)
        row = {"PartitionKey": "job", "RowKey": key, "accounts": sum(map(len, invoices.by_currency.values()))}
        self.rows.upsert_entity({**row, "items": len(lines), "amount": str(amount)}, mode=UpdateMode.REPLACE)
        return len(lines), amount


@dataclass(frozen=True, slots=True)
class Tally:
    """What the consumers have done so far, seen by all processes."""

    done: "Synchronized[int]"
    #: In hundredths, exact for the currencies of the file.
    amount: "Synchronized[int]"
    ready: "Synchronized[int]"
    stop: Event

    @classmethod
    def new(cls) -> "Tally":
        """Return one with nothing done."""
        values = (_SPAWNED.Value("q", 0), _SPAWNED.Value("q", 0), _SPAWNED.Value("q", 0))
        return cls(*values, _SPAWNED.Event())  # type: ignore[arg-type]  # shared values are made by a factory

    def add(self, items: int, amount: Decimal) -> None:
        """Note what a message came to; before its deletion, and the amounts before the count that ends the run."""
        with self.amount.get_lock():
            self.amount.value += int(amount * 100)
        with self.done.get_lock():
            self.done.value += items

    def forget(self) -> None:
        """Begin anew, after a warm-up."""
        self.amount.value = self.done.value = 0


def consume(kind: type[OneEach], connection: str, tally: Tally) -> None:
    """Be one consumer process."""
    peer = kind(connection)
    with tally.ready.get_lock():
        tally.ready.value += 1
    with peer.opened:
        peer.consume(tally)


def lines_of(items: int) -> Iterator[bytes]:
    """Yield the lines of the file."""
    with file_of(items).open("rb") as file:
        for line in file:
            yield line.rstrip(b"\n")


def race(kind: type[OneEach], items: int) -> Run:
    """Run one peer on an Azurite of its own."""
    lines = list(lines_of(items))
    tally, expected = Tally.new(), int(added(rate(lines)) * 100)
    with Azurite.start(is_logging=True) as azurite:
        connection = azurite.connection_string
        _prepare(connection)
        consumers = [_SPAWNED.Process(target=consume, args=(kind, connection, tally)) for _ in range(2)]
        for consumer in consumers:
            consumer.start()
        _wait(lambda: tally.ready.value == len(consumers))
        # Imports and the consumers' connections are paid for here, as in Sluice's first job.
        _publish(kind, connection, lines[: warm_up(items)], tally)
        tally.forget()
        pids = [os.getpid(), *(consumer.pid for consumer in consumers if consumer.pid)]
        log, used, began = RequestLog(azurite), cpu_of(pids), time.monotonic()
        _publish(kind, connection, lines, tally)
        seconds, cpu, requests = time.monotonic() - began, cpu_of(pids) - used, log.total()
        tally.stop.set()
        for consumer in consumers:
            consumer.join()
    if (tally.done.value, tally.amount.value) != (items, expected):
        raise AssertionError(f"{kind.who}: {tally.done.value} came to {tally.amount.value}, {items} to {expected}")
    return Run(kind.who, items, seconds, requests, cpu)


def _publish(kind: type[OneEach], connection: str, lines: Lines, tally: Tally) -> None:
    """Publish by new connections, as each of Sluice's publishers has, and wait until all is done."""
    peer = kind(connection)
    with peer.opened:
        peer.publish(lines)
    _wait(lambda: tally.done.value >= len(lines))


def _prepare(connection: str) -> None:
    with (
        QueueClient.from_connection_string(connection, QUEUE) as queue,
        TableServiceClient.from_connection_string(connection) as tables,
        connect(connection, QUEUE) as blobs,
    ):
        queue.create_queue()
        tables.create_table(QUEUE)
        if not blobs.exists():
            blobs.create_container()


def _wait(is_so: Any) -> None:
    end = time.monotonic() + PATIENCE
    while not is_so():
        if time.monotonic() > end:
            raise TimeoutError(f"not done in {PATIENCE:g} s")
        time.sleep(0.002)
