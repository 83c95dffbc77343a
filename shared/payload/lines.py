"""Cuts a stream of bytes, a file from any tool, into lines: bounded, whatever the file holds."""

import codecs
from collections.abc import Iterable, Iterator
from typing import Final

from shared.payload.limits import Limits
from shared.payload.reasons import Reason, refuse

#: How much is cut into lines at a time.
_PART: Final = 64 * 1024
_UTF16: Final = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)


def split_lines(pieces: Iterable[bytes], limits: Limits) -> Iterator[tuple[int, bytes]]:
    """Yield each line that is not blank, with its number from 1, without its line feed."""
    for number, line in enumerate(_lines(pieces, limits), 1):
        content = _without_mark(line) if number == 1 else line
        if content and not content.isspace():
            yield number, content.removesuffix(b"\r")


def _lines(pieces: Iterable[bytes], limits: Limits) -> Iterator[bytes]:
    # Each byte is joined once, at the end of its line: a line may come in a thousand pieces.
    begun: list[bytes] = []
    size = number = 0
    for part in _parts(pieces):
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


def _parts(pieces: Iterable[bytes]) -> Iterator[bytes]:
    """Yield the pieces, the large ones in parts: a piece may hold millions of lines, and each is an object of its own."""
    for piece in pieces:
        if len(piece) <= _PART:
            yield piece
        else:
            yield from (piece[at : at + _PART] for at in range(0, len(piece), _PART))


def _check(lines: list[bytes], before: int, limits: Limits) -> None:
    # All at once where nothing is wrong, for it is asked of every line; one by one where something is.
    if before + len(lines) <= limits.lines_most and max(map(len, lines), default=0) <= limits.line_bytes:
        return
    for number, line in enumerate(lines, before + 1):
        if number > limits.lines_most:
            raise refuse(Reason.TOO_MANY_ITEMS, f"the file has {number} lines or more")
        _check_length(len(line), number, limits)


def _check_length(size: int, number: int, limits: Limits) -> None:
    if size > limits.line_bytes:
        raise refuse(Reason.LINE_TOO_LONG, f"line {number} has {size} bytes or more")


def _without_mark(first: bytes) -> bytes:
    if first.startswith(_UTF16):
        raise refuse(Reason.NOT_UTF8, "the file begins as UTF-16 does")
    return first.removeprefix(codecs.BOM_UTF8)
