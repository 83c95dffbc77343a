"""How long a room waits beside another one's submissions: `make bench ARGS="--only rooms"`.

One small job in a room, alone and behind three hundred of another room, on the whole local stack with the deployed
host.json. Both publishers send hints. Ratios of one run count; the seconds are this machine's.
"""

import argparse
import statistics
import sys
import time
from collections.abc import Sequence

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
#: Seconds that a room may wait longer than twice its time alone.
ABOVE = 3.0
EVERY = 0.05


def main(arguments: Sequence[str] = ()) -> int:
    """Measure, put the table into docs/appendix/dequeue.md, and end with 1 if the goal is missed."""
    parser = argparse.ArgumentParser(prog="rooms", description=__doc__)
    parser.add_argument("--flood", type=int, default=300, help="submissions of the other room")
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args(arguments)
    alone, beside = [], []
    with (
        running(StackOptions(instances=2, settings=SETTINGS)) as stack,
        Connections.parse(stack.settings) as connections,
    ):
        stores = Stores(connections)
        with Publisher.connect(connections, "alpha") as alpha, Publisher.connect(connections, "beta") as beta:
            _take(stores, beta, "warm", 0)
            for number in range(options.rounds):
                alone.append(_take(stores, beta, "alone", number))
                for flooding in range(options.flood):
                    _submit(alpha, f"flood-{number}-{flooding:03}")
                beside.append(_take(stores, beta, "beside", number))
                _wait(stores, [f"alpha~flood-{number}-{flooding:03}" for flooding in range(options.flood)])
    rows = [
        (what, f"{statistics.median(found):.2f} s", f"{max(found):.2f} s")
        for what, found in (("alone", alone), (f"behind {options.flood} of another room", beside))
    ]
    table = markdown(("one small job of a room", "median", "worst"), rows)
    sys.stdout.write(f"{table}\n")
    write(DOCUMENT, "rooms", table)
    return int(max(beside) > 2 * statistics.median(alone) + ABOVE)


def _submit(publisher: Publisher, job: str) -> None:
    publisher.submit(job=job, transactions=[{"account": "a", "plan": "basic", "quantity": "1"}])


def _take(stores: Stores, publisher: Publisher, what: str, number: int) -> float:
    """Submit a job and return the seconds until its end."""
    began = time.monotonic()
    _submit(publisher, f"{what}-{number}")
    _wait(stores, [f"beta~{what}-{number}"])
    return time.monotonic() - began


def _wait(stores: Stores, jobs: Sequence[str]) -> None:
    until = time.monotonic() + LIMIT
    for name in jobs:
        while (job := stores.ledger.read(name)) is None or job.state not in FINISHED:
            if time.monotonic() >= until:
                raise TimeoutError(f"job {name!r} has not ended within {LIMIT} s")
            time.sleep(EVERY)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
