"""The plan: every transaction in exactly one chunk, always cut the same way."""

import base64
from itertools import accumulate

import msgspec
import pytest
from hypothesis import given, strategies as st
from msgspec import Struct

from shared.messages import decode, encode
from shared.payload import Codec, Frame, FrameIndex, Limits, Payload, StoredBlob
from shared.pipeline.plan import Plan, cut, plan_of

LIMITS = Limits()


def frames_of(sizes):
    """Return frames that follow each other, with these numbers of transactions."""
    return [Frame(sum(sizes[:n]) * 30, size * 30, size, f"{n:064x}") for n, size in enumerate(sizes)]


def plan(sizes, chunk_items=1000):
    """Return a plan over frames of these sizes."""
    index = FrameIndex(tuple(frames_of(sizes)))
    payload = Payload(index, Codec.ZSTD, StoredBlob("j/x", "e", index.stored), None, "0" * 64)
    return plan_of("j", "billing", payload, chunk_items, LIMITS)


sizes = st.lists(st.integers(1, 1500), min_size=1, max_size=20)
wishes = st.integers(1, 100) | st.integers(900, 1100) | st.integers(1, 100_000)


def lines_of(made):
    """Return the positions of the transactions of each chunk, counted in the frames that it lists."""
    ends = accumulate(frame.items for frame in made.frames)
    begins = {frame.offset: end - frame.items for frame, end in zip(made.frames, ends, strict=True)}
    found = []
    for chunk in made.chunks:
        positions = [begins[row[0]] + line for row in chunk.frames for line in range(row[2])]
        skip, items = chunk.part or (0, len(positions))
        found.append(positions[skip : skip + items])
    return found


@given(sizes, wishes)
def test_every_transaction_is_in_exactly_one_chunk_in_order(sizes, chunk_items):
    """None is lost, doubled or moved, and the plan knows the frames of the payload however many chunks share one."""
    made = plan(sizes, chunk_items)
    found = lines_of(made)
    assert [position for chunk in found for position in chunk] == list(range(sum(sizes)))
    assert [chunk.before for chunk in made.chunks] == [chunk[0] for chunk in found]
    assert [chunk.items for chunk in made.chunks] == list(map(len, found))
    assert (made.items, made.frames) == (sum(sizes), tuple(frames_of(sizes)))
    assert made.stored == sum(sizes) * 30


@given(sizes, wishes)
def test_a_chunk_has_as_many_transactions_as_the_setting_says(sizes, chunk_items):
    """Or up to a tenth less, where it then ends with a frame; only a bound on frames or bytes makes it smaller."""
    *chunks, last = plan(sizes, chunk_items).chunks
    assert last.items <= chunk_items
    for chunk in chunks:
        if len(chunk.frames) < LIMITS.chunk_frames_most:
            assert chunk_items * 9 / 10 <= chunk.items <= chunk_items
        if chunk.items < chunk_items:
            skip, items = chunk.part or (0, chunk.items)
            assert skip + items == sum(frame[2] for frame in chunk.frames)


@given(sizes, wishes)
def test_a_chunk_lists_no_frame_that_it_does_not_need(sizes, chunk_items):
    """What is fetched and expanded is what holds its lines."""
    for chunk in plan(sizes, chunk_items).chunks:
        skip, items = chunk.part or (0, chunk.items)
        assert skip < chunk.frames[0][2]
        assert skip + items > sum(frame[2] for frame in chunk.frames[:-1])
        assert (chunk.part is None) == (sum(frame[2] for frame in chunk.frames) == items)


@pytest.mark.parametrize(
    ("chunk_items", "limits", "items"),
    [
        (4000, Limits(), [4000, 4000, 2000]),
        (4000, Limits(chunk_stored_most=70_000), [2000] * 5),
        (9000, Limits(chunk_frames_most=4), [4000, 4000, 2000]),
        (2500, Limits(), [2500] * 4),
        (1100, Limits(), [1000] * 10),
        (1101, Limits(), [1000] * 10),
        (1112, Limits(), [1112] * 8 + [1104]),
        (999, Limits(), [999] * 10 + [10]),
        (400, Limits(), [400] * 25),
        (1, Limits(chunks_most=4), [2500] * 4),
    ],
)
def test_chunks_keep_to_the_bounds_of_a_read_and_of_a_job(chunk_items, limits, items):
    """Frames of 1,000 lines and 30,000 bytes; a job of too many chunks has larger ones, a frame as near as a tenth is whole."""
    index = FrameIndex(tuple(frames_of([1000] * 10)))
    assert [chunk.items for chunk in cut(index, chunk_items, limits)] == items


@given(sizes, wishes)
def test_ids_of_chunks_follow_each_other_without_gap_or_overlap(sizes, chunk_items):
    """The first id of each chunk is the one after the last of the chunk before."""
    made = plan(sizes, chunk_items)
    expected = 5000
    for number in range(len(made.chunks)):
        message = made.message(number, 5000)
        assert message.first_id == expected
        expected += message.items
    assert expected == 5000 + sum(sizes)


@given(sizes, wishes)
def test_the_same_payload_gives_the_same_bytes(sizes, chunk_items):
    """Two that plan the same job write the same plan, and it reads back as it was."""
    one, other = plan(sizes, chunk_items), plan(sizes, chunk_items)
    assert one.encode() == other.encode()
    assert Plan.decode(one.encode()) == one


def test_a_work_message_holds_all_that_processing_needs():
    """Payload, frames, ids, workload: nothing has to be looked up."""
    message = plan([1000, 600]).message(1, 100, revision=2)
    assert decode(encode(message)) == message
    assert (message.blob, message.first_id, message.revision) == ("j/x", 1100, 2)


class PlannedBefore(Struct, array_like=True):
    """A chunk as a version knew it that had no parts of frames."""

    before: int
    frames: list[tuple[int, int, int, str]]


class PlanBefore(Struct):
    """A plan as that version read it."""

    chunks: list[PlannedBefore]


def test_a_program_that_knows_only_whole_frames_takes_none_of_a_part():
    """It would take all lines of the frame. So it fails at the plan, and its worker refuses the version of the message."""
    assert msgspec.json.decode(plan([1000, 600]).encode(), type=PlanBefore).chunks[1].before == 1000
    cut_small = plan([600, 600], 400)
    with pytest.raises(msgspec.ValidationError):
        msgspec.json.decode(cut_small.encode(), type=PlanBefore)
    assert [(cut_small.message(n, 0).part, cut_small.message(n, 0).v) for n in range(3)] == [
        ((0, 400), 2), ((400, 400), 2), ((200, 400), 2)
    ]  # fmt: skip
    assert (plan([600]).message(0, 0).part, plan([600]).message(0, 0).v) == (None, 1)


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
