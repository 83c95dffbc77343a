"""Cuts lines into the texts of frames, without an object for each line.

Text passes here as it will be framed: whole lines, none of them blank, each ended by a line feed. What a file has
beside that is taken off first. One pattern finds the blocks that need nothing of it, and these are nearly all.
"""

import re
from collections.abc import Generator, Iterable, Iterator, Sequence
from decimal import Decimal, localcontext
from functools import lru_cache
from operator import attrgetter
from typing import Any, Final

from shared.errors import RefusedError
from shared.grammar import EXACT, ZERO
from shared.payload.payload_store import Limits
from shared.payload.text_lines import MARKS, parts_of, split_lines
from shared.payload.transactions import Reader, amounts_reader
from shared.refusals import BY_CODE, Reason, refuse

#: Bytes that are looked at together.
BLOCK: Final = 1024 * 1024
_LINES_OF_JSON: Final = (
    "write one JSON object on each line; a file of CSV ends with .csv, or name its delimiter by --csv"
)


class Check:
    """Reads the first lines strictly, and adds up their fields. A line that no workload could read refuses the payload."""

    def __init__(self, most: int, sums: Sequence[str], limits: Limits) -> None:
        self._most, self._reader = most, amounts_reader(tuple(sums), limits)
        #: The number of lines that were read.
        self.items = 0
        #: The exact sums over the fields.
        self.totals: dict[str, Decimal] = dict.fromkeys(sums, ZERO)

    @property
    def is_done(self) -> bool:
        """Check whether it reads no further line."""
        return self.items >= self._most

    def read(self, lines: Sequence[tuple[int, bytes]]) -> None:
        """Read the numbered lines, as far as they are among the first."""
        if wanted := lines[: self._most - self.items]:
            _inspect(self._reader, wanted, self.totals)
            self.items += len(wanted)


class Cutter:
    """Cuts the lines of one payload into the texts of its frames."""

    def __init__(self, limits: Limits, check: Check, step: int, before: int = 0) -> None:
        """Take the number of lines after which a frame ends at the latest, and of the lines of its file before these."""
        self._limits, self.check, self._step = limits, check, step
        #: The lines in frames, the text behind them, and the lines of the file that are in neither.
        self._items, self._kept, self._blank = 0, b"", before
        #: The lines until a frame ends at the latest, however few it has then.
        self._left = step

    def cut_lines(self, lines: Iterable[tuple[int, bytes]]) -> Iterator[tuple[bytes, int]]:
        """Yield the text of each frame and its number of lines, from numbered lines without their line feeds."""
        yield from self._cut(map(self._join, _runs(lines, self._limits)))
        yield from self._cut([b""])

    def cut_file(self, pieces: Iterable[bytes]) -> Iterator[tuple[bytes, int]]:
        """Yield the text of each frame and its number of lines, from the bytes of a file."""
        begins = self._blank == 0
        for number, block in enumerate(_blocks(pieces, self._limits)):
            may_be_marked, rest = begins and number == 0 and block.startswith(MARKS), block
            if self.check.is_done and not may_be_marked and b"\r" not in block:
                rest = yield from self._cut_plain(block)
            if rest:
                yield from self._cut(self._clean_closely(rest))
        yield from self._cut([b""])

    def _cut(self, texts: Iterable[bytes]) -> Iterator[tuple[bytes, int]]:
        """Yield the frames that are full. The empty text says that nothing follows."""
        for text in texts:
            self._kept, at = self._kept + text, 0
            while at < len(self._kept):
                end, items = _find_end(self._kept, at, self._most, self._limits.frame_bytes)
                if text and end == len(self._kept) and items < self._most:
                    break
                yield self._kept[at:end], items
                self._count(items)
                at = end
            self._kept = self._kept[at:]

    def _cut_plain(self, block: bytes) -> Generator[tuple[bytes, int], None, bytes]:
        """Yield the frames that are full. Return the rest, from a line on that rules for files change, or nothing."""
        at, kept = 0, self._kept.count(b"\n")
        while found := _plain(self._limits.line_bytes, self._most - kept).match(
            block, at, at + self._limits.frame_bytes - len(self._kept)
        ):
            items, kept = self._most, 0
            yield self._kept + block[at : found.end()], items
            self._count(items)
            self._kept, at = b"", found.end()
        rest = block[at:]
        if not _plain(self._limits.line_bytes).fullmatch(rest):
            return rest
        yield from self._cut([rest] if rest else [])
        return b""

    @property
    def _most(self) -> int:
        return min(self._limits.frame_items, self._left)

    def _count(self, items: int) -> None:
        self._items += items
        self._left = self._left - items or self._step

    def _clean_closely(self, block: bytes) -> Iterator[bytes]:
        before = self._items + self._kept.count(b"\n") + self._blank
        lines = 0
        for run in _runs(split_lines([block], self._limits, before), self._limits):
            lines += len(run)
            yield self._join(run)
        self._blank += block.count(b"\n") + (not block.endswith(b"\n")) - lines

    def _join(self, lines: Sequence[tuple[int, bytes]]) -> bytes:
        text = b"".join([line + b"\n" for _, line in lines])
        if text.count(b"\n") != len(lines):
            number = next(number for number, line in lines if b"\n" in line)
            raise refuse(Reason.NOT_JSON, f"line {number} holds a line feed")
        self.check.read(lines)
        return text


def _find_end(text: bytes, at: int, most: int, room: int) -> tuple[int, int]:
    """Return where the frame that begins here ends, and its number of lines, as far as the text reaches."""
    if found := _exactly(most).match(text, at, at + room):
        return found.end(), most
    # A line may be as long as a frame, and its line feed is behind it then.
    end = text.rfind(b"\n", at, at + room) + 1 or text.index(b"\n", at) + 1
    return end, text.count(b"\n", at, end)


@lru_cache(maxsize=1024)
def _exactly(lines: int) -> re.Pattern[bytes]:
    return re.compile(rb"(?:[^\n]*+\n){%d}+" % lines)


@lru_cache(maxsize=1024)
def _plain(longest: int, lines: int | None = None) -> re.Pattern[bytes]:
    """Return the pattern of so many lines, or any, that none of the rules for files changes: not blank, and not too long."""
    times = b"*" if lines is None else b"{%d}" % lines
    return re.compile(rb"(?:\S[^\n]{0,%d}+\n)%b+" % (longest - 1, times))


def _blocks(pieces: Iterable[bytes], limits: Limits) -> Iterator[bytes]:
    """Yield the bytes as blocks of whole lines. The last line may have no end, and so may one that is too long."""
    begun: list[bytes] = []
    size = 0
    for piece in parts_of(pieces, BLOCK):
        begun.append(piece)
        size += len(piece)
        if size >= BLOCK:
            text = b"".join(begun)
            end = text.rfind(b"\n") + 1
            if len(text) - end > limits.line_bytes:
                end = len(text)
            if end:
                yield text[:end]
            begun, size = [text[end:]], len(text) - end
    if text := b"".join(begun):
        yield text


def _runs(lines: Iterable[tuple[int, bytes]], limits: Limits) -> Iterator[list[tuple[int, bytes]]]:
    """Yield the lines, as many together as a frame may have."""
    run: list[tuple[int, bytes]] = []
    size = 0
    for one in lines:
        length = len(one[1])
        if length > limits.line_bytes:
            most = limits.line_bytes
            raise refuse(Reason.LINE_TOO_LONG, f"line {one[0]} has {length} bytes, the limit is {most}")
        if run and (len(run) == limits.frame_items or size + length >= limits.frame_bytes):
            yield run
            run, size = [], 0
        run.append(one)
        size += length + 1
    if run:
        yield run


def _inspect(reader: Reader[Any], lines: Sequence[tuple[int, bytes]], totals: dict[str, Decimal]) -> None:
    found = reader.read([line for _, line in lines])
    for refused in found.refused[:1]:
        reason = BY_CODE[refused.reason]
        instead = _LINES_OF_JSON if reason is Reason.NOT_JSON else reason.instead
        raise RefusedError(reason, f"line {lines[refused.place][0]}: {refused.found}", instead)
    with localcontext(EXACT):
        for place, name in enumerate(totals):
            amounts = map(attrgetter(f"amount_{place}"), found.transactions)
            totals[name] = sum((amount for amount in amounts if amount is not None), totals[name])
