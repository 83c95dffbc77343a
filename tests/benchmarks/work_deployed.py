"""The parts of `tests.benchmarks.work` that run on the app as it is deployed."""

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from contextlib import ExitStack
from decimal import Decimal
from pathlib import Path
from types import MappingProxyType
from typing import Any

from azure.storage.blob import BlobServiceClient

from shared.azure import BUS_CONNECTION, Connections
from shared.publish import Publisher
from shared.settings import BILLING
from tests.benchmarks.many_accounts import MOST_MEMORY
from tests.benchmarks.work_bodies import BAD, CALLS, MENDED, Cancelled, Exiting, Faulty
from tests.benchmarks.work_checker import CONTAINER, account_of, lines_of, quantity_of
from tests.benchmarks.work_part import MIB, Part, judge, judged
from tests.benchmarks.work_stack import Deployed, Killing, Watching, deployed, wait
from tools.local.paths import ROOT

#: Seconds between two kills, and between two words about what goes on.
KILLS_EVERY, SAYS_EVERY = 20.0, 60.0
#: Calls beside those of each transaction of the bad one's chunk, and the transactions of that chunk.
MORE_CALLS, CHUNK = 4, 8_000
PATIENCE = 7_200
#: Transactions of a job of which one fails.
ONE = 400_000
NO_PLANS: Mapping[int, str] = MappingProxyType({})
_LINE = '{"account":"%s","plan":"%s","quantity":"%s"}'


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


def publish(stack: Deployed, job: str, workload: str, items: int, plans: Mapping[int, str] = NO_PLANS) -> None:
    """Publish as a publisher does. Each transaction has the plan `basic`, but for those that are named."""
    lines = (
        (n, _LINE % (account_of(n - 1), plans.get(n - 1, "basic"), quantity_of(n - 1))) for n in range(1, items + 1)
    )
    with (
        Connections(stack.storage, stack.settings[BUS_CONNECTION]) as connections,
        Publisher.connect(connections) as publisher,
    ):
        numbered = ((n, text.encode()) for n, text in lines)
        publisher.submit_lines(job=job, lines=numbered, workload=workload, sums=["quantity"])


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

        wait(has_ended, PATIENCE, f"{folder} has no manifest", 2)


def one(items: int) -> Part:
    """Run jobs of which one transaction fails, each in its way; mend the code, and replay."""
    part = Part(
        ("raises", "transactions", "accepted, parked", "calls of its chunk", "after the replay", "calls of that")
    )
    items = min(items, ONE)
    with tempfile.TemporaryDirectory() as name:
        folder, bodies = Path(name), (Faulty, Exiting, Cancelled)
        settings = {CALLS: str(folder / "calls"), MENDED: str(folder / "mended"), BAD: str(items // 2)}
        settings["SLUICE_WORKLOADS"] = ",".join(f"tests.benchmarks.work_bodies:{body.__name__}" for body in bodies)
        with deployed(settings, instances=2) as stack:
            for body in bodies:
                publish(stack, body.name, body.name, items)
            before = {body.name: ended(stack, body.name, "completed_with_parked") for body in bodies}
            calls = {body.name: _calls(folder, body.name) for body in bodies}
            (folder / "mended").touch()
            for group in json.loads(type_(stack, "parked", "list", "--json"))["groups"]:
                type_(stack, "parked", "replay", group["fingerprint"], "--yes", "--why", "mended")
            for body in bodies:
                after = ended(stack, body.name, "complete")
                more = _calls(folder, body.name)[len(calls[body.name]) :]
                _judge_one(part, stack, body.error.__name__, (before[body.name], after), (calls[body.name], more))
    return part


def _judge_one(
    part: Part,
    stack: Deployed,
    error: str,
    said: tuple[dict[str, Any], dict[str, Any]],
    calls: tuple[list[int], list[int]],
) -> None:
    before, after = said
    items, bad = before["items"], before["items"] // 2
    of_chunk = sum(number // CHUNK == bad // CHUNK for number in calls[0])
    counts = [(one["accepted"]["items"], one["parked"]["items"]) for one in said]
    part.rows.append(
        (
            error,
            f"{items:,}",
            "{:,}, {:,}".format(*counts[0]),
            f"{of_chunk:,}",
            f"{after['state']}, revision {after['revision']}, {counts[1][0]:,} accepted",
            f"{len(calls[1])}",
        )
    )
    whole = sum((Decimal(quantity_of(number)) for number in range(items)), Decimal())
    missing = Decimal(quantity_of(bad))
    sums = [_sum_of(stack, before["job"], one["revision"]) for one in said]
    wrong = [
        (counts != [(items - 1, 1), (items, 0)], f"{error}: {counts}"),
        (of_chunk > CHUNK + MORE_CALLS, f"{error}: {of_chunk:,} calls of its chunk"),
        (calls[1] != [bad], f"{error}: the replay called {calls[1][:5]}"),
        (after["revision"] != 2, f"{error}: revision {after['revision']}"),
        (sums != [whole - missing, whole], f"{error}: the outputs add up to {sums}"),
        (set(calls[0]) != set(range(items)), f"{error}: not each transaction was called"),
    ]
    part.breaches += [text for is_wrong, text in wrong if is_wrong]


def _sum_of(stack: Deployed, job: str, revision: int) -> Decimal:
    """Return the sum in the published file of a revision."""
    with BlobServiceClient.from_connection_string(stack.storage) as service:
        container = service.get_container_client(CONTAINER)
        names = container.list_blob_names(name_starts_with=f"{job}/{revision}/output-")
        return sum(
            (Decimal(json.loads(line)["quantity"]) for name in names for line in lines_of(container, name)), Decimal()
        )


def _calls(folder: Path, name: str) -> list[int]:
    return list(map(int, (folder / f"calls-{name}").read_text().split()))


def ended(stack: Deployed, job: str, state: str) -> dict[str, Any]:
    """Wait for a state, and return what `jobs show` says."""
    found: dict[str, Any] = {}

    def has_it() -> bool:
        found.update(json.loads(type_(stack, "jobs", "show", job, "--json") or "{}"))
        return found.get("state") == state

    wait(has_it, PATIENCE, f"{job} is not {state}", 5)
    return found


def type_(stack: Deployed, *words: str) -> str:
    """Type a command, and return what it prints."""
    command = [sys.executable, "-m", "sluice", *words]
    done = subprocess.run(
        command, cwd=ROOT, env={**os.environ, **stack.settings}, stdout=subprocess.PIPE, text=True, check=False
    )
    return done.stdout
