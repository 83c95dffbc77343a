"""A job with an account for each transaction: `python -m tests.benchmarks.many_accounts --accounts 10000000`.

Each stage is a process of its own, and `finish` is one process for all segments and shards, so its memory is that of any.
Real: the stages and Azurite's blobs, queues and job rows. Simulated: as in `large_job_stage`, and the table of totals. It
keeps the fences and a bit for each account, for ten million rows are more than Azurite holds.
"""

import argparse
import io
import json
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from shared.memory import MIB
from shared.payload import Framing, Limits, PayloadStore, write_frames, write_submission
from shared.payload.submission import DeclaredFields, PayloadFields, SubmissionFields
from shared.pipeline.finish import Shards
from shared.pipeline.outputs import Fence
from shared.pipeline.segments import CUT_ABOVE
from shared.pipeline.settle import Received
from shared.settings import BILLING
from shared.topology import payload_container, submission_queue, topology
from tests.benchmarks import large_job_stage as stages
from tests.benchmarks.large_job import AS_DEPLOYED, PATIENCE
from tests.benchmarks.work_checker import number_of
from tools.local.azurite.launcher import Azurite
from tools.local.paths import ROOT
from tools.local.provision import provision
from tools.local.stack import settings_for

MOST_MEMORY = 256 * MIB
BATCH = 50
#: For this benchmark alone: bytes of all partials above which a job has spans, and the workload of the job.
ABOVE, WORKLOAD = "above", "workload"
ACTS = ("publish", "accept", "process", "settle", "finish")


class CountedTotals:
    """The table of totals, of which it keeps the fences, and which accounts have a row."""

    def __init__(self, accounts: int) -> None:
        self.fences: dict[str, Fence] = {}
        self.seen, self.rows, self.writes = bytearray(accounts), 0, 0

    def take(self, job: str, revision: int) -> Fence:
        """Take the fence."""
        return self.fences.setdefault(job, Fence(revision, 0))

    def write(self, job: str, fence: Fence, rows: Sequence[Any]) -> Fence:
        """Note rows, each of them once."""
        for row in rows:
            number = number_of(row["account"])
            if self.seen[number]:
                raise AssertionError(f"account {number} has two rows")
            self.seen[number] = 1
        self.rows, self.writes = self.rows + len(rows), self.writes + 1
        self.fences[job] = found = Fence(fence.revision, fence.written + len(rows))
        return found


def publish(stage: stages.Stage) -> None:
    """Drop a job whose transactions all have another account."""
    role, limits = stage.role, Limits()
    store = PayloadStore(stage.metered.blobs.get_container_client(payload_container()), limits)
    lines = (
        b'{"account":"account-%08d","plan":"basic","quantity":"%d.25"}' % (number, number % 1000)
        for number in range(role.items)
    )
    with (Path(role.folder) / "payload").open("w+b") as file:
        made = write_frames(enumerate(lines, 1), file, Framing(sums=("quantity",), checked=sys.maxsize))
        file.seek(0)
        name = store.put(role.jobs[0], file, made.index.stored, made.sha256).name
    listed = made.index.encode()
    store.put(role.jobs[0], io.BytesIO(listed), len(listed), made.index.sha256)
    payload = PayloadFields(blob=name, codec=made.codec, index=made.index.sha256)
    sums = {key: format(amount, "f") for key, amount in made.sums.items()}
    fields = SubmissionFields(
        job=role.jobs[0],
        workload=role.settings[WORKLOAD],
        declared=DeclaredFields(made.index.items, sums),
        payload=payload,
    )
    stage.metered.queues.get_queue_client(submission_queue()).send_message(
        write_submission(fields).decode(), time_to_live=-1
    )


def settle(stage: stages.Stage) -> None:
    """Settle every result, in batches that a busy machine settles in time."""
    found = stage.results.read()
    for begin in range(0, len(found), BATCH):
        stage.app.settle([Received(body, f"r{n}") for n, body in enumerate(found[begin : begin + BATCH], begin)])


def finish(stage: stages.Stage) -> None:
    """Finish the job, and compare its accounts and lines."""
    counted = CountedTotals(stage.role.items)
    finisher = stage.app.stages.finisher
    finisher._segments = replace(finisher._segments, cut_above=int(stage.role.settings[ABOVE]))
    finisher._shards = Shards(replace(finisher._tools, totals=counted))  # type: ignore[arg-type]  # in place of Azurite's
    stages.finish(stage)
    (job,) = stage.role.jobs
    container = stage.others.blobs.get_container_client("outputs")
    manifest = json.loads(container.download_blob(f"{job}/1/manifest.json").readall())
    parts = Counter({part["name"]: part["items"] for part in manifest["parts"]})
    found = {
        "rows": counted.rows,
        "accounts": sum(counted.seen),
        "manifest": manifest["totals"],
        "lines": parts.total(),
    }
    if set(found.values()) != {stage.role.items}:
        raise AssertionError(f"not each account has one row and one line: {found}")
    results = stage.others.blobs.get_container_client("results")
    names = Counter(
        blob.rpartition("/")[2].partition("-")[0]
        for blob in results.list_blob_names(name_starts_with=f"{job}/1/finish/")
    )
    sys.stderr.write(f"{found}, {counted.writes:,} table transactions, {dict(names)}, {len(parts)} parts\n")


#: Stages of this benchmark. The others, and those whose names begin so, are of `large_job_stage`.
OWN, REPEATED = {one.__name__: one for one in (publish, settle, finish)}, "plain-"


def main(arguments: Sequence[str]) -> int:
    """Run every stage; 1 if a process took more than its bound."""
    parser = argparse.ArgumentParser(prog="many_accounts", description=__doc__)
    parser.add_argument("--accounts", type=int, default=1_000_000, help="accounts, and transactions")
    parser.add_argument("--chunk", type=int, default=8_000, help="transactions of a chunk")
    parser.add_argument("--above", type=int, default=CUT_ABOVE, help="bytes of partials above which a job has spans")
    options = parser.parse_args(arguments)
    with Azurite.start() as azurite, tempfile.TemporaryDirectory() as folder:
        provision(azurite.connection_string, topology())
        settings = settings_for(azurite.connection_string, "in this process")
        settings |= {ABOVE: str(options.above), "SLUICE_CHUNK_ITEMS": str(options.chunk)}
        settings |= {"SLUICE_WORKLOADS": BILLING, WORKLOAD: "billing"}
        role = {"settings": settings, "jobs": ["many"], "items": options.accounts, "folder": folder}
        peaks = [one["peak"] for one in run(role)]
    return int(max(peaks[1:]) > MOST_MEMORY)


def run(role: Mapping[str, object], acts: Sequence[str] = ACTS) -> Iterator[dict[str, Any]]:
    """Run stages, each in a process of its own. Say and yield what each took."""
    for act in acts:
        command = [sys.executable, "-m", "tests.benchmarks.many_accounts", "--stage"]
        command.append(json.dumps({**role, "stage": act}))
        done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, timeout=PATIENCE, check=True, env=AS_DEPLOYED)
        one = json.loads(done.stdout.splitlines()[-1])
        print(  # noqa: T201 - commands print
            f"{act}: {one['wall']:.1f} s, CPU {one['cpu']:.1f} s, {one['requests']:,} requests, {one['peak'] / MIB:.0f} MiB",
            flush=True,
        )
        yield one


def run_stage(role: str) -> None:
    """Do one stage in this process."""
    stage = stages.Stage(stages.Role(**json.loads(role)))
    act = OWN.get(stage.role.stage) or stages.STAGES[stage.role.stage.removeprefix(REPEATED)]
    sys.stdout.write(json.dumps(stage.measure(lambda: act(stage))))


if __name__ == "__main__":
    if sys.argv[1:2] == ["--stage"]:
        run_stage(sys.argv[2])
    else:
        sys.exit(main(sys.argv[1:]))
