"""The plan: every transaction in exactly one chunk, always cut the same way."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.pipeline.messages import decode, encode
from shared.pipeline.plan import Plan, Source, cut


def frames_of(sizes):
    """Return frames that follow each other, with these numbers of transactions."""
    return [(sum(sizes[:n]) * 30, size * 30, size, f"{n:064x}") for n, size in enumerate(sizes)]


def plan_of(sizes, chunk_items=1000):
    """Return a plan over frames of these sizes."""
    return Plan(
        job="j",
        workload="billing",
        source=Source(codec="zstd", blob="j/x", etag="e"),
        chunks=cut(frames_of(sizes), chunk_items),
    )


sizes = st.lists(st.integers(1, 3000), min_size=1, max_size=60)


@given(sizes, st.integers(1, 5000))
def test_every_frame_is_in_exactly_one_chunk_in_order(sizes, chunk_items):
    """No frame is lost, doubled or moved."""
    plan = plan_of(sizes, chunk_items)
    assert [frame for chunk in plan.chunks for frame in chunk.frames] == frames_of(sizes)
    assert plan.items == sum(sizes)


@given(sizes, st.integers(1, 5000))
def test_a_chunk_passes_its_limit_only_by_a_single_frame(sizes, chunk_items):
    """Chunks are as large as allowed, and two neighbours never fit into one."""
    chunks = plan_of(sizes, chunk_items).chunks
    assert all(chunk.items <= chunk_items or len(chunk.frames) == 1 for chunk in chunks)
    for one, following in pairwise(chunks):
        assert one.items + following.frames[0][2] > chunk_items


@given(sizes)
def test_ids_of_chunks_follow_each_other_without_gap_or_overlap(sizes):
    """The first id of each chunk is the one after the last of the chunk before."""
    plan = plan_of(sizes)
    expected = 5000
    for number in range(len(plan.chunks)):
        message = plan.message(number, 5000)
        assert message.first_id == expected
        expected += sum(frame[2] for frame in message.frames)
    assert expected == 5000 + sum(sizes)


@given(sizes)
def test_the_same_payload_gives_the_same_bytes(sizes):
    """Two that plan the same job write the same plan, and it reads back as it was."""
    one, other = plan_of(sizes), plan_of(sizes)
    assert one.encode() == other.encode()
    assert Plan.decode(one.encode()) == one


def test_a_work_message_holds_all_that_processing_needs():
    """Payload, frames, ids, workload: nothing has to be looked up."""
    message = plan_of([600, 600]).message(1, 100, revision=2)
    assert decode(encode(message)) == message
    assert (message.blob, message.etag, message.first_id, message.revision) == ("j/x", "e", 700, 2)


def test_an_empty_payload_has_no_chunks():
    """Nothing to do is a plan too."""
    assert plan_of([]).chunks == []
    assert plan_of([]).items == 0


def test_a_senseless_limit_is_refused():
    """A chunk of no transactions would never end."""
    with pytest.raises(ValueError, match="chunk_items is 0"):
        cut([], 0)
