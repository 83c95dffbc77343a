"""The parts of `tests.benchmarks.work` that run on the app as it is deployed."""

import sys
import time
from contextlib import ExitStack

from azure.storage.blob import BlobServiceClient

from shared.azure import Connections
from shared.publish import Publisher
from shared.settings import BILLING
from tests.benchmarks.many_accounts import MOST_MEMORY
from tests.benchmarks.work_checker import CONTAINER, account_of, quantity_of
from tests.benchmarks.work_part import MIB, Part, judge, judged
from tests.benchmarks.work_stack import Deployed, Killing, Watching, deployed, wait

#: Seconds between two kills, and between two words about what goes on.
KILLS_EVERY, SAYS_EVERY = 20.0, 60.0


def killed(items: int) -> Part:
    """Run a job each of whose transactions has an account of its own, and kill an instance again and again."""
    part = Part(("what", "found"))
    with deployed({"SLUICE_WORKLOADS": BILLING}, instances=2, accounts=items) as stack, ExitStack() as beside:
        began = time.monotonic()
        publish(stack, "job", "billing", items)
        watching = beside.enter_context(Watching(stack.host))
        killing = beside.enter_context(Killing(stack.host, KILLS_EVERY))
        published = time.monotonic()
        wait_for_manifest(stack, "job/1", items)
        took = time.monotonic() - published
        assert stack.totals is not None
        rows, found = stack.totals.rows, watching.found
        part.rows += [
            ("transactions, each with an account of its own", f"{items:,}"),
            (f"SIGKILL of one of two instances, one each {KILLS_EVERY:.0f} s", f"{killing.kills}"),
            ("published", f"{published - began:.0f} s"),
            ("from then to the manifest", f"{took:.0f} s"),
            ("CPU of the instances", f"{found.cpu:.0f} s"),
            ("processes of instances", f"{len(found.peaks)}"),
            ("most memory of one", f"{found.peak / MIB:.0f} MiB"),
            ("transactions of the table of totals", f"{rows.transactions:,}"),
        ]
        if found.peak > MOST_MEMORY:
            part.breaches.append(f"a process took {found.peak / MIB:.0f} MiB")
        part.breaches += stack.totals.breaches()
        judge(part, judged(stack.storage, "job/1", "output-", items), items)
    return part


def publish(stack: Deployed, job: str, workload: str, items: int) -> None:
    """Publish as a publisher does."""
    lines = (
        (n, f'{{"account":"{account_of(n - 1)}","plan":"basic","quantity":"{quantity_of(n - 1)}"}}'.encode())
        for n in range(1, items + 1)
    )
    with Connections(stack.storage) as connections:
        publisher = Publisher(
            connections.queues.get_queue_client("submissions"), connections.blobs.get_container_client("payloads")
        )
        publisher.submit_lines(job=job, lines=lines, workload=workload, sums=["quantity"])


def wait_for_manifest(stack: Deployed, folder: str, items: int) -> None:
    """Wait until the job has ended."""
    says = [time.monotonic()]
    with BlobServiceClient.from_connection_string(stack.storage) as service:
        blob = service.get_blob_client(CONTAINER, f"{folder}/manifest.json")

        def has_ended() -> bool:
            if stack.totals and time.monotonic() > says[0] + SAYS_EVERY:
                says[0] = time.monotonic()
                sys.stderr.write(f"{sum(stack.totals.rows.seen):,} of {items:,} rows\n")
            return blob.exists()

        wait(has_ended, 7_200, f"{folder} has no manifest", 2)
