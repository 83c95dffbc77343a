"""Where a mark is still found: in plain text, in Base64, and in compressed bytes, within each other."""

import base64
import re
import zlib
from contextlib import suppress
from dataclasses import fields, is_dataclass

import zstandard

_ZSTD, _GZIP = b"\x28\xb5\x2f\xfd", b"\x1f\x8b\x08"
#: Shorter texts of Base64 hold no frame.
_BASE64 = re.compile(rb"[A-Za-z0-9+/]{24,}={0,2}")
#: As deep as a result in a message that was parked, in a file of such messages.
_DEEPEST = 4


def has_mark(content, mark, depth=0):
    """Check whether bytes hold a mark, as they are or unpacked."""
    if mark in content:
        return True
    return depth < _DEEPEST and any(has_mark(inner, mark, depth + 1) for inner in _unpacked(content))


def _unpacked(content):
    for found in _BASE64.finditer(content):
        text = found[0]
        with suppress(ValueError):
            yield base64.b64decode(text[: len(text) // 4 * 4])
    for magic, make in ((_ZSTD, _expand_zstd), (_GZIP, _expand_gzip)):
        at = content.find(magic)
        while at >= 0:
            with suppress(zstandard.ZstdError, zlib.error):
                yield make(content[at:])
            at = content.find(magic, at + 1)


def _expand_zstd(content):
    return zstandard.ZstdDecompressor().decompressobj().decompress(content)


def _expand_gzip(content):
    return zlib.decompressobj(wbits=31).decompress(content)


def places_of(mark, found, path=""):
    """Yield where a mark is in nested dictionaries, lists, records and texts: storage in memory, and pages of a listing."""
    if isinstance(found, bytes | bytearray | memoryview | str):
        content = found.encode(errors="replace") if isinstance(found, str) else bytes(found)
        if has_mark(content, mark):
            yield path
        return
    for name, value in _parts(found):
        if has_mark(str(name).encode(errors="replace"), mark):
            yield f"{path}/{name}"
        yield from places_of(mark, value, f"{path}/{name}")


def _parts(found):
    if isinstance(found, dict):
        return found.items()
    if isinstance(found, list | tuple | set):
        return enumerate(found)
    if is_dataclass(found):
        return ((one.name, getattr(found, one.name)) for one in fields(found))
    return vars(found).items() if hasattr(found, "__dict__") else ()
