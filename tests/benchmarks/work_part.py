"""The table of one part of `tests.benchmarks.work`, and the judgement about it."""

import json
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from tests.benchmarks.many_accounts import MOST_MEMORY, REPEATED
from tests.benchmarks.work_checker import Judged
from tools.local.docs import markdown
from tools.local.paths import ROOT

MIB = 2**20


@dataclass
class Part:
    """One part's table, and what is wrong."""

    head: Sequence[str]
    rows: list[Sequence[str]] = field(default_factory=list)
    breaches: list[str] = field(default_factory=list)
    said: str = ""

    @property
    def text(self) -> str:
        """What stands in the page."""
        found = "; ".join(self.breaches) or "none"
        return f"{markdown(self.head, self.rows)}\n\n{self.said}Breaches: {found}."


def note(part: Part, one: dict[str, Any]) -> None:
    """Add the row of a stage."""
    memory = f"{one['peak'] / MIB:.0f}"
    name = one["stage"].removeprefix(REPEATED)
    part.rows.append((name, f"{one['cpu']:.1f}", f"{one['requests']:,}", memory))
    if one["peak"] > MOST_MEMORY:
        part.breaches.append(f"{name} took {memory} MiB")


def judge(part: Part, found: Judged, items: int) -> None:
    """Say what a job's files have."""
    part.said += (
        f"{items:,} transactions; {found.lines:,} lines of {found.found:,} transactions in {found.parts} files. "
    )
    part.breaches += found.breaches(items)


def judged(storage: str, folder: str, prefix: str, items: int) -> Judged:
    """Have the files of a job read in a process of its own."""
    words = [sys.executable, "-m", "tests.benchmarks.work_checker", storage, folder, prefix, str(items)]
    done = subprocess.run(words, cwd=ROOT, stdout=subprocess.PIPE, check=True)
    return Judged(**json.loads(done.stdout))
