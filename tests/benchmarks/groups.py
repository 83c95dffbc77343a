"""Groups of rows beside the library's own transactions: the CPU time of this process, for the same rows.

    python -m tests.benchmarks.groups          (part of `make bench`; writes its table into docs/appendix/performance.md)

Azurite has a process of its own, which is not counted. Both write in turns, so that a busy machine disturbs both alike.
"""

import platform
import statistics
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from azure.data.tables import TableClient

from shared.azure import Connections, write_group
from tests.benchmarks import document
from tests.benchmarks.codec import table
from tools.local.azurite.launcher import Azurite

ROWS, TURNS = (1, 4, 16, 98), 30
#: The library's CPU time is at least so many times ours, for one row and for the most.
GOALS = {1: 2.0, 98: 6.0}
DOCUMENT = Path(__file__).resolve().parents[2] / "docs" / "appendix" / "performance.md"


def main(_arguments: Sequence[str] = ()) -> int:
    """Measure, print the table, write it into the page; 1 when a goal was missed."""
    with Azurite.start() as azurite, Connections(azurite.connection_string) as connections:
        found = {rows: measure(connections.tables.create_table(f"rows{rows}"), rows) for rows in ROWS}
    ratios = {rows: times["library"] / times["group"] for rows, times in found.items()}
    lines = [
        (str(rows), *(f"{times[who] * 1e3:.2f}" for who in ("library", "group", "insert")), f"{ratios[rows]:.1f}")
        for rows, times in found.items()
    ]
    head = ("rows", "`submit_transaction`, ms", "`write_group`, ms", "one insert, ms", "library against ours")
    text = f"CPU time of the client, medians of {TURNS}, Python {platform.python_version()}.\n\n{table(head, lines)}"
    print(text)  # noqa: T201 - commands print
    document.write(DOCUMENT, "groups", text)
    return int(any(ratios[rows] < goal for rows, goal in GOALS.items()))


def measure(rows_of: TableClient, number: int) -> dict[str, float]:
    """Return the CPU seconds of one write by each way."""
    ways: dict[str, Callable[[str], object]] = {
        "library": lambda key: rows_of.submit_transaction(_creations(key, number)),
        "group": lambda key: write_group(rows_of, _creations(key, number)),
        "insert": lambda key: rows_of.create_entity(_row(key, 0)),
    }
    turns: dict[str, list[float]] = {name: [] for name in ways}
    for turn in range(TURNS):
        for name, write in ways.items():
            began = time.process_time()
            write(f"{name}-{turn}")
            turns[name].append(time.process_time() - began)
    return {name: statistics.median(seconds) for name, seconds in turns.items()}


def _creations(key: str, number: int) -> list[tuple[str, dict[str, Any]]]:
    return [("create", _row(key, n)) for n in range(number)]


def _row(key: str, number: int) -> dict[str, Any]:
    """Return a row as large as a stored event."""
    body = '{"seats":{"standard":2},"order":"order-000000000042","remaining":{"standard":118}}'
    event = {"kind": "seats_reserved", "body": body, "at": "2026-11-22T12:00:00.000007+00:00", "command": "c" * 36}
    return {"PartitionKey": key, "RowKey": f"e|{number:010}", **event, "generation": 1, "format": 1, "nonce": "n" * 32}


if __name__ == "__main__":
    raise SystemExit(main())
