"""One process that holds jobs for the benchmark of a release: accept's own code, with its rows written in bulk.

Accept runs with a ledger, ids, gate and pointers in memory. What it leaves there is then written to storage as it is:
plan and job row by a request each, held rows and pointers a hundred per request. Its requests before that are not made.
"""

import itertools
import json
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from datetime import timedelta
from typing import Any, TypeVar, cast

from azure.core.exceptions import AzureError

from shared.azure import write_group
from shared.azure.connections import Connections
from shared.clock import SystemClock
from shared.errors import SluiceError
from shared.gate.held import HeldEntry, _row, slice_of
from shared.gate.state import Reading
from shared.ledger.entities import job_entity
from shared.payload import Limits, PayloadStores, open_envelope
from shared.pending import PendingTable, Pointer
from shared.pipeline.accept import Acceptance
from shared.pipeline.plan import ChunkSizes, PlanStore
from shared.pipeline.start import Planning, Starter
from tests.ledger.memory_ledger import MemoryLedger

T = TypeVar("T")
GATE = "held"
AT_ONCE = 100
TRIES = 5
#: One job in so many has a deadline, which is far away.
DEADLINE_EVERY = 20


@dataclass(frozen=True)
class Share:
    """The jobs that one process holds."""

    storage: str
    first: int
    last: int
    #: The gate's epoch at which they find it closed.
    epoch: int


class InMemory:
    """The gate, the pointers and the ids that accept finds: what it writes is kept."""

    def __init__(self, epoch: int) -> None:
        self._reading = Reading(epoch, is_open=False)
        self.held: list[HeldEntry] = []
        self.pointers: dict[str, Pointer] = {}
        self._ids = itertools.count(1)

    def reading(self, _gate: str) -> Reading:
        """Return that it is closed."""
        return self._reading

    def keep(self, entry: HeldEntry) -> HeldEntry:
        """Keep the held row."""
        self.held.append(replace(entry, slice=slice_of(entry.id)))
        return entry

    def next_ids(self, count: int) -> range:
        """Return the next ids."""
        first = next(self._ids)
        return range(first, first + count)

    def add(self, pointer: Pointer) -> Pointer:
        """Keep a pointer."""
        self.pointers[pointer.row_key] = pointer
        return pointer

    def remove(self, pointer: Pointer) -> None:
        """Forget it."""
        self.pointers.pop(pointer.row_key, None)


def hold(share: Share) -> None:
    """Accept the jobs behind the closed gate, and write what accept leaves."""
    with Connections(share.storage) as connections, ThreadPoolExecutor(4) as pool:
        numbers = range(share.first, share.last)
        for begin in range(share.first, share.last, AT_ONCE):
            _hold_some(connections, pool, numbers[begin - share.first :][:AT_ONCE], share.epoch)


def _hold_some(connections: Connections, pool: ThreadPoolExecutor, numbers: range, epoch: int) -> None:
    memory, ledger = InMemory(epoch), MemoryLedger()
    acceptance = _acceptance(connections, memory, ledger)
    names = list(pool.map(lambda number: _insist(lambda: _accept(acceptance, number)), numbers))
    jobs = connections.tables.get_table_client("jobs")
    list(pool.map(lambda name: _insist(lambda: jobs.upsert_entity(job_entity(_job(ledger, name)))), names))
    rows: list[Any] = [("upsert", _row(entry)) for entry in memory.held]
    _insist(lambda: write_group(connections.tables.get_table_client("held"), rows))
    pending = PendingTable(connections.tables.get_table_client("pending"))
    _insist(lambda: pending.add_all(list(memory.pointers.values())))


def _insist(write: Callable[[], T]) -> T:
    """Make a write that may be repeated. The local storage resets a connection once in tens of thousands of requests."""
    for _ in range(TRIES - 1):
        with suppress(AzureError, SluiceError):
            return write()
    return write()


def _job(ledger: MemoryLedger, name: str) -> Any:
    return replace(cast(Any, ledger.read(name)), nonce="seeded")


def _accept(acceptance: Acceptance, number: int) -> str:
    name = f"held-{number:06}"
    fields: dict[str, Any] = {
        "job": name,
        "gate": GATE,
        "items": [{"account": f"a{number}", "plan": "basic", "quantity": "1.5"}],
    }
    if number % DEADLINE_EVERY == 0:
        fields["deadline"] = (acceptance.clock.now() + timedelta(days=2, seconds=number)).isoformat()
    acceptance.accept(open_envelope(json.dumps({"sluice": fields}).encode(), acceptance.limits), name)
    return name


def _acceptance(connections: Connections, memory: InMemory, ledger: MemoryLedger) -> Acceptance:
    clock, limits, in_memory = SystemClock(), Limits(), cast(Any, memory)
    starter = Starter(
        ledger=ledger,
        gates=in_memory,
        dispatcher=cast(Any, None),
        pending=in_memory,
        clock=clock,
        overdue=timedelta(minutes=10),
        list_failures=lambda _job: (),
    )
    return Acceptance(
        ledger=ledger,
        stores=PayloadStores(connections.blobs.get_container_client, limits),
        plans=PlanStore(connections.blobs.get_container_client),
        planning=Planning(in_memory, in_memory),
        starter=starter,
        waiting=cast(Any, None),
        stretching=cast(Any, None),
        ranges=cast(Any, None),
        pending=in_memory,
        clock=clock,
        sums={"billing": ("quantity",)},
        limits=limits,
        sizes=ChunkSizes(1000, cast(Any, None), cast(Any, None)),
        overdue=timedelta(minutes=10),
    )


def shares(storage: str, entries: int, processes: int, epoch: int) -> Iterator[str]:
    """Yield what each process is told."""
    each = -(-entries // processes)
    for first in range(0, entries, each):
        yield json.dumps(asdict(Share(storage, first, min(first + each, entries), epoch)))


if __name__ == "__main__":
    hold(Share(**json.loads(sys.argv[1])))
