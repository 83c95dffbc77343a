"""What a publisher takes for a file of a million rows, by kinds of files, up to the frames that it would send.

    python -m tests.benchmarks.files          (part of `make bench`; writes its table into docs/appendix/codec.md)

Everything is measured in this process's own CPU time, in turns, so that a busy machine disturbs all of them alike.
"""

import csv
import json
import platform
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

import msgspec

from shared.payload import Framing, spool_for, write_frames
from shared.publish import read_csv, read_file, read_parquet
from tests.benchmarks import document
from tests.benchmarks.codec import table
from tests.publish.million import usages

ROWS, TURNS = 1_000_000, 3
DOCUMENT = Path(__file__).resolve().parents[2] / "docs" / "appendix" / "codec.md"
Read = Callable[[IO[bytes]], Iterator[tuple[int, bytes]]]


def main(_arguments: Sequence[str] = ()) -> int:
    """Measure, print the table, and write it into the page."""
    with tempfile.TemporaryDirectory() as folder:
        files = list(_write(Path(folder)))
        turns = [[_publish(path, read) for _, path, read in files] for _ in range(TURNS)]
        rows = []
        for (name, path, _), seconds in zip(files, zip(*turns, strict=True), strict=True):
            middle = statistics.median(seconds)
            spread = f"{min(seconds) / ROWS * 1e6:.2f} to {max(seconds) / ROWS * 1e6:.2f}"
            each = f"{middle / ROWS * 1e6:.2f} [{spread}]"
            rows.append((name, f"{path.stat().st_size / ROWS:.0f}", each, f"{ROWS / middle:,.0f}"))
    said = f"{ROWS:,} rows of eight columns, Python {platform.python_version()}, CPU time, median of {TURNS} turns [least to most]."
    found = f"{said}\n\n{table(('file', 'bytes a row', 'µs a row', 'rows a second'), rows)}"
    print(found)  # noqa: T201 - commands print
    document.write(DOCUMENT, "files", found)
    return 0


def _publish(path: Path, read: Read) -> float:
    framing = Framing(sums=("amount",), checked=sys.maxsize)
    with path.open("rb") as file, spool_for(framing.limits) as spool:
        began = time.process_time()
        write_frames(read(file), spool, framing)
        return time.process_time() - began


def _write(folder: Path) -> Iterator[tuple[str, Path, Read]]:
    """Write the same rows as a file of each kind."""
    rows: list[dict[str, Any]] = [msgspec.to_builtins(one) for one in usages(ROWS)]
    path = folder / "rows.ndjson"
    with path.open("w") as file:
        file.writelines(f"{json.dumps(row, separators=(',', ':'))}\n" for row in rows)
    yield "lines of JSON", path, read_file
    for name, quoting in (("CSV", csv.QUOTE_MINIMAL), ("CSV, every value in quotation marks", csv.QUOTE_ALL)):
        path = folder / f"{quoting}.csv"
        with path.open("w", newline="") as file:
            csv.writer(file, quoting=quoting).writerows([rows[0], *(row.values() for row in rows)])
        yield name, path, read_csv
    with suppress(ModuleNotFoundError):
        from pyarrow import Table, parquet  # noqa: PLC0415 - few have it

        path = folder / "rows.parquet"
        parquet.write_table(Table.from_pylist(rows), path)
        yield "Parquet", path, read_parquet


if __name__ == "__main__":
    raise SystemExit(main())
