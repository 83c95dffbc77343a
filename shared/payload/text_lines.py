"""The lines of a file from any tool: without blank ones, carriage returns and byte order marks."""

import codecs
from collections.abc import Iterable, Iterator
from typing import Final

from shared.payload.payload_store import Limits
from shared.refusals import Reason, refuse

#: Bytes that are cut into lines at a time: a piece may hold millions of lines, and each line is an object.
_PART: Final = 64 * 1024
_UTF16: Final = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
#: Byte order marks, which a file may begin with.
MARKS: Final = (codecs.BOM_UTF8, *_UTF16)


def split_lines(pieces: Iterable[bytes], limits: Limits, before: int = 0) -> Iterator[tuple[int, bytes]]:
    """Yield each line that is not blank, without its line feed, and its number: so many lines of the file came before."""
    for number, line in enumerate(cut_lines(pieces, limits, before), before + 1):
        if line and not line.isspace():
            yield number, line.removesuffix(b"\r")


def cut_lines(pieces: Iterable[bytes], limits: Limits, before: int = 0) -> Iterator[bytes]:
    """Yield all lines without their line feeds, the first one of the file without a byte order mark."""
    lines = _cut(pieces, limits, before)
    yield _without_mark(next(lines)) if before == 0 else next(lines)
    yield from lines


def _cut(pieces: Iterable[bytes], limits: Limits, before: int) -> Iterator[bytes]:
    # Each byte is joined once, at the end of its line: a line may arrive in a thousand pieces.
    begun: list[bytes] = []
    size, number = 0, before
    for part in parts_of(pieces, _PART):
        first, *others = part.split(b"\n")
        begun.append(first)
        size += len(first)
        _check_length(size, number + 1, limits)
        if not others:
            continue
        whole = [b"".join(begun), *others[:-1]]
        _check(whole, number, limits)
        number += len(whole)
        yield from whole
        begun, size = [others[-1]], len(others[-1])
        _check_length(size, number + 1, limits)
    yield b"".join(begun)


def parts_of(pieces: Iterable[bytes], most: int) -> Iterator[bytes]:
    """Yield the pieces, large ones in parts of so many bytes."""
    for piece in pieces:
        if len(piece) <= most:
            yield piece
        else:
            yield from (piece[at : at + most] for at in range(0, len(piece), most))


def _check(lines: list[bytes], before: int, limits: Limits) -> None:
    # One check for all lines of a part, for each line passes here. One by one only if it fails.
    if before + len(lines) <= limits.lines_most and max(map(len, lines), default=0) <= limits.line_bytes:
        return
    for number, line in enumerate(lines, before + 1):
        if number > limits.lines_most:
            raise refuse(
                Reason.TOO_MANY_ITEMS, f"the file has {number} lines or more, the limit is {limits.lines_most}"
            )
        _check_length(len(line), number, limits)


def _check_length(size: int, number: int, limits: Limits) -> None:
    if size > limits.line_bytes:
        raise refuse(Reason.LINE_TOO_LONG, f"line {number} has {size} bytes or more, the limit is {limits.line_bytes}")


def _without_mark(first: bytes) -> bytes:
    if first.startswith(_UTF16):
        raise refuse(Reason.NOT_UTF8, "the file begins with the byte order mark of UTF-16")
    return first.removeprefix(codecs.BOM_UTF8)
