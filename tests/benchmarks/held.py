"""Many jobs held behind one gate for half an hour, then released by several processes that are killed in between.

`make bench ARGS="--only held -- --entries 40000"` prints the table, puts it into docs/appendix/gate.md, and fails when a promise
is broken. The half hour is that of a clock that is moved on a minute for each tick; the release runs in real time.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any

from servicebus_local.launcher import Broker

from shared.app import App, Stores
from shared.azure.connections import Connections
from shared.azure.meter import tally_requests
from shared.errors import StorageUnavailableError
from shared.ledger.entities import job_of
from shared.ledger.records import Job, JobState
from shared.messages import Delivery, Result, encode
from shared.pending import JOB_POINTER
from shared.pipeline import Received
from shared.topology import topology
from tests.benchmarks.document import write
from tests.benchmarks.fleet import Record, fleet
from tests.benchmarks.held_seed import GATE, shares
from tests.benchmarks.held_worker import RecordingStores, Shifted, build_app
from tools.local.azurite.launcher import Azurite
from tools.local.paths import ROOT
from tools.local.provision import provision
from tools.local.stack import settings_for

DOCUMENT = ROOT / "docs" / "appendix" / "gate.md"
ENTRIES, INSTANCES, SEEDERS, QUEUES = 40_000, 3, 3, 4
#: Minutes behind the gate.
WAITED = 30
#: Goals: seconds of a tick and of an invocation, and requests of a minute for each thousand entries.
LONGEST, MOST_REQUESTS = 60.0, 3.0
#: Fewer entries than that are too few for the second goal: a tick with one gate makes some requests of its own.
LEAST = 2_000
#: Jobs of each kind whose messages are processed to the end, every copy of them.
SAMPLE = 100
PATIENCE = 2700.0
#: Seconds between two kills, and the entries of a run that is short: it has a kill twice as often.
KILL_EVERY, SHORT = 20.0, 10_000
_MINUTE = timedelta(minutes=1)


@dataclass
class Report:
    """What one run came to."""

    entries: int
    seeding: float = 0.0
    ticks: list[float] = field(default_factory=list)
    requests: list[int] = field(default_factory=list)
    first_put: float = 0.0
    releasing: float = 0.0
    kills: int = 0
    invocations: list[float] = field(default_factory=list)
    ticks_during: list[float] = field(default_factory=list)
    per_job: float = 0.0
    #: Entries that met an error of storage. A later try started them, or the judge finds them.
    failed: int = 0
    put_twice: int = 0
    processed: int = 0
    broken: list[str] = field(default_factory=list)

    def problems(self) -> list[str]:
        """Return every promise that was broken."""
        found, most = list(self.broken), MOST_REQUESTS * max(self.entries, LEAST) / 1000
        mean = sum(self.requests) / len(self.requests)
        found += [f"a tick took {max(self.ticks):.1f} s while all were held"] * (max(self.ticks) >= LONGEST)
        found += [f"{mean:.1f} requests a tick, {most:.1f} allowed"] * (mean > most)
        found += [f"an invocation took {max(self.invocations):.1f} s"] * (max(self.invocations) >= LONGEST)
        found += [f"a tick took {max(self.ticks_during):.1f} s during the release"] * (
            max(self.ticks_during) >= LONGEST
        )
        found += ["no process was killed"] * (not self.kills)
        return found

    def markdown(self) -> str:
        """Return the table of the documentation."""
        rows = [
            ("entries behind one gate, one in twenty with a deadline", f"{self.entries:,}"),
            (f"a tick while they waited {WAITED} minutes", f"{max(self.ticks):.2f} s at most"),
            ("requests of such a tick", f"{sum(self.requests) / len(self.requests):.1f}, at most {max(self.requests)}"),
            ("from the opening to the first put", f"{self.first_put:.2f} s"),
            (
                f"from the opening to the last held row removed, {INSTANCES} instances",
                f"{self.releasing:.0f} s ({self.entries / self.releasing:.0f} jobs/s)",
            ),
            ("instances killed meanwhile", f"{self.kills}"),
            ("invocations by signal, the longest", f"{len(self.invocations)}, {max(self.invocations):.1f} s"),
            ("ticks meanwhile, the longest", f"{len(self.ticks_during)}, {max(self.ticks_during):.1f} s"),
            ("requests per released job of one chunk", f"{self.per_job:.2f}"),
            ("entries whose first try met a reset connection, and that a later one started", f"{self.failed}"),
            ("jobs whose chunk was put twice, because of the kills", f"{self.put_twice}"),
            (f"of these and as many others processed to the end, every copy ({self.processed})", "each counted once"),
        ]
        lines = [("what", "found"), ("---", "---"), *rows]
        return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def run(entries: int) -> Report:
    """Hold, wait, open, kill, and look at what became of every job."""
    report = Report(entries)
    with Azurite.start() as azurite, Broker.start() as broker, tempfile.TemporaryDirectory() as folder:
        settings = settings_for(azurite.connection_string, broker.connection_string)
        # A release of some minutes must not meet the time at which the tick puts silent chunks again: no worker runs.
        settings |= {"SLUICE_WORK_QUEUES": str(QUEUES), "SLUICE_CHUNK_OVERDUE_SECONDS": "7200"}
        provision(azurite.connection_string, topology(QUEUES))
        with Connections.parse(settings) as connections:
            _hold(report, connections, azurite.connection_string)
            clock = Shifted()
            app = build_app(connections, settings, Record(Path(folder) / "parent"), clock)
            _wait(report, app, clock)
            records = _release(report, app, settings, Path(folder), clock.ahead.total_seconds())
            _judge(report, connections, app, records)
    return report


def _hold(report: Report, connections: Connections, storage: str) -> None:
    # Opened and closed before: a tick then looks for rows of earlier epochs too.
    operator = Stores(connections).gate_operator
    operator.open(GATE, by="benchmark")
    operator.close(GATE, by="benchmark")
    began = time.monotonic()
    command = [sys.executable, "-m", "tests.benchmarks.held_seed"]
    processes = [subprocess.Popen([*command, share]) for share in shares(storage, report.entries, SEEDERS, epoch=1)]
    # Waits for each of them.
    ended = [process.wait() for process in processes]
    if any(ended):
        raise RuntimeError("could not hold the jobs")
    report.seeding = time.monotonic() - began
    _say(f"{report.entries:,} jobs held in {report.seeding:.0f} s")


def _wait(report: Report, app: App, clock: Shifted) -> None:
    for _ in range(WAITED):
        clock.ahead += _MINUTE
        began = time.monotonic()
        with tally_requests() as tally:
            app.tick()
        report.ticks.append(time.monotonic() - began)
        report.requests.append(tally.total())
    _say(f"ticks while held: {max(report.ticks):.2f} s and {max(report.requests)} requests at most")


def _release(report: Report, app: App, settings: dict[str, str], folder: Path, ahead: float) -> list[dict[str, Any]]:
    role = {"settings": settings, "ahead": ahead}
    with fleet("tests.benchmarks.held_worker", folder) as instances:
        for _ in range(INSTANCES):
            instances.start(**role)
        instances.wait_until_ready(INSTANCES)
        instances.start(**role, ticks=True)
        opened, began = time.time(), time.monotonic()
        app.stores.gate_operator.open(GATE, by="benchmark")
        # One that works is killed every so often.
        every = KILL_EVERY if report.entries > SHORT else KILL_EVERY / 2
        next_kill = began + every
        while _is_held(app):
            if time.monotonic() - began > PATIENCE:
                report.broken.append(f"entries are still held after {PATIENCE:.0f} s")
                break
            if time.monotonic() >= next_kill and (busy := instances.busy("signal")):
                instances.kill(busy[0])
                instances.start(**role)
                report.kills, next_kill = report.kills + 1, time.monotonic() + every
            time.sleep(1.0)
        report.releasing = time.monotonic() - began
        # What is still running may end, so that its record is whole.
        time.sleep(2.0)
        for process in list(instances.running):
            instances.kill(process)
        lines = list(instances.lines())
        _measure(report, lines, instances.killed_at, opened)
    _say(f"released in {report.releasing:.0f} s with {report.kills} kills")
    return lines


def _is_held(app: App) -> bool:
    """Look whether an entry is left. A busy storage that does not answer in time is asked again."""
    try:
        return next(iter(app.stores.held.waiting()), None) is not None
    except StorageUnavailableError:
        return True


def _measure(report: Report, lines: Sequence[Mapping[str, Any]], killed_at: Mapping[str, float], opened: float) -> None:
    report.first_put = min(line["at"] for line in lines if line["what"] == "put") - opened
    ends = {line["invocation"]: line for line in lines if line["what"] == "end"}
    for line in lines:
        if line["what"] == "begin":
            end = ends.get(line["invocation"])
            seconds = end["seconds"] if end else killed_at[line["record"]] - line["at"]
            (report.ticks_during if line["invocation"].startswith("tick") else report.invocations).append(seconds)
    signals = [end for end in ends.values() if end["invocation"].startswith("signal")]
    report.failed = sum(end["failed"] for end in signals)
    report.per_job = sum(end["requests"] for end in signals) / max(1, sum(end["put"] for end in signals))


def _judge(report: Report, connections: Connections, app: App, lines: Sequence[Mapping[str, Any]]) -> None:
    """Look at every job's row and pointer, and process some messages to the end."""
    rows = connections.tables.get_table_client("jobs").query_entities("RowKey eq 'job'")
    jobs = {job.job: job for job in (job_of(row, row.metadata["etag"]) for row in rows)}
    started = [job for job in jobs.values() if job.state is JobState.RUNNING and job.passed_epoch == 2]
    if len(jobs) != report.entries or len(started) != report.entries:
        report.broken.append(f"{len(started)} of {len(jobs)} jobs are dispatched, {report.entries} were held")
    pending = connections.tables.get_table_client("pending").list_entities(select=["RowKey"])
    pointed = {key[2] for row in pending if (key := row["RowKey"].split("|", 2))[1] == JOB_POINTER}
    report.broken += [f"{report.entries - len(pointed)} started jobs have no pointer"] * (
        len(pointed) != report.entries
    )
    puts = [line for line in lines if line["what"] == "put"]
    names = [json.loads(line["message"])["sluice"]["job"] for line in puts]
    copies = Counter(names)
    report.put_twice = sum(number > 1 for number in copies.values())
    report.broken += [f"{report.entries - len(copies)} jobs were never put"] * (len(copies) != report.entries)
    twice = [name for name, number in copies.items() if number > 1][:SAMPLE]
    once = [name for name, number in copies.items() if number == 1][:SAMPLE]
    chosen = set(twice + once)
    _process(report, app, [line for line, name in zip(puts, names, strict=True) if name in chosen], sorted(chosen))


def _process(report: Report, app: App, puts: Sequence[Mapping[str, Any]], names: Sequence[str]) -> None:
    """Process every copy of these messages, and settle every result: each job has to count its transaction once."""
    results: list[Result] = []

    class Kept:
        def __call__(self, result: Result) -> None:
            results.append(result)

        def close(self) -> None:
            """Do nothing."""

    stores = RecordingStores(app.stores.connections, clock=app.stores.clock)
    stores.record, stores.send_result = app.stores.record, Kept()  # type: ignore[attr-defined, assignment]  # kept here
    worker = App(stores.connections, app.settings, app.stages.workloads, stores=stores)
    for number, line in enumerate(puts):
        worker.process(Delivery(queue=line["queue"], message_id=f"m{number}", body=line["message"].encode(), count=1))
    if len(results) != len(puts):
        report.broken.append(f"{len(puts)} messages gave {len(results)} results")
    for begin in range(0, len(results), 50):
        worker.settle([Received(encode(one), f"r{n}") for n, one in enumerate(results[begin : begin + 50], begin)])
    for name in names:
        job: Job | None = worker.stores.ledger.read(name)
        if job is None or (job.done, job.totals.accepted.items, job.state) != (1, 1, JobState.FINISHING):
            report.broken.append(f"job {name} counted {job and job.totals}: {job and job.state}")
    report.processed = len(names)
    worker.close()


def main(arguments: Sequence[str] = ()) -> int:
    """Run it, print the table, and say what is broken."""
    parser = argparse.ArgumentParser(prog="held", description=__doc__)
    parser.add_argument("--entries", type=int, default=ENTRIES)
    report = run(parser.parse_args(arguments).entries)
    _say(report.markdown())
    problems = report.problems()
    _say("\n".join(problems))
    write(DOCUMENT, "held", report.markdown())
    return int(bool(problems))


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
