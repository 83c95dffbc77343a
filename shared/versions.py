"""The versions of documents that this program reads, and the one rule for a newer one.

A `v` is the meaning: a document whose meaning changes gets a higher one, even if an older reader could parse it. What
is newer than its reader is not wrong. A newer program runs beside this one, or ran before it was rolled back. So the reader
raises NewerVersionError, and its message is delivered again, to a newer instance in the end. After `LOOKS` deliveries the
message is parked: then no newer instance is there.

A release reads a version before the next release writes it. So two neighbouring releases work on one storage.

JSON is read into types here, from several threads. msgspec works out a type when it is first used, and shares what it has so
far with every other user. A second thread that uses the type meanwhile ends the whole process with a segmentation fault
(0.22). An instance that starts with several messages does just that. So all types are worked out here, one at a time.
"""

import re
from collections.abc import Mapping
from threading import Lock
from types import MappingProxyType
from typing import Any, Final, TypeVar, overload

import msgspec
from msgspec import Struct

from shared.errors import NewerVersionError

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


#: The newest version that is read, by the kind of a message and by the name of any other document.
READS: Final[Mapping[str, int]] = MappingProxyType(
    {
        # Messages of the stages. A chunk of version 2 takes a part of its frames, one of version 3 makes lines. A result of
        # version 2 has streams.
        "dispatch": 1,
        "chunk": 3,
        "result": 2,
        "results": 1,
        "finish": 1,
        "segment": 1,
        "shard": 1,
        "range": 1,
        "completed": 1,
        # Messages that belong on other queues, so that no stage takes one for the work of a newer version.
        "submission": 1,
        "work": 1,
        "release": 1,
        "commands": 1,
        "events": 1,
        # Blobs. A finish plan of version 2 has cuts, one of version 3 has more of them than shards, one of version 4 is of a rerun.
        "plan": 1,
        "finish plan": 4,
        "segment result": 1,
        "manifest": 1,
        "shard result": 1,
        "span result": 1,
        "places": 1,
        "chunk result": 2,
        "so far": 1,
        "gate": 1,
        "roll": 1,
        "timetables": 1,
        "cut range": 1,
        "sequence": 1,
        "parked line": 1,
        "warm record": 1,
    }
)
#: Deliveries of a message that wait for a newer instance. Queues and the settler leave half a minute between two, so they
#: take ten minutes. A process that stops gives messages back at once, which few of them do in that time.
LOOKS: Final = 20
_KIND: Final = re.compile(r"[a-z][a-z_]{0,39}", re.ASCII)
#: Above every version that Sluice will have: a larger number is a fault of its writer.
_MOST: Final = 1000


class _VersionAlone(Struct):
    v: int = 1


class _MessageHead(Struct):
    kind: str
    v: int = 1


class _WrappedHead(Struct):
    sluice: _MessageHead


def check_version(document: str, found: int, where: str) -> None:
    """Raise NewerVersionError if the document is newer than this program."""
    _check(document, READS[document], found, where)


def _check(document: str, known: int, found: int, where: str) -> None:
    if known < found <= _MOST:
        raise NewerVersionError(
            f"{where} is a {document} of version {found}, and this program reads up to version {known}: "
            "deploy the newer version of Sluice that wrote it"
        )


def decode_document(content: bytes, kind: type[Any], document: str, where: str) -> Any:
    """Read a document with a `v`. Raises NewerVersionError, or the decoder's errors for one that no version wrote."""
    try:
        found = decode(content, kind)
    except (ValueError, RecursionError):
        # Only now, so that the ordinary document is read once.
        check_version(document, _version_of(content), where)
        raise
    check_version(document, found.v, where)
    return found


def _version_of(content: bytes) -> int:
    try:
        return decode(content, _VersionAlone).v
    except (ValueError, RecursionError):
        return 1


def check_message(body: bytes, where: str) -> None:
    """Raise NewerVersionError if a message has a higher version of its kind, or is of a kind that no queue here knows.

    Its head must be well-formed: a kind in small letters, and a version from 1. Any other body is no message of Sluice.
    """
    try:
        head = decode(body, _WrappedHead).sluice
    except (ValueError, RecursionError):
        return
    if head.kind in READS:
        check_version(head.kind, head.v, where)
    elif _KIND.fullmatch(head.kind) and 1 <= head.v <= _MOST:
        raise NewerVersionError(
            f"{where} is of kind {head.kind!r}, which this program does not know: deploy the newer version of Sluice that sent it"
        )


def check_public_message(body: bytes, where: str) -> None:
    """Raise NewerVersionError if a publisher's or a customer's message names a kind and a higher version.

    Their kinds all have the version of a submission. A message without a kind was written by hand, and for no version.
    """
    try:
        head = decode(body, _WrappedHead).sluice
    except (ValueError, RecursionError):
        return
    if _KIND.fullmatch(head.kind):
        _check(head.kind, READS["submission"], head.v, where)
