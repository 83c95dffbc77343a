"""A file cut by ranges has the lines that a plain reader finds: each once, in order, whatever the file and the ranges are."""

import random
from functools import partial
from itertools import pairwise

import pytest

from shared.errors import NewerVersionError, RefusedError
from shared.payload import CutRange, Limits, Ranges, StoredBlob, expand_frame, read_cut, read_range, split_lines
from shared.payload.frames import Codec, Frame, Framing, frame_file, spool_for
from shared.payload.payload_store import MIB

FILES = 4_000
BOM = b"\xef\xbb\xbf"


def limits(block, step, **others):
    """Return limits with blocks and ranges so small."""
    return Limits(block_bytes=block, stretch_bytes=step, frame_items=3, **others)


def cut(content, start, end, bounds):
    """Return the lines of a range as its worker frames them."""
    asked = []

    def read(offset, length):
        assert 0 < length <= len(content) - offset
        asked.append((offset, length))
        return content[offset : offset + length]

    with spool_for(bounds) as spool:
        pieces = read_range(read, len(content), start, end, bounds)
        try:
            framed = frame_file(pieces, spool, Framing(limits=bounds, codec=Codec.ZSTD, before=min(1, start)))
        except RefusedError as refused:
            if refused.reason != "empty":
                raise
            return [], asked
        spool.seek(0)
        stored = spool.read()
    texts = [stored[one.offset : one.offset + one.length] for one in framed.index.frames]
    lines = b"".join(expand_frame(one, Codec.ZSTD, bounds) for one in texts).split(b"\n")[:-1]
    return lines, asked


def plain(content, bounds):
    """Return the lines of a whole file as the reader of before found them."""
    return [line for _, line in split_lines([content], bounds)]


def some_file(chance):
    """Return a file: long and short lines, blank ones, carriage returns, marks, and perhaps no last line feed."""
    ends = chance.choice([[b"\n"], [b"\r\n"], [b"\n", b"\r\n"], [b"\n", b"\n\n", b"\n  \n"]])
    longest = chance.choice([1, 4, 30])
    lines = [b"x" * chance.randint(0, longest) + b"%d" % number for number in range(chance.randint(0, 12))]
    if chance.random() < 0.2:
        lines.insert(0, b" " * chance.randint(1, 40))
    content = b"".join(line + chance.choice(ends) for line in lines)
    if chance.random() < 0.3:
        content = BOM + content
    if chance.random() < 0.2:
        content += BOM + b"late\n"
    if chance.random() < 0.4:
        content = content.rstrip(b"\r\n")
    return content


@pytest.mark.parametrize("seed", range(8))
def test_random_files_have_each_line_once_and_in_order(seed):
    """A line over several ranges, a range without a line, a mark in the middle: as one reader of the whole file."""
    chance = random.Random(seed)
    for _ in range(FILES // 8):
        content = some_file(chance)
        if not content:
            continue
        bounds = limits(chance.choice([1, 2, 7, 64, 200]), chance.randint(1, 39))
        ranges = Ranges.of(StoredBlob("uploads/x", "e", len(content)), bounds)
        found = [line for number in range(ranges.count) for line in cut(content, *ranges.bytes_of(number), bounds)[0]]
        assert found == plain(content, bounds), (seed, content, ranges, bounds.block_bytes)


def test_a_range_makes_a_request_for_each_block():
    """The end of its last line comes with its last block, and so does the byte before it with its first one."""
    content, bounds = b'{"a": 1}\n' * 1_000, limits(640, 3 * 640)
    _, asked = cut(content, 1_920, 3_840, bounds)
    assert asked == [(1_919, 641), (2_560, 640), (3_200, 650)]
    # Each byte once, in order.
    assert all(one[0] + one[1] == after[0] for one, after in pairwise(asked))


def test_a_range_inside_a_line_reads_no_further_than_its_end():
    """The line is another range's."""
    content, bounds = b"x" * 900 + b"\n" + b"y\n", limits(64, 128)
    lines, asked = cut(content, 128, 256, bounds)
    assert lines == []
    assert asked[-1][0] + asked[-1][1] <= 256 + 1


def test_a_line_that_is_too_long_is_refused_by_its_own_range():
    """The ranges that it goes over have nothing of it."""
    bounds = Limits(block_bytes=64, stretch_bytes=128, line_bytes=200, frame_bytes=400)
    content = b"ok\n" + b"x" * 700 + b"\nlast\n"
    with pytest.raises(RefusedError) as refused:
        cut(content, 0, 128, bounds)
    assert refused.value.reason == "line_too_long"
    assert cut(content, 256, 384, bounds)[0] == []
    assert cut(content, 640, len(content), bounds)[0] == [b"last"]


@pytest.mark.parametrize(
    ("size", "step", "count"),
    [
        (129 * MIB, 64 * MIB, 3),
        (1_000 * 64 * MIB, 64 * MIB, 1_000),
        (1_000 * 64 * MIB + 1, 65 * MIB, 985),
        (160 * 1024 * MIB, 164 * MIB, 1_000),
    ],
)
def test_a_larger_file_has_larger_ranges_of_whole_mebibytes(size, step, count):
    """A job has a thousand stretches at most."""
    ranges = Ranges.of(StoredBlob("uploads/x", "e", size), Limits())
    assert (ranges.step, ranges.count) == (step, count)
    assert ranges.bytes_of(count - 1)[1] == size


def test_the_same_content_is_known_by_its_hash_and_otherwise_by_its_version():
    """A touched file has another ETag."""
    one, touched = (StoredBlob("uploads/x", etag, 700, "d41d") for etag in ("e1", "e2"))
    assert Ranges.of(one, Limits()).content == Ranges.of(touched, Limits()).content
    bare, other = (StoredBlob("uploads/x", etag, 700) for etag in ("e1", "e2"))
    assert Ranges.of(bare, Limits()).content != Ranges.of(other, Limits()).content


def test_so_many_ranges_are_under_way_and_each_calls_a_later_one():
    """All get their turn: the first ones at the acceptance, each other one by the range so many before it."""
    ranges = Ranges("e", 100 * 10, 10)
    called = [ranges.next_to(number) for number in range(100)]
    assert list(ranges.ahead_of(1)) == list(range(1, 33))
    assert [number for number in called if number is not None] == list(range(32, 100))


def test_the_blob_of_a_range_says_its_frames_or_that_it_has_no_line():
    """A later version is waited for."""
    index = (Frame(0, 10, 3, "a" * 64),)
    found = read_cut(CutRange(sha256="b" * 64, frames=index).encode(), "alpha~j", 7, "before")
    assert (found.number, found.previous, found.blob, found.index.frames) == (7, "before", f"alpha~j/{'b' * 64}", index)
    assert read_cut(CutRange().encode(), "j", 7, "").index is None
    assert CutRange().encode() == b'{"v":1}'
    with pytest.raises(NewerVersionError):
        read_cut(b'{"v":2,"other":1}', "j", 7, "")


def test_reading_is_lazy():
    """No more than a block is in memory."""
    content = b"1\n" * 500
    bounds = limits(100, 500)
    pieces = read_range(partial(lambda at, length: content[at : at + length]), len(content), 0, 500, bounds)
    assert len(next(pieces)) == 100
