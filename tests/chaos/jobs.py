"""The jobs of the chaos runs, and what must come out of each: made from a seed, so that both sides know it."""

import json
import random
from dataclasses import dataclass

from shared.app import Stores
from shared.ledger.records import FINISHED
from shared.payload import Limits
from shared.publish import Publisher
from shared.signals import GatheredHints, HttpHints
from shared.topology import submission_queue
from tests.chaos.stack import FRAME_ITEMS, wait_until

#: One in so many names a plan that does not exist.
BAD_EVERY = 50


def usages(seed, count):
    """Yield usage transactions."""
    dice = random.Random(seed)
    for number in range(count):
        plan = "no-such-plan" if number % BAD_EVERY == 7 else "basic"
        quantity = f"{dice.randrange(1, 900)}.{dice.randrange(1000):03}"
        yield {"account": f"account-{dice.randrange(60)}", "plan": plan, "quantity": quantity}


@dataclass(frozen=True)
class Expected:
    """A job that was submitted."""

    job: str
    seed: int
    items: int

    def lines(self):
        """Return the transactions as they were sent."""
        return [json.dumps(usage, separators=(",", ":")).encode() for usage in usages(self.seed, self.items)]


def publisher(connections, hints=None):
    """Return a publisher of small frames."""
    return Publisher(
        connections.queues.get_queue_client("submissions"),
        connections.blobs.get_container_client("payloads"),
        limits=Limits(frame_items=FRAME_ITEMS),
        hints=hints,
    )


def submit(connections, job, seed, items, gate=None, *, is_hinted=False):
    """Submit a job and return what is expected of it."""
    hints = GatheredHints(HttpHints(connections, submission_queue())) if is_hinted else None
    transactions = usages(seed, items)
    with publisher(connections, hints) as one:
        one.submit(job=job, workload="billing", sums=["quantity"], transactions=transactions, gate=gate)
    return Expected(job, seed, items)


def wait_finished(connections, expected, seconds):
    """Wait until every job is finished."""
    ledger, left = Stores(connections).ledger, {one.job for one in expected}

    def is_done():
        left.difference_update(
            [job for job in left if (found := ledger.read(job)) is not None and found.state in FINISHED]
        )
        return not left

    def said():
        rows = [(job, ledger.read(job)) for job in sorted(left)]
        return "not finished: " + ", ".join(
            f"{job} ({found and (found.state.value, found.ended_chunks, found.chunks)})" for job, found in rows
        )

    wait_until(is_done, seconds, said)
