"""One large job as a flow, on the whole local stack as it is deployed: `make bench ARGS="--only flow -- --items 10000000"`.

Three things are timed, each against its goal: a large file by `sluice submit`, whose chunks run while the rest is read; a
source that sends its first megabyte by itself; and small files, each by a publisher of its own with a hint.
"""

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from shared.app import Stores
from shared.azure import Connections
from shared.ledger import FINISHED, Job, Ledger
from shared.payload import MIB
from shared.publish import Publisher
from tests.benchmarks.document import write
from tests.benchmarks.pipeline_measure import RequestLog, file_of, peak_of, transactions
from tests.benchmarks.raw_file import raw_file
from tools.local.docs import markdown
from tools.local.paths import ROOT
from tools.local.stack import StackOptions, running

PAGE = ROOT / "docs" / "appendix" / "performance.md"
SETTINGS = {"MALLOC_ARENA_MAX": "2"}
PATIENCE, LOOK_EVERY = 3600.0, 0.25
#: Small files, and the lines of each.
SMALL, FEW = 15, 20
#: Lines of a first megabyte.
FIRST = 6_000
#: Goals: seconds to the first chunk, of a large file and of a small one; the share of the shorter; memory.
_FIRST, _SMALL, _OVERLAP, _MEMORY = 1.0, 0.35, 0.8, 256 * MIB


@dataclass(frozen=True, slots=True)
class Goal:
    """One goal or figure, and what was found."""

    name: str
    found: str
    #: None: it is only told.
    is_met: bool | None = None

    @property
    def row(self) -> tuple[str, str, str]:
        """Its row in the table."""
        judged = {None: "", True: "yes", False: "NO"}
        return self.name, self.found, judged[self.is_met]


def began(ledger: Ledger, job: str) -> float | None:
    """Return when the first chunk began, at the latest: its result was credited, and it took so long."""
    rows = [row.settled_at.timestamp() - row.milliseconds / 1000 for row in ledger.rows(job)]
    return min(rows, default=None)


def ended(ledger: Ledger, name: str) -> Job:
    """Wait for the end of a job."""
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        job = ledger.read(name)
        if job is not None and job.state in FINISHED:
            if job.totals.accepted.items != job.items:
                raise AssertionError(f"{name} is {job.state}: {job.totals}, {job.problem}")
            return job
        time.sleep(LOOK_EVERY)
    raise TimeoutError(f"{name} did not end: {ledger.read(name)}")


def large(settings: dict[str, str], ledger: Ledger, log: RequestLog, path: Path, items: int) -> Iterator[Goal]:
    """Send a large file by the command."""
    command = [sys.executable, "-m", "sluice", "submit", str(path), "--job", "large", "--json"]
    sending = subprocess.Popen(command, cwd=ROOT, env={**os.environ, **settings}, stdout=subprocess.PIPE)
    read, peak = _wait_for(sending, path, MIB), 0
    while sending.poll() is None:
        with suppress(OSError, IndexError):
            peak = max(peak, peak_of(sending.pid))
        time.sleep(0.05)
    sent = time.time()
    if sending.returncode:
        raise RuntimeError(f"the command ended with {sending.returncode}")
    job, first = ended(ledger, "large"), began(ledger, "large")
    assert first is not None
    assert job.progressed_at is not None
    assert job.finished_at is not None
    worked = job.progressed_at.timestamp()
    both, shorter = min(sent, worked) - first, min(sent - read, worked - first)
    what = f"{items:,} by `sluice submit`"
    delay, share, each = first - read, both / shorter, log.total() / items
    yield Goal(f"{what}: first chunk, after the first MB was read: at most 1 s", f"{delay:.2f} s", delay <= _FIRST)
    spans = f"{share:.0%} ({sent - read:.1f} s and {worked - first:.1f} s)"
    yield Goal(f"{what}: publishing and work overlap by at least 80% of the shorter", spans, share >= _OVERLAP)
    yield Goal(f"{what}: memory of the publisher: under 256 MiB", f"{peak // MIB} MiB", 0 < peak < _MEMORY)
    yield Goal(f"{what}: storage requests a transaction, the host's polling included", f"{each:.5f}")
    took = job.finished_at.timestamp() - read
    yield Goal(f"{what}: from the first MB to the end", f"{took:.1f} s, {items / took:,.0f} a second")


def _wait_for(sending: subprocess.Popen[bytes], path: Path, size: int) -> float:
    """Return when a process had read so many bytes of a file."""
    open_files = Path(f"/proc/{sending.pid}/fd")
    while sending.poll() is None:
        with suppress(OSError):
            for one in open_files.iterdir():
                if one.resolve() == path.resolve():
                    place = Path(f"/proc/{sending.pid}/fdinfo/{one.name}").read_text().split()[1]
                    if int(place) >= size:
                        return time.time()
        time.sleep(0.002)
    raise RuntimeError(f"the command ended with {sending.returncode}")


def slow(connections: Connections, ledger: Ledger) -> Goal:
    """Send a first megabyte as a stretch of its own, and end the job when its chunks have ended."""
    with Publisher.connect(connections) as publisher, publisher.open(job="slow", workload="billing") as job:
        job.write(transactions(FIRST))
        flushed = time.time()
        job.flush()
        while (first := began(ledger, "slow")) is None:
            time.sleep(LOOK_EVERY)
    ended(ledger, "slow")
    delay = first - flushed
    return Goal("`submission.open`: first chunk, after a flush of 1 MB: at most 1 s", f"{delay:.2f} s", delay <= _FIRST)


def small(settings: dict[str, str], ledger: Ledger) -> Iterator[Goal]:
    """Send small files, each by a new process."""
    delays, cpus, path = [], [], str(file_of(FEW))
    for number in range(SMALL):
        name = f"small-{number}"
        command = [sys.executable, "-m", "tests.benchmarks.pipeline_publish", path, name, "billing", _total()]
        sent = json.loads(subprocess.check_output(command, cwd=ROOT, env={**os.environ, **settings}))
        ended(ledger, name)
        first = began(ledger, name)
        assert first is not None
        delays.append(first - sent["began"])
        cpus.append(sent["cpu"])
    middle = median(delays)
    found = f"{middle:.2f} s [{min(delays):.2f} to {max(delays):.2f}]"
    what = "a drop with a hint by a new publisher: first chunk, p50"
    yield Goal(f"{what}: at most 0.35 s", found, middle <= _SMALL)
    yield Goal(f"CPU of a new publisher, {FEW} lines", f"{median(cpus) * 1000:.0f} ms")


def _total() -> str:
    lines = (json.loads(line)["quantity"] for line in transactions(FEW))
    cents = sum(int(text.replace(".", "")) for text in lines)
    return f"{cents // 100}.{cents % 100:02}"


def main(arguments: Sequence[str] = ()) -> int:
    """Measure, write the table; 1 when a goal is missed."""
    parser = argparse.ArgumentParser(prog="flow")
    parser.add_argument("--items", type=int, default=2_000_000)
    parser.add_argument("--dry", action="store_true", help="leave the page alone")
    options = parser.parse_args(arguments)
    path = raw_file(options.items)
    stack_options = StackOptions(instances=2, counts_requests=True, settings=SETTINGS)
    with running(stack_options) as stack, Connections.parse(stack.settings) as connections:
        ledger = Stores(connections).ledger
        goals = [*small(stack.settings, ledger), slow(connections, ledger)]
        goals += large(stack.settings, ledger, RequestLog(stack.azurite), path, options.items)
        peaks = [peak_of(pid) for pid in stack.host.instance_pids().values()]  # type: ignore[attr-defined]  # the project's own
    goals.append(Goal("memory of an instance: under 256 MiB", f"{max(peaks) // MIB} MiB", max(peaks) < _MEMORY))
    table = markdown(("goal", "measured", ""), [one.row for one in goals])
    sys.stdout.write(f"{table}\n")
    if not options.dry:
        write(PAGE, "flow", table)
    return int(any(one.is_met is False for one in goals))


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
