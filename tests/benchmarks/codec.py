"""The codec beside the standard library's: encode, compress, and both back, for one frame of transactions.

    python -m tests.benchmarks.codec          (part of `make bench`; writes its tables into docs/appendix/codec.md)

Everything is measured in this process's own CPU time, in turns, so that a busy machine disturbs all of them alike.
"""

import gzip
import io
import json
import platform
import statistics
import time
from collections.abc import Callable, Sequence
from decimal import Decimal
from pathlib import Path

import msgspec
import zstandard

from shared.payload import Codec, FrameIndex, Limits
from shared.payload.frames import Framing, compress, expand_frame, write_frames
from shared.payload.transactions import reader_of
from tests.benchmarks import document
from tests.payload.fetching import read_frames
from tests.publish.million import Usage, usages

ITEMS, TURNS, REPEATS = 1_000, 7, 20
LIMITS = Limits()
#: What a message of the library has around an inline payload of one frame.
AROUND = 365
DOCUMENT = Path(__file__).resolve().parents[2] / "docs" / "appendix" / "codec.md"

STRUCTS = list(usages(ITEMS))
DICTS = [msgspec.to_builtins(one) for one in STRUCTS]
LINES = [msgspec.json.encode(one) for one in STRUCTS]
TEXT = b"".join(line + b"\n" for line in LINES)


def main(_arguments: Sequence[str] = ()) -> int:
    """Measure, print the tables, and write them into the page."""
    tables = "\n\n".join(
        [
            (
                f"{ITEMS:,} transactions of {len(TEXT) / ITEMS:.0f} bytes, Python {platform.python_version()}, CPU "
                f"time, median of {TURNS} turns [least to most]; `fit inline` is the break-even, up to which the "
                "payload travels in the message and costs no request of its own."
            ),
            table(("encode", "µs a transaction"), _times(ENCODE)),
            table(("decode", "µs a transaction"), _times(DECODE)),
            table(("compress", "bytes a transaction", "MB/s in", "MB/s out", "fit inline"), _compression()),
        ]
    )
    print(tables)  # noqa: T201 - commands print
    document.write(DOCUMENT, "codec", tables)
    return 0


def _frame(lines: Sequence[bytes]) -> tuple[FrameIndex, bytes]:
    spool = io.BytesIO()
    framed = write_frames(enumerate(lines, 1), spool, Framing(limits=LIMITS, checked=ITEMS, sums=("amount",)))
    return framed.index, spool.getvalue()


INDEX, STORED = _frame(LINES)


def _publish() -> None:
    _frame([msgspec.json.encode(one) for one in STRUCTS])


def _process() -> None:
    for text in read_frames(STORED, INDEX, Codec.ZSTD, LIMITS):
        read = reader_of(Usage, ("amount",)).read(text.split(b"\n")[:-1])
        sum(Decimal(one.amount) for one in read.transactions)


PACKED = gzip.compress(TEXT, 6)
ENCODE: dict[str, Callable[[], object]] = {
    "standard library: json": lambda: [json.dumps(one).encode() for one in DICTS],
    "standard library: json, gzip 6": lambda: gzip.compress(b"\n".join(json.dumps(one).encode() for one in DICTS), 6),
    "msgspec, structs": lambda: [msgspec.json.encode(one) for one in STRUCTS],
    "publisher: msgspec, read back strictly, exact sum, zstd 1, hashes": _publish,
}
DECODE: dict[str, Callable[[], object]] = {
    "standard library: json": lambda: [json.loads(line) for line in TEXT.splitlines()],
    "standard library: gzip, json": lambda: [json.loads(line) for line in gzip.decompress(PACKED).splitlines()],
    "msgspec, structs": lambda: msgspec.json.Decoder(Usage).decode_lines(TEXT),
    "processor: hash, zstd within bounds, strict, typed, exact sum": _process,
}
COMPRESS: dict[str, tuple[Callable[[bytes], bytes], Codec]] = {
    "gzip 6 (standard library)": (lambda data: gzip.compress(data, 6), Codec.GZIP),
    "gzip 1 (`codec` gzip)": (lambda data: compress(data, Codec.GZIP), Codec.GZIP),
    "zstd 1 (`codec` zstd, the default)": (lambda data: compress(data, Codec.ZSTD), Codec.ZSTD),
    "zstd 9": (lambda data: zstandard.ZstdCompressor(level=9).compress(data), Codec.ZSTD),
    "plain": (lambda data: data, Codec.PLAIN),
}


def _times(acts: dict[str, Callable[[], object]]) -> list[tuple[str, str]]:
    turns = measure(acts)
    base = statistics.median(next(iter(turns.values())))
    rows = []
    for name, seconds in turns.items():
        low, middle, high = (value / ITEMS * 1e6 for value in (min(seconds), statistics.median(seconds), max(seconds)))
        rows.append((name, f"{middle:.2f} [{low:.2f} to {high:.2f}], {middle * ITEMS / 1e6 / base:.2f} of the first"))
    return rows


def _compression() -> list[tuple[str, ...]]:
    acts: dict[str, Callable[[], object]] = {}
    for name, (pack, codec) in COMPRESS.items():
        packed = pack(TEXT)
        acts[f"{name} in"] = lambda pack=pack: pack(TEXT)
        acts[f"{name} out"] = lambda packed=packed, codec=codec: expand_frame(packed, codec, LIMITS)
    speeds = {name: len(TEXT) / statistics.median(seconds) / 1e6 for name, seconds in measure(acts).items()}
    rows = []
    for name, (pack, codec) in COMPRESS.items():
        each = len(pack(TEXT)) / ITEMS
        pace = [f"{speeds[f'{name} {way}']:,.0f}" if codec is not Codec.PLAIN else "" for way in ("in", "out")]
        rows.append((name, f"{each:.1f}", *pace, f"{_most_inline(each):,}"))
    return rows


def _most_inline(each: float) -> int:
    """Return how many transactions of so many stored bytes still travel in the message."""
    return int((LIMITS.message_bytes - AROUND) // 4 * 3 / each)


def measure(acts: dict[str, Callable[[], object]]) -> dict[str, list[float]]:
    """Return the CPU seconds of one run of each act, measured in turns."""
    turns: dict[str, list[float]] = {name: [] for name in acts}
    for _ in range(TURNS):
        for name, act in acts.items():
            began = time.process_time()
            for _ in range(REPEATS):
                act()
            turns[name].append((time.process_time() - began) / REPEATS)
    return turns


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return the table as Markdown."""
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


if __name__ == "__main__":
    raise SystemExit(main())
