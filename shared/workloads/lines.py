"""The lines of accepted transactions, and a workload that makes nothing else."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, NoReturn, TypeAlias

import msgspec

from shared.parked import note_item
from shared.telemetry import contain
from shared.workloads.workload import AnyWorkload, Line

#: Takes whole lines, and how many they are.
Emit: TypeAlias = Callable[[bytes, int], object]
#: Upper bound of one line, with its line feed.
LINE_MOST: Final = 1024 * 1024
#: Lines that are encoded in one call, for a call costs as much as encoding one.
_AT_ONCE: Final = 256
_SHOWN: Final = 60
_encoder: Final = msgspec.json.Encoder()


def write_lines(workload: AnyWorkload, accepted: Iterable[tuple[Any, int, Any]], emit: Emit) -> None:
    """Emit the lines of accepted transactions, in their order. Each comes with its number and its value."""
    make: Callable[[Any, int, Any], Iterable[Line]] | None = getattr(workload, "lines", None)
    if make is None:
        raise ValueError(
            f"this job has lines of its transactions, and workload {workload.name!r} makes none here: deploy the one that does"
        )
    contents: list[Any] = []
    numbers: list[int] = []
    number = 0
    try:
        with contain():
            for transaction, number, value in accepted:
                for line in make(transaction, number, value):
                    if type(line) is not Line:
                        _refuse(line)
                    contents.append(line.content)
                    numbers.append(number)
                if len(contents) >= _AT_ONCE:
                    _emit(contents, numbers, emit)
                    contents, numbers = [], []
            if contents:
                _emit(contents, numbers, emit)
    except Exception as error:
        note_item(error, number)
        raise


def _refuse(line: object) -> NoReturn:
    raise TypeError(f"lines yielded a {type(line).__name__}, expected Line")


def _emit(contents: Sequence[Any], numbers: Sequence[int], emit: Emit) -> None:
    text = _encode(contents)
    if text is not None:
        emit(text, len(contents))
        return
    for content, number in zip(contents, numbers, strict=True):
        try:
            line = _encode_line(content)
        except Exception as error:
            note_item(error, number)
            raise
        emit(line, 1)


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
