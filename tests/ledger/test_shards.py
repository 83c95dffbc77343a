"""Totals in shards: the same outputs and totals as in one piece, wherever it is stopped, lost or doubled."""

import json
from collections import Counter

import pytest

from shared.errors import LedgerError, ResultRefusedError
from shared.grammar import is_job, shard_partition
from shared.ledger import JobState
from shared.messages import Finish, Segment, Shard
from shared.pipeline.finish import Ending
from shared.pipeline.finish_blobs import SHARDS, FinishPlan, SegmentBlobs
from shared.pipeline.outputs import TotalsTable
from shared.pipeline.segments import SHARD_BYTES
from shared.telemetry import events
from shared.workloads import shard_of
from tests.faults.plan import Plan
from tests.ledger.test_segments import TWO_SEGMENTS
from tests.ledger.world import PER_CHUNK, Splitting, Summing
from tools.planning.capacity_bill import OF_A_SHARD

#: Requests after the last result of a job of four chunks in two segments and two shards, messages apart.
TWO_SHARDS = 60
MERGING, FINISHED, NOTHING = Ending.MERGING, Ending.FINISHED, Ending.NOTHING_TO_DO


@pytest.fixture
def make_world(make_in_memory):
    """Worlds whose jobs have shards, unless a test says otherwise."""

    def make(*, workload=None, shards=2, chunks=4, segment_chunks=2, shard_bytes=1, **options):
        options |= {"chunks": chunks, "segment_chunks": segment_chunks, "shards": shards, "shard_bytes": shard_bytes}
        return make_in_memory(workload=workload or Splitting(), **options)

    return make


def settled(world):
    """Settle every chunk of a world."""
    world.settle(*(world.result(n, rejected=1) for n in range(world.chunks)))
    assert world.job().state is JobState.FINISHING
    return world


@pytest.fixture
def world(make_world):
    """A job of four chunks in two segments, which all have ended, whose totals have two shards."""
    return settled(make_world())


def merged(world):
    """Merge the segments and return the messages about shards."""
    while not any(isinstance(one, Shard) for one in world.sent):
        world.finisher().finish(world.sent.pop(0))
    shards = list(world.sent)
    world.sent.clear()
    return shards


def blobs(world, revision=1):
    """Return the names of the blobs of a finish."""
    folder = f"nightly/{revision}/finish/"
    return [name.removeprefix(folder) for name in world.container("results").list_blob_names(name_starts_with=folder)]


def parts(world, revision=1):
    """Return the names of the parts with lines."""
    return [part["name"] for part in world.manifest(revision)["parts"] if part["name"].startswith("output")]


def check_finished(world):
    """Assert that a job of these chunks is complete."""
    assert world.check().state is JobState.COMPLETE
    assert [line["number"] for line in world.lines("rejected")] == [n * PER_CHUNK for n in range(world.chunks)]
    assert [event.state for event in world.told] == ["complete"]
    assert sum(written for _, written in world.fences().values()) == world.manifest()["totals"]


def test_a_job_whose_workload_splits_is_published_in_shards(world):
    """Segments, then shards, then the end; each shard has its partition, its fence and its parts."""
    assert world.finish_all() == [MERGING] * 6 + [FINISHED]
    check_finished(world)
    assert blobs(world) == ["plan", "segment-000000", "segment-000001", "shard-00", "shard-01"]
    assert world.manifest()["totals_partitions"] == ["nightly!00", "nightly!01"] == sorted(world.fences())
    assert parts(world) == ["output-00-000000.ndjson.zst", "output-01-000000.ndjson.zst"]


def test_there_are_sixteen_shards(make_world):
    """As many as the app has; an empty one has a fence and no part."""
    world = settled(make_world(shards=None))
    world.finish_all()
    check_finished(world)
    assert SHARDS == 16
    assert world.manifest()["totals_partitions"] == [f"nightly!{n:02}" for n in range(16)] == sorted(world.fences())


@pytest.mark.parametrize(
    "options", [{"workload": Summing()}, {"segment_chunks": 4}], ids=["without split", "one segment"]
)
def test_any_other_job_is_published_in_one_piece(make_world, options):
    """Its names and its partition are those of every job before."""
    world = settled(make_world(**options))
    world.finish_all()
    check_finished(world)
    assert world.manifest()["totals_partitions"] == ["nightly"] == sorted(world.fences())
    assert parts(world) == ["output-000000.ndjson.zst"]


def test_a_small_job_is_joined_by_its_finish(make_world):
    """Its segments have cuts, but so few bytes that sixteen shards would cost more than they save."""
    world = settled(make_world(shards=None, shard_bytes=SHARD_BYTES))
    assert world.finish_all() == [MERGING] * 3 + [FINISHED]
    check_finished(world)
    assert blobs(world) == ["plan", "segment-000000", "segment-000001"]
    assert world.manifest()["totals_partitions"] == ["nightly"] == sorted(world.fences())
    assert parts(world) == ["output-000000.ndjson.zst"]


def test_the_bytes_of_all_segments_say_how_many_shards_there_are(make_world):
    """Each shard then has several cuts, and an account is where readers look for it."""
    size = sum(len(content) for content in segments_of(settled(make_world(shards=16))))
    world = settled(make_world(shards=16, shard_bytes=size // 3))
    world.finish_all()
    check_finished(world)
    partitions = world.manifest()["totals_partitions"]
    assert partitions == [f"nightly!{n:02}" for n in range(4)] == sorted(world.fences())
    found = {row["account"]: row["PartitionKey"] for row in TotalsTable(world.table("totals")).rows("nightly", 1)}
    assert found == {account: partitions[shard_of(account, 4)] for account in world.expected(range(4))}


def segments_of(world):
    """Merge the segments of a world and return their bytes."""
    world.finisher().finish(world.sent.pop(0))
    for message in [world.sent.pop(0) for _ in range(2)]:
        world.finisher().finish(message)
    container = world.container("results")
    names = container.list_blob_names(name_starts_with="nightly/1/finish/segment-")
    return [container.download_blob(name).readall() for name in names]


@pytest.mark.parametrize(
    ("size", "shards"),
    [(0, 1), (100, 1), (101, 2), (200, 2), (201, 4), (400, 4), (401, 8), (800, 8), (801, 16), (10**12, 16)],
)
def test_the_number_of_shards_is_a_power_of_two(size, shards):
    """It divides the cuts. A plan of an earlier version has a shard for each cut, however small."""
    plan = FinishPlan(segments=[(0, 1), (2, 3)], cuts=16)
    assert (plan.cuts_of_each, plan.choose_shards(size, 100)) == (16, shards)
    assert FinishPlan(segments=[(0, 1), (2, 3)]).choose_shards(size, 100) == 1
    before = FinishPlan(segments=[(0, 1), (2, 3)], shards=3)
    assert (before.cuts_of_each, before.choose_shards(size, 100)) == (3, 3)


def test_a_revision_that_an_earlier_version_began_goes_on_in_its_shards(make_world):
    """Its rows may be in the partitions of all shards already: in another one, readers would find each twice."""
    world = settled(make_world(shards=16, shard_bytes=SHARD_BYTES))
    plan = b'{"segments":[[0,1],[2,3]],"shards":2,"v":1}'
    world.container("results").upload_blob("nightly/1/finish/plan", plan)
    assert world.finish_all() == [MERGING] * 6 + [FINISHED]
    check_finished(world)
    assert world.manifest()["totals_partitions"] == ["nightly!00", "nightly!01"] == sorted(world.fences())


def test_a_segment_that_an_earlier_version_merged_in_one_piece_pauses_the_job(make_world):
    """It knows no cuts, and takes the plan for one in one cut. Nothing is published from that."""
    world = settled(make_world())
    world.finish()
    blobs_of = SegmentBlobs(world.container("results"), "nightly", 1)
    blobs_of.put(0, world.job().totals, [{}], {})
    world.finisher().finish(Segment(job="nightly", revision=1, segment=1))
    with pytest.raises(ResultRefusedError, match="segment-000000' cannot be read"):
        world.finish()
    assert (world.job().state, world.fences()) == (JobState.PAUSED, {})


def test_a_forged_shard_of_a_job_that_is_joined_does_nothing(make_world):
    """Its plan has cuts, and its finish publishes all of them."""
    world = settled(make_world(shard_bytes=SHARD_BYTES))
    segments_of(world)
    assert world.finisher().finish(Shard(job="nightly", revision=1, shard=0)) is NOTHING
    assert world.fences() == {}


def test_no_job_can_be_called_like_a_partition():
    """The rows of a shard are in nobody else's partition."""
    assert shard_partition("nightly", 3) == "nightly!03"
    assert not any(is_job(shard_partition(job, 3)) for job in ("nightly", "room~nightly", "a", "!"))


def test_readers_get_the_rows_of_all_shards_and_of_no_other_job(world):
    """In one query, whichever partitions there are."""
    world.finish_all()
    table = world.table("totals")
    strangers = ("nightly0", "nightly-1", "nightl", "room~nightly", "nightly.a")
    for stranger in strangers:
        table.upsert_entity({"PartitionKey": stranger, "RowKey": "x", "revision": 1})
    found = list(TotalsTable(table).rows("nightly", 1))
    assert {row["account"] for row in found} == world.expected(range(4)).keys()
    assert len(found) == world.manifest()["totals"]


def test_shards_may_end_in_any_order_and_more_than_once(world):
    """The set of blobs decides, and neither the order nor the number of the messages."""
    first, second = merged(world)
    assert (first, second) == tuple(Shard(job="nightly", revision=1, shard=n) for n in range(2))
    finisher = world.finisher()
    assert [finisher.finish(one) for one in (second, second, first, second)] == [MERGING] * 4
    assert world.sent == [Finish(job="nightly", revision=1)] * 2
    assert world.finish_all() == [FINISHED, NOTHING]
    check_finished(world)


def test_lost_messages_are_sent_again_for_what_is_missing_only(world):
    """The tick sends `finish`; whatever is written already stays."""
    first, second = merged(world)
    world.finisher().finish(first)
    assert (world.finish(), world.sent) == (MERGING, [second])
    world.finish_all()
    check_finished(world)


def test_a_shard_that_is_written_is_not_written_again(world, monkeypatch):
    """A listing shows that it is there."""
    first, _ = merged(world)
    calls = Counter()
    finish = Splitting.finish
    monkeypatch.setattr(Splitting, "finish", lambda *arguments: calls.update("f") or finish(*arguments))
    for _ in range(2):
        world.finisher().finish(first)
    assert calls == {"f": 1}


def test_a_shard_that_was_stopped_goes_on_where_its_fence_is(world, monkeypatch):
    """The rows that are there stay, and none is missing; its blob comes last."""
    first, second = merged(world)
    monkeypatch.setattr(SegmentBlobs, "put_shard", broken)
    with pytest.raises(OSError, match="down"):
        world.finisher().finish(first)
    before = world.fences()
    assert before["nightly!00"][1] > 0
    assert "shard-00" not in blobs(world)
    monkeypatch.undo()
    world.sent += [first, second]
    world.finish_all()
    assert world.fences()["nightly!00"] == before["nightly!00"]
    check_finished(world)


def broken(*_arguments):
    """Fail as storage does."""
    raise OSError("down")


@pytest.mark.parametrize("late", range(2))
def test_a_replay_takes_each_partition_and_older_shards_are_refused(make_world, monkeypatch, late):
    """A shard that stands still while a replay lands is refused by the fence of its own partition, each of them."""
    world = make_world()
    world.settle(*(world.result(n, rejected=1) for n in (1, 2, 3)), world.lost(0))
    stale = merged(world)[late]
    read, replays = SegmentBlobs.read_cuts, [world.result(0, rejected=1)]

    def stands_still(self, plan, cuts):
        found = list(read(self, plan, cuts))
        if replays:
            world.settle(replays.pop())
            world.finish_all()
        return found

    monkeypatch.setattr(SegmentBlobs, "read_cuts", stands_still)
    assert world.finisher().finish(stale) is NOTHING
    found = world.check()
    assert (found.state, found.revision) == (JobState.COMPLETE, 2)
    assert {revision for revision, _ in world.fences().values()} == {2}
    assert not any(name.startswith("shard") for name in blobs(world, 1))


def test_a_revision_in_one_piece_after_one_in_shards_hides_its_rows(make_world):
    """The workload lost its `split`: rows of the older revision stay, and count for nobody."""
    world = make_world()
    world.settle(*(world.result(n, rejected=1) for n in (1, 2, 3)), world.lost(0))
    world.finish_all()
    assert world.manifest()["totals_partitions"] == ["nightly!00", "nightly!01"]
    world.workload = Summing()
    world.settle(world.result(0, rejected=1))
    world.finish_all()
    found = world.check()
    assert (found.state, found.revision) == (JobState.COMPLETE, 2)
    assert {key: revision for key, (revision, _) in world.fences().items()} == {
        "nightly": 2, "nightly!00": 1, "nightly!01": 1
    }  # fmt: skip
    assert len(list(TotalsTable(world.table("totals")).rows("nightly", 2))) == len(world.expected(range(4)))


@pytest.mark.parametrize(
    "message",
    [
        Shard(job="never", revision=1, shard=0),
        Shard(job="nightly", revision=2, shard=0),
        Shard(job="nightly", revision=1, shard=2),
        Shard(job="nightly", revision=1, shard=2**31 - 1),
    ],
    ids=str,
)
def test_a_forged_message_about_a_shard_does_nothing(world, message, told):
    """Neither an unknown job, nor another revision, nor a shard that the plan does not have."""
    merged(world)
    assert world.finisher().finish(message) is NOTHING
    assert (world.fences(), world.sent) == ({}, [])
    assert told(events.FINISH_IGNORED)


def test_a_shard_that_comes_before_all_segments_does_nothing(world):
    """Nothing is written before the whole is known: without a plan, with one, with one of two segments."""
    early = Shard(job="nightly", revision=1, shard=0)
    finish = world.sent.pop()
    assert world.finisher().finish(early) is NOTHING
    world.finisher().finish(finish)
    assert world.finisher().finish(early) is NOTHING
    world.finisher().finish(world.sent[0])
    assert world.finisher().finish(early) is NOTHING
    assert world.fences() == {}
    world.finish_all()
    check_finished(world)


def test_a_forged_shard_of_a_job_in_one_piece_does_nothing(make_world):
    """Its plan has one."""
    world = settled(make_world(workload=Summing()))
    world.finish()
    world.finisher().finish(Segment(job="nightly", revision=1, segment=0))
    world.finisher().finish(Segment(job="nightly", revision=1, segment=1))
    assert world.finisher().finish(Shard(job="nightly", revision=1, shard=0)) is NOTHING
    assert world.fences() == {}


def test_no_shard_takes_its_fence_of_a_job_that_does_not_add_up(make_world):
    """The finish sends no message about a shard; one that is forged compares the sums by itself."""
    world = make_world()
    short = world.result(3)
    fewer = short.accepted.__class__(items=PER_CHUNK - 1, sums=short.accepted.sums)
    fields = {name: getattr(short, name) for name in short.__struct_fields__} | {"accepted": fewer}
    world.settle(*(world.result(n) for n in range(3)), short.__class__(**fields))
    endings = []
    while world.sent:
        endings.append(world.finisher().finish(world.sent.pop(0)))
        assert not any(isinstance(one, Shard) for one in world.sent)
        if len(blobs(world)) == 3 and endings[-1] is MERGING:
            assert world.finisher().finish(Shard(job="nightly", revision=1, shard=0)) is NOTHING
    assert endings[-1] is FINISHED
    assert world.check().state is JobState.UNBALANCED
    assert (list(world.container("outputs").list_blob_names()), world.fences()) == ([], {})


def test_the_plan_says_the_number_of_shards(world, monkeypatch):
    """Who has another number, or a partial that asks for fewer, cuts as the plan says."""
    world.finisher().finish(world.sent.pop(0))
    plan = json.loads(world.container("results").download_blob("nightly/1/finish/plan").readall())
    assert plan == {"segments": [[0, 1], [2, 3]], "slices": 2, "shards": 1, "v": 2}
    world._shards = 8
    world.finish_all()
    check_finished(world)
    assert len(world.fences()) == 2


def pause(world, match):
    """Finish until the job pauses with a problem."""
    with pytest.raises(LedgerError, match=match):
        world.finish_all()
    assert world.job().state is JobState.PAUSED


@pytest.mark.parametrize(
    ("split", "match"),
    [
        (lambda _self, _partial, _count: [{}], "returned 1 partials from its split, expected a list of 2"),
        (lambda _self, partial, _count: partial, "returned a dict from its split"),
        (lambda _self, _partial, _count: 1 / 0, "failed in its split: ZeroDivisionError"),
        (lambda _self, partial, _count: [partial, {}], "into shard 0 of 2, and shard_of says 1"),
    ],
    ids=["too few", "no list", "raises", "by another rule"],
)
def test_a_split_that_breaks_its_promise_pauses_the_job(world, monkeypatch, split, match):
    """An account in two shards would have two rows with a part of its amount each."""
    monkeypatch.setattr(Splitting, "split", split)
    pause(world, match)


def test_a_workload_that_lost_its_split_in_between_pauses_the_job(world):
    """The plan says shards, and this version cannot make them."""
    world.finisher().finish(world.sent.pop(0))
    world.workload = Summing()
    pause(world, "has no split, but this revision was begun in 2 shards")


def test_lines_of_another_cut_pause_the_job(world, monkeypatch):
    """Whoever wrote them, the manifest would name them."""
    for one in merged(world):
        world.finisher().finish(one)
    world.finisher()._shards.tools.outputs.upload_blob(
        "nightly/1/output-000000.ndjson.zst", b"x", metadata={"items": "4", "sha256": "0"}
    )
    pause(world, "lines in its outputs, and its shards wrote")


@pytest.mark.parametrize(
    "content", [b"", b"{}\n", b'{"totals":{},"requests":{},"slices":[1,2,3]}\nabc', b"spoilt" * 9000]
)
def test_a_segment_that_cannot_be_read_pauses_the_job(world, content):
    """Nothing is published from it, and a person reads which blob it is."""
    merged(world)
    world.container("results").upload_blob("nightly/1/finish/segment-000001", content, overwrite=True)
    with pytest.raises(ResultRefusedError, match="segment-000001' cannot be read"):
        world.finish()
    assert (world.job().state, world.fences()) == (JobState.PAUSED, {})


def test_a_spoilt_cut_pauses_the_job(world):
    """Each cut has its checksum."""
    first, _ = merged(world)
    blob = world.container("results").get_blob_client("nightly/1/finish/segment-000001")
    content = bytearray(blob.download_blob().readall())
    content[content.index(b"\n") + 12] ^= 255
    blob.upload_blob(bytes(content), overwrite=True)
    with pytest.raises(ResultRefusedError, match="segment-000001' cannot be read"):
        world.finisher().finish(first)
    assert (world.job().state, world.fences()) == (JobState.PAUSED, {})


def test_an_account_is_in_the_same_shard_everywhere():
    """Readers compute it too, so it never changes; any text is an account."""
    assert [shard_of(one, 16) for one in ("", "a-1", "account/7#?", "ä", "\ud800")] == [3, 15, 15, 3, 1]
    assert {shard_of(str(n), 16) for n in range(500)} == set(range(16))


def test_the_requests_of_segments_and_shards_are_on_the_bill(world, monkeypatch):
    """Each step notes its own in its blob, and the end adds them to the job."""
    monkeypatch.setattr("shared.pipeline.segments.charges", lambda _requests: {"blob-read useful": 100})
    monkeypatch.setattr(
        "shared.pipeline.finish.charges", lambda _requests: {"blob-read useful": 1, "table useful": 1000}
    )
    before = Counter(world.job().requests)
    world.finish_all()
    more = Counter(world.job().requests) - before
    assert more["blob-read useful"] == 202
    assert more["table useful"] >= 2000


@pytest.mark.parametrize(("segments", "shards"), [(2, 2), (2, 4), (4, 2), (4, 4)])
def test_what_shards_cost(make_world, segments, shards):
    """One job row, plan and two listings a shard, its cuts, the fence, its rows, a part, its blob; its blob at the end.

    The capacity model counts as many, for any number of them.
    """
    plan = Plan()
    world = settled(make_world(plan=plan, chunks=2 * segments, shards=shards))
    before = plan.count
    assert world.finish_all() == [MERGING] * (1 + segments + 1 + shards) + [FINISHED]
    made = plan.count - before
    of_shards = sum(number for charge, number in OF_A_SHARD.items() if charge.meter != "queue")
    in_one_piece = TWO_SEGMENTS + 8 * (segments - 2)
    of_its_rows = 1
    assert made == in_one_piece + shards * (of_shards + of_its_rows) + (shards + 1) * segments
    if (segments, shards) == (2, 2):
        assert made == TWO_SHARDS
