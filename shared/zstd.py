"""Frames of zstd: the standard library's from Python 3.14 on, and its backport before that.

The backport has the same names and version of zstd, so this is the only module that knows which of the two there is.
"""

import sys
from collections.abc import Iterator
from typing import Final, cast

if sys.version_info >= (3, 14):
    from compression import zstd as _zstd
else:
    from backports import zstd as _zstd

#: What a frame begins with.
MAGIC: Final = b"\x28\xb5\x2f\xfd"
#: The size of a frame that claims none: larger than any bound.
UNKNOWN_SIZE: Final = sys.maxsize

Expander = _zstd.ZstdDecompressor
ZstdError = _zstd.ZstdError
#: Reads a file of several frames, one after the other.
ZstdFile = _zstd.ZstdFile


def make_packer(level: int, *, has_checksum: bool = False) -> _zstd.ZstdCompressor:
    """Return what compresses one frame, piece by piece."""
    options: dict[int, int] = {_zstd.CompressionParameter.compression_level: level}
    if has_checksum:
        options[_zstd.CompressionParameter.checksum_flag] = 1
    return _zstd.ZstdCompressor(options=options)


def pack(data: bytes, level: int, *, has_checksum: bool = False) -> bytes:
    """Return the data as one frame, which says its size."""
    packer = make_packer(level, has_checksum=has_checksum)
    return packer.compress(data, packer.FLUSH_FRAME)


def read_size(frame: bytes) -> int:
    """Return the expanded size that a frame claims."""
    # The backport's types do not say that a frame may claim none.
    size = cast("int | None", _zstd.get_frame_info(frame).decompressed_size)
    return UNKNOWN_SIZE if size is None else size


def unpack(frame: bytes, most: int = UNKNOWN_SIZE) -> bytes:
    """Return the expanded bytes of one whole frame with nothing behind it. Beyond `most`, it is read no further."""
    data, rest = unpack_first(frame, most)
    if rest:
        raise ZstdError(f"{len(rest)} bytes follow the frame's end")
    return data


def unpack_each(frames: bytes) -> Iterator[bytes]:
    """Yield the expanded bytes of frames that lie side by side."""
    while frames:
        data, frames = unpack_first(frames)
        yield data


def unpack_first(frames: bytes, most: int = UNKNOWN_SIZE) -> tuple[bytes, bytes]:
    """Return the expanded bytes of the first frame, and what is behind it. Beyond `most`, it is read no further."""
    expander = Expander()
    data = expander.decompress(frames, most)
    if not expander.eof:
        raise ZstdError(f"the frame's {len(frames)} bytes are not whole, or expand to more than {most} bytes")
    return data, expander.unused_data


def make_expander(window_most: int) -> Expander:
    """Return what expands one frame, piece by piece, and refuses one with a larger window."""
    return Expander(options={_zstd.DecompressionParameter.window_log_max: window_most.bit_length() - 1})
