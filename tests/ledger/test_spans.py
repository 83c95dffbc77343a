"""Totals in spans: many cuts, published one after the other, with a message for a minute of them."""

import json
from collections import Counter

import pytest
from hypothesis import given, strategies as st

from shared.errors import LedgerError, ResultRefusedError
from shared.ledger import JobState
from shared.messages import Finish, Shard
from shared.pipeline.finish import SHARD_SECONDS, Ending
from shared.pipeline.finish_blobs import SHARDS, FinishPlan, Places, SegmentBlobs, cut_spans
from shared.pipeline.outputs import TotalsTable
from shared.pipeline.segments import CUT_ABOVE, CUT_PARTIAL, CUTS_MOST, FRESH, choose_cuts
from shared.workloads import shard_of
from tests.faults.plan import Plan
from tests.ledger.test_shards import blobs, merged, settled
from tests.ledger.world import Splitting, Summing

#: The fewest cuts above as many as shards.
CUTS = 2 * SHARDS
MERGING, FINISHED, NOTHING = Ending.MERGING, Ending.FINISHED, Ending.NOTHING_TO_DO
#: Each cut is a span.
ALONE = 1
MIB = 1024 * 1024


@pytest.fixture
def make_world(make_in_memory):
    """Worlds whose jobs have more cuts than shards, however small they are."""

    def make(*, workload=None, span_bytes=ALONE, chunks=4, **options):
        options = {"cut_above": 0, **options, "chunks": chunks, "segment_chunks": 2, "span_bytes": span_bytes}
        return make_in_memory(workload=workload or Splitting(), **options)

    return make


@pytest.fixture
def world(make_world):
    """A job in two segments of 32 cuts, which all have ended."""
    return settled(make_world())


def check_finished(world):
    """Assert that a job of these chunks is complete, and that each account has its row where readers look for it."""
    assert world.check().state is JobState.COMPLETE
    assert [event.state for event in world.told] == ["complete"]
    assert sum(written for _, written in world.fences().values()) == world.manifest()["totals"]
    found = {row["account"]: row["PartitionKey"] for row in TotalsTable(world.table("totals")).rows("nightly", 1)}
    assert found == {account: f"nightly!{shard_of(account, SHARDS):02}" for account in world.expected(range(4))}


def some_shard(world):
    """Return the message about a shard that has accounts."""
    wanted = shard_of(next(iter(world.expected(range(4)))), SHARDS)
    return next(one for one in merged(world) if one.shard == wanted)


def test_a_job_of_large_partials_is_published_span_after_span(world):
    """Segments, then shards with a blob for each span, then the end. There is no blob for a whole shard."""
    assert world.finish_all() == [MERGING] * (1 + 2 + 1 + SHARDS) + [FINISHED]
    check_finished(world)
    spans = [f"span-{shard:02}-{number:03}" for shard in range(SHARDS) for number in range(CUTS // SHARDS)]
    assert blobs(world) == ["places", "plan", "segment-000000", "segment-000001", *spans]
    names = [part["name"] for part in world.manifest()["parts"] if part["name"].startswith("output")]
    shards = {shard_of(one, SHARDS): shard_of(one, CUTS) for one in world.expected(range(4))}
    assert {name[: len("output-00")] for name in names} == {f"output-{shard:02}" for shard in shards}


def test_the_plan_says_so_by_its_version(world):
    """An instance of before waits for a newer one, instead of taking the wrong cuts."""
    world.finish()
    plan = json.loads(world.container("results").download_blob("nightly/1/finish/plan").readall())
    assert plan == {"segments": [[0, 1], [2, 3]], "slices": CUTS, "shards": 1, "v": 3}


def test_neighbours_are_one_span(make_world):
    """Up to so many bytes in all segments; then a shard reads each segment once."""
    world = settled(make_world(span_bytes=MIB))
    world.finish_all()
    check_finished(world)
    assert [name for name in blobs(world) if name.startswith("span")] == [f"span-{n:02}-000" for n in range(SHARDS)]


@pytest.mark.parametrize(
    ("partial", "cuts"),
    [
        (0, SHARDS),
        (CUT_ABOVE, SHARDS),
        (CUT_ABOVE + 1, 128),
        (128 * CUT_PARTIAL, 128),
        (128 * CUT_PARTIAL + 1, 256),
        (611 * MIB, 256),
        (CUTS_MOST * CUT_PARTIAL, CUTS_MOST),
        (10**15, CUTS_MOST),
    ],
)
def test_the_bytes_of_all_partials_say_how_many_cuts_there_are(partial, cuts):
    """The smallest power of two, so that the cut of the whole has four mebibytes."""
    assert choose_cuts(partial, CUT_ABOVE, SHARDS) == cuts


@pytest.mark.parametrize("cuts", [32, 64, 256, CUTS_MOST])
def test_the_cuts_of_a_shard_are_neighbours(cuts):
    """An account's shard follows from its cut, for both are a rest of its hash."""
    arranged = FinishPlan.make([(0, 1)], cuts).arrange()
    assert sorted(arranged) == list(range(cuts))
    each = cuts // SHARDS
    shards = [{cut % SHARDS for cut in arranged[begin : begin + each]} for begin in range(0, cuts, each)]
    assert sorted(map(list, shards)) == [[shard] for shard in range(SHARDS)]
    assert all(shard_of(str(one), cuts) % SHARDS == shard_of(str(one), SHARDS) for one in range(500))


@given(st.lists(st.integers(0, 9), min_size=64, max_size=64), st.integers(0, 30))
def test_spans_are_neighbours_within_their_bound(sizes, most):
    """Each cut is in one of them; none has cuts of two shards; only a cut that is larger by itself passes the bytes."""
    plan = FinishPlan.make([(0, 1)], len(sizes))
    spans = cut_spans(plan, sizes, most)
    assert spans[0] == 0
    assert set(range(0, 64, 4)) <= set(spans)
    for begin, end in zip(spans, [*spans[1:], 64], strict=True):
        assert end - begin == 1 or sum(sizes[begin:end]) <= most
    one = Places(totals=b"{}", requests={}, spans=spans, segments=[[*spans, 64]])
    found = [cut for shard in range(SHARDS) for span in one.spans_of(plan, shard) for cut in span.cuts]
    assert sorted(found) == list(range(64))
    assert one.last_spans(plan) == [(shard, len(one.spans_of(plan, shard)) - 1) for shard in range(SHARDS)]


def test_a_shard_that_was_stopped_goes_on_at_its_first_missing_span(world, monkeypatch):
    """What is published stays, and the workload is asked for nothing twice but what the death cost."""
    message = some_shard(world)
    put, calls = SegmentBlobs.put_span, Counter()
    finish = Splitting.finish
    monkeypatch.setattr(Splitting, "finish", lambda *arguments: calls.update("f") or finish(*arguments))

    def dies_at_the_second(self, shard, number, done):
        if number:
            raise OSError("down")
        put(self, shard, number, done)

    monkeypatch.setattr(SegmentBlobs, "put_span", dies_at_the_second)
    with pytest.raises(OSError, match="down"):
        world.finisher().finish(message)
    assert calls == {"f": 2}
    before = world.fences()
    monkeypatch.setattr(SegmentBlobs, "put_span", put)
    world.finisher().finish(message)
    assert calls == {"f": 3}
    assert world.fences() == before
    world.finish()
    world.clock.seconds += FRESH.total_seconds()
    world.finish_all()
    check_finished(world)


def test_a_shard_gives_its_step_back_after_a_minute(world, monkeypatch):
    """By a new message, which goes on: a job of any length outlives the host's ten minutes for one function."""
    message = some_shard(world)
    finish = Splitting.finish

    def takes_long(self, partial):
        world.clock.seconds += SHARD_SECONDS
        return finish(self, partial)

    monkeypatch.setattr(Splitting, "finish", takes_long)
    assert world.finisher().finish(message) is MERGING
    assert world.sent == [message]
    assert [name for name in blobs(world) if name.startswith("span")] == [f"span-{message.shard:02}-000"]
    assert world.finisher().finish(world.sent.pop()) is MERGING
    assert world.sent == []
    world.finish()
    world.finish_all()
    check_finished(world)


def test_a_shard_that_is_being_written_gets_no_second_message(world, monkeypatch):
    """The tick sends `finish` to a job that is silent for long, as one with long shards is."""
    message = some_shard(world)
    monkeypatch.setattr("shared.pipeline.finish.SHARD_SECONDS", 0.0)
    monkeypatch.setattr("shared.pipeline.finish_blobs.SHARDS", SHARDS)
    found = world.finisher()
    clock = iter([0.0, -1.0, 1.0])
    monkeypatch.setattr(world.clock, "monotonic", lambda: next(clock))
    found.finish(message)
    world.sent.clear()
    monkeypatch.undo()
    assert world.finish() is MERGING
    assert [one.shard for one in world.sent] == [number for number in range(SHARDS) if number != message.shard]
    world.sent.clear()
    world.clock.seconds += FRESH.total_seconds()
    world.finish()
    assert [one.shard for one in world.sent] == list(range(SHARDS))
    world.finish_all()
    check_finished(world)


def test_spans_may_be_written_twice_at_a_time(world, monkeypatch):
    """A second worker of the same shard, at every span: each row and each line is there once."""
    message = some_shard(world)
    put, both = SegmentBlobs.put_span, [world.finisher()]

    def let_another_go_first(self, shard, number, done):
        if both:
            both.pop().finish(message)
        put(self, shard, number, done)

    monkeypatch.setattr(SegmentBlobs, "put_span", let_another_go_first)
    assert world.finisher().finish(message) is MERGING
    world.finish()
    world.clock.seconds += FRESH.total_seconds()
    world.finish_all()
    check_finished(world)


def test_a_replay_takes_the_fence_and_older_spans_are_refused(make_world, monkeypatch):
    """A shard that stands still between two spans while a replay lands."""
    world = make_world()
    world.settle(*(world.result(n, rejected=1) for n in (1, 2, 3)), world.lost(0))
    stale, replays = merged(world)[0], [world.result(0, rejected=1)]
    put = SegmentBlobs.put_span

    def stands_still(self, shard, number, done):
        put(self, shard, number, done)
        if replays:
            world.settle(replays.pop())
            world.finish_all()

    monkeypatch.setattr(SegmentBlobs, "put_span", stands_still)
    assert world.finisher().finish(stale) is NOTHING
    found = world.check()
    assert (found.state, found.revision) == (JobState.COMPLETE, 2)
    assert {revision for revision, _ in world.fences().values()} == {2}


def test_a_shard_does_nothing_before_it_is_known_where_its_spans_lie(world):
    """Which is known when all sums were compared: a forged message comes too early."""
    early = Shard(job="nightly", revision=1, shard=0)
    while any(not isinstance(one, Finish) for one in world.sent) or not blobs(world):
        world.finisher().finish(world.sent.pop(0))
        assert world.finisher().finish(early) is NOTHING
    assert world.fences() == {}
    assert world.finisher().finish(Shard(job="nightly", revision=1, shard=SHARDS)) is NOTHING


def test_no_shard_takes_its_fence_of_a_job_that_does_not_add_up(make_world):
    """Neither by the finish nor by a forged message, although it is known where its spans lie."""
    world = make_world()
    short = world.result(3)
    fewer = short.accepted.__class__(items=1, sums=short.accepted.sums)
    fields = {name: getattr(short, name) for name in short.__struct_fields__} | {"accepted": fewer}
    world.settle(*(world.result(n) for n in range(3)), short.__class__(**fields))
    end = world.sent
    while len(blobs(world)) < 3:
        world.finisher().finish(end.pop(0))
    SegmentBlobs(world.container("results"), "nightly", 1).put_places(FinishPlan.make([(0, 1), (2, 3)], CUTS), ALONE)
    assert world.finisher().finish(Shard(job="nightly", revision=1, shard=0)) is NOTHING
    assert world.finish_all()[-1] is FINISHED
    assert world.check().state is JobState.UNBALANCED
    assert (list(world.container("outputs").list_blob_names()), world.fences()) == ([], {})


@pytest.mark.parametrize(
    ("change", "match"),
    [
        (lambda content: bytes([*content[:-20], content[-20] ^ 255, *content[-19:]]), "cannot be read"),
        (lambda content: content[:-40], "cannot be read"),
    ],
    ids=["spoilt", "short"],
)
def test_a_span_that_cannot_be_read_pauses_the_job(world, change, match):
    """Each cut has its checksum, and a range has all of its cuts."""
    messages = merged(world)
    blob = world.container("results").get_blob_client("nightly/1/finish/segment-000001")
    blob.upload_blob(change(blob.download_blob().readall()), overwrite=True)
    world.sent += messages
    with pytest.raises(ResultRefusedError, match=f"segment-000001' {match}"):
        world.finish_all()
    assert world.job().state is JobState.PAUSED


def test_a_split_by_another_rule_pauses_the_job(world, monkeypatch):
    """An account in another cut would be in another shard, or be there twice."""
    monkeypatch.setattr(Splitting, "split", lambda _self, partial, count: [partial, *({} for _ in range(count - 1))])
    with pytest.raises(LedgerError, match="into shard 0 of 32, and shard_of says"):
        world.finish_all()
    assert world.job().state is JobState.PAUSED


def test_a_workload_without_split_has_no_cuts(make_world):
    """However large its partials are: one process joins them, within its bound."""
    world = settled(make_world(workload=Summing()))
    world.finish_all()
    assert world.check().state is JobState.COMPLETE
    assert blobs(world) == ["plan", "segment-000000", "segment-000001"]


def test_the_requests_of_all_spans_are_on_the_bill(world, monkeypatch):
    """Each blob has what its shard took so far, so that the last one has all."""
    monkeypatch.setattr("shared.pipeline.finish.charges", lambda _requests: {"table useful": 1000})
    before = Counter(world.job().requests)
    world.finish_all()
    more = Counter(world.job().requests) - before
    assert more["table useful"] // 1000 == CUTS


@pytest.mark.parametrize("segments", [2, 4])
def test_what_spans_cost(make_world, segments):
    """As much as sixteen cuts whose shards read all segments whole; with many segments, less."""
    plan = Plan()
    world = settled(make_world(plan=plan, chunks=2 * segments, span_bytes=MIB))
    before = plan.count
    world.finish_all()
    made = plan.count - before
    assert world.check().state is JobState.COMPLETE
    in_cuts = settled(make_world(chunks=2 * segments, cut_above=MIB, shard_bytes=1, plan=plan))
    before = plan.count
    in_cuts.finish_all()
    # Each shard reads `places`, which is looked for, written, and read by the end. So the end reads no head of a segment.
    assert made == plan.count - before + SHARDS + 3 - segments
