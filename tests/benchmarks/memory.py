"""What memory one process of the app takes for the hostile crowd: `make bench ARGS="--only memory"`."""

import argparse
from collections.abc import Sequence

from tests.benchmarks.document import write
from tests.process.crowded import apart
from tests.process.hostile_crowd import crowd
from tools.local.docs import markdown
from tools.local.paths import ROOT

MIB = 1024 * 1024
GOAL = 512
KINDS = {
    "": "all of the hostile crowd at once",
    "braces": "of it: frames of 100,000 lines that are all rejected",
    "more-accounts": "of it: 450,000 lines of 150,000 accounts in one job",
}


def main(arguments: Sequence[str]) -> int:
    """Measure, print and write the table; 1 when a process took more than the goal."""
    argparse.ArgumentParser(prog="make bench", description=__doc__).parse_args(arguments)
    rows, most = [], 0
    for prefix, what in KINDS.items():
        sent = [one for one in crowd() if one.job.startswith(prefix)]
        found = apart(sent)
        if found["states"] != {one.job: one.state for one in sent}:
            raise AssertionError(f"not each ended as it should: {found}"[:2000])
        peak = round(found["peak"] / MIB)
        most = max(most, peak)
        stored = sum(len(content) for one in sent for content in one.blobs.values())
        rows.append((what, str(len(sent)), f"{stored / MIB:.1f}", str(peak)))
        print(" | ".join(rows[-1]), flush=True)  # noqa: T201 - commands print
    table = markdown(("what is sent", "submissions", "MiB of blobs", "MiB of memory at most"), rows)
    write(ROOT / "docs" / "appendix" / "security.md", "memory", table)
    return int(most > GOAL)
