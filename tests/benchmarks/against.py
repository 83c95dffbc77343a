"""The pipeline's CPU and requests beside those of an earlier commit: `make bench ARGS="--only against -- --commit REV"`.

A stack of each tree runs, and both do the same job by turns: first one, first the other, since a machine that is shared
is now faster and now slower. What counts is the difference within each pair. Each tree is measured by its own files of
`tests/benchmarks`. Writes its table into docs/appendix/performance.md, or another page.
"""

import argparse
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median, quantiles
from typing import Final

from tests.benchmarks.document import write
from tests.benchmarks.pipeline_goals import markdown
from tests.benchmarks.pipeline_measure import file_of
from tools.local.paths import ROOT

PAGES: Final = ROOT / "docs" / "appendix"
#: The last commit that believed the lines of payloads without reading them strictly.
BEFORE: Final = "9d89e6a"
CHUNKS: Final = (1_000, 4_000)
#: Microseconds of CPU a transaction that trust may cost.
TRUST: Final = 0.6
#: Runs in the tree that is the working directory: a job for each line that it reads.
_MEASURE: Final = """
import sys
from tests.benchmarks.pipeline_sluice import sluice
items, chunk = map(int, sys.argv[1:])
with sluice(chunk) as running:
    # The first jobs pay for imports and connections.
    for _ in range(2):
        running.run(10_000)
    print("ready", flush=True)
    for _ in sys.stdin:
        run = running.run(items).run
        print(run.own_cpu_each, run.requests, flush=True)
"""


def main(arguments: Sequence[str] = ()) -> int:
    """Measure both trees, print and write the table; return 0 when the bound holds."""
    parser = argparse.ArgumentParser(prog="against", description=__doc__)
    parser.add_argument("--commit", default=BEFORE, help=f"what to compare with; {BEFORE} unless it is said")
    parser.add_argument("--items", type=int, default=400_000)
    parser.add_argument("--pairs", type=int, default=12, help="jobs of each tree and size")
    parser.add_argument("--most", type=float, default=TRUST, help="microseconds a transaction that may be more")
    parser.add_argument("--page", default="performance", help="of docs/appendix, with a place for the table")
    options = parser.parse_args(arguments)
    file_of(options.items)
    with _tree_of(options.commit) as before:
        found = {chunk: _pairs(before, options.items, chunk, options.pairs) for chunk in CHUNKS}
    rows = [_row(chunk, pairs, options.most) for chunk, pairs in found.items()]
    table = markdown(
        ("own CPU µs each", options.commit, "now", "more", f"at most {options.most:g}", "requests before, now"), rows
    )
    about = (
        f"Jobs of {options.items:,}, {options.pairs} pairs of each size, of the tree at {options.commit} and of this one by "
        "turns: CPU of publisher and app, without the local host, medians [least to most]; `more` is the median of the "
        "differences within a pair [the middle half of them]."
    )
    print(table)  # noqa: T201 - commands print
    write(PAGES / f"{options.page}.md", "against", f"{about}\n\n{table}")
    return 0 if all(_more(pairs) <= options.most for pairs in found.values()) else 1


@dataclass(frozen=True, slots=True)
class Took:
    """What one job took: microseconds of CPU a transaction, and storage requests."""

    cpu: float
    requests: int


def _pairs(before: Path, items: int, chunk: int, pairs: int) -> list[tuple[Took, Took]]:
    """Return what each pair of jobs took, before and now."""
    found = []
    with _running(before, items, chunk) as then, _running(ROOT, items, chunk) as now:
        for number in range(pairs):
            order = (then, now) if number % 2 else (now, then)
            took = {job: job() for job in order}
            found.append((took[then], took[now]))
            print(f"chunks of {chunk:,}: {took[then]} before, {took[now]} now", flush=True)  # noqa: T201 - commands print
    return found


@contextmanager
def _running(tree: Path, items: int, chunk: int) -> Iterator[Callable[[], Took]]:
    """Run the stack of a tree, and yield what runs a job on it and returns what it took."""
    command = [sys.executable, "-c", _MEASURE, str(items), str(chunk)]
    environment = {**os.environ, "PYTHONPATH": str(tree)}
    with subprocess.Popen(
        command, cwd=tree, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        talk, answers = process.stdin, process.stdout
        assert talk is not None
        assert answers is not None
        while (line := answers.readline()) != "ready\n":
            if not line:
                raise RuntimeError(f"the stack of {tree} did not start")

        def job() -> Took:
            talk.write("\n")
            talk.flush()
            cpu, requests = answers.readline().split()
            return Took(float(cpu), int(requests))

        yield job
        talk.close()
        process.wait(timeout=60)


@contextmanager
def _tree_of(commit: str) -> Iterator[Path]:
    """Check the commit out beside this one, with the same installation."""
    with tempfile.TemporaryDirectory() as folder:
        tree = Path(folder, "tree")
        _git("worktree", "add", "--quiet", "--detach", str(tree), commit)
        try:
            for name in (".venv", ".stack"):
                (tree / name).symlink_to((ROOT / name).resolve())
            yield tree
        finally:
            _git("worktree", "remove", "--force", str(tree))


def _git(*words: str) -> None:
    subprocess.run(["git", *words], cwd=ROOT, check=True)


def _row(chunk: int, pairs: Sequence[tuple[Took, Took]], bound: float) -> tuple[str, ...]:
    least, _, most = quantiles((now.cpu - before.cpu for before, now in pairs), n=4)
    more = _more(pairs)
    figure = f"{more:+.2f} [{least:+.2f} to {most:+.2f}]"
    texts = [_text([pair[side].cpu for pair in pairs]) for side in (0, 1)]
    requests = [f"{median(pair[side].requests for pair in pairs):,.0f}" for side in (0, 1)]
    return (f"chunks of {chunk:,}", *texts, figure, "yes" if more <= bound else "NO", ", ".join(requests))


def _more(pairs: Sequence[tuple[Took, Took]]) -> float:
    return median(now.cpu - before.cpu for before, now in pairs)


def _text(values: Sequence[float]) -> str:
    return f"{median(values):.1f} [{min(values):.1f} to {max(values):.1f}]"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
