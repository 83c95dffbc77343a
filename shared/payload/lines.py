"""Cuts a stream of bytes, a file from any tool, into lines: bounded, whatever the file holds."""

import codecs
from collections.abc import Iterable, Iterator

from shared.payload.limits import Limits
from shared.payload.reasons import Reason, refuse

_UTF16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)


def split_lines(pieces: Iterable[bytes], limits: Limits) -> Iterator[tuple[int, bytes]]:
    """Yield each line that is not blank, with its number from 1, without its line feed."""
    for number, line in enumerate(_lines(pieces, limits), 1):
        content = _without_mark(line) if number == 1 else line
        if content and not content.isspace():
            yield number, content.removesuffix(b"\r")


def _lines(pieces: Iterable[bytes], limits: Limits) -> Iterator[bytes]:
    rest, number = b"", 0
    for piece in pieces:
        *whole, rest = (rest + piece).split(b"\n")
        _check(whole, number, limits)
        number += len(whole)
        yield from whole
        _check([rest], number, limits)
    yield rest


def _check(lines: list[bytes], before: int, limits: Limits) -> None:
    # All at once where nothing is wrong, for it is asked of every line; one by one where something is.
    if before + len(lines) <= limits.lines_most and max(map(len, lines), default=0) <= limits.line_bytes:
        return
    for number, line in enumerate(lines, before + 1):
        if number > limits.lines_most:
            raise refuse(Reason.TOO_MANY_ITEMS, f"the file has {number} lines or more")
        if len(line) > limits.line_bytes:
            raise refuse(Reason.LINE_TOO_LONG, f"line {number} has {len(line)} bytes or more")


def _without_mark(first: bytes) -> bytes:
    if first.startswith(_UTF16):
        raise refuse(Reason.NOT_UTF8, "the file begins as UTF-16 does")
    return first.removeprefix(codecs.BOM_UTF8)
