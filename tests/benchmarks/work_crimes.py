"""The part of `tests.benchmarks.work` about transactions that end their process, and the honest jobs beside them.

One instance runs, so that each death is that of all work. Nothing here limits memory, so a thread does what the platform
does: it ends a process of an instance that has more than a deployed one gets.
"""

import json
import os
import signal
import time
from collections.abc import Callable, Iterable
from contextlib import ExitStack, suppress
from math import ceil
from pathlib import Path
from statistics import median

from azure.storage.blob import BlobServiceClient
from functions_local_host.launcher import Host

from shared.settings import BILLING
from tests.benchmarks.work_checker import CONTAINER
from tests.benchmarks.work_deployed import publish, type_, wait_for_manifest
from tests.benchmarks.work_outlaws import CRIMES, DEPLOYED_MEMORY
from tests.benchmarks.work_part import Part
from tests.benchmarks.work_stack import Beside, Deployed, Watching, deployed, wait

#: Transactions of a job with crimes, and of an honest one, which has one chunk.
ITEMS, HONEST = 1_000, 200
#: Seconds in which honest jobs are sent, between two, and until the last has ended.
LASTS, EVERY, PATIENCE = 150.0, 1.0, 300.0
#: What honest jobs may take at 95 %, in seconds, and the delivery by which a crime is parked.
MOST, DELIVERIES = 6.0, 3
TOGETHER = "all three at once, a job each"


class Bounding(Beside):
    """Ends what has more memory than a deployed instance."""

    def __init__(self, host: Host) -> None:
        super().__init__(0.1)
        self._host = host

    def act(self) -> None:
        """Look once. The kernel prefers a child that is to die before its instance, and of these the largest."""
        for pid in self._host.instance_pids().values():
            with suppress(OSError, ValueError):
                children = _children_of(pid)
                if sum(map(_memory_of, [*children, pid])) > DEPLOYED_MEMORY:
                    os.kill(max(children or [pid], key=_memory_of), signal.SIGKILL)


def crimes(_items: int) -> Part:
    """Run each crime by itself, then all at once."""
    part = Part(
        ("the transaction", "parked as", "delivery", "after", "processes", "honest jobs", "median", "95 %", "most")
    )
    settings = {"SLUICE_WORKLOADS": f"{BILLING},tests.benchmarks.work_outlaws:Criminal"}
    for name, plans in [*((one, [one]) for one in CRIMES), (TOGETHER, list(CRIMES))]:
        with deployed(settings, instances=1) as stack:
            _one_run(part, stack, name, plans)
    return part


def _one_run(part: Part, stack: Deployed, name: str, plans: list[str]) -> None:
    with BlobServiceClient.from_connection_string(stack.storage) as service, ExitStack() as beside:

        def has_ended(job: str) -> bool:
            return bool(service.get_blob_client(CONTAINER, f"{job}/1/manifest.json").exists())

        # What a process does at its first job is no cost of a crime.
        publish(stack, "warm", "billing", HONEST)
        wait_for_manifest(stack, "warm/1", HONEST)
        watching = beside.enter_context(Watching(stack.host))
        beside.enter_context(Bounding(stack.host))
        for plan in plans:
            publish(stack, plan, "criminal", ITEMS, {ITEMS // 2: plan})
        seconds, parked = _beside(stack, has_ended, plans)
    p95 = sorted(seconds)[ceil(0.95 * len(seconds)) - 1]
    entries = [_entry_of(stack, plan) for plan in plans]
    part.rows.append(
        (
            name,
            ", ".join(dict.fromkeys(reason for reason, _, _ in entries)),
            ", ".join(str(attempts) for _, attempts, _ in entries),
            f"{max(parked):.0f} s",
            f"{len(watching.found.peaks)}",
            f"{len(seconds)}",
            *(f"{one:.1f} s" for one in (median(seconds), p95, max(seconds))),
        )
    )
    wrong = [(p95 > MOST, f"{name}: honest jobs took {p95:.1f} s at 95 %")]
    for plan, (reason, attempts, items) in zip(plans, entries, strict=True):
        wrong += [
            (items != 1, f"{name}: {items} transactions of {plan} are parked"),
            (attempts > DELIVERIES and len(plans) == 1, f"{name}: parked at delivery {attempts}"),
            (reason != "killed_its_worker", f"{name}: parked as {reason}"),
        ]
    part.breaches += [text for is_wrong, text in wrong if is_wrong]


def _beside(stack: Deployed, has_ended: Callable[[str], bool], plans: Iterable[str]) -> tuple[list[float], list[float]]:
    """Send honest jobs one after another. Return the seconds that each took, and those until each crime was parked."""
    began, sent, took = time.monotonic(), dict[str, float](), dict[str, float]()
    open_, number = dict.fromkeys(plans, began), 0

    def look() -> bool:
        for job, since in list(open_.items()):
            if has_ended(job):
                took[job] = time.monotonic() - since
                del open_[job]
        return not open_

    while (now := time.monotonic()) < began + LASTS:
        if now >= began + number * EVERY:
            job = f"honest-{number:04d}"
            open_[job] = sent[job] = time.monotonic()
            publish(stack, job, "billing", HONEST)
            number += 1
        look()
        time.sleep(0.05)
    wait(look, PATIENCE, f"not ended: {', '.join(open_)}", 0.1)
    return [took[job] for job in sent], [took[plan] for plan in plans]


def _entry_of(stack: Deployed, job: str) -> tuple[str, int, int]:
    """Return the reason, the delivery and the transactions of what is parked of a job."""
    found = json.loads(type_(stack, "jobs", "show", job, "--json"))
    for group in json.loads(type_(stack, "parked", "list", "--json"))["groups"]:
        for entry in json.loads(type_(stack, "parked", "list", group["fingerprint"], "--json"))["entries"]:
            if entry["job"] == job:
                return entry["reason"], entry["attempts"], found["parked"]["items"]
    return "nothing", 0, found["parked"]["items"]


def _children_of(pid: int) -> list[int]:
    tasks = Path(f"/proc/{pid}/task").iterdir()
    return [int(child) for task in tasks for child in (task / "children").read_text().split()]


def _memory_of(pid: int) -> int:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
