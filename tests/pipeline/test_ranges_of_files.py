"""A large plain file, through the whole app: its ranges are cut by workers, taken in order, and end the job."""

import gzip
import json
from dataclasses import replace
from unittest.mock import patch

import pytest

from shared.ledger.records import JobState
from shared.messages import Delivery, FileRange, encode
from shared.payload import Limits
from shared.topology import rooms
from tests.faults.world import SETTINGS, sales
from tests.pipeline.test_growing_jobs import go_on
from tests.pipeline.whole_app import app_in_memory

JOB, FILE = "usage", "uploads/usage.ndjson"
LIMITS = Limits(frame_items=2, stretch_bytes=200, block_bytes=8192)
ITEMS = 40


def lines(items=ITEMS):
    """Return the lines of a file, 30 bytes or so each."""
    return b"".join(json.dumps(one).encode() + b"\n" for one in sales(*"ab" * (items // 2)))


@pytest.fixture
def app():
    """The app on storage in memory, with small ranges."""
    with app_in_memory(limits=LIMITS) as made:
        yield made


def drop(app, content, room="", name=FILE, **fields):
    """Upload a file and drop the message about it."""
    suffix = f"-{room}" if room else ""
    container = app.others.blobs.get_container_client(f"payloads{suffix}")
    container.get_blob_client(name).upload_blob(content, overwrite=True)
    send(app, room, name, **fields)


def send(app, room="", name=FILE, **fields):
    """Drop the message about a file."""
    body = {"job": JOB, "workload": "sales", "payload": {"blob": name}, **fields}
    queue = app.others.queues.get_queue_client("submissions" + (f"-{room}" if room else ""))
    queue.send_message(json.dumps({"sluice": body}))


def ranges_on_queue(app):
    """Return the numbers of the ranges whose messages are on the work queue."""
    found = app.others.queues.get_queue_client("work-00").peek_messages(32)
    wrapped = [json.loads(one.content)["sluice"] for one in found]
    return [one["stretch"] for one in wrapped if one["kind"] == "range"]


def cut(app, stretch, *, again=False):
    """Deliver the message of a range."""
    body = encode(FileRange(job=JOB, stretch=stretch, again=again))
    app.app.stages.processor.handle(Delivery(queue="work-00", message_id="m", body=body, count=1))


def test_a_large_file_is_cut_by_ranges_and_ends_whole(app):
    """Its acceptor cuts the first range alone."""
    drop(app, lines())
    app.deliver("submissions")
    job = app.read(JOB)
    assert (job.growing, job.stretches, job.file) == (True, 1, FILE)
    assert 0 < job.items < ITEMS
    assert ranges_on_queue(app) == list(range(1, job.ranges.count))
    app.work_off()
    job = app.read(JOB)
    assert (job.state, job.growing, job.stretches) == (JobState.COMPLETE, False, job.ranges.count)
    assert (job.items, job.totals.accepted.items) == (ITEMS, ITEMS)
    # Each of its chunks has ended once, and its numbers are its own.
    assert {row.chunk for row in app.stores.ledger.rows(JOB)} == set(range(job.chunks))
    rows = app.stores.ledger.stretches_of(JOB)
    assert [row.before for row in rows] == sorted({row.before for row in rows})


@pytest.mark.parametrize("order", ["backwards", "odd ones first"])
def test_in_whatever_order_they_are_cut_they_are_taken_in_order(app, order):
    """The worker whose turn it is takes those behind it too, which are there."""
    drop(app, lines())
    app.deliver("submissions")
    count = app.read(JOB).ranges.count
    numbers = list(range(1, count))
    cut_in = numbers[::-1] if order == "backwards" else numbers[::2] + numbers[1::2]
    for number in cut_in[:-1]:
        cut(app, number)
    assert app.read(JOB).stretches < count
    cut(app, cut_in[-1])
    assert app.read(JOB).stretches == count
    app.work_off()
    job = app.read(JOB)
    assert (job.state, job.totals.accepted.items) == (JobState.COMPLETE, ITEMS)


def test_each_range_calls_for_a_later_one(app):
    """The message of one so far ahead is put once."""
    drop(app, lines())
    with patch("shared.payload.ranges.AHEAD", 2):
        app.deliver("submissions")
        assert ranges_on_queue(app) == [1, 2]
        cut(app, 2)
        cut(app, 2)
        assert ranges_on_queue(app) == [1, 2, 4, 4]
        cut(app, 4)
        app.others.queues.get_queue_client("work-00").clear_messages()
        cut(app, 2)
        assert ranges_on_queue(app) == []
        for _ in range(3):
            app.clock.advance(minutes=11)
            app.app.tick()
            app.work_off()
    job = app.read(JOB)
    assert (job.state, job.totals.accepted.items) == (JobState.COMPLETE, ITEMS)


@pytest.mark.parametrize("name", ["usage.ndjson.gz", "usage"])
def test_a_compressed_file_is_framed_as_a_whole(app, name):
    """It cannot be split. Its first bytes say so where its name does not."""
    text = b"".join(b'{"shop": "a", "amount": "%d.00", "note": "%d"}\n' % (n, n * n) for n in range(60))
    packed = gzip.compress(text, 0)
    assert len(packed) > LIMITS.whole_bytes
    drop(app, packed, name=f"uploads/{name}")
    app.deliver("submissions")
    job = app.read(JOB)
    assert (job.growing, job.ranges, job.items) == (False, None, 60)


def test_a_small_file_is_framed_as_a_whole(app):
    """Up to twice a stretch."""
    drop(app, lines()[: LIMITS.whole_bytes])
    app.deliver("submissions")
    assert app.read(JOB).ranges is None


def test_the_same_message_again_is_the_same_job(app):
    """While it is cut, and when it has ended. Another file under its id is refused."""
    drop(app, lines())
    send(app)
    app.work_off()
    send(app)
    app.work_off()
    assert app.read(JOB).state is JobState.COMPLETE
    drop(app, lines() + lines())
    app.work_off()
    assert [one.reason for one in app.stores.parked_table.entries()] == ["conflict"]


def test_a_declared_number_is_proven_at_the_end(app):
    """The file is not counted at the door."""
    drop(app, lines(), declared={"items": ITEMS + 1})
    app.work_off()
    job = app.read(JOB)
    assert (job.state, job.problem) == (JobState.UNBALANCED, job.problem)
    assert "41 items were declared" in job.problem


def test_a_lost_message_is_put_again_by_the_tick_and_the_second_time_it_is_a_problem(app):
    """One read of a blob and one list, while the job is silent."""
    drop(app, lines())
    app.deliver("submissions")
    app.others.queues.get_queue_client("work-00").clear_messages()
    assert ranges_on_queue(app) == []
    count = app.read(JOB).ranges.count
    app.clock.advance(minutes=11)
    app.app.tick()
    assert ranges_on_queue(app) == list(range(1, count))
    app.others.queues.get_queue_client("work-00").clear_messages()
    app.clock.advance(minutes=11)
    app.app.tick()
    assert "range 1 of its file is not cut" in app.read(JOB).problem
    app.work_off()
    for _ in range(2):
        app.clock.advance(minutes=11)
        app.app.tick()
        app.work_off()
    job = app.read(JOB)
    assert (job.state, job.problem) == (JobState.COMPLETE, None)


def test_a_range_that_is_delivered_again_is_not_cut_again(app):
    """Its blob is there. What its first run may have left undone is done."""
    drop(app, lines())
    app.deliver("submissions")
    cut(app, 1)
    job = app.read(JOB)
    before = app.made()
    cut(app, 1)
    assert app.read(JOB).stretches == job.stretches
    assert app.made() - before <= 6


def test_another_version_of_the_file_parks_its_ranges_and_the_job_says_so(app):
    """Nothing of the other file comes into the job."""
    drop(app, lines())
    app.deliver("submissions")
    container = app.others.blobs.get_container_client("payloads")
    container.get_blob_client(FILE).upload_blob(lines() + b"\n", overwrite=True)
    app.work_off()
    entries = list(app.stores.parked_table.entries())
    assert {one.reason for one in entries} == {"payload_replaced"}
    assert {one.key for one in entries} == {f"range-{n:06}" for n in range(1, app.read(JOB).ranges.count)}
    job = app.read(JOB)
    assert (job.state, job.stretches) == (JobState.DISPATCHING, 1)
    assert "range 1 is not cut: payload_replaced" in job.problem


def test_a_line_that_is_too_long_refuses_its_range_alone():
    """Chunks of those before it run. The place is in the problem."""
    content = lines(12) + b'{"x": "' + b"y" * 300 + b'"}\n' + lines(12)
    with app_in_memory(limits=replace(LIMITS, line_bytes=100)) as app:
        drop(app, content)
        app.work_off()
        job = app.read(JOB)
    assert (job.state, job.growing) == (JobState.DISPATCHING, True)
    assert job.ended_chunks == job.chunks > 0
    assert "line_too_long" in job.problem
    assert "bytes " in job.problem


def test_blank_ranges_are_stretches_without_a_row(app):
    """The first ones, some between, and the last ones."""
    blank = b"\n" * 450
    drop(app, blank + lines(10) + blank + lines(10) + blank)
    app.work_off()
    job = app.read(JOB)
    assert (job.state, job.totals.accepted.items, job.stretches) == (JobState.COMPLETE, 20, job.ranges.count)
    assert len(app.stores.ledger.stretches_of(JOB)) < job.ranges.count - 1


def test_a_file_of_blank_lines_alone_is_refused_at_the_door(app):
    """As a small one."""
    drop(app, b"\n" * 900)
    app.work_off()
    assert app.read(JOB) is None
    assert [one.reason for one in app.stores.parked_table.entries()] == ["empty"]


def test_a_job_in_a_room_reads_its_room(app):
    """What was cut is kept by its internal id."""
    with app_in_memory(rooms(["alpha"]), settings=replace(SETTINGS, rooms=("alpha",)), limits=LIMITS) as own:
        drop(own, lines(), room="alpha")
        own.work_off()
        job = own.read(JOB, room="alpha")
        assert (job.state, job.totals.accepted.items) == (JobState.COMPLETE, ITEMS)


def test_a_paused_job_cuts_what_is_called_and_its_resume_calls_the_rest(app):
    """No stretch is taken meanwhile, and the tick is not needed."""
    drop(app, lines())
    with patch("shared.payload.ranges.AHEAD", 2):
        app.deliver("submissions")
        app.stores.job_operator.pause(JOB, by="ann", why="wrong file")
        app.work_off()
        job = app.read(JOB)
        assert (job.state, job.stretches) == (JobState.PAUSED, 1)
        assert app.app.stages.range_call.cuts.list_numbers(JOB) == {1, 2}
        app.stores.job_operator.resume(JOB, by="ann", why="right")
        go_on(app, JOB)
    job = app.read(JOB)
    assert (job.state, job.totals.accepted.items) == (JobState.COMPLETE, ITEMS)


def test_a_stopped_job_has_nothing_cut_any_more(app):
    """Its messages are taken and nothing follows."""
    drop(app, lines())
    app.deliver("submissions")
    job = app.read(JOB)
    stores = app.stores
    stopped = replace(job, state=JobState.STOPPED)
    assert stores.ledger.commit(stopped) is not None
    before = app.made()
    cut(app, 1)
    assert app.made() - before == 1
    names = list(app.others.blobs.get_container_client("plans").list_blob_names(name_starts_with=f"{JOB}/stretches/"))
    assert names == []
