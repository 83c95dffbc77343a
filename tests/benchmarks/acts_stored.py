"""What an act leaves in storage: dry runs, reruns, comparisons of runs, and erasures. On Azurite, driven in this process."""

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final

from servicebus_local.launcher import Broker

from shared.grammar import run_partition
from shared.ledger import JobState
from shared.memory import MIB
from shared.operating.replay import ReplayPace, Selection
from shared.operating.run_diff import DiffReader
from shared.pipeline import TotalsTable
from shared.pipeline.outputs import TotalsWriter, row_of_total
from shared.topology import topology
from shared.workloads import Total
from tests.benchmarks.acts_row import Row
from tests.benchmarks.dequeue_entries import SLUICE
from tests.faults import campaign
from tests.faults.marks import has_mark, places_of
from tests.faults.plan import Fault, KilledError
from tests.faults.sales import PERMANENT, LinedSales
from tests.operating.test_dry_run import everything
from tests.pipeline import test_erase_marks as marks
from tests.pipeline.test_pause import look, tick
from tests.pipeline.whole_app import WholeApp, running_app
from tools.local.azurite.launcher import Azurite
from tools.local.paths import ROOT
from tools.local.provision import provision
from tools.local.stack import settings_for

#: Chunks of the jobs that run again, of two transactions each.
CHUNKS: Final = 100
#: The most memory of a comparison.
MOST_MEMORY: Final = 100 * MIB
#: Accounts that Azurite holds within its memory, twice.
STORED: Final = 100_000
#: The workload of the jobs, as a command loads it.
WORKLOAD: Final = "tests.faults.sales:LinedSales"
AGAIN: Final = {"by": "bench", "why": "tariff corrected"}


def dry_run() -> Iterator[Row]:
    """Run a finished job dry by the command, with the code that it ran with."""
    with running_app(workload=LinedSales()) as app, Broker.start() as broker:
        app.run("done", CHUNKS)
        before = everything(app.others)
        done = _command(settings_of(app, broker), "rerun", "done", "--dry-run", "--chunks", "100%", "--json")
        same = everything(app.others) == before
        if done.returncode not in {0, 1}:
            raise RuntimeError(f"the dry run ended with {done.returncode}: {done.stdout}{done.stderr}")
        said = json.loads(done.stdout)
        compared = said["chunks"]["compared"]
        found = f"status {done.returncode}, {compared} of {CHUNKS} chunks, differs: {said['differs']}"
        is_good = (done.returncode, compared, said["differs"]) == (0, CHUNKS, False)
        yield Row("dry run of the same code", found, "status 0, all chunks, False", is_good)
        found = f"{len(before):,} rows, blobs and queues: {'the same' if same else 'OTHERS'}"
        yield Row("dry run: storage after it, with its ETags", found, "the same", same)


class Failing(LinedSales):
    """Fails for so many sales that come next."""

    fails = 0

    def map(self, sale: Any, number: int) -> Any:
        """Fail for one, or not."""
        if self.fails:
            self.fails -= 1
            raise PERMANENT()  # noqa: RSE102 - it is a function
        return super().map(sale, number)


def rerun() -> Iterator[Row]:
    """Run a job again in mid-work, twice, with late results of each run before and a replay, beside a fresh job."""
    workload = Failing()
    with running_app(workload=workload) as app:
        late: list[str] = []
        app.submit("again", CHUNKS)
        _work_half(app, late)
        _finish(app, "again")
        first = _stored(app, "again", 1)
        app.stores.job_operator.rerun("again", **AGAIN)
        _work_half(app, late)
        halfway = app.read("again").done
        app.stores.job_operator.pause("again", **AGAIN)
        begun = app.stores.job_operator.rerun("again", **AGAIN)
        # Its halt row goes, and what was left of the run before runs in vain.
        app.clock.advance(minutes=4)
        app.app.tick()
        look(app)
        while app.deliver("work-00"):
            pass
        # Both sales of three chunks fail.
        workload.fails = 6
        _work_half(app, [])
        # All results of the two runs before come once more, and late.
        for body in late:
            app.bus.send("results", "result", body, "")
        _finish(app, "again", {JobState.COMPLETED_WITH_PARKED})
        parked = app.read("again").parked_chunks
        replayer = app.stores.build_parked_operator(lambda _: app.work_off())
        list(replayer.replay(Selection(job="again"), ReplayPace(patience=5), by="bench"))
        _finish(app, "again")
        app.run("fresh", CHUNKS)
        one, other = app.read("again"), app.read("fresh")
        same = (one.totals, _totals(app, "again")) == (other.totals, _totals(app, "fresh"))
        found = (
            f"runs from revisions 1, 2 (paused at {halfway} of {CHUNKS} chunks) and {begun.revision}, {len(late)} late results, "
            f"{parked} chunks parked and replayed: {'the same' if same else 'OTHERS'}"
        )
        is_good = same and one.run_from == begun.revision and 0 < halfway < CHUNKS and parked > 0
        yield Row("rerun twice in mid-work: totals against a fresh job", found, "the same", is_good)
        kept = _stored(app, "again", 1) == first
        found = "unchanged" if kept else "CHANGED"
        yield Row("rerun: manifest, parts and totals of revision 1", found, "unchanged", kept)


def _work_half(app: WholeApp, late: list[str]) -> None:
    """Work until some chunks have ended, and keep a copy of their results."""

    def end_in_mid_work(_seconds: float) -> None:
        app.deliver()
        late.extend(letter.body for letter in app.bus.waiting("results"))
        while app._settle():
            pass
        if app.read("again").done:
            raise KilledError

    whole, app.feeder = app.feeder, replace(app.feeder, pause=end_in_mid_work)
    app.clock.advance(minutes=4)
    app.deliver("submissions")
    app.app.tick()
    look(app)
    with suppress(KilledError):
        app._feed()
        end_in_mid_work(0)
    app.feeder = whole


def _finish(app: WholeApp, job: str, ends: Any = (JobState.COMPLETE,)) -> None:
    for _ in range(12):
        tick(app)
        if app.read(job).state in ends:
            return
    raise RuntimeError(f"job {job} is {app.read(job)}")


def _stored(app: WholeApp, job: str, revision: int) -> Any:
    """Return the blobs of a revision, and its rows of totals."""
    container = app.others.blobs.get_container_client("outputs")
    names = sorted(container.list_blob_names(name_starts_with=f"{job}/{revision}/"))
    blobs = {name: container.download_blob(name, decompress=False).readall() for name in names}
    table = app.others.tables.get_table_client("totals")
    rows = [dict(row) for row in table.query_entities(f"PartitionKey eq '{job}'")]
    if not blobs or not rows:
        raise RuntimeError(f"revision {revision} of {job} has no outputs")
    return blobs, rows


def _totals(app: WholeApp, job: str) -> Mapping[str, Decimal]:
    """Return the totals of the last run."""
    table, found = TotalsTable(app.others.tables.get_table_client("totals")), app.read(job)
    partition = run_partition(job, found.run_from) or job
    return {row["account"]: Decimal(row["amount"]) for row in table.rows_of_partition(partition, found.revision)}


def compare(accounts: int) -> Iterator[Row]:
    """Compare two runs: of so many accounts that Azurite holds by the command, and of more from rows that are made."""
    stored = min(accounts, STORED)
    with running_app(workload=LinedSales()) as app, Broker.start() as broker:
        app.run("again", 2)
        app.stores.job_operator.rerun("again", **AGAIN)
        _finish(app, "again")
        for revision, partition in ((1, "again"), (2, "again!r2")):
            _add_totals(app, partition, revision, stored)
        done, most, seconds = _measure([SLUICE, "jobs", "diff", "again"], settings_of(app, broker))
        if done != 1:
            raise RuntimeError(f"`sluice jobs diff` ended with {done}")
    found = f"{most / MIB:.0f} MiB, CPU {seconds:.1f} s"
    yield Row(f"`jobs diff` of {stored:,} accounts on Azurite", found, "100 MiB", most <= MOST_MEMORY)
    if accounts > stored:
        words = [sys.executable, "-m", "tests.benchmarks.acts_stored", str(accounts)]
        done, most, seconds = _measure(words, {})
        if done:
            raise RuntimeError(f"the comparison ended with {done}")
        found = f"{most / MIB:.0f} MiB, CPU {seconds:.1f} s"
        yield Row(f"the same of {accounts:,} accounts, whose rows are made", found, "100 MiB", most <= MOST_MEMORY)


def _add_totals(app: WholeApp, partition: str, revision: int, accounts: int) -> None:
    """Add rows beside those of the job. Every thousandth differs from one run to the other."""
    table = TotalsTable(app.others.tables.get_table_client("totals"))
    writer = TotalsWriter(table, partition, revision, table.take(partition, revision).written)
    for number in range(accounts):
        writer.write(Total(f"account-{number:08}", {"amount": str(number + (revision if number % 1000 == 0 else 0))}))
    writer.close()


class Made:
    """A table of totals whose rows are made when they are read, in pages."""

    def __init__(self, accounts: int) -> None:
        self._accounts = accounts

    def find_revision(self, partition: str) -> int:
        """Return the revision of a partition."""
        return 2 if partition.endswith("!r2") else 1

    def rows_of_partition(self, partition: str, revision: int, page: int) -> Iterator[Mapping[str, Any]]:
        """Yield its rows by key."""
        for first in range(0, self._accounts, page):
            yield from [
                {
                    **row_of_total(partition, revision, Total(f"account-{number:08}", {"amount": str(number)})),
                    "RowKey": f"{number:08}",
                    "amount": str(number + (revision if number % 1000 == 0 else 0)),
                }
                for number in range(first, min(first + page, self._accounts))
            ]


def compare_made(accounts: int) -> int:
    """Compare two runs of so many accounts in this process, and print nothing."""
    reader = DiffReader(outputs=None, totals=Made(accounts))  # type: ignore[arg-type]  # neither is read
    ended = SimpleNamespace(items=accounts, sums={}, unknown=0)
    manifests = [
        SimpleNamespace(job="again", revision=revision, totals=accounts, totals_partitions=[partition], accepted=ended,
                        rejected=ended, parked=ended)
        for revision, partition in ((1, "again"), (2, "again!r2"))
    ]  # fmt: skip
    found = reader.begin(manifests)  # type: ignore[arg-type]
    changed = sum(1 for _ in reader.compare(manifests, found))  # type: ignore[arg-type]
    return int((changed, found.totals.equal) != (-(-accounts // 1000), accounts - -(-accounts // 1000)))


def erase() -> Iterator[Row]:
    """Erase two of the jobs of an installation, look for their mark in all it has, and kill the act at each of its writes."""
    with tempfile.TemporaryDirectory(prefix="sluice-erase-") as name, Azurite.start(Path(name)) as own:
        provision(own.connection_string, topology())
        app = WholeApp(own.connection_string, workload=marks.Quoting())
        with app.metered, app.others:
            for job, mark in (("gone", marks.MARK), ("kept", marks.OTHER)):
                marks.submit(app, job, mark)
                marks.flood(app, job, mark)
            app.work_off()
            tick(app, 8, 16)
            before = list(places_of(marks.MARK, marks.kept_in(app)))
            for job in ("gone", "gone-filed"):
                app.stores.job_eraser.erase(job, **AGAIN)
            tick(app, 6)
            proven = [app.read(job).proof["found"] for job in ("gone", "gone-filed")]
            left = list(places_of(marks.MARK, marks.kept_in(app)))
            left += [one.body for one in app.bus.waiting("results") if marks.MARK in one.body.encode()]
            kept = len(list(places_of(marks.OTHER, marks.kept_in(app))))
        files = [one for one in Path(name).rglob("*") if one.is_file() and has_mark(one.read_bytes(), marks.MARK)]
    dead = [one for one in files if one.parent.name in {"__blobstorage__", "__queuestorage__"}]
    found = (
        f"in {len(before)} rows, blobs and messages before; after the proof in {len(left)}, on the bus too, and in "
        f"{len(files) - len(dead)} files; another job's mark in {kept}"
    )
    is_good = proven == [0, 0] and not left and len(files) == len(dead) and len(before) == kept
    yield Row("erase: a mark in every field of two jobs", found, "0 and 0", is_good)
    yield _kill_erasures()


def _kill_erasures() -> Row:
    """Kill the act before and after each of its writes. The tick ends what began, or a person repeats it."""
    names = [name for name in campaign.BY_NAME if name.startswith("erase")]
    sites = campaign.recorded(names)
    tasks = [
        (name, (Fault(at, mode),))
        for name, requests in sites.items()
        for at, (stage, site) in enumerate(requests, 1)
        if stage == "act" and site.split()[0] not in {"GET", "HEAD"}
        for mode in ("kill_before", "kill_after")
    ]
    wrong = [one for _, outcome in campaign.outcomes(tasks) for one in outcome.breaches]
    found = f"{len(tasks)} kills, {len(wrong)} breaches{': ' + wrong[0] if wrong else ''}"
    return Row("erase: killed before and after each of its writes, to the second check", found, "0 breaches", not wrong)


def _measure(words: list[str], settings: Mapping[str, str]) -> tuple[int, int, float]:
    """Run a process, and return its status, the most memory that it held, and its CPU."""
    process = subprocess.Popen(words, env={**os.environ, **settings}, cwd=ROOT, stdout=subprocess.DEVNULL)
    most, seconds = 0, 0.0
    while process.poll() is None:
        try:
            status = Path(f"/proc/{process.pid}/status").read_text()
            fields = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()
        except OSError:
            break
        held = [line for line in status.splitlines() if line.startswith("VmHWM:")]
        most = max(most, int(held[0].split()[1]) * 1024) if held else most
        seconds = max(seconds, (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK"))
        time.sleep(0.05)
    return process.wait(), most, seconds


def _command(settings: Mapping[str, str], *words: str) -> Any:
    environ = {**os.environ, **settings}
    return subprocess.run([SLUICE, "jobs", *words], env=environ, cwd=ROOT, capture_output=True, text=True, check=False)


def settings_of(app: WholeApp, broker: Broker) -> dict[str, str]:
    """Return the settings of a command over the storage of an app."""
    return settings_for(app.storage, broker.connection_string) | {"SLUICE_WORKLOADS": WORKLOAD}


if __name__ == "__main__":
    raise SystemExit(compare_made(int(sys.argv[1])))
