"""Compresses frames, and expands what others sent within bounds, without ever joining what are several things."""

import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from enum import StrEnum
from functools import partial
from typing import Final, Protocol

import zstandard

from shared.payload.limits import MIB, Limits
from shared.refusals import Reason, refuse


class Codec(StrEnum):
    """How a payload is compressed."""

    ZSTD = "zstd"
    GZIP = "gzip"
    PLAIN = "plain"


_MAGIC: Final = {Codec.ZSTD: b"\x28\xb5\x2f\xfd", Codec.GZIP: b"\x1f\x8b"}
_SKIPPED: Final = b"\x2a\x4d\x18"
#: How much is fed at a time. The densest zstd block makes 128 KiB of 4 bytes, deflate 1,032 bytes of one: either way
#: a step makes at most 8 MiB, so a bomb is seen before it is in memory.
_STEP: Final = {Codec.ZSTD: 256, Codec.GZIP: 4096, Codec.PLAIN: 64 * 1024}
#: What `zstd -19` uses; more is only asked for by --long and --ultra.
_WINDOW: Final = 8 * MIB
_GZIP: Final = zlib.MAX_WBITS | 16


class _Expander(Protocol):
    @property
    def eof(self) -> bool: ...
    @property
    def unused_data(self) -> bytes: ...
    def decompress(self, data: bytes, /) -> bytes: ...


def compress(data: bytes, codec: Codec) -> bytes:
    """Return the data as one frame; the same data and library always make the same bytes."""
    if codec is Codec.ZSTD:
        return zstandard.ZstdCompressor(level=1).compress(data)
    if codec is Codec.GZIP:
        packer = zlib.compressobj(1, wbits=_GZIP)
        return packer.compress(data) + packer.flush()
    return data


def sniff(head: bytes) -> Codec:
    """Return the codec of a file by its first bytes."""
    # Tools that compress in parallel begin with a frame to be skipped; its first byte is one of sixteen.
    if head[1:4] == _SKIPPED:
        return Codec.ZSTD
    return next((codec for codec, magic in _MAGIC.items() if head.startswith(magic)), Codec.PLAIN)


def expand_at_most(stored: int, codec: Codec, limits: Limits) -> int:
    """Return how much a frame of so many bytes may hold; what holds more is refused."""
    if codec is Codec.PLAIN:
        return stored
    return min(limits.frame_expanded_most, max(limits.ratio_from, stored * limits.ratio_most))


def expand_exactly(frame: bytes, codec: Codec, limits: Limits) -> int:
    """Return how much a frame says that it holds; of one that holds more nothing is kept, and it is refused."""
    most = expand_at_most(len(frame), codec, limits)
    if codec is Codec.GZIP:
        return min(most, int.from_bytes(frame[-4:], "little"))
    if codec is Codec.ZSTD:
        with suppress(zstandard.ZstdError):
            # Of a frame that does not say it, it is larger than anything.
            return min(most, zstandard.get_frame_parameters(frame).content_size)
    return most


def expand_frame(frame: bytes, codec: Codec, limits: Limits) -> bytes:
    """Return what one frame holds, or refuse it: it must be one member, whole, with nothing behind it."""
    if codec is Codec.PLAIN:
        return frame
    if (quick := _expand_at_once(frame, codec, limits)) is not None:
        return quick
    expander, parts, size = _expanders(codec)(), [], 0
    said = expand_exactly(frame, codec, limits)
    for fed in range(0, len(frame), _STEP[codec]):
        part = _feed(expander, frame[fed : fed + _STEP[codec]], codec)
        size += len(part)
        _check_size(size, fed + _STEP[codec], len(frame), limits, Reason.FRAME_TOO_LARGE)
        parts.append(part)
        if size > said:
            # It will be refused for whatever comes at its end, and memory was asked for by what it said.
            parts.clear()
        if expander.eof:
            _refuse_rest(expander.unused_data + frame[fed + _STEP[codec] :], codec)
            return b"".join(parts)
    raise refuse(Reason.TRUNCATED, f"its {len(frame)} bytes expand to {size} and want more")


def expand_file(pieces: Iterable[bytes], codec: Codec, limits: Limits) -> Iterator[bytes]:
    """Yield what a file holds, piece by piece; it may have several members, as `cat a.gz b.gz` makes them."""
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
                # A member that ended may leave the beginning of the next one; its bytes are counted already.
                step, counted, is_inside = expander.unused_data, b"", not expander.eof
    if is_inside:
        raise refuse(Reason.TRUNCATED, "the file ends inside its compressed data")


def _check_members(members: int, limits: Limits) -> None:
    if members > limits.members_most:
        raise refuse(Reason.TOO_MANY_ITEMS, f"it is compressed in {members} members or more")


def _expand_at_once(frame: bytes, codec: Codec, limits: Limits) -> bytes | None:
    """Return what a frame holds when it says a size within the bounds and keeps to it; no reasons are given here."""
    if codec is not Codec.ZSTD:
        return None
    try:
        size = zstandard.get_frame_parameters(frame).content_size
        most = expand_at_most(len(frame), codec, limits)
        # Of a frame that says it is empty the library reads nothing else.
        if not 0 < size <= most:
            return None
        return _zstd().decompress(frame, max_output_size=limits.frame_expanded_most, allow_extra_data=False)
    except zstandard.ZstdError:
        return None


def _check_size(made: int, taken: int, whole: int, limits: Limits, too_large: Reason) -> None:
    if made > limits.ratio_from and made > whole * limits.ratio_most:
        raise refuse(Reason.EXPANDS_TOO_FAR, f"{whole} bytes expand to {made} or more")
    if made > (limits.frame_expanded_most if too_large is Reason.FRAME_TOO_LARGE else limits.expanded_most):
        is_bomb = made > taken * limits.ratio_most
        raise refuse(Reason.EXPANDS_TOO_FAR if is_bomb else too_large, f"it expands to {made} bytes or more")


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
        raise refuse(reason, f"as {codec} it is refused with: {error}") from error


def _expanders(codec: Codec) -> Callable[[], _Expander]:
    """Return what makes an expander for one member; used one after the other they share their memory."""
    return _zstd().decompressobj if codec is Codec.ZSTD else partial(zlib.decompressobj, _GZIP)


def _zstd() -> zstandard.ZstdDecompressor:
    return zstandard.ZstdDecompressor(max_window_size=_WINDOW)
