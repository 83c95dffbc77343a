"""The plan: every transaction in exactly one chunk, always cut the same way."""

import base64
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.messages import decode, encode
from shared.payload import Codec, Frame, FrameIndex, Limits, Payload, StoredBlob
from shared.pipeline.plan import Plan, plan_of

LIMITS = Limits()


def frames_of(sizes):
    """Return frames that follow each other, with these numbers of transactions."""
    return [Frame(sum(sizes[:n]) * 30, size * 30, size, f"{n:064x}") for n, size in enumerate(sizes)]


def plan(sizes, chunk_items=1000):
    """Return a plan over frames of these sizes."""
    index = FrameIndex(tuple(frames_of(sizes)))
    payload = Payload(index, Codec.ZSTD, StoredBlob("j/x", "e", index.stored), None, "0" * 64)
    return plan_of("j", "billing", payload, chunk_items, LIMITS)


sizes = st.lists(st.integers(1, 3000), min_size=1, max_size=60)


@given(sizes, st.integers(1, 5000))
def test_every_frame_is_in_exactly_one_chunk_in_order(sizes, chunk_items):
    """No frame is lost, doubled or moved."""
    made = plan(sizes, chunk_items)
    rows = [(frame.offset, frame.length, frame.items, frame.sha256) for frame in frames_of(sizes)]
    assert [tuple(frame) for chunk in made.chunks for frame in chunk.frames] == rows
    assert made.items == sum(sizes)


@given(sizes, st.integers(1, 5000))
def test_a_chunk_passes_its_limit_only_by_a_single_frame(sizes, chunk_items):
    """Chunks are as large as allowed, and two neighbours never fit into one."""
    chunks = plan(sizes, chunk_items).chunks
    assert all(chunk.items <= chunk_items or len(chunk.frames) == 1 for chunk in chunks)
    for one, following in pairwise(chunks):
        assert one.items + following.frames[0][2] > chunk_items


@given(sizes)
def test_ids_of_chunks_follow_each_other_without_gap_or_overlap(sizes):
    """The first id of each chunk is the one after the last of the chunk before."""
    made = plan(sizes)
    expected = 5000
    for number in range(len(made.chunks)):
        message = made.message(number, 5000)
        assert message.first_id == expected
        expected += sum(frame[2] for frame in message.frames)
    assert expected == 5000 + sum(sizes)


@given(sizes)
def test_the_same_payload_gives_the_same_bytes(sizes):
    """Two that plan the same job write the same plan, and it reads back as it was."""
    one, other = plan(sizes), plan(sizes)
    assert one.encode() == other.encode()
    assert Plan.decode(one.encode()) == one


def test_a_work_message_holds_all_that_processing_needs():
    """Payload, frames, ids, workload: nothing has to be looked up."""
    message = plan([600, 600]).message(1, 100, revision=2)
    assert decode(encode(message)) == message
    assert (message.blob, message.first_id, message.revision) == ("j/x", 700, 2)


def test_a_payload_in_the_message_travels_with_its_chunk():
    """What came inline is in the plan and in the work message, byte for byte."""
    payload = Payload(FrameIndex(tuple(frames_of([3]))), Codec.PLAIN, None, b"\x00stored", "0" * 64)
    message = plan_of("j", "billing", payload, 1000, LIMITS).message(0, 1)
    assert base64.b64decode(message.inline) == b"\x00stored"
    assert message.blob is None


def test_a_senseless_limit_is_refused():
    """A chunk of no transactions would never end."""
    with pytest.raises(ValueError, match="chunk_items is 0"):
        plan([1], 0)
