"""How long a room waits beside another one's work: `make bench ARGS="--only rooms"`.

One small job in a room: alone, behind three hundred submissions of another room, and beside a job of another room with four
hundred chunks of two seconds. On the whole local stack with the deployed host.json. Both publishers send hints. Ratios of
one run count; the seconds are this machine's.
"""

import argparse
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from shared.app import Stores
from shared.azure import Connections
from shared.ledger import FINISHED
from shared.publish import Publisher
from tests.benchmarks.document import write
from tests.waiting import LIMIT
from tools.local.docs import markdown
from tools.local.paths import ROOT
from tools.local.stack import StackOptions, running

DOCUMENT = ROOT / "docs" / "appendix" / "dequeue.md"
SETTINGS = {"SLUICE_ROOMS": "alpha,beta"}
#: A transaction is a chunk, and takes so many seconds.
TIMED = {"SLUICE_CHUNK_ITEMS": "1", "SLUICE_WORKLOADS": "tests.benchmarks.dequeue_workload:Timed"}
#: Seconds that a room may wait longer than twice its time alone.
ABOVE = 3.0
#: Seconds within which a job of one chunk ends beside the flood of chunks.
BESIDE_CHUNKS = 20.0
EVERY = 0.05


def main(arguments: Sequence[str] = ()) -> int:
    """Measure, put the table into docs/appendix/dequeue.md, and end with 1 if the goal is missed."""
    parser = argparse.ArgumentParser(prog="rooms", description=__doc__)
    parser.add_argument("--flood", type=int, default=300, help="submissions of the other room")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--chunks", type=int, default=400, help="of the other room's job")
    parser.add_argument("--work", type=float, default=2.0, help="seconds of a chunk")
    parser.add_argument("--dry", action="store_true", help="do not write the page")
    options = parser.parse_args(list(arguments))
    alone, beside = [], []
    with (
        running(StackOptions(instances=2, settings=SETTINGS)) as stack,
        Connections.parse(stack.settings) as connections,
    ):
        stores = Stores(connections)
        with Publisher.connect(connections, "alpha") as alpha, Publisher.connect(connections, "beta") as beta:
            take(stores, beta, "beta", "warm", 0)
            for number in range(options.rounds):
                alone.append(take(stores, beta, "beta", "alone", number))
                for flooding in range(options.flood):
                    submit(alpha, f"flood-{number}-{flooding:03}")
                beside.append(take(stores, beta, "beta", "beside", number))
                wait(stores, [f"alpha~flood-{number}-{flooding:03}" for flooding in range(options.flood)])
    quiet, loud = _beside_chunks(options.chunks, options.work, options.rounds)
    measured = (
        ("alone", alone, None),
        (f"behind {options.flood} of another room", beside, 2 * statistics.median(alone) + ABOVE),
        (f"alone, its chunk takes {options.work:g} s", quiet, None),
        (
            f"the same beside {options.chunks} such chunks of another room",
            loud,
            BESIDE_CHUNKS * options.work / 2,
        ),
    )
    rows = [
        (what, f"{statistics.median(found):.2f} s", f"{max(found):.2f} s", f"{goal:.2f} s" if goal else "")
        for what, found, goal in measured
    ]
    table = markdown(("one small job of a room", "median", "worst", "goal of the worst"), rows)
    missed = [what for what, found, goal in measured if goal and max(found) > goal]
    sys.stdout.write("\n".join([table, *(f"missed its goal: {what}" for what in missed), ""]))
    if not options.dry:
        write(DOCUMENT, "rooms", table)
    return int(bool(missed))


def _beside_chunks(chunks: int, work: float, rounds: int) -> tuple[list[float], list[float]]:
    """Return the seconds of a job of one chunk, alone and while another room's job has so many."""
    with tempfile.TemporaryDirectory() as folder:
        stamps = Path(folder) / "stamps"
        stamps.touch()
        settings = {**SETTINGS, **TIMED, "DEQUEUE_STAMPS": str(stamps), "DEQUEUE_WORK": str(work)}
        with (
            running(StackOptions(instances=2, settings=settings)) as stack,
            Connections.parse(stack.settings) as connections,
        ):
            stores = Stores(connections)
            with Publisher.connect(connections, "alpha") as alpha, Publisher.connect(connections, "beta") as beta:
                take(stores, beta, "beta", "warm", 0, "timed")
                quiet = [take(stores, beta, "beta", "alone", number, "timed") for number in range(rounds)]
                loud = []
                for number in range(rounds):
                    submit(alpha, f"flood-{number}", "timed", chunks)
                    # The flood is under way, and all that may be put at once is on the queues.
                    while (flood := stores.ledger.read(f"alpha~flood-{number}")) is None or flood.done < 1:
                        time.sleep(EVERY)
                    loud.append(take(stores, beta, "beta", "beside", number, "timed"))
                    flood = stores.ledger.read(f"alpha~flood-{number}")
                    if flood is None or flood.state in FINISHED:
                        raise RuntimeError(f"the flood of {chunks} chunks ended before the job beside it")
                    wait(stores, [f"alpha~flood-{number}"])
    return quiet, loud


def submit(publisher: Publisher, job: str, workload: str = "billing", items: int = 1, first: int = 0) -> None:
    """Submit a job of so many transactions, which a workload of this folder can tell by their numbers."""
    usage = {"account": "a", "plan": "basic", "quantity": "1"}
    some = [usage if workload == "billing" else {"number": first + number} for number in range(items)]
    publisher.submit(job=job, workload=workload, transactions=some)


def take(  # noqa: PLR0917 - whose job, and which
    stores: Stores, publisher: Publisher, room: str, what: str, number: int, workload: str = "billing"
) -> float:
    """Submit a job and return the seconds until its end."""
    began = time.monotonic()
    submit(publisher, f"{what}-{number}", workload)
    wait(stores, [f"{room}~{what}-{number}"])
    return time.monotonic() - began


def wait(stores: Stores, jobs: Sequence[str]) -> None:
    """Wait until these jobs have ended."""
    until = time.monotonic() + LIMIT
    for name in jobs:
        while (job := stores.ledger.read(name)) is None or job.state not in FINISHED:
            if time.monotonic() >= until:
                raise TimeoutError(f"job {name!r} has not ended within {LIMIT} s")
            time.sleep(EVERY)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
