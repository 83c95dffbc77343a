"""What stop, pause, dry runs, reruns, erasures and nights of stages promise, measured: `make bench ARGS="--only acts"`.

It prints a table, merges it into docs/appendix/night.md, and ends with 1 where a goal is missed. `ARGS="--only acts -- --part
stop"` measures one part; the page keeps the rows of the others. `--items 1000000 --accounts 1000000 --paused 3600` are the
long ones. `lost` takes eleven minutes. Storage and the bus are local, at the deployed locks, intervals and `host.json`.
"""

import argparse
import os
import platform
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Final

from tests.benchmarks import acts_fleet, acts_lookups, acts_mixtures, acts_night, acts_stored, acts_timetable, document
from tests.benchmarks.acts_row import Row
from tools.local.docs import markdown

DOCUMENT: Final = Path(__file__).resolve().parents[2] / "docs" / "appendix" / "night.md"
PLACE: Final = "acts"
#: A part that is measured only where it is named: it waits until a hint that is lost is not missed any more.
SLOW: Final = ("lost",)


def main(arguments: Sequence[str] = ()) -> int:
    """Measure the parts, write the table, and end with 1 where a goal is missed."""
    options = _options(arguments)
    parts = parts_of(options)
    names = options.part or [name for name in parts if name not in SLOW]
    measured = {name: _measure(name, parts[name]) for name in names}
    if not options.dry:
        document.write(DOCUMENT, PLACE, _merged(measured, list(parts)))
    return int(not all(row.is_good for rows in measured.values() for row in rows))


def parts_of(options: argparse.Namespace) -> dict[str, Callable[[], Iterator[Row]]]:
    """Return what can be measured, in the order of the page."""
    return {
        "stop": lambda: acts_fleet.measure_threads(options.paused),
        "calls": acts_fleet.measure_calls,
        "lookups": acts_lookups.measure,
        "dry": acts_stored.dry_run,
        "rerun": acts_stored.rerun,
        "diff": lambda: acts_stored.compare(options.accounts),
        "erase": acts_stored.erase,
        "night": lambda: acts_night.prove(options.items, options.every),
        "follow": lambda: acts_night.follow(options.items),
        "lost": lambda: acts_night.follow_without_hints(min(options.items, 2_000)),
        "timetable": acts_timetable.measure,
        "mixtures": lambda: acts_mixtures.measure(options.mixtures),
    }


def _measure(name: str, part: Callable[[], Iterator[Row]]) -> list[Row]:
    began, rows = time.monotonic(), []
    for row in part():
        rows.append(row)
        print(" | ".join(row.cells()), flush=True)  # noqa: T201 - commands print
    print(f"{name}: {time.monotonic() - began:.0f} s", flush=True)  # noqa: T201 - commands print
    return rows


def _merged(measured: dict[str, list[Row]], order: Sequence[str]) -> str:
    """Return the table with these rows, and those of the page that were not measured now."""
    known: dict[str, list[tuple[str, ...]]] = {}
    for line in document.read(DOCUMENT, PLACE).splitlines():
        cells = tuple(line.removeprefix("| ").removesuffix(" |").split(" | "))
        if cells[0] in order:
            known.setdefault(cells[0], []).append(cells)
    load = f"{os.getloadavg()[0]:.0f}"
    known |= {name: [(name, *row.cells(), load) for row in rows] for name, rows in measured.items()}
    table = markdown(
        ("part", "what", "found", "goal", "reached", "load"), [cells for name in order for cells in known.get(name, [])]
    )
    return f"{table}\n\nPython {platform.python_version()}, {platform.machine()}, {os.cpu_count()} cores."


def _options(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="acts", description=__doc__)
    parser.add_argument("--part", action="append", help="measure these alone", metavar="NAME")
    parser.add_argument(
        "--paused", type=float, default=150.0, help="seconds that a paused job is watched, with new processes"
    )
    parser.add_argument("--accounts", type=int, default=100_000, help="of each of two runs that are compared")
    parser.add_argument("--items", type=int, default=100_000, help="transactions of each stage of the night")
    parser.add_argument("--every", type=float, default=4.0, help="mean seconds between two kills in the night")
    parser.add_argument("--mixtures", type=int, default=50, help="random mixtures of two instances, kills and acts")
    parser.add_argument("--dry", action="store_true", help="do not write the page")
    return parser.parse_args(list(arguments))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
