"""What it costs to read each line strictly, beside decoding it and beside reading it exactly.

    python -m tests.benchmarks.lines                (part of `make bench`; writes its table into docs/appendix/codec.md)
    python -m tests.benchmarks.lines --base FOLDER  (also: `run` here and in another checkout, in turns)

Everything is measured in CPU time, in turns, so that a busy machine disturbs all of them alike.
"""

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec

from shared.payload.payload_store import Limits
from shared.payload.transactions import Reader, read_json
from shared.workloads.billing import UsageRecord
from tests.benchmarks import document
from tests.benchmarks.codec import measure, table
from tests.benchmarks.pipeline_measure import transactions

ITEMS, PAIRS = 4_000, 11
DOCUMENT = Path(__file__).resolve().parents[2] / "docs" / "appendix" / "codec.md"
LINES = list(transactions(ITEMS))
#: As programs write them that leave out what is empty.
TURNS = [line if n % 2 else line.replace(b'"unit":"each",', b"") for n, line in enumerate(LINES)]
ESCAPED = [line.replace(b'"each"', rb'"St\u00fcck"') for line in LINES]
#: Each line has a key that no other has.
STRANGE = [line.replace(b'"unit"', b'"unit%d"' % n) for n, line in enumerate(LINES)]
DECODE = msgspec.json.Decoder(UsageRecord).decode
DEPTH = Limits().depth
STANDARD = json.JSONDecoder(object_pairs_hook=dict)


def _reading(lines: Sequence[bytes]) -> Callable[[], object]:
    """Return the reading of these lines by a reader that has seen no others."""
    reader = Reader(UsageRecord, ("quantity",))
    return lambda: reader.read(lines)


ACTS: dict[str, Callable[[], object]] = {
    "decoded only: no rule is kept but the type": lambda: list(map(DECODE, LINES)),
    "the reader, lines of one layout": _reading(LINES),
    "the reader, lines of two layouts in turns": _reading(TURNS),
    "the reader, texts with escapes": _reading(ESCAPED),
    "the reader, no line like another": _reading(STRANGE),
    "each line read strictly, then decoded": lambda: [(read_json(line, DEPTH), DECODE(line)) for line in LINES],
    "standard library: json, key by key": lambda: [STANDARD.decode(line.decode()) for line in LINES],
}
#: Self-contained, for it runs in checkouts that do not have this file.
RUN = """
import json, time
from shared.workloads import run_lines
from shared.workloads.billing import Billing
from tests.benchmarks.pipeline_measure import transactions
lines, found = list(transactions(40_000)), {}
for size in (1_000, 4_000):
    chunks = [lines[start : start + size] for start in range(0, len(lines), size)]
    times = []
    for _ in range(3):
        began = time.process_time()
        for chunk in chunks:
            run_lines(Billing(), chunk, 0)
        times.append((time.process_time() - began) / len(lines) * 1e6)
    found[size] = min(times)
print(json.dumps(found))
"""


def main(arguments: Sequence[str] = ()) -> int:
    """Measure, print the table, and write it into the page."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.lines")
    parser.add_argument("--base", type=Path, metavar="FOLDER", help="another checkout of this repository")
    options = parser.parse_args(arguments)
    size = sum(map(len, LINES)) / ITEMS
    said = (
        f"{ITEMS:,} lines of {size:.0f} bytes, Python {platform.python_version()}, median of the turns [least to most]."
    )
    found = f"{said}\n\n{table(('read', 'ns a line'), _times())}"
    print(found)  # noqa: T201 - commands print
    document.write(DOCUMENT, "lines", found)
    if options.base is not None:
        print(_compared(options.base))  # noqa: T201
    return 0


def _times() -> list[tuple[str, str]]:
    turns = {name: [second / ITEMS * 1e9 for second in seconds] for name, seconds in measure(ACTS).items()}
    return [
        (name, f"{statistics.median(each):,.0f} [{min(each):,.0f} to {max(each):,.0f}]") for name, each in turns.items()
    ]


def _compared(base: Path) -> str:
    """Return what `run` takes in both checkouts, measured in turns."""
    pairs = [(_run_in(base), _run_in(DOCUMENT.parents[2])) for _ in range(PAIRS)]
    rows = []
    for size in pairs[0][0]:
        before, after = ([pair[side][size] for pair in pairs] for side in (0, 1))
        # Of each pair by itself: what disturbs the machine disturbs both.
        more = statistics.median(after[n] - before[n] for n in range(PAIRS))
        rows.append((f"{int(size):,}", *(f"{statistics.median(each):.2f}" for each in (before, after)), f"{more:+.2f}"))
    return table(("chunk", f"µs a transaction in {base.name}", "here", "more"), rows)


def _run_in(folder: Path) -> dict[str, float]:
    done = subprocess.run(
        [sys.executable, "-c", RUN],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(folder)},
        check=True,
        capture_output=True,
        text=True,
    )
    found: dict[str, float] = json.loads(done.stdout)
    return found


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
