"""Finishing in segments: the same outputs and totals as in one piece, wherever it is stopped, lost or doubled."""

import json
from collections import Counter
from contextlib import contextmanager

import pytest
from hypothesis import given, strategies as st

from shared.errors import FinishRefusedError, ResultRefusedError
from shared.ledger import JobState
from shared.messages import Finish, Segment
from shared.pipeline.dispatch import FinishCall
from shared.pipeline.finish import Ending
from shared.pipeline.finish_blobs import FinishPlan, SegmentBlobs
from shared.pipeline.outputs import Outputs
from shared.pipeline.segments import SEGMENT_BYTES, SEGMENT_LINES, SEGMENT_PARTIAL, Weight, cut, weigh
from shared.telemetry import events
from tests.faults.plan import Plan
from tests.ledger.builders import job, row
from tests.ledger.world import PER_CHUNK, Summing

#: Requests after the last result of a job of four chunks with rejections, messages apart.
ONE_SEGMENT, TWO_SEGMENTS = 15, 34
MERGING, FINISHED, NOTHING = Ending.MERGING, Ending.FINISHED, Ending.NOTHING_TO_DO


@pytest.fixture
def world(make_world):
    """A job of eight chunks in three segments, which all have ended."""
    return settled(make_world(chunks=8, segment_chunks=3))


def settled(world, **options):
    """Settle every chunk of a world."""
    world.settle(*(world.result(n, rejected=1, **options) for n in range(world.chunks)))
    assert world.job().state is JobState.FINISHING
    return world


def blobs(world, revision=1):
    """Return the names of the blobs of a finish."""
    folder = f"nightly/{revision}/finish/"
    return [name.removeprefix(folder) for name in world.container("results").list_blob_names(name_starts_with=folder)]


def asked(*numbers, again=False):
    """Return the messages about segments."""
    return [Segment(job="nightly", revision=1, segment=number, again=again) for number in numbers]


def check_finished(world):
    """Assert that a job of these chunks is complete, with each line and each rejection once."""
    assert world.check().state is JobState.COMPLETE
    assert [line["number"] for line in world.lines("rejected")] == [n * PER_CHUNK for n in range(world.chunks)]
    assert [event.state for event in world.told] == ["complete"]


def test_a_job_of_several_segments_is_merged_by_messages(world):
    """A finish asks for the segments, each is merged by itself, and the last one brings the finish back."""
    assert world.finish_all() == [MERGING, MERGING, MERGING, MERGING, FINISHED]
    check_finished(world)
    assert blobs(world) == ["plan", "segment-000000", "segment-000001", "segment-000002"]


def test_the_segments_are_in_the_plan_and_asked_for_in_order(world):
    """By the numbers of their chunks; each has its own message."""
    world.sent.clear()
    assert world.finish() is MERGING
    assert world.sent == asked(0, 1, 2)
    plan = json.loads(world.container("results").download_blob("nightly/1/finish/plan").readall())
    assert plan == {"segments": [[0, 2], [3, 5], [6, 7]], "slices": 1, "shards": 1, "v": 1}


def test_segments_may_end_in_any_order_and_more_than_once(world):
    """The set of blobs decides, and neither the order nor the number of the messages."""
    world.sent.clear()
    world.finish()
    first, second, third = world.sent
    world.sent.clear()
    finisher = world.finisher()
    assert [finisher.finish(one) for one in (third, first, first, second, third)] == [MERGING] * 5
    # The last one, and each that comes after it, sees that all are there.
    assert world.sent == [Finish(job="nightly", revision=1)] * 2
    assert world.finish_all() == [FINISHED, NOTHING]
    check_finished(world)


def test_lost_messages_are_sent_again_for_what_is_missing_only(world):
    """The tick sends `finish`; whatever is merged already stays."""
    world.sent.clear()
    world.finish()
    merged = world.finisher().finish(world.sent[1])
    world.sent.clear()
    assert (merged, world.finish()) == (MERGING, MERGING)
    assert world.sent == asked(0, 2, again=True)
    world.finish_all()
    check_finished(world)


def test_a_segment_that_is_asked_for_again_is_not_merged_twice(world, monkeypatch):
    """Its message says so, and one listing shows that it is there."""
    world.finish()
    (first, *_) = asked(0, again=True)
    merges = Counter()
    merge = Summing.merge
    monkeypatch.setattr(Summing, "merge", lambda *arguments: merges.update("m") or merge(*arguments))
    for _ in range(2):
        world.finisher().finish(first)
    assert merges == {"m": 3}


def test_a_parked_chunk_does_not_shift_the_segments(make_world):
    """They go by number: what was merged of a revision is never counted in two segments."""
    world = make_world(chunks=5, segment_chunks=2)
    world.settle(*(world.result(n, rejected=1) for n in (1, 2, 3, 4)), world.lost(0))
    world.finish_all()
    assert world.check().state is JobState.COMPLETED_WITH_PARKED
    assert [line["number"] for line in world.lines("rejected")] == [n * PER_CHUNK for n in (1, 2, 3, 4)]
    assert blobs(world)[1:] == ["segment-000000", "segment-000001", "segment-000002"]


def test_a_replay_in_between_makes_a_revision_of_its_own(make_world):
    """What is left of the older one ends without a word, and nothing of it is taken over."""
    world = make_world(chunks=4, segment_chunks=2)
    world.settle(*(world.result(n, rejected=1) for n in (1, 2, 3)), world.lost(0))
    world.finish()
    late = world.sent[-1]
    world.sent.clear()
    world.settle(world.result(0, rejected=1))
    assert world.sent == [Finish(job="nightly", revision=2)]
    assert world.finisher().finish(late) is NOTHING
    assert world.finish_all() == [MERGING, MERGING, MERGING, FINISHED]
    check_finished_revision_2(world)


def check_finished_revision_2(world):
    """Assert that the second revision has all chunks, and the first one nothing but its plan."""
    found = world.check()
    assert (found.state, found.revision) == (JobState.COMPLETE, 2)
    assert len(world.lines("rejected", 2)) == world.chunks
    assert (blobs(world, 1), len(blobs(world, 2))) == (["plan"], 3)


def test_a_segment_of_rows_of_two_revisions_is_never_published(make_world, monkeypatch):
    """A step that stands still while a replay lands reads newer rows: the job has moved on, so nobody reads its blob."""
    world = make_world(chunks=4, segment_chunks=2)
    world.settle(*(world.result(n, rejected=1) for n in (1, 2, 3)), world.lost(0))
    world.finish()
    first, second = world.sent[-2:]
    find = SegmentBlobs.find_plan
    replays = [world.result(0, rejected=1)]

    def stands_still(self):
        if replays:
            world.settle(replays.pop())
        return find(self)

    world.finisher().finish(second)
    monkeypatch.setattr(SegmentBlobs, "find_plan", stands_still)
    assert world.finisher().finish(first) is MERGING
    assert "segment-000000" in blobs(world, 1)
    assert NOTHING in world.finish_all()
    assert world.check().revision == 2
    assert [event.revision for event in world.told] == [2]


@pytest.mark.parametrize(
    "message",
    [
        Segment(job="never", revision=1, segment=0),
        Segment(job="nightly", revision=2, segment=0),
        Segment(job="nightly", revision=1, segment=3),
        Segment(job="nightly", revision=1, segment=2**31 - 1),
    ],
    ids=str,
)
def test_a_forged_message_about_a_segment_does_nothing(world, message, told):
    """Neither an unknown job, nor another revision, nor a segment that the plan does not have."""
    world.finish()
    before = blobs(world)
    assert world.finisher().finish(message) is NOTHING
    assert blobs(world) == before == ["plan"]
    assert told(events.FINISH_IGNORED)


def test_a_segment_without_a_plan_does_nothing(world):
    """Nobody cut the job yet, so nothing tells which chunks are meant."""
    assert world.finisher().finish(asked(0)[0]) is NOTHING
    assert blobs(world) == []


def test_a_running_job_has_no_segments(make_world):
    """A message that comes too early does nothing."""
    world = make_world(chunks=4, segment_chunks=2)
    world.settle(world.result(0))
    assert world.finisher().finish(asked(0)[0]) is NOTHING


@pytest.mark.parametrize("call", ["merge", "combine"])
def test_a_segment_that_fails_for_good_pauses_the_job(world, call):
    """A person reads what failed, and a resumed job begins anew."""

    class Fails(Summing):
        def fails(self, *arguments):
            raise ZeroDivisionError("by a bug of the workload")

    world.finish()
    message = world.sent[-1]
    world.workload = Fails()
    setattr(world.workload, call, world.workload.fails)
    with pytest.raises(FinishRefusedError, match="ZeroDivisionError"):
        world.finisher().finish(message)
    assert world.check().state is JobState.PAUSED
    assert f"workload 'summing' failed in its {call}" in world.job().problem


def test_a_job_of_several_segments_that_does_not_add_up_publishes_nothing(make_world):
    """The sums of all segments are compared before anything that looks like a result is written."""
    world = make_world(chunks=4, segment_chunks=2)
    short = world.result(3)
    fewer = short.accepted.__class__(items=PER_CHUNK - 1, sums=short.accepted.sums)
    fields = {name: getattr(short, name) for name in short.__struct_fields__} | {"accepted": fewer}
    world.settle(*(world.result(n) for n in range(3)), short.__class__(**fields))
    assert world.finish_all()[-1] is FINISHED
    assert world.check().state is JobState.UNBALANCED
    assert (list(world.container("outputs").list_blob_names()), world.totals()) == ([], {})


@pytest.mark.parametrize("content", [b"", b"{}", b"spoilt", None], ids=str)
def test_a_blob_that_cannot_be_read_pauses_the_job(world, content):
    """Nothing is published from it, and a person reads which blob it is."""
    endings = []
    while world.sent[0] != Finish(job="nightly", revision=1) or not endings:
        endings.append(world.finisher().finish(world.sent.pop(0)))
    blob = world.container("results").get_blob_client("nightly/1/finish/segment-000001")
    if content is None:
        # Gone between the listing and the read.
        plan = FinishPlan(segments=[(0, 2), (3, 5), (6, 7), (8, 9)])
        with pytest.raises(ResultRefusedError, match="segment-000003' is gone"):
            list(SegmentBlobs(world.container("results"), "nightly", 1).read_cuts(plan, [0]))
        return
    blob.upload_blob(content, overwrite=True)
    with pytest.raises(ResultRefusedError, match="segment-000001' cannot be read"):
        world.finish()
    assert world.job().state is JobState.PAUSED


def test_a_merged_segment_of_another_type_pauses_the_job(world):
    """The workload was deployed anew in between, with another type: a resumed job merges its results once more."""
    while world.sent[0] != Finish(job="nightly", revision=1) or not blobs(world):
        world.finisher().finish(world.sent.pop(0))

    class Otherwise(Summing):
        partial = list[str]

    world.workload = Otherwise()
    with pytest.raises(ResultRefusedError, match=r"the partial of a merged segment is not a list: .* resume the job"):
        world.finish()
    assert world.job().state is JobState.PAUSED


def test_rejected_lines_of_another_cut_pause_the_job(world):
    """A version that cuts otherwise may have begun the revision: its lines would be there twice, or hide others."""
    outputs = Outputs(world.container("outputs"), "nightly", 1)
    outputs.put_part("rejected-000001-000000", b"four lines of another cut", 4)
    with pytest.raises(
        FinishRefusedError, match="has 9 lines in its outputs 'rejected', and 8 transactions were rejected"
    ):
        world.finish_all()
    assert world.job().state is JobState.PAUSED


def test_rows_are_cut_by_number_of_chunks_and_by_bytes():
    """One result counts whether it fits or not, and a row of an earlier version has no length."""

    def rows(*lengths):
        return [weigh(row(n, length=length, partial=0)) for n, length in enumerate(lengths)]

    half = SEGMENT_BYTES // 2
    assert cut([], 3) == []
    assert cut(rows(*[None] * 7), 3, 1) == [(0, 2), (3, 4), (5, 6)]
    assert cut(rows(half, half, 1, half, half), 9, 1) == [(0, 1), (2, 3), (4, 4)]
    assert cut(rows(5 * half, 1, 5 * half), 9) == [(0, 0), (1, 1), (2, 2)]
    assert cut(rows(1, 1)[1:], 9) == [(1, 1)]


def test_a_job_of_several_segments_has_four_even_ones():
    """So many instances are woken, and none ends long before the others. One segment stays one."""

    def numbers(count, length):
        return [last - first + 1 for first, last in cut([Weight(n, length, 0, 0) for n in range(count)], 512)]

    assert numbers(512, 1) == [512]
    assert numbers(513, 1) == [129, 128, 128, 128]
    assert numbers(50, SEGMENT_BYTES // 45) == [13, 12, 13, 12]
    assert numbers(50, SEGMENT_BYTES // 50) == [50]
    assert numbers(3, SEGMENT_BYTES) == [1, 1, 1]
    assert numbers(10_000, 1) == [500] * 20


SIZES = st.tuples(*(st.integers(0, 3 * most) for most in (SEGMENT_BYTES, SEGMENT_PARTIAL, SEGMENT_LINES)))


@given(st.lists(SIZES, max_size=60), st.integers(1, 20), st.integers(1, 9))
def test_segments_are_neighbours_within_their_bounds(sizes, most, apart):
    """Each chunk is in one of them; only a result that is larger by itself passes the bytes, stored, of its partial or of its lines."""
    found = cut([Weight(n, *each) for n, each in enumerate(sizes)], most, apart)
    assert [chunk for first, last in found for chunk in range(first, last + 1)] == list(range(len(sizes)))
    for first, last in found:
        held = sizes[first : last + 1]
        assert len(held) <= most
        assert len(held) == 1 or all(
            map(int.__le__, map(sum, zip(*held, strict=True)), (SEGMENT_BYTES, SEGMENT_PARTIAL, SEGMENT_LINES))
        )


def test_a_row_of_an_earlier_version_may_have_eight_times_its_stored_bytes():
    """It does not say how large its partial is. A parked one has none."""
    assert weigh(row(1, length=10)) == (1, 10, 80, 0)
    assert weigh(row(1, length=10, partial=3)) == (1, 10, 3, 0)
    assert weigh(row(1)) == (1, 0, 0, 0)


@pytest.mark.parametrize(("segments", "coming"), [(1, 1), (2, 8), (3, 12), (4, 16), (5, 16), (16, 16), (40, 40)])
def test_the_first_four_segments_wake_an_instance_each(segments, coming):
    """Four to a slot, one instance would merge them one after the other."""
    woken, sent = [], []

    @contextmanager
    def waking(*messages):
        yield
        woken.append((*messages, len(sent)))

    call = FinishCall(lambda *message: sent.append(message), None, None, waking, slot_tasks=4)
    call.send_segments(job(), range(segments), again=False)
    assert woken == [(segments, coming, segments)]
    call.send(job())
    assert woken[1:] == [(1, 1, segments + 1)]


def cost(make_world, segment_chunks):
    """Return the requests of everything after the last result of a job of four chunks, and how each step ended."""
    plan = Plan()
    world = settled(make_world(chunks=4, segment_chunks=segment_chunks, transport=plan.transport))
    before = plan.count
    endings = world.finish_all()
    check_finished(world)
    return plan.count - before, endings


def test_a_job_of_one_segment_pays_for_no_plan_message_or_blob(make_world):
    """The usual job: its row and its chunks' rows, four results in one read, parts and totals, the manifest and the end."""
    assert cost(make_world, 4) == (ONE_SEGMENT, [FINISHED])


def test_what_each_segment_costs(make_world):
    """The plan is written, and read by each step; a segment reads the job and its rows, and writes and lists blobs."""
    assert cost(make_world, 2) == (TWO_SEGMENTS, [MERGING, MERGING, MERGING, FINISHED])
