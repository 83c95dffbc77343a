"""Lines are cut into frames without an object for each, and into the same frames as when each was one."""

import io
import json
import random
import threading
import tracemalloc

import pytest

from shared.errors import RefusedError
from shared.payload import Codec, Framing, cutting, frame_file, write_frames
from tests.payload import cut_oracle
from tests.payload.cut_oracle import SMALL, cut_quickly, differences

GOOD, BAD = b'{"amount":"1.50"}', b'{"amount":"1.50"'
MIB = 1024 * 1024


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch):
    """Let blocks end within a few lines."""
    monkeypatch.setattr(cutting, "BLOCK", 12)


def test_random_files_are_cut_as_line_by_line():
    """With blank lines, carriage returns, byte order marks, long lines, an open end, in pieces of any size."""
    assert differences(1_000, 33) == []


@pytest.mark.ci("60,000 random files take half a minute")
def test_many_random_files_are_cut_as_line_by_line():
    """Other ones each time: the seed is in the failure's files themselves."""
    assert differences(60_000, random.SystemRandom().randrange(2**32)) == []


def test_the_comparison_finds_a_frame_too_long(monkeypatch):
    """It can fail: with one line more in a frame it does."""
    monkeypatch.setattr(cutting, "_exactly", lambda lines, exactly=cutting._exactly: exactly(lines + 1))
    assert differences(200, 33)


def framed(content, codec=Codec.PLAIN, **framing):
    """Return the frames of a file, and its bytes as they are stored."""
    spool = io.BytesIO()
    made = frame_file([content], spool, Framing(codec=codec, **framing))
    return made, spool.getvalue()


@pytest.mark.parametrize("codec", Codec)
def test_a_file_and_its_lines_make_the_same_bytes(codec, monkeypatch):
    """Whoever frames: the index, the hash that names the blob, and the blob."""
    # Some lines a block: three megabytes in blocks of a few bytes take seconds, and the random files have those.
    monkeypatch.setattr(cutting, "BLOCK", 4096)
    lines = [json.dumps({"n": number, "x": "y" * (number % 700)}).encode() for number in range(9_000)]
    spool = io.BytesIO()
    by_lines = write_frames(enumerate(lines, 1), spool, Framing(codec=codec))
    by_file, stored = framed(b"\n".join(lines), codec)
    assert (by_file, stored) == (by_lines, spool.getvalue())
    assert len(by_file.index.frames) > 8, "so many that threads have packed them"


@pytest.mark.parametrize("checked", [1, 3, 4, 7, 8, 100])
def test_as_many_lines_are_read_strictly_as_were_wanted(checked):
    """Blank ones do not count. The first one behind them is left to the workers, where a block may go on."""
    lines = [GOOD] * 20
    lines[7] = BAD
    content = b"\n\n".join(lines)
    if checked <= 7:
        made, _ = framed(content, checked=checked)
        assert (made.checked, made.index.items) == (checked, 20)
    else:
        with pytest.raises(RefusedError, match="not_json: line 15: "):
            framed(content, checked=checked)


def test_a_file_is_checked_to_its_end_and_no_further():
    """What it says was checked is what was read."""
    assert framed(b"\n".join([GOOD] * 20), checked=1_000)[0].checked == 20


@pytest.mark.parametrize("place", range(0, 40, 7))
def test_a_line_that_is_too_long_is_named_however_many_blank_ones_came_before(place):
    """Lines in frames are counted, and lines that are in none."""
    lines = [b"{}", b""] * 20
    lines[place] = b"x" * 10
    assert cut_quickly([b"\n".join(lines)], SMALL, None) == ("line_too_long", place + 1)


def test_a_line_without_an_end_is_refused_before_it_fills_the_memory(monkeypatch):
    """The reader stops at the block in which the line became too long."""
    monkeypatch.setattr(cutting, "BLOCK", MIB)
    taken = []

    def endless():
        for number in range(10_000):
            taken.append(number)
            yield b"x" * 1024

    with pytest.raises(RefusedError, match="line_too_long: line 1 has"):
        frame_file(endless(), io.BytesIO(), Framing())
    assert len(taken) <= 1024


def test_a_line_feed_in_a_line_is_refused_wherever_it_is():
    """It would be two lines to a worker, and the index would say one."""
    lines = [(number, GOOD) for number in range(1, 50)]
    lines[40] = (41, b'{\n"a":1}')
    with pytest.raises(RefusedError, match="not_json: line 41 holds a line feed"):
        write_frames(lines, io.BytesIO(), Framing())


def test_memory_is_bounded_however_large_the_file_and_its_pieces_are(monkeypatch):
    """A block, a frame and the few that wait for a thread."""
    monkeypatch.setattr(cutting, "BLOCK", MIB)
    piece = b"{}\n" * MIB

    class Nowhere(io.RawIOBase):
        def write(self, data):
            return len(data)

    tracemalloc.start()
    try:
        made = frame_file([piece] * 2, Nowhere(), Framing())
        held = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert made.index.items == 2 * MIB
    assert held < 16 * MIB


def test_a_refused_file_leaves_no_thread():
    """What still waits for a thread is not waited for longer than it takes."""
    before = set(threading.enumerate())
    with pytest.raises(RefusedError, match="line_too_long"):
        framed(b"\n".join([*[GOOD] * 9_000, b"x" * 300_000]))
    assert set(threading.enumerate()) <= before


def test_the_oracle_refuses_what_the_page_says():
    """It is code of its own: one case of each kind by hand."""
    assert cut_oracle.cut(b"{}\r\n\n{}", SMALL, None) == [(b"{}\n{}\n", 2)]
    assert cut_oracle.cut(b"\n \n", SMALL, None) == ("empty", None)
    assert cut_oracle.cut(b"{}\n" * 5, SMALL, None) == [(b"{}\n" * 4, 4), (b"{}\n", 1)]
