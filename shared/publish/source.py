"""Sources of transactions: a file of lines from any tool, or objects of the publisher's own program."""

from collections.abc import Iterable, Iterator
from typing import IO, Any, Final

import msgspec

from shared.payload.compression import expand_file, sniff
from shared.payload.limits import Limits
from shared.payload.lines import split_lines
from shared.payload.reasons import Reason, refuse

_ENCODER: Final = msgspec.json.Encoder()
_HEAD: Final = 4


def read_file(file: IO[bytes], limits: Limits | None = None) -> Iterator[tuple[int, bytes]]:
    """Yield the numbered lines of a file of newline-delimited JSON: plain, gzip or zstd, recognised by its first bytes."""
    bounds = limits or Limits()
    head = file.read(_HEAD)
    yield from split_lines(expand_file(_pieces(head, file, bounds.spool_in_memory), sniff(head), bounds), bounds)


def encode_all(transactions: Iterable[Any]) -> Iterator[tuple[int, bytes]]:
    """Yield the numbered lines of objects: dictionaries, msgspec structs, dataclasses, or bytes that are lines already."""
    for number, transaction in enumerate(transactions, 1):
        yield number, _encode(number, transaction)


def _encode(number: int, transaction: Any) -> bytes:
    if isinstance(transaction, bytes):
        return transaction.replace(b"\n", b" ")
    try:
        line = _ENCODER.encode(transaction)
    except (TypeError, ValueError, RecursionError) as error:
        raise refuse(Reason.NOT_JSON, f"transaction {number}: {error}") from error
    # The encoder writes NaN as null, which would change an amount silently.
    if b"null" in line and _has_nan(msgspec.to_builtins(transaction)):
        raise refuse(Reason.NOT_A_NUMBER, f"transaction {number} holds NaN or Infinity")
    return line


def _has_nan(value: Any) -> bool:
    if isinstance(value, dict):
        return any(map(_has_nan, value.values()))
    if isinstance(value, list | tuple):
        return any(map(_has_nan, value))
    return isinstance(value, float) and not float("-inf") < value < float("inf")


def _pieces(head: bytes, file: IO[bytes], size: int) -> Iterator[bytes]:
    yield head
    while piece := file.read(size):
        yield piece
