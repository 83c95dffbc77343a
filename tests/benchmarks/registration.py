"""Registration beside a straight port of its source's second version, on the same emulators in the same run.

    make bench ARGS="--only registration"
    make bench ARGS="--only registration -- --part rush --orders 300"

Prints a table for each part, puts it into docs/appendix/performance.md, and fails when a goal is missed.
"""

import argparse
import os
import platform
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from tests.benchmarks import document, registration_rush, registration_steady
from tests.benchmarks.registration_goals import Finding, say
from tools.local.paths import ROOT

DOCUMENT: Final = ROOT / "docs" / "appendix" / "performance.md"
ORDERS, SECONDS = 2_000, 60
#: Each takes the options of the command.
PARTS: Final[Mapping[str, Callable[[argparse.Namespace], Finding]]] = {
    "rush": lambda options: registration_rush.measure(options.orders),
    "steady": lambda options: registration_steady.measure(options.seconds),
}


def main(arguments: Sequence[str] = ()) -> int:
    """Measure the parts, print them, write them into the page; 1 when a goal was missed."""
    parser = argparse.ArgumentParser(prog="registration", description=__doc__)
    parser.add_argument("--part", action="append", choices=PARTS, help="only this part")
    parser.add_argument("--orders", type=int, default=ORDERS, help="orders of a rush")
    parser.add_argument("--seconds", type=int, default=SECONDS, help="seconds of each steady rate")
    options = parser.parse_args(arguments)
    is_reached = True
    for part in options.part or PARTS:
        found = PARTS[part](options)
        text = f"Python {platform.python_version()}, {os.cpu_count()} cores.\n\n{found.text()}"
        say(text)
        document.write(DOCUMENT, f"registration {part}", text)
        is_reached = is_reached and all(goal.is_reached for goal in found.goals)
    return int(not is_reached)


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
