"""Reading the lines of a chunk: one request, and only bytes that are what the index says."""

import base64

import msgspec
import pytest

from shared.errors import RefusedError, StorageUnavailableError
from shared.memory import Memory
from shared.payload import Limits
from shared.payload.payload_store import PayloadStores
from shared.payload.reading import WORK, PayloadReader
from tests.faults.plan import Plan
from tests.process.world import LINES


@pytest.fixture
def read(world):
    """Read a chunk that differs from the world's own, and return its lines and the requests."""

    def read(**changes):
        plan = Plan()
        with world.process(plan) as process:
            stores = PayloadStores(process.connections.blobs.get_container_client)
            with PayloadReader(stores, Memory(WORK))(msgspec.structs.replace(world.message, **changes)) as parts:
                lines = [line for part in parts for line in part]
        return lines, plan.kinds

    return read


def test_all_frames_of_a_chunk_come_by_one_ranged_read(read):
    """Three frames are one request."""
    assert read() == (LINES, ["GET payloads"])


def test_some_frames_in_the_middle_are_read_alone(world, read):
    """A chunk is a range of a payload that may have a million more transactions."""
    assert read(frames=world.message.frames[1:2])[0] == LINES[4:8]


@pytest.mark.parametrize(("first", "last"), [(0, 9), (0, 10), (1, 9), (1, 10), (2, 10), (3, 9), (3, 10)])
def test_a_part_of_the_frames_is_its_own_lines(read, first, last):
    """Frames of four, four and two lines, shared with the chunks around: whole frames are verified, some lines taken."""
    assert read(part=(first, last - first)) == (LINES[first:last], ["GET payloads"])


@pytest.mark.parametrize(("first", "last"), [(4, 5), (5, 7), (5, 8), (7, 8)])
def test_a_part_of_one_frame_is_its_own_lines(world, read, first, last):
    """Chunks that are smaller than a frame."""
    assert read(frames=world.message.frames[1:2], part=(first - 4, last - first))[0] == LINES[first:last]


def test_a_part_of_a_damaged_frame_is_refused(world, read):
    """Also where the chunk's own lines may be sound: only the whole frame has a hash."""
    offset, length, items, _ = world.message.frames[0]
    with pytest.raises(RefusedError) as refused:
        read(frames=[(offset, length, items, "0" * 64)], part=(1, 2))
    assert refused.value.reason == "hash_mismatch"


def test_without_an_etag_one_request_is_enough_too(read):
    """The hash of each frame says what the bytes are worth."""
    assert read(etag=None) == (LINES, ["GET payloads"])


def test_a_payload_that_was_touched_is_read_all_the_same(read):
    """The same payload was dropped again: its blob has another ETag, and no other bytes."""
    assert read(etag='"0x8DC0FFEE"')[0] == LINES


def test_inline_bytes_take_no_request(world, read):
    """A small payload is in the message."""
    with world.process() as process:
        container = process.connections.blobs.get_container_client("payloads")
        stored = container.download_blob(world.message.blob).readall()
    inline = base64.b64encode(stored).decode()
    assert read(blob=None, etag=None, inline=inline) == (LINES, [])


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"blob": None, "etag": None}, "payload_form"),
        ({"blob": "../results/x"}, "bad_blob_name"),
        ({"blob": "missing/0000", "etag": None}, "payload_missing"),
        ({"codec": "lzma"}, "unknown_codec"),
        ({"codec": "gzip"}, "corrupt"),
        ({"blob": None, "inline": "???"}, "bad_base64"),
        ({"frames": []}, "empty"),
        ({"frames": [(0, 10, 4, "0" * 64), (11, 10, 4, "0" * 64)]}, "bad_index"),
        ({"frames": [(0, 10, 4, "0" * 64)]}, "hash_mismatch"),
        ({"frames": [(0, 10**9, 4, "0" * 64)]}, "frame_too_large"),
        ({"frames": [(0, 10, 100_001, "0" * 64)]}, "too_many_items"),
        ({"frames": [(0, 5000, 4, "0" * 64)]}, "length_mismatch"),
        ({"part": (4, 1)}, "bad_index"),
        ({"part": (0, 8)}, "bad_index"),
        ({"part": (0, 11)}, "bad_index"),
        ({"part": (3, 0)}, "bad_index"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_is_wrong_for_ever_is_refused_under_its_reason(read, changes, reason):
    """A message may be wrong in any part of it, and none of them leads outside of the payload container."""
    with pytest.raises(RefusedError) as refused:
        read(**changes)
    assert refused.value.reason == reason


def test_a_missing_answer_is_no_reason_to_refuse(world):
    """Storage that does not answer says nothing about the payload."""

    class Silent(Plan):
        def take(self, _site, **_details):
            return "reset_before"

    with world.process(Silent()) as process, pytest.raises(StorageUnavailableError):
        PayloadReader(PayloadStores(process.connections.blobs.get_container_client), Memory(WORK))(
            world.message
        ).__enter__()


@pytest.mark.parametrize(
    ("limits", "sizes"),
    [
        (Limits(), [10]),
        (Limits(part_items=8), [8, 2]),
        (Limits(part_items=3), [3, 1, 3, 3]),
        (Limits(part_bytes=1), [4, 4, 2]),
        (Limits(part_bytes=sum(map(len, LINES[:8])) + 8), [8, 2]),
    ],
)
def test_a_large_chunk_comes_in_parts_of_bounded_size(world, limits, sizes):
    """Whole frames as long as they fit, lines of one where it alone is too large; each line once, in order."""
    with world.process() as process:
        stores = PayloadStores(process.connections.blobs.get_container_client)
        with PayloadReader(stores, Memory(WORK), limits)(world.message) as found:
            parts = list(found)
    assert [len(part) for part in parts] == sizes
    assert [line for part in parts for line in part] == LINES
