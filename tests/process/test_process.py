"""Processing a chunk: the result, the message about it, and what happens to a chunk that comes again or fails."""

import base64
import re
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from decimal import Decimal

import msgspec
import pytest

from shared.errors import PutOffError, ResultNotSentError, StorageUnavailableError, UserExitError
from shared.ledger import ChunkState
from shared.messages import DispatchMessage, Finish, FirstChunkMark, PortionMessage, Segment, Shard, encode
from shared.parked.entry import NO_JOB, EntryState
from shared.parked.poison_policy import DEFAULT_POLICY
from shared.pipeline.results import read_partial
from tests.faults.plan import Plan
from tests.process.world import LINES, World


def test_a_chunk_leaves_one_message_with_its_result(world):
    """The partial and the control sums are exact, and the message has the packed result and its hash."""
    world.deliver()
    (sent,) = world.sent
    told, _ = world.told
    assert (sent.blob, sent.hash, sent.length, world.stored) == (None, told.hash, told.length, None)
    assert sent.accepted == PortionMessage(items=10, sums={"amount": "46.00"})
    assert (sent.rejected, sent.parked, sent.reason) == (PortionMessage(), PortionMessage(), None)
    partial = read_partial(told.result, world.workload.partial)
    assert partial == {"s0": Decimal("18.40"), "s1": Decimal("12.30"), "s2": Decimal("15.30")}


def test_a_chunk_that_takes_a_part_of_its_frames_leaves_the_result_of_that_part(world):
    """Transactions 3 to 8 of ten, in frames of four: the ids go on from the chunk's first."""
    world.deliver(body=encode(msgspec.structs.replace(world.message, part=(3, 6), first_id=103, v=2)))
    (sent,) = world.sent
    assert sent.accepted == PortionMessage(items=6, sums={"amount": "33.60"})


def test_a_parked_part_of_its_frames_counts_its_own_transactions(world):
    """The frames have ten, the chunk has two of them."""
    frames = [(*world.message.frames[0][:3], "0" * 64)]
    world.deliver(body=encode(msgspec.structs.replace(world.message, frames=frames, part=(1, 2), v=2)))
    (sent,) = world.sent
    assert (sent.parked, sent.reason) == (PortionMessage(items=2, sums=None), "hash_mismatch")


def test_a_chunk_takes_one_storage_request(world):
    """One ranged read: everything else is in the messages."""
    plan = Plan()
    world.deliver(plan=plan)
    assert plan.kinds == ["GET payloads", "SEND results"]


@pytest.mark.parametrize("bound", ["CONTENT_MOST", "EXPANDED_MOST"])
def test_a_result_that_is_too_large_for_its_message_is_stored_first(world, bound, monkeypatch):
    """Packed or unpacked: its message names the blob and its hash."""
    monkeypatch.setattr(f"shared.pipeline.results.{bound}", 100)
    plan = Plan()
    world.deliver(plan=plan)
    assert plan.kinds == ["GET payloads", "PUT results", "SEND results"]
    (sent,) = world.sent
    assert (sent.blob, sent.content, sent.hash) == (f"{world.job}/1/0", None, world.stored.hash)


def test_a_marked_chunk_is_noted_when_its_work_begins(world):
    """Before it is read: the work itself may take long, or fail. A chunk without a mark notes nothing."""
    world.deliver()
    assert world.begun == []
    mark = FirstChunkMark(gate="nightly", epoch=3, opened_at=world.clock.now(), seen_by="push")
    broken = msgspec.structs.replace(world.message, chunk=1, blob="gone", first=mark)
    world.deliver(body=encode(broken))
    assert world.begun == [mark]


def test_a_bad_transaction_is_rejected_and_takes_no_other_along(provisioned):
    """What cannot be read and what the workload refuses are in the result with reason, id and line."""
    lines = [LINES[0], b'{"shop":"s1"}', b"not json", b'{"shop":"","amount":"2.5"}', LINES[4]]
    world = World(provisioned, lines)
    world.deliver()
    (sent,) = world.sent
    assert sent.accepted == PortionMessage(items=2, sums={"amount": "4.20"})
    # One of them cannot be read at all, so nobody knows what its amount was meant to be.
    assert sent.rejected == PortionMessage(items=3, sums=None)
    rejections = world.rejections
    assert [(one["number"], one["reason"]) for one in rejections] == [
        (101, "does_not_fit"),
        (102, "not_json"),
        (103, "no_shop"),
    ]
    assert rejections[1]["line"] == "not json"


@pytest.mark.parametrize(("mode", "arrived"), [("reset_before", 0), ("reset_after", 1)])
def test_a_result_whose_sending_failed_is_stored_and_told_again_without_a_run(world, mode, arrived):
    """It may have arrived or not: the same result lies in the blob, and the next delivery computes nothing."""
    plan = Plan.of(2, mode)
    with pytest.raises(ResultNotSentError):
        world.deliver(plan=plan)
    assert plan.kinds == ["GET payloads", "SEND results", "PUT results", "PATCH parked"]
    assert len(world.sent) == arrived
    world.deliver(count=2)
    assert {sent.hash for sent in world.sent} == {world.stored.hash}
    assert (world.sent[-1].blob, world.sent[-1].content) == (f"{world.job}/1/0", None)
    assert world.workload.runs == 1


@pytest.mark.parametrize("again", [{"count": 2}, {"is_put_again": True}], ids=["delivered again", "put again"])
def test_a_chunk_that_is_credited_is_neither_run_nor_told_again(world, again):
    """Its row says so, by one request."""
    world.deliver()
    world.credit(ChunkState.DONE)
    plan = Plan()
    world.deliver_again(plan, **again)
    assert plan.kinds == ["GET jobs"]
    assert (world.workload.runs, len(world.sent)) == (1, 1)


def test_a_parked_row_does_not_end_a_chunk_that_comes_again(world):
    """It is being replayed: it runs, though its message was delivered before."""
    world.credit(ChunkState.PARKED)
    world.deliver(count=2)
    assert (world.workload.runs, [sent.reason for sent in world.sent]) == (1, [None])


def test_a_chunk_without_row_and_blob_runs_again(world):
    """Its first result may be on the bus. The ledger knows the second by its hash."""
    world.deliver()
    world.deliver_again(Plan(), is_put_again=True)
    assert world.workload.runs == 2
    assert len({sent.hash for sent in world.sent}) == 1


def test_a_chunk_that_was_credited_meanwhile_is_not_parked(world):
    """Another delivery was quicker, and this one fails for good."""
    world.workload.fault = fail
    world.credit(ChunkState.DONE)
    world.deliver(DEFAULT_POLICY.deliveries)
    assert (world.entry, world.sent) == (None, [])


def test_the_first_stored_result_stays(world, monkeypatch):
    """A workload that gives something else each time cannot change what a message names."""
    monkeypatch.setattr("shared.pipeline.results.CONTENT_MOST", 0)
    world.deliver()
    first = world.stored
    world.workload.combine = lambda _mapped: {"other": Decimal(1)}
    world.deliver()
    assert world.stored == first
    assert [sent.hash for sent in world.sent] == [first.hash, first.hash]


def test_a_damaged_payload_parks_at_once_with_its_reason(world):
    """The bytes do not have the hash of the index: no delivery can change that."""
    frame = world.message.frames[1]
    frames = [world.message.frames[0], (*frame[:3], "0" * 64), world.message.frames[2]]
    body = encode(msgspec.structs.replace(world.message, frames=frames))
    world.deliver(body=body)
    entry = world.entry
    assert (entry.reason, entry.stage, entry.attempts) == ("hash_mismatch", "process", 1)
    assert entry.instead
    (sent,) = world.sent
    assert (sent.reason, sent.parked) == ("hash_mismatch", PortionMessage(items=10, sums=None))
    with world.process() as process:
        assert process.parked.body(entry) == body


def test_an_unknown_workload_parks_at_once_and_says_what_to_do(world):
    """There is no use in trying again before the workload is deployed."""
    world.deliver(body=encode(msgspec.structs.replace(world.message, workload="missing")))
    assert world.entry.reason == "unknown_workload"
    assert "SLUICE_WORKLOADS" in world.entry.instead


def test_a_failing_workload_parks_at_the_fifth_delivery(world):
    """An exception that nobody knows is tried again, and not for ever."""
    world.workload.fault = fail
    for count in range(1, DEFAULT_POLICY.deliveries):
        with pytest.raises(ZeroDivisionError):
            world.deliver(count)
        assert world.entry is None
    world.deliver(DEFAULT_POLICY.deliveries)
    entry = world.entry
    assert (entry.reason, entry.attempts, entry.state) == ("failed:ZeroDivisionError", 5, EntryState.OPEN)
    assert [sent.reason for sent in world.sent] == ["failed:ZeroDivisionError"]


def test_a_workload_that_leaves_parks_at_the_fifth_delivery_with_its_place_and_its_transaction(world):
    """What it raised is no Exception. Its process lives, so it is a failure like any other, and no death."""
    world.workload.fault = lambda sale: leave() if sale.amount == Decimal("7.10") else None
    with ThreadPoolExecutor(1) as worker:
        for count in range(1, DEFAULT_POLICY.deliveries):
            assert isinstance(worker.submit(world.deliver, count).exception(), UserExitError)
            with world.process() as process:
                (failed,) = process.attempts.list_failures(world.job)
            assert (failed.kind, failed.deliveries, failed.left, failed.items) == ("SystemExit", count, 1, 10)
            words = rf"1 of 10 is tried again: SystemExit at leave \(test_process\.py:\d+\), try {count} of 5"
            assert re.fullmatch(words, failed.words)
        worker.submit(world.deliver, DEFAULT_POLICY.deliveries).result()
    entry = world.aside
    assert (entry.reason, entry.attempts, entry.state) == ("failed:SystemExit", 5, EntryState.OPEN)
    found = "SystemExit: no price today; 1 of 10 transactions failed"
    assert (entry.found, entry.failed_item) == (found, world.message.first_id + 7)
    assert entry.place.startswith("test_process.py:")
    assert [(sent.reason, sent.accepted.items, sent.parked.items) for sent in world.sent] == [(None, 9, 1)]


def test_each_failure_is_noted_until_the_chunk_is_done_or_parked(world):
    """Which message, how often, what, where and when; no text of the error, which may quote a transaction."""
    world.workload.fault = fail
    for count in (1, 2):
        with pytest.raises(ZeroDivisionError):
            world.deliver(count)
    with world.process() as process:
        (failed,) = process.attempts.list_failures(world.job)
        assert (failed.key, failed.deliveries, failed.kind) == ("chunk-000000000-1", 2, "ZeroDivisionError")
        assert (failed.at, failed.place.split(" < ")[0].split(" ")[-1]) == (world.clock.at, "fail")
        world.workload.fault = lambda _sale: None
        world.deliver(3)
        assert process.attempts.list_failures(world.job) == []


def test_a_parked_chunk_names_the_place_and_the_transaction(world):
    """Its eighth transaction divides by zero: the number is the one that `map` got."""
    numbers = iter(range(100))
    world.workload.fault = lambda sale: fail(sale) if next(numbers) == 7 else None
    world.deliver(DEFAULT_POLICY.deliveries)
    entry, first = world.aside, world.message.first_id
    assert (entry.first_item, entry.failed_item) == (first, first + 7)
    assert entry.place.startswith("test_process.py:")


def test_a_parked_chunk_that_is_delivered_again_is_not_run_again(world):
    """The worker died after parking, before the host deleted the message: one terminal state, told twice."""
    world.workload.fault = fail
    world.deliver(DEFAULT_POLICY.deliveries)
    world.workload.fault = lambda _sale: None
    world.workload.runs = 0
    world.deliver(DEFAULT_POLICY.deliveries + 1)
    assert world.workload.runs == 0
    assert [sent.reason for sent in world.sent] == ["failed:ZeroDivisionError"] * 2


def test_an_outage_parks_nothing_however_long_it_lasts(world):
    """The result is stored and the bus is down for fifty deliveries: nothing is parked, nothing computed again."""
    for count in range(1, 51):
        with pytest.raises(ResultNotSentError):
            world.deliver(count, plan=BusDown())
    world.deliver(51)
    assert world.entry is None
    assert world.workload.runs == 1
    assert [sent.hash for sent in world.sent] == [world.stored.hash]


def test_a_workload_that_cannot_reach_its_service_parks_nothing(world):
    """A refused connection passes; the chunk waits for it as long as the host delivers."""
    world.workload.fault = refuse_connection
    for count in range(1, 31):
        with pytest.raises(PutOffError) as put_off:
            world.deliver(count)
        world.clock.advance(put_off.value.seconds)
    assert world.entry is None
    world.workload.fault = lambda _sale: None
    world.deliver(31)
    assert world.sent[0].accepted.items == 10


def test_an_unreadable_message_is_parked_with_its_bytes(world):
    """Nobody knows what it was, so it is kept as it came."""
    body = b'{"sluice": {"kind": "chunk", "job": 7, "nonce": "%s"}}' % world.job.encode()
    world.deliver(body=body)
    with world.process() as process:
        (entry,) = (one for one in process.parked.entries(NO_JOB) if process.parked.body(one) == body)
    assert entry.reason == "unreadable"
    assert world.sent == []


@pytest.mark.parametrize(
    "change",
    [{"v": 2}, {"part": (0, 4)}, {"job": "../elsewhere"}, {"job": "A"}],
    ids=[
        "the version of parts",
        "a part in the older version",
        "a path",
        "a name outside of the grammar",
    ],
)
def test_a_chunk_that_this_version_must_not_touch_is_parked(world, change):
    """Neither a version that does not fit nor a name that leaves its container is worked on."""
    world.deliver(body=encode(msgspec.structs.replace(world.message, **change)))
    assert world.workload.runs == 0
    assert [sent for sent in world.sent if sent.hash] == []


def test_a_message_of_another_queue_is_parked(world):
    """A dispatch on a work queue is somebody's mistake, and is not lost for it."""
    world.deliver(body=encode(DispatchMessage(job=world.job)))
    assert world.workload.runs == 0


def test_a_message_sent_as_base64_is_understood(world):
    """Portals and .NET programs encode what they put on a queue."""
    world.deliver(body=base64.b64encode(world.body))
    assert world.sent[0].accepted.items == 10


_KINDS = {(): Finish, ("segment",): Segment, ("shard",): Shard}


@pytest.mark.parametrize("told", [{}, {"segment": 7}, {"shard": 7}], ids=["finish", "segment", "shard"])
def test_a_message_about_a_finish_goes_to_the_finisher(world, told):
    """It travels on the first work queue, and is nobody's chunk."""
    message = _KINDS[tuple(told)](job=world.job, revision=3, **told)
    world.deliver(body=encode(message))
    assert world.finishing.finished == [message]


@pytest.mark.parametrize(
    ("told", "key"), [({}, "finish-1"), ({"segment": 7}, "segment-000007-1"), ({"shard": 7}, "shard-07-1")]
)
def test_a_finish_that_fails_for_good_pauses_its_job_and_is_parked(world, told, key):
    """The job says that its outputs cannot be made, and the message is there for when they can."""
    message = _KINDS[tuple(told)](job=world.job, revision=1, **told)
    world.finishing.fault = fail
    for count in range(1, DEFAULT_POLICY.deliveries):
        with pytest.raises(ZeroDivisionError):
            world.deliver(count, body=encode(message))
    world.deliver(DEFAULT_POLICY.deliveries, body=encode(message))
    assert world.finishing.paused == [(message, ZeroDivisionError)]
    with world.process() as process:
        entry = process.parked.get(world.job, key)
    assert (entry.stage, entry.revision, entry.chunk) == ("finish", 1, None)
    assert world.sent == []


@pytest.mark.parametrize(
    ("told", "key"), [({}, "finish-1"), ({"segment": 7}, "segment-000007-1"), ({"shard": 7}, "shard-07-1")]
)
def test_a_replayed_message_about_a_finish_is_parked_at_its_first_failure(world, told, key):
    """Whoever replays it sees within seconds that the cause is still there."""
    body = encode(_KINDS[tuple(told)](job=world.job, revision=1, **told))
    world.finishing.fault = fail
    world.deliver(DEFAULT_POLICY.deliveries, body=body)
    with world.process() as process:
        parked = process.parked.get(world.job, key)
        process.parked.change(parked, replace(parked, state=EntryState.REPLAYED))
        world.deliver(1, body=body)
        assert process.parked.get(world.job, key).returns == 1


def test_a_chunk_without_an_answer_from_storage_is_not_parked(world):
    """Storage says 503 to the read and to all of its repetitions: the host delivers again."""
    with pytest.raises(StorageUnavailableError):
        world.deliver(DEFAULT_POLICY.deliveries - 3, plan=Outage())
    world.deliver(DEFAULT_POLICY.deliveries - 2)
    assert world.sent[0].accepted.items == 10


def fail(_sale):
    """Fail as a bug does."""
    raise ZeroDivisionError


def leave():
    """Leave as a program does that has no more to do."""
    sys.exit("no price today")


def refuse_connection(_sale):
    """Fail as a service that is down does."""
    raise ConnectionRefusedError


class BusDown(Plan):
    """Storage answers, the bus does not."""

    def take(self, site, **_details):
        """Refuse what goes to the bus."""
        return "reset_before" if site.startswith("SEND") else ""


class Outage(Plan):
    """Storage answers 503 to everything."""

    def take(self, _site, **_details):
        """Refuse it."""
        return "503_before"
