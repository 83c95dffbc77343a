"""A night of three stages on the whole local stack: a job, one that is made from it, and one that is made from that.

Once with kills, for the proof; once without, for when a stage begins; and once by processes that follow no hint.
"""

import json
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Final

from shared.app import Stores
from shared.azure import Connections
from shared.ledger import FINISHED, Job, JobState
from shared.publish import Publisher
from tests.benchmarks.acts_row import Row
from tests.benchmarks.acts_workload import SECONDS, STAMPS
from tests.chaos.stack import Killer
from tools.local.stack import Stack, StackOptions, running

STAGES: Final = ("rate", "invoice", "report")
BACKWARDS: Final = ("rate-2", "invoice-2", "report-2")
KILLS: Final = 20
#: Seconds from the end of one stage to the first `map` of the next, with hints and without.
HINTED, UNHINTED = 2.0, 660.0
PATIENCE: Final = 3_600
EVERY: Final = 0.2
#: No hint is followed: only the tick leads on.
WITHOUT_HINTS: Final = {"AzureWebJobs.release_gate.Disabled": "true"}


class Night:
    """The jobs of one night, and what each came to."""

    def __init__(self, stack: Stack, connections: Connections, stamps: Path) -> None:
        self.stack, self.connections, self._stamps = stack, connections, stamps
        self.stores = Stores(connections)

    def submit(self, items: int, stages: Sequence[str] = STAGES) -> None:
        """Submit the stages, the first one behind a gate, and open that when each knows whom it waits for."""
        with Publisher.connect(self.connections) as publisher:
            self._submit_first(publisher, items, stages[0], stages[0])
            for before, name in pairwise(stages):
                self._submit_next(publisher, before, name)
        self.stores.gate_operator.open(stages[0], by="bench")

    def submit_backwards(self, items: int, stages: Sequence[str] = STAGES) -> None:
        """Submit the last stage first, and the first one last: each waits for a job that was not accepted yet."""
        with Publisher.connect(self.connections) as publisher:
            for before, name in reversed(list(pairwise(stages))):
                self._submit_next(publisher, before, name)
            self._submit_first(publisher, items, stages[0])

    def _submit_first(self, publisher: Publisher, items: int, name: str, gate: str | None = None) -> None:
        some = ({"number": n, "account": f"a-{n % 500}", "units": n % 97} for n in range(items))
        publisher.submit(job=name, workload="rated", transactions=some, sums=("units",), gate=gate)
        if gate:
            self._wait_for(lambda: self._is_held(name), f"{name} is not held")

    def _submit_next(self, publisher: Publisher, before: str, name: str) -> None:
        publisher.submit_jobs(job=name, workload="rated", jobs=[before], sums={"units": "units"})
        self._wait_for(lambda: self._is_held(name), f"{name} does not wait")

    def _is_held(self, name: str) -> bool:
        job = self.stores.ledger.read(name)
        return job is not None and job.state is JobState.HELD

    def _wait_for(self, is_so: Callable[[], bool], otherwise: str) -> None:
        end = time.monotonic() + PATIENCE
        while not is_so():
            if time.monotonic() >= end:
                raise TimeoutError(f"after {PATIENCE} s {otherwise}")
            time.sleep(EVERY)

    def wait(self, stages: Sequence[str] = STAGES) -> None:
        """Wait until the last stage has ended."""
        last = stages[-1]
        self._wait_for(
            lambda: (job := self.stores.ledger.read(last)) is not None and job.state in FINISHED,
            f"{last} has not ended",
        )

    def job(self, name: str) -> Job:
        """Return a stage's row."""
        found = self.stores.ledger.read(name)
        if found is None:
            raise RuntimeError(f"there is no job {name}")
        return found

    def count_lines(self, job: Job) -> int:
        """Return the lines that a stage has for the next one."""
        container = self.connections.blobs.get_container_client("outputs")
        manifest = json.loads(container.download_blob(f"{job.job}/{job.revision}/manifest.json").readall())
        return sum(part["items"] for part in manifest["parts"] if part["name"].startswith("lines-"))

    def count_uploads(self, name: str) -> int:
        """Return the payload blobs of a stage."""
        return len(
            list(self.connections.blobs.get_container_client("payloads").list_blob_names(name_starts_with=f"{name}/"))
        )

    def waits(self, stages: Sequence[str] = STAGES) -> list[float]:
        """Return the seconds from the end of each stage to the first `map` of the next."""
        begins = sorted(float(line.split()[3]) for line in self._stamps.read_text().splitlines())
        ends = [job.finished_at.timestamp() for job in map(self.job, stages[:-1]) if job.finished_at]
        return [min(at for at in begins if at > end) - end for end in ends]


@contextmanager
def running_night(more: Mapping[str, str]) -> Iterator[Night]:
    """Start a stack of two instances at the deployed locks."""
    with tempfile.TemporaryDirectory(prefix="sluice-night-") as folder:
        stamps = Path(folder) / "stamps"
        stamps.touch()
        settings = {
            "SLUICE_WORKLOADS": "tests.benchmarks.acts_workload:Rated",
            STAMPS: str(stamps),
            SECONDS: "0",
            **more,
        }
        with (
            running(StackOptions(instances=2, settings=settings)) as stack,
            Connections.parse(stack.settings) as connections,
        ):
            yield Night(stack, connections, stamps)


def prove(items: int, every: float) -> Iterator[Row]:
    """Kill an instance every so often until all stages have ended, and compare each with the one before it."""
    with running_night({}) as night:
        began = time.monotonic()
        with Killer(night.stack.host, every, seed=32) as killer:
            night.submit(items)
            night.wait()
        took, kills = time.monotonic() - began, killer.kills
        jobs = [night.job(name) for name in STAGES]
        found = []
        for before, after in pairwise(jobs):
            lines, accepted = night.count_lines(before), before.totals.accepted
            same = after.items == lines == accepted.items and dict(after.declared) == dict(accepted.sums)
            found.append(
                (same and after.state is JobState.COMPLETE, f"{lines:,} = {accepted.items:,} = {after.items:,}")
            )
        uploads = sum(map(night.count_uploads, STAGES[1:]))
        said = (
            f"{'; '.join(words for _, words in found)}; sums {'the same' if all(ok for ok, _ in found) else 'OTHERS'}"
        )
        said = f"{said}; {kills} kills in {took:.0f} s"
        name = f"night of three stages of {items:,}: lines = accepted = declared of the next"
        yield Row(name, said, f"equal, {KILLS} kills", all(ok for ok, _ in found) and kills >= KILLS)
        yield Row("night: payloads that anybody uploaded for the second and the third", str(uploads), "0", not uploads)


def follow(items: int) -> Iterator[Row]:
    """Measure when a stage begins, where nothing fails."""
    with running_night({}) as night:
        # The first job of a process loads what it needs.
        night.submit(100, ("warm", "warm-2"))
        night.wait(("warm", "warm-2"))
        night.submit(items)
        night.wait()
        yield _begins("night: the next stage begins after the end of one", night.waits())
        night.submit_backwards(items, BACKWARDS)
        night.wait(BACKWARDS)
        yield _begins("night: the same, submitted from the last stage to the first", night.waits(BACKWARDS))


def _begins(what: str, found: Sequence[float]) -> Row:
    said = ", ".join(f"{seconds:.1f} s" for seconds in found)
    return Row(what, said, f"{HINTED:g} s", max(found) <= HINTED)


def follow_without_hints(items: int) -> Iterator[Row]:
    """Measure the same where no hint arrives."""
    with running_night(WITHOUT_HINTS) as night:
        night.submit(items, STAGES[:2])
        night.wait(STAGES[:2])
        (found,) = night.waits(STAGES[:2])
    yield Row("night: the same with every hint lost", f"{found:.0f} s", f"{UNHINTED:g} s", found <= UNHINTED)
