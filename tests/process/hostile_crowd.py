"""What a publisher may send that takes much memory of whoever works on it: each within the bounds, all of it at once."""

import hashlib
import json
import random
from collections.abc import Iterator
from dataclasses import dataclass, field

import zstandard

from shared.payload.frames import Codec, compress
from tests.payload.hostile import zstd_unsized

MIB = 1024 * 1024
GATE = "never"


@dataclass(frozen=True)
class Sent:
    """A submission with its blobs, and how its job must end."""

    job: str
    fields: dict[str, object]
    blobs: dict[str, bytes] = field(default_factory=dict)
    state: str = "complete"

    @property
    def message(self) -> bytes:
        """The message."""
        return json.dumps({"sluice": {"job": self.job, **self.fields}}).encode()


def crowd() -> Iterator[Sent]:
    """Yield every submission."""
    # All of them are rejected, which would pause the job before its end.
    yield _framed("braces", [_braces(frame) for frame in range(4)], most_rejected="100%")
    yield _framed("long", [_long(frame) for frame in range(16 * 3)])
    yield _framed("windows", [_unsized(frame) for frame in range(16 * 2)])
    for number in range(2):
        yield _framed(f"text-{number}", [_text(number * 8 + frame) for frame in range(8)])
    yield _framed("accounts", [_accounts(frame, 5_000) for frame in range(1)])
    # Three times the same accounts: each is a row, and the stand-in of the tables takes long for one.
    yield _framed("more-accounts", [_accounts(frame % 3, 50_000) for frame in range(9)])
    for number in range(2):
        yield _index(f"index-{number}", 100_000)
    for number in range(24):
        yield _file(f"file-{number}")


def _framed(
    job: str, frames: list[tuple[bytes, int]], state: str = "complete", codec: str = "zstd", **more: object
) -> Sent:
    rows, stored, offset = [], b"".join(frame for frame, _ in frames), 0
    for frame, items in frames:
        rows.append((offset, len(frame), items, _sha(frame)))
        offset += len(frame)
    index = json.dumps(rows, separators=(",", ":")).encode()
    blob = f"{job}/{_sha(stored)}"
    payload = {"blob": blob, "codec": codec, "index": _sha(index)}
    return Sent(job, {"payload": payload, **more}, {blob: stored, f"{job}/{_sha(index)}": index}, state)


def _braces(seed: int) -> tuple[bytes, int]:
    """As many lines as a frame may have, each of which is rejected; a few random ones, or the index is not believed."""
    noise = [b"%x" % random.Random(seed * 100 + n).getrandbits(128) for n in range(60)]
    return compress(b"{}\n" * (100_000 - len(noise)) + b"\n".join([*noise, b""]), Codec.ZSTD), 100_000


def _long(seed: int) -> tuple[bytes, int]:
    """Four MiB of lines as long as they may be, each a text of four bytes a character in memory."""
    noise = random.Random(seed).randbytes(10_000).hex()
    account = f"{noise}{'x' * (262_080 - len(noise))}😀"
    line = f'{{"account":"{account}","plan":"basic","quantity":"1"}}\n'
    return compress(line.encode() * 15, Codec.ZSTD), 15


def _unsized(seed: int) -> tuple[bytes, int]:
    """Four MiB that do not say their size, and want the largest window that is given."""
    noise = random.Random(seed).randbytes(10_000).hex()
    line = f'{{"account":"a","plan":"basic","quantity":"1","x":"{noise}{"y" * 45_000}"}}\n'.encode()
    return zstd_unsized(line * (4 * MIB // len(line)), window_log=23), 4 * MIB // len(line)


def _text(seed: int) -> tuple[bytes, int]:
    """A thousand rejected lines of four KiB that no compression makes smaller."""
    source = random.Random(seed)
    return compress(b"".join(b"%s\n" % source.randbytes(2_040).hex().encode() for _ in range(1_000)), Codec.ZSTD), 1_000


def _accounts(frame: int, items: int) -> tuple[bytes, int]:
    first = frame * items
    lines = (b'{"account":"%x","plan":"basic","quantity":"1"}\n' % n for n in range(first, first + items))
    return compress(b"".join(lines), Codec.ZSTD), items


def _index(job: str, frames: int) -> Sent:
    return _framed(job, [(b'{"account":"a","plan":"basic","quantity":"1"}\n', 1)] * frames, "held", "plain", gate=GATE)


def _file(job: str) -> Sent:
    """A file without an index, of short and long lines, with a large window."""
    noise = random.Random(job).randbytes(60_000).hex().encode()
    text = b"{}\n" * 50_000 + (b'{"x":"%s%s"}\n' % (noise, b"y" * 140_000)) * 40
    parameters = zstandard.ZstdCompressionParameters.from_level(3, window_log=23)
    packed = zstandard.ZstdCompressor(compression_params=parameters).compressobj()
    return Sent(
        job,
        {"payload": {"blob": f"up/{job}.zst"}, "gate": GATE},
        {f"up/{job}.zst": packed.compress(text) + packed.flush()},
        "held",
    )


def _sha(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
