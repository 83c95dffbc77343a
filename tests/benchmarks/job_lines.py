"""A job with a line for each transaction beside the same job without: CPU time and memory of one process.

    python -m tests.benchmarks.job_lines     (part of `make bench`; writes its table into docs/appendix/performance.md)

Both run in turns. What both do alike besides is left out: reading payloads, dispatching, rows. So the difference is that of
whole jobs, and the times are not. Azurite has a process of its own, which is not counted. `--transactions N` takes another size, once.
"""

import argparse
import json
import platform
import resource
import statistics
import sys
import time
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path

from shared.azure import Connections
from shared.ledger import ChunkRow, ChunkState, Portion, Totals
from shared.messages import ChunkMessage
from shared.payload import Limits
from shared.pipeline.outputs import Outputs, run_in_parts
from shared.pipeline.results import GroupBlobs, PackedResult, ResultStore, assemble, pack_result
from shared.pipeline.segments import SEGMENT_CHUNKS, Merger, cut, weigh
from shared.workloads import Line
from shared.workloads.billing import Billing, UsageRecord
from tests.benchmarks import document
from tests.benchmarks.codec import table
from tools.local.azurite.launcher import Azurite

TRANSACTIONS, TURNS, CHUNK, ACCOUNTS = 800_000, 3, 8_000, 5_000
#: Results that a settler credits together.
GROUP = 64
#: MiB of the process.
MOST_MEMORY = 256
DOCUMENT = Path(__file__).resolve().parents[2] / "docs" / "appendix" / "performance.md"


class Lined(Billing):
    """Billing, and a line for each transaction."""

    def lines(self, usage: UsageRecord, number: int, _value: object) -> Iterator[Line]:
        """Yield what the transaction was."""
        yield Line({"number": number, "account": usage.account, "quantity": usage.quantity})


def main(arguments: Sequence[str] = ()) -> int:
    """Measure, print the table, write it into the page; 1 when a goal was missed."""
    parser = argparse.ArgumentParser(prog="job_lines")
    parser.add_argument("--transactions", type=int)
    only = parser.parse_args(arguments).transactions
    with Azurite.start() as azurite, Connections(azurite.connection_string) as connections:
        for name in ("results", "outputs"):
            connections.blobs.create_container(name)
        run(connections, "warm", CHUNK, makes_lines=True)
        spent: dict[bool, list[float]] = {False: [], True: []}
        for turn in range(1 if only else TURNS):
            for makes_lines, turns in spent.items():
                turns.append(run(connections, f"{turn}-{makes_lines}", only or TRANSACTIONS, makes_lines=makes_lines))
    found = {makes_lines: statistics.median(turns) for makes_lines, turns in spent.items()}
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    head = ("transactions", "without lines, CPU s", "with, CPU s", "a line, CPU µs", "memory at most, MiB")
    items = only or TRANSACTIONS
    each = (found[True] - found[False]) / items * 1e6
    row = (f"{items:,}", f"{found[False]:.2f}", f"{found[True]:.2f}", f"{each:.2f}", f"{memory:.0f}")
    text = f"CPU time of run, result and finish, medians of {len(spent[True])}, Python {platform.python_version()}.\n\n"
    text += table(head, [row])
    print(text)  # noqa: T201 - commands print
    if not only:
        document.write(DOCUMENT, "job_lines", text)
    return int(memory > MOST_MEMORY)


def run(connections: Connections, job: str, items: int, *, makes_lines: bool) -> float:
    """Run a job's chunks and merge its segments. Return the CPU seconds of it."""
    results, outputs = (connections.blobs.get_container_client(name) for name in ("results", "outputs"))
    began, rows = time.process_time(), []
    for numbers in batched_numbers(range(items // CHUNK)):
        chunks = [run_chunk(job, number, makes_lines=makes_lines) for number in numbers]
        rows += store(job, ResultStore(results), GroupBlobs(results), chunks)
    merged = 0
    for segment, (first, last) in enumerate(cut([weigh(row) for row in rows], SEGMENT_CHUNKS)):
        merger = Merger(results, Outputs(outputs, job, 1), Lined())
        merged += merger.merge(rows[first : last + 1], segment).lines
    if merged != (items if makes_lines else 0):
        raise RuntimeError(f"{merged} lines of {items} transactions")
    return time.process_time() - began


def batched_numbers(numbers: range) -> Iterator[Sequence[int]]:
    """Yield the chunks of each group."""
    return (numbers[begin : begin + GROUP] for begin in range(0, len(numbers), GROUP))


def run_chunk(job: str, number: int, *, makes_lines: bool) -> PackedResult:
    """Run one chunk, as a worker does."""
    first = number * CHUNK
    message = ChunkMessage(
        job=job, chunk=number, revision=1, workload="billing", codec="plain", frames=[], first_id=first
    )
    return pack_result(message, run_in_parts(Lined(), [READ], first, Limits(), makes_lines=makes_lines), Limits())


def _transaction(number: int) -> bytes:
    usage = {"account": f"a-{number * 7919 % ACCOUNTS}", "plan": "standard", "quantity": f"{number % 97 + 1}.5"}
    return json.dumps(usage).encode()


#: The transactions of each chunk: a worker has them from its message or its payload.
READ = [_transaction(number) for number in range(CHUNK)]


def store(job: str, store: ResultStore, groups: GroupBlobs, chunks: Sequence[PackedResult]) -> list[ChunkRow]:
    """Store results as workers and settlers do, and return their rows."""
    rows = [_row(job, one) for one in chunks]
    group = assemble(job, [(row, _bytes(one)) for row, one in zip(rows, chunks, strict=True) if one.travels])
    if group.content:
        groups.put(group)
    for one in chunks:
        if not one.travels:
            store.put(one)
    return [group.place(row) for row in rows]


def _bytes(one: PackedResult) -> bytes:
    content = one.content
    return content if isinstance(content, bytes) else content.read()


def _row(job: str, one: PackedResult) -> ChunkRow:
    stored = one.stored
    accepted = stored.result.accepted
    return ChunkRow(
        job=job,
        chunk=stored.result.chunk,
        state=ChunkState.DONE,
        revision=1,
        settled_at=datetime(2026, 11, 27, tzinfo=UTC),
        totals=Totals(Portion(accepted.items)),
        partial=memoryview(stored.result.partial).nbytes,
        blob=stored.name,
        hash=stored.hash,
        length=stored.length,
        lines=stored.lines,
    )


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
