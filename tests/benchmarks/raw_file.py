"""A raw file that two instances cut by ranges, on the whole local stack.

python -m tests.benchmarks.raw_file --items 10000000          (writes its table into docs/appendix/ledger.md)
"""

import argparse
import sys
import time
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path

from shared.app import Stores
from shared.azure.connections import Connections
from shared.ledger import Job
from shared.ledger.records import FINISHED
from shared.payload import MIB, PayloadFields, SubmissionFields, write_submission
from shared.publish import Publisher
from tests.benchmarks import document
from tests.benchmarks.pipeline_measure import FOLDER, RequestLog, cpu_of, file_of, peak_of
from tools.local.paths import ROOT
from tools.local.stack import Stack, StackOptions, running

PAGE = ROOT / "docs" / "appendix" / "ledger.md"
BLOB, EACH = "uploads/raw.ndjson", 1_000_000
PATIENCE = 7200.0
#: Each look asks Azurite, which the job needs too.
LOOK_EVERY = 0.5


@dataclass(slots=True)
class Seen:
    """The marks of one job, in seconds from its message on."""

    began: float
    marks: dict[str, float] = field(default_factory=dict)

    def look(self, job: Job | None) -> bool:
        """Note what has come to pass. True: the job has ended."""
        if job is None:
            return False
        has_come = {
            "accepted": True,
            "first chunk ended": job.ended_chunks > 0,
            "last range cut": not job.growing,
            "ended": job.state in FINISHED,
        }
        now = time.time() - self.began
        for mark, is_there in has_come.items():
            if is_there:
                self.marks.setdefault(mark, now)
        return job.state in FINISHED


def raw_file(items: int) -> Path:
    """Return a file with so many lines: those of a million again and again."""
    path = FOLDER / f"raw-{items}.ndjson"
    each = file_of(min(items, EACH))
    if not path.exists():
        with path.open("wb") as made:
            for number in range(0, items, EACH):
                with each.open("rb") as one:
                    made.writelines(islice(one, items - number))
    return path


def upload(connections: Connections, path: Path) -> None:
    """Put the file where its publisher would, in blocks."""
    container = connections.blobs.get_container_client("payloads")
    with path.open("rb") as file:
        container.get_blob_client(BLOB).upload_blob(file, overwrite=True, max_concurrency=1)


def drop(connections: Connections) -> None:
    """Send the message and its hint, as a publisher does."""
    fields = SubmissionFields(job="raw", workload="billing", payload=PayloadFields(blob=BLOB))
    with closing(Publisher.connect(connections)) as publisher:
        publisher._drop("raw", write_submission(fields))


def follow(stack: Stack, connections: Connections, began: float) -> tuple[Seen, Job]:
    """Wait for the job's end."""
    ledger, seen = Stores(connections).ledger, Seen(began)
    while time.time() < began + PATIENCE:
        job = ledger.read("raw")
        if seen.look(job) and job is not None:
            return seen, job
        time.sleep(LOOK_EVERY)
    raise TimeoutError(f"it did not end in {PATIENCE:g} s: {ledger.read('raw')}")


def measure(items: int) -> str:
    """Run the job, and return its table."""
    path = raw_file(items)
    with running(StackOptions(instances=2, counts_requests=True)) as stack, Connections.parse(stack.settings) as own:
        upload(own, path)
        pids = stack.host.instance_pids()  # type: ignore[union-attr]
        used = {name: cpu_of([pid]) for name, pid in pids.items()}
        log, began = RequestLog(stack.azurite), time.time()
        drop(own)
        seen, job = follow(stack, own, began)
        taken = {name: cpu_of([pid]) - used[name] for name, pid in pids.items()}
        peaks = [peak_of(pid) for pid in pids.values()]
        requests = log.by_kind().total()
    if job.totals.accepted.items != items:
        raise AssertionError(f"{job.state}: {job.totals}, {job.problem}")
    most, least = max(taken.values()), min(taken.values())
    rows = [
        ("lines, MiB", f"{items:,}, {path.stat().st_size // MIB:,}"),
        *((f"{mark}, s", f"{at:.1f}") for mark, at in seen.marks.items()),
        ("CPU of the instances, s", " and ".join(f"{one:.1f}" for one in taken.values())),
        ("the smaller share", f"{least / most:.2f}"),
        ("largest memory of an instance, MiB", f"{max(peaks) // MIB}"),
        ("requests a transaction", f"{requests / items:.5f}"),
    ]
    return "\n".join(["| | |", "| --- | --- |", *(f"| {name} | {value} |" for name, value in rows)])


def main(arguments: Sequence[str]) -> int:
    """Measure, and write the table."""
    parser = argparse.ArgumentParser(prog="raw_file")
    parser.add_argument("--items", type=int, default=2 * EACH)
    parser.add_argument("--dry", action="store_true", help="leave the page alone")
    options = parser.parse_args(arguments)
    table = measure(options.items)
    sys.stdout.write(f"{table}\n")
    if not options.dry:
        document.write(PAGE, "raw_file", table)
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
