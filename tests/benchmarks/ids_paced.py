"""Processes that draw ids at a steady pace from one blob, and what each call and each request cost them."""

import json
import multiprocessing
import tempfile
import time
import uuid
from array import array
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from shared.azure import BlobStore, connect
from shared.ids import RangeGenerator, read_sequence
from tests.ids.losing_transport import LosingTransport, counted
from tests.ids.seed_generator import SeedGenerator, SeedStore

#: Ids a second of each process, and how often a second they are drawn in a burst, as requests of users come.
RATE, BURSTS = 50_000, 100
#: Seconds until every process is up, and seconds that count as the cold start.
LEAD, COLD = 2.0, 3.0


@dataclass(frozen=True)
class Paced:
    """One run."""

    generator: str
    processes: int
    seconds: float


@dataclass(frozen=True)
class Cost:
    """What a run cost: latencies in milliseconds, requests of all processes."""

    ids: int
    waits: int
    requests: int
    refused: int
    p50: float
    p99: float
    p999: float
    worst: float
    #: The same without the cold start.
    worst_warm: float
    #: Requests for a range once every process is warm; 0 where the ranges are not told.
    requests_per_range: float
    ranges: int

    @property
    def share_of_waits(self) -> float:
        """Part of the calls that waited for storage."""
        return self.waits / self.ids

    @property
    def requests_per_million(self) -> float:
        """Requests for a million ids."""
        return self.requests / self.ids * 1e6

    @property
    def refused_per_million(self) -> float:
        """Refused writes for a million ids."""
        return self.refused / self.ids * 1e6


class Waits:
    """Counts the calls that waited for storage."""

    def __init__(self) -> None:
        self.count = 0

    def of_flights(self, take: Callable[..., object]) -> Callable[..., object]:
        """Count each flight that a call had to wait for."""

        def counting(*arguments: object) -> object:
            taken = take(*arguments)
            self.count += isinstance(taken, Future)
            return taken

        return counting

    def of_calls(self, update: Callable[[], None]) -> Callable[[], None]:
        """Count each call."""

        def counting() -> None:
            self.count += 1
            update()

        return counting


@contextmanager
def next_id_of(kind: str, connection: str, container: str, tally: Path) -> Iterator[tuple[Callable[[], int], Waits]]:
    """Yield the generator of this kind, and its waits."""
    waits = Waits()
    with connect(connection, container, transport=LosingTransport(tally)) as client:
        store = BlobStore(client, "orders")
        # Connections and lazy imports are the library's cost, the same for all.
        for _ in range(3):
            store.beside("warm-up").read()
        if kind == "Twist":
            seed = SeedGenerator(SeedStore(store, etag_at_write=False), 1000, 10_000, adopts_before_write=False)
            seed._update = waits.of_calls(seed._update)
            yield seed.next_id, waits
            return
        with RangeGenerator(store, prefetch=kind == "ours") as generator:
            # Twist's generator has fetched its first range when it is made.
            generator.prepare()
            generator._supply.take = waits.of_flights(generator._supply.take)
            yield generator.next_id, waits


def work(run: Paced, connection: str, container: str, folder: Path, begin: float, process: int) -> None:  # noqa: PLR0917  # a process's arguments
    """Draw in bursts until the time is over; a process that falls behind goes on without a pause."""
    latencies = array("d")
    cold = 0
    burst = RATE // BURSTS
    with next_id_of(run.generator, connection, container, folder / "tally") as (next_id, waits):
        time.sleep(max(begin - time.monotonic(), 0))
        due = begin
        while (now := time.monotonic()) < begin + run.seconds:
            if now < due:
                time.sleep(due - now)
            due += 1 / BURSTS
            cold = cold if now > begin + COLD else len(latencies) + burst
            for _ in range(burst):
                before = time.perf_counter()
                next_id()
                latencies.append(time.perf_counter() - before)
    (folder / f"latencies-{process}").write_bytes(latencies.tobytes())
    figures = {"waits": waits.count, "worst_warm": max(latencies[cold:], default=0.0) * 1000}
    (folder / f"figures-{process}").write_text(json.dumps(figures))


def cost_of(run: Paced, connection: str) -> Cost:
    """Run it in processes of its own and return the cost."""
    container = f"paced-{uuid.uuid4().hex[:12]}"
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([__name__])
    with tempfile.TemporaryDirectory() as name, connect(connection, container) as client:
        folder = Path(name)
        client.create_container()
        store = BlobStore(client, "orders")
        if run.generator == "Twist":
            store.try_write(b"0", None)
        begin = time.monotonic() + LEAD
        jobs = [(run, connection, container, folder, begin, process) for process in range(run.processes)]
        processes = [context.Process(target=work, args=job) for job in jobs]
        for process in processes:
            process.start()
        time.sleep(max(begin + COLD - time.monotonic(), 0))
        cold = _ranges(run, store), counted(folder / "tally")["requests"]
        time.sleep(max(begin + run.seconds - 0.3 - time.monotonic(), 0))
        warm = _ranges(run, store), counted(folder / "tally")["requests"]
        for process in processes:
            process.join()
            assert process.exitcode == 0
        return _cost(folder, run, warm[0] - cold[0], warm[1] - cold[1])


def _ranges(run: Paced, store: BlobStore) -> int:
    page = None if run.generator == "Twist" else read_sequence(store)
    return page.writes if page else 0


def _cost(folder: Path, run: Paced, ranges: int, requests: int) -> Cost:
    latencies = array("d")
    for process in range(run.processes):
        latencies.frombytes((folder / f"latencies-{process}").read_bytes())
    ordered = sorted(latencies)
    figures = [json.loads((folder / f"figures-{process}").read_text()) for process in range(run.processes)]
    wire = counted(folder / "tally")

    def at(share: float) -> float:
        return ordered[min(int(len(ordered) * share), len(ordered) - 1)] * 1000

    return Cost(
        ids=len(ordered),
        waits=sum(figure["waits"] for figure in figures),
        requests=wire["requests"],
        refused=wire["refused"],
        p50=at(0.5),
        p99=at(0.99),
        p999=at(0.999),
        worst=ordered[-1] * 1000,
        worst_warm=max(figure["worst_warm"] for figure in figures),
        requests_per_range=requests / ranges if ranges else 0.0,
        ranges=ranges,
    )
