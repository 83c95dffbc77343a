"""Writes the totals and the output lines of a job: in one piece, or in shards by account, each a work message.

    finish      finds all segments, compares their totals with those of the job, sends a message for each shard.
    shard k     reads its slices of each segment, compares the totals too, takes the fence of its own partition of the table,
                writes rows and lines, then its blob. The step that finds all blobs sends `finish`.
    finish      counts the blobs, then writes the manifest.

So no shard takes a fence for a job that does not add up, and the end waits for all. Late steps of an older revision are
refused by the fence of each partition.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

from shared.azure import charges, tally_requests
from shared.errors import FinishRefusedError
from shared.grammar import shard_partition
from shared.ledger import Job, JobState, Totals, check_balance
from shared.messages import Shard
from shared.pipeline.outputs import OutputPart, Outputs, PartWriter
from shared.pipeline.segment_blobs import SegmentBlobs, ShardResult
from shared.pipeline.segments import Gathered, SegmentTools, make_merger
from shared.pipeline.totals import TotalsTable, TotalsWriter
from shared.workloads import Total, items_of, shard_of

#: How the names of parts with output lines begin.
OUTPUT: Final = "output"


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardTools(SegmentTools):
    """The parts that publishing uses."""

    totals: TotalsTable


@dataclass(frozen=True, slots=True)
class Published:
    """The rows of totals of a revision, and the partitions that have them."""

    totals: int
    partitions: list[str]


@dataclass(frozen=True, slots=True)
class Shards:
    """Publishes what was gathered. One per process."""

    tools: ShardTools

    def publish(self, job: Job, gathered: Gathered) -> Published | None:
        """Write the totals and lines of a job that balances. None: shards are missing, and their messages are on their way."""
        if gathered.shards == 1:
            written = self._write(job, gathered.partial)
            return Published(written.totals, [job.job])
        if gathered.missing:
            self.tools.call.send_shards(job, gathered.missing)
            return None
        outputs = Outputs(self.tools.outputs, job.job, job.revision)
        _check_lines(job, outputs.parts(), sum(one.lines for one in gathered.written))
        partitions = [shard_partition(job.job, number) for number in range(gathered.shards)]
        return Published(sum(one.totals for one in gathered.written), partitions)

    def write(self, job: Job, message: Shard) -> bool:
        """Write one shard. False: this revision has no such shard, or is not that far, or does not add up."""
        blobs = SegmentBlobs(self.tools.results, job.job, job.revision)
        with tally_requests() as requests:
            plan = blobs.find_plan()
            if plan is None:
                return False
            steps = blobs.list_steps(plan)
            shards = 1 if steps.missing else plan.choose_shards(steps.size, self.tools.shard_bytes)
            if shards == 1 or message.shard >= shards:
                return False
            if message.shard not in steps.written:
                merger, totals = make_merger(self.tools, job), Totals()
                for segment in blobs.read_slices(plan, range(message.shard, plan.pieces, shards)):
                    for partial in segment.partials:
                        merger.add(partial)
                    totals += segment.totals
                if check_balance(job, totals).state is JobState.UNBALANCED:
                    return False
                written = self._write(job, merger.partial, message.shard, shards)
                blobs.put_shard(message.shard, written.totals, written.lines, charges(requests))
        if len(blobs.list_steps(plan).written) == shards:
            # Two may find the last one. The second message finds the end, or the same blobs.
            self.tools.call.send(job)
        return True

    def _write(self, job: Job, partial: Any, shard: int = 0, count: int = 1) -> ShardResult:
        partition, name = job.job, OUTPUT
        if count > 1:
            partition, name = shard_partition(job.job, shard), f"{OUTPUT}-{shard:02}"
        lines = PartWriter(Outputs(self.tools.outputs, job.job, job.revision), name)
        totals, written = TotalsWriter(self.tools.totals, partition, job.revision), 0
        for item in items_of(self.tools.workloads.find(job.workload), partial):
            if isinstance(item, Total):
                _check_shard(job, item, shard, count)
                totals.write(item)
            else:
                lines.write(item.content)
                written += 1
        lines.close()
        totals.close()
        return ShardResult(totals=totals.count, lines=written)


def _check_shard(job: Job, total: Total, shard: int, count: int) -> None:
    # In two shards, an account would have two rows with a part of its amount each.
    if (right := shard_of(total.account, count)) != shard:
        raise FinishRefusedError(
            f"workload {job.workload!r} put account {total.account[:100]!r} of job {job.job!r} into shard {shard} of "
            f"{count}, and shard_of says {right}: let its split go by shard_of, deploy, then resume the job"
        )


def _check_lines(job: Job, parts: Iterable[OutputPart], wanted: int) -> None:
    """Raise if the parts have other lines than all shards wrote."""
    found = sum(part.items for part in parts if part.name.startswith(f"{OUTPUT}-"))
    if found != wanted:
        raise FinishRefusedError(
            f"revision {job.revision} of job {job.job!r} has {found} lines in its outputs, and its shards wrote {wanted}: "
            "resume the job, the next revision takes nothing from this one"
        )
