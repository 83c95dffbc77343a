"""Compresses frames, and expands compressed bytes of publishers within bounds.

A frame is exactly one compressed member. A file may have several, one after the other.
"""

import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from enum import StrEnum
from functools import partial
from typing import Final, Protocol

import zstandard

from shared.payload.payload_store import MIB, Limits
from shared.refusals import Reason, refuse


class Codec(StrEnum):
    """How a payload is compressed."""

    ZSTD = "zstd"
    GZIP = "gzip"
    PLAIN = "plain"


_MAGIC: Final = {Codec.ZSTD: b"\x28\xb5\x2f\xfd", Codec.GZIP: b"\x1f\x8b"}
_SKIPPED: Final = b"\x2a\x4d\x18"
#: Compressed bytes per step. The densest zstd block expands 4 bytes to 128 KiB, deflate expands one byte to 1,032.
#: Either way a step makes at most 8 MiB, so a bomb is refused before it fills the memory.
_STEP: Final = {Codec.ZSTD: 256, Codec.GZIP: 4096, Codec.PLAIN: 64 * 1024}
#: The window of `zstd -19`. Only --long and --ultra need more.
_WINDOW: Final = 8 * MIB
_GZIP: Final = zlib.MAX_WBITS | 16


class _Expander(Protocol):
    @property
    def eof(self) -> bool: ...
    @property
    def unused_data(self) -> bytes: ...
    def decompress(self, data: bytes, /) -> bytes: ...


def compress(data: bytes, codec: Codec) -> bytes:
    """Return the data as one frame. The same data and library always make the same bytes."""
    if codec is Codec.ZSTD:
        return zstandard.ZstdCompressor(level=1).compress(data)
    if codec is Codec.GZIP:
        packer = zlib.compressobj(1, wbits=_GZIP)
        return packer.compress(data) + packer.flush()
    return data


def sniff(head: bytes) -> Codec:
    """Return the codec of a file by its first bytes."""
    # Tools that compress in parallel begin with a skippable frame, whose first byte is one of sixteen.
    if head[1:4] == _SKIPPED:
        return Codec.ZSTD
    return next((codec for codec, magic in _MAGIC.items() if head.startswith(magic)), Codec.PLAIN)


def expand_at_most(stored: int, codec: Codec, limits: Limits) -> int:
    """Return the bytes that a frame of so many stored bytes may expand to. One that expands further is refused."""
    if codec is Codec.PLAIN:
        return stored
    return min(limits.frame_expanded_most, max(limits.ratio_from, stored * limits.ratio_most))


def expand_exactly(frame: bytes, codec: Codec, limits: Limits) -> int:
    """Return the expanded size that a frame claims, within the bound. One that expands further is refused."""
    most = expand_at_most(len(frame), codec, limits)
    if codec is Codec.GZIP:
        return min(most, int.from_bytes(frame[-4:], "little"))
    if codec is Codec.ZSTD:
        with suppress(zstandard.ZstdError):
            # Without a claimed size, the library returns a number larger than any bound.
            return min(most, zstandard.get_frame_parameters(frame).content_size)
    return most


def expand_frame(frame: bytes, codec: Codec, limits: Limits) -> bytes:
    """Return the expanded bytes of one frame, or refuse it: it must be one whole member with nothing behind it."""
    if codec is Codec.PLAIN:
        return frame
    if (quick := _expand_at_once(frame, codec, limits)) is not None:
        return quick
    expander, parts, size = _expanders(codec)(), [], 0
    claimed = expand_exactly(frame, codec, limits)
    for fed in range(0, len(frame), _STEP[codec]):
        part = _feed(expander, frame[fed : fed + _STEP[codec]], codec)
        size += len(part)
        _check_size(size, fed + _STEP[codec], len(frame), limits, Reason.FRAME_TOO_LARGE)
        parts.append(part)
        if size > claimed:
            # It will be refused at its end at the latest, and memory is held only for the size it claimed.
            parts.clear()
        if expander.eof:
            _refuse_rest(expander.unused_data + frame[fed + _STEP[codec] :], codec)
            return b"".join(parts)
    raise refuse(
        Reason.TRUNCATED, f"its {len(frame)} bytes expand to {size} bytes and end before the compressed data does"
    )


def expand_file(pieces: Iterable[bytes], codec: Codec, limits: Limits) -> Iterator[bytes]:
    """Yield the expanded bytes of a file, piece by piece. It may have several members, like the output of `cat a.gz b.gz`."""
    taken = made = 0
    for piece, part in _expand_members(pieces, codec, limits):
        taken += len(piece)
        made += len(part)
        _check_size(made, taken, taken, limits, Reason.PAYLOAD_TOO_LARGE)
        yield part


def _expand_members(pieces: Iterable[bytes], codec: Codec, limits: Limits) -> Iterator[tuple[bytes, bytes]]:
    if codec is Codec.PLAIN:
        yield from ((piece, piece) for piece in pieces)
        return
    make = _expanders(codec)
    expander, is_inside, members = make(), False, 1
    for piece in pieces:
        for fed in range(0, len(piece), _STEP[codec]):
            step = piece[fed : fed + _STEP[codec]]
            counted = step
            while step:
                if expander.eof:
                    expander, members = make(), members + 1
                    _check_members(members, limits)
                yield counted, _feed(expander, step, codec)
                # A member that ended may leave the beginning of the next one. Its bytes are counted already.
                step, counted, is_inside = expander.unused_data, b"", not expander.eof
    if is_inside:
        raise refuse(Reason.TRUNCATED, "the file ends inside its compressed data")


def _check_members(members: int, limits: Limits) -> None:
    if members > limits.members_most:
        raise refuse(
            Reason.TOO_MANY_ITEMS, f"it has {members} compressed members or more, the limit is {limits.members_most}"
        )


def _expand_at_once(frame: bytes, codec: Codec, limits: Limits) -> bytes | None:
    """Return the expanded bytes of a frame that claims a size within the bound and keeps to it. None: read it with reasons."""
    if codec is not Codec.ZSTD:
        return None
    try:
        size = zstandard.get_frame_parameters(frame).content_size
        most = expand_at_most(len(frame), codec, limits)
        # The library reads no further in a frame that claims to be empty.
        if not 0 < size <= most:
            return None
        return _zstd().decompress(frame, max_output_size=limits.frame_expanded_most, allow_extra_data=False)
    except zstandard.ZstdError:
        return None


def _check_size(made: int, taken: int, whole: int, limits: Limits, too_large: Reason) -> None:
    if made > limits.ratio_from and made > whole * limits.ratio_most:
        raise refuse(
            Reason.EXPANDS_TOO_FAR,
            f"{whole} bytes expand to {made} or more, the limit is {limits.ratio_most} times their size",
        )
    most = limits.frame_expanded_most if too_large is Reason.FRAME_TOO_LARGE else limits.expanded_most
    if made > most:
        is_bomb = made > taken * limits.ratio_most
        raise refuse(
            Reason.EXPANDS_TOO_FAR if is_bomb else too_large,
            f"it expands to {made} bytes or more, the limit is {most}",
        )


def _refuse_rest(rest: bytes, codec: Codec) -> None:
    if rest.startswith(_MAGIC[codec]):
        raise refuse(Reason.SEVERAL_MEMBERS, f"another member begins {len(rest)} bytes before its end")
    if rest:
        raise refuse(Reason.TRAILING_BYTES, f"{len(rest)} bytes follow its end")


def _feed(expander: _Expander, step: bytes, codec: Codec) -> bytes:
    try:
        return expander.decompress(step)
    except (zlib.error, zstandard.ZstdError) as error:
        reason = Reason.WINDOW_TOO_LARGE if "too much memory" in str(error) else Reason.CORRUPT
        raise refuse(reason, f"the {codec} library refuses it: {error}") from error


def _expanders(codec: Codec) -> Callable[[], _Expander]:
    """Return a factory of expanders, one per member. Used one after the other, they share their memory."""
    return _zstd().decompressobj if codec is Codec.ZSTD else partial(zlib.decompressobj, _GZIP)


def _zstd() -> zstandard.ZstdDecompressor:
    return zstandard.ZstdDecompressor(max_window_size=_WINDOW)
