"""The lines of accepted transactions, and a workload that makes nothing else."""

from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence
from itertools import groupby
from operator import itemgetter
from typing import Any, Final, NoReturn, Protocol

import msgspec

from shared.workloads.isolate import Failures
from shared.workloads.workload import AnyWorkload, Line


class LineSink(Protocol):
    """Takes lines in the order of their transactions, in rows: lines of others may come between two rows later."""

    def add(self, lines: bytes, items: int, /) -> object:
        """Take whole lines, and how many they are."""
        ...

    def begin_row(self, first: int, /) -> object:
        """Have a row begin with the transaction of this id."""
        ...


#: Upper bound of one line, with its line feed.
LINE_MOST: Final = 1024 * 1024
#: Lines that are encoded in one call, for a call costs as much as encoding one.
_AT_ONCE: Final = 256
_SHOWN: Final = 60
_encoder: Final = msgspec.json.Encoder()


def write_lines(
    workload: AnyWorkload,
    accepted: Iterable[tuple[Any, int, Any]],
    sink: LineSink,
    failures: Failures,
    *,
    has_gaps: bool,
) -> None:
    """Write the lines of accepted transactions, in their order. Each comes with its number and its value.

    One whose lines fail has none, and is noted. `has_gaps`: whether some between them are left, or ran before.
    """
    make = _find_lines(workload)
    contents: list[Any] = []
    numbers: list[int] = []
    follows: int | None = None
    for transaction, number, value in accepted:
        if has_gaps and number != follows:
            _write(contents, numbers, sink, failures)
            contents, numbers = [], []
            sink.begin_row(number)
        follows = number + 1
        try:
            for line in make(transaction, number, value):
                if type(line) is not Line:
                    _refuse(line)
                contents.append(line.content)
                numbers.append(number)
        except BaseException as raised:  # noqa: BLE001 - `add` raises what is not of this one alone
            failures.add(raised, number)
            kept = bisect_left(numbers, number)
            del contents[kept:], numbers[kept:]
            has_gaps, follows = True, None
        if len(contents) >= _AT_ONCE:
            if not _write(contents, numbers, sink, failures):
                has_gaps, follows = True, None
            contents, numbers = [], []
    _write(contents, numbers, sink, failures)


def _find_lines(workload: AnyWorkload) -> Callable[[Any, int, Any], Iterable[Line]]:
    make: Callable[[Any, int, Any], Iterable[Line]] | None = getattr(workload, "lines", None)
    if make is None:
        raise ValueError(
            f"this job has lines of its transactions, and workload {workload.name!r} makes none here: deploy the one that does"
        )
    return make


def _refuse(line: object) -> NoReturn:
    raise TypeError(f"lines yielded a {type(line).__name__}, expected Line")


def _write(contents: Sequence[Any], numbers: Sequence[int], sink: LineSink, failures: Failures) -> bool:
    """Write the lines of neighbours. False: those of some failed, and a row ended with each of them."""
    if not contents:
        return True
    text = _encode(contents)
    if text is not None:
        sink.add(text, len(contents))
        return True
    is_apart, has_failed = False, False
    for number, each in groupby(zip(numbers, contents, strict=True), key=itemgetter(0)):
        try:
            lines = [_encode_line(content) for _, content in each]
        except BaseException as raised:  # noqa: BLE001 - `add` raises what is not of this one alone
            failures.add(raised, number)
            is_apart = has_failed = True
            continue
        if is_apart:
            sink.begin_row(number)
            is_apart = False
        for line in lines:
            sink.add(line, 1)
    return not has_failed


def _encode(contents: Sequence[Any]) -> bytes | None:
    """Return all in one. None: they have to be encoded one by one, which finds the one at fault."""
    try:
        text = _encoder.encode_lines(contents)
    except Exception:  # noqa: BLE001 - encoding them one by one raises it again, with the transaction
        return None
    # Only raw JSON of the workload's own has line feeds inside.
    are_objects = text.startswith(b"{") and text.count(b"\n{") == len(contents) - 1
    return text if are_objects and text.count(b"\n") == len(contents) and len(text) <= LINE_MOST else None


def _encode_line(content: Any) -> bytes:
    """Return one line, or raise if it is no JSON object or too long."""
    # Valid JSON has no line feed inside a string, so a blank replaces each.
    line = _encoder.encode(content).replace(b"\n", b" ") + b"\n"
    if not line.startswith(b"{"):
        raise TypeError(f"a line is no JSON object: {line[:_SHOWN].decode(errors='replace').strip()}")
    if len(line) > LINE_MOST:
        raise ValueError(f"a line has {len(line)} bytes, the limit is {LINE_MOST}: make several of it")
    return line


class LinesAlone:
    """A workload that has `lines` and no totals, with the four parts that it leaves out."""

    partial = type(None)

    def __init__(self, workload: Any) -> None:
        for name in dir(workload):
            if not name.startswith("_"):
                # As attributes of its own, so that no call takes a way around.
                setattr(self, name, getattr(workload, name))

    def combine(self, _mapped: Sequence[Any], /) -> None:
        """Return the partial, which is nothing."""

    def merge(self, _left: None, _right: None, /) -> None:
        """Return nothing of nothing."""

    def finish(self, _partial: None, /) -> Iterable[Line]:
        """Yield nothing."""
        return ()
