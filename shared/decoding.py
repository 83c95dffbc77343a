"""Reads JSON into types, from several threads.

msgspec works out a type when it is first used, and shares what it has so far with every other user. A second thread that
uses the type meanwhile ends the whole process with a segmentation fault (0.22). An instance that starts with several
messages does just that. So all types are worked out here, one at a time, before they are used.
"""

from threading import Lock
from typing import Any, Final, TypeVar, overload

import msgspec

T = TypeVar("T")
_known: Final[set[Any]] = set()
_lock: Final = Lock()


@overload
def decode(content: bytes | str, kind: type[T]) -> T: ...
@overload
def decode(content: bytes | str, kind: Any) -> Any: ...
def decode(content: bytes | str, kind: Any) -> Any:
    """Read JSON of this type."""
    _work_out(kind)
    return msgspec.json.decode(content, type=kind)


@overload
def convert(value: Any, kind: type[T]) -> T: ...
@overload
def convert(value: Any, kind: Any) -> Any: ...
def convert(value: Any, kind: Any) -> Any:
    """Make this type of what JSON was read into."""
    _work_out(kind)
    return msgspec.convert(value, kind)


@overload
def make_decoder(kind: type[T]) -> msgspec.json.Decoder[T]: ...
@overload
def make_decoder(kind: Any) -> msgspec.json.Decoder[Any]: ...
def make_decoder(kind: Any) -> msgspec.json.Decoder[Any]:
    """Return a decoder for many documents of this type."""
    _work_out(kind)
    return msgspec.json.Decoder(kind)


def _work_out(kind: Any) -> None:
    if kind not in _known:
        with _lock:
            msgspec.json.Decoder(kind)
            _known.add(kind)
