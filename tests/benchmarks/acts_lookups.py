"""What a message pays for acts that nobody uses: the look for a halt, and a field of its form that is not there.

By turns, in one process: a round without and a round with, many times over. The median of the differences counts.
"""

import statistics
import time
from collections.abc import Callable, Iterator
from typing import Any, Final

import msgspec

from shared.concurrency import Fleet, Following
from shared.messages import ChunkMessage
from tests.benchmarks.acts_row import Row

#: Messages of a round, and rounds.
MESSAGES, ROUNDS = 2_000, 400
#: Microseconds of CPU that a message may cost more.
MOST: Final = 0.2
_CHUNK: Final = ChunkMessage(
    job="rate-1", chunk=7, revision=1, workload="rate", codec="zstd", frames=[(0, 4096, 8_000, "0" * 64)], first_id=1
)


def measure() -> Iterator[Row]:
    """Measure both."""
    following = object.__new__(Following)
    following._fleet = Fleet()
    yield _row("look for a halt", _plain, lambda: following.is_halted(_CHUNK.job, _CHUNK.halts))
    names = [name for name in ChunkMessage.__struct_fields__ if name != "halts"]
    hints = msgspec.structs.fields(ChunkMessage)
    fields: list[Any] = [
        (one.name, one.type) if one.required else (one.name, one.type, one.default)
        for one in hints
        if one.name in names
    ]
    before: Any = msgspec.defstruct(
        "Before", fields, frozen=True, kw_only=True, tag_field="kind", tag="chunk", omit_defaults=True
    )
    same = before(**{name: getattr(_CHUNK, name) for name in names})
    text = msgspec.json.encode(_CHUNK)
    if msgspec.json.encode(same) != text:
        raise RuntimeError("an act that nobody uses changes the bytes of a chunk message")
    readers = [msgspec.json.Decoder(kind) for kind in (before, ChunkMessage)]
    pairs = zip(readers, (same, _CHUNK), strict=True)
    old, new = (_read_and_write(reader, one, text) for reader, one in pairs)
    yield _row("a field that is left out, read and written", old, new)


def _plain() -> bool:
    return _CHUNK.halts < 0


def _read_and_write(reader: Any, one: Any, text: bytes) -> Callable[[], Any]:
    def act() -> None:
        reader.decode(text)
        msgspec.json.encode(one)

    return act


def _row(what: str, without: Callable[[], Any], with_it: Callable[[], Any]) -> Row:
    _time(without), _time(with_it)
    more = statistics.median(_time(with_it) - _time(without) for _ in range(ROUNDS))
    found = f"{more:+.3f} µs a message, {ROUNDS} rounds by turns"
    return Row(f"not used: {what}", found, f"{MOST} µs", more <= MOST)


def _time(act: Callable[[], Any]) -> float:
    """Return the microseconds of CPU of one."""
    began = time.thread_time_ns()
    for _ in range(MESSAGES):
        act()
    return (time.thread_time_ns() - began) / MESSAGES / 1000
