"""Runs every benchmark, one after the other: `make bench`, or `make bench ARGS="--only ids --only codec"`.

A benchmark that fails or misses a goal does not keep the others from running; the summary at the end says which did.
What follows `--` goes to every benchmark that runs.
"""

import argparse
import importlib
import sys
import time
import traceback
from collections.abc import Sequence
from dataclasses import dataclass

#: The shortest first.
BENCHMARKS = (
    "concurrency",
    "backlog",
    "memory",
    "codec",
    "groups",
    "lines",
    "files",
    "job_lines",
    "broker_cpu",
    "gate",
    "rooms",
    "fair",
    "console",
    "command_start",
    "causes",
    "first_page",
    "throttled",
    "storm",
    "ids",
    "ids_chaos",
    "dequeue",
    "events",
    "against",
    "pipeline",
    "capacity",
    "ten_jobs",
    "large_job",
    "work",
    "flow",
    "raw_file",
    "registration",
    "held",
    "forecasts",
    "migration",
    "onsale",
    "recovery",
    "acts",
    "idle_day",
)


@dataclass(frozen=True, slots=True)
class Ended:
    """How one benchmark ended."""

    name: str
    seconds: float
    problem: str = ""


def main(arguments: Sequence[str]) -> int:
    """Run what was asked for; 1 when any of it failed."""
    parser = argparse.ArgumentParser(prog="make bench", description=__doc__)
    parser.add_argument("--only", action="append", choices=BENCHMARKS, metavar="NAME", help=", ".join(BENCHMARKS))
    options, rest = parser.parse_known_args(arguments)
    ended = [run(name, [word for word in rest if word != "--"]) for name in options.only or BENCHMARKS]
    for one in ended:
        print(f"{one.name:<12} {one.seconds:>7.0f} s  {one.problem or 'reached its goals'}")  # noqa: T201 - commands print
    return int(any(one.problem for one in ended))


def run(name: str, arguments: Sequence[str]) -> Ended:
    """Run one benchmark to its end, whatever that is."""
    print(f"== {name}", flush=True)  # noqa: T201 - commands print
    began, problem = time.monotonic(), ""
    try:
        status = importlib.import_module(f"tests.benchmarks.{name}").main(arguments)
        problem = "missed a goal" if status else ""
    except Exception as error:  # noqa: BLE001 - whatever it is, the others are to run
        traceback.print_exc()
        problem = f"failed: {type(error).__name__}: {error}"
    return Ended(name, time.monotonic() - began, problem)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
