"""Jobs that grow by stretches, through the whole app: taken in order, run beside their publisher, ended by the declared end."""

import hashlib
import io
import json
from dataclasses import replace
from datetime import timedelta
from types import SimpleNamespace

import pytest

from shared.ledger import read_progress
from shared.ledger.records import JobState
from shared.operating.job_acts import JobLook, explain_pace, find_job_of_number
from shared.payload import Limits, StretchFields, StretchStore
from shared.payload.frames import Framing, spool_for, write_frames
from shared.payload.payload_store import PayloadStore
from shared.payload.submission import DeclaredFields
from shared.publish import Publisher, encode_all
from shared.signals import Hint
from shared.topology import rooms
from tests.faults.world import SETTINGS, SMALL, sales
from tests.pipeline.whole_app import app_in_memory, running_app

JOB = "meters"
EACH = 6


@pytest.fixture
def app():
    """The app on storage in memory."""
    with app_in_memory() as made:
        yield made


class Feed:
    """A publisher in any language: it writes blobs, and drops the same message each time."""

    def __init__(self, app, room="", job=JOB, gate=None):
        self.app, self.job, self.gate, self.room = app, job, gate, room
        container = app.others.blobs.get_container_client("payloads" + (f"-{room}" if room else ""))
        self.store, self.payloads = StretchStore(container), PayloadStore(container, SMALL)
        self.queue = app.others.queues.get_queue_client("submissions" + (f"-{room}" if room else ""))
        self.number, self.previous = 0, ""

    def write(self, items=EACH, **changed):
        """Write the next stretch."""
        lines = list(encode_all(sales(*"ab" * (items // 2))))
        text = b"".join(line + b"\n" for _, line in lines)
        with spool_for(SMALL) as spool:
            framed = write_frames(lines, spool, Framing(limits=SMALL))
            self.payloads.put(self.job, spool, framed.index.stored, framed.sha256)
        fields = {
            "previous": self.previous,
            "blob": f"{self.job}/{framed.sha256}",
            "codec": framed.codec,
            "frames": framed.index.frames,
            "text": hashlib.sha256(text).hexdigest(),
        }
        self._put(StretchFields(**(fields | changed)))

    def end(self, items=None, **sums):
        """Write the end."""
        self._put(StretchFields(previous=self.previous, end=DeclaredFields(items, sums)))

    def _put(self, fields):
        content = fields.encode()
        self.store.put(self.job, self.number, content)
        self.number, self.previous = self.number + 1, hashlib.sha256(content).hexdigest()

    def drop(self, **fields):
        """Drop the message."""
        gate = {"gate": self.gate} if self.gate else {}
        body = {"job": self.job, "workload": "sales", "payload": {"stretches": True}, **gate, **fields}
        self.queue.send_message(json.dumps({"sluice": body}))


def test_it_runs_as_its_stretches_come_and_ends_with_the_end(app):
    """Chunks of the first stretch have ended before the second is written, and the job goes on."""
    feed = Feed(app)
    feed.write()
    feed.drop()
    app.work_off()
    job = app.read(JOB)
    assert (job.state, job.growing, job.stretches, job.items) == (JobState.DISPATCHING, True, 1, EACH)
    assert job.ended_chunks == job.chunks > 0
    for _ in range(2):
        feed.write()
        feed.drop()
        app.work_off()
    job = app.read(JOB)
    assert (job.state, job.stretches, job.items, job.totals.items) == (JobState.DISPATCHING, 3, 3 * EACH, 3 * EACH)
    feed.end(3 * EACH)
    feed.drop()
    app.work_off()
    job = app.read(JOB)
    assert (job.state, job.growing, job.totals.accepted.items) == (JobState.COMPLETE, False, 3 * EACH)
    assert job.dispatch_cursor == job.chunks == job.done


@pytest.mark.parametrize("ends", [True, False], ids=["ended", "grows"])
def test_each_of_its_numbers_is_found(app, ends):
    """Between its stretches another job drew numbers. The list cannot say them, so the rows of the stretches are read."""
    feed, other = Feed(app), Feed(app, job="other")
    for one in (feed, other, feed):
        one.write()
        one.drop()
        app.work_off()
    if ends:
        feed.end(2 * EACH)
        feed.drop()
        app.work_off()
    job, stores = app.read(JOB), app.stores
    (row,), now = stores.ledger.stretches_of(JOB), app.clock.now()
    wanted = {job.id_base: JOB, row.id_base - 1: "other", row.id_base + EACH - 1: JOB, row.id_base + EACH: None}
    between = now - timedelta(minutes=5), now
    found = {number: find_job_of_number(stores.job_list, stores.ledger, number, between) for number in wanted}
    assert found == wanted


def test_one_message_takes_all_that_is_there(app):
    """The messages of the stretches before it were lost."""
    feed = Feed(app)
    for _ in range(3):
        feed.write()
    feed.end()
    feed.drop()
    app.work_off()
    job = app.read(JOB)
    assert (job.state, job.stretches, job.totals.accepted.items) == (JobState.COMPLETE, 3, 3 * EACH)
    # Chunks keep their numbers and their ids, each once.
    assert {row.chunk for row in app.stores.ledger.rows(JOB)} == set(range(job.chunks))


def tick(app, minutes=11):
    """Let the tick of a later time pass, and what it puts be worked off."""
    app.clock.advance(minutes=minutes)
    app.app.tick()
    app.work_off()


def test_a_stretch_waits_for_the_one_before_and_the_end_may_come_twice(app):
    """Blobs may be written in any order: each is taken at its turn, and the end counts once."""
    feed, written = Feed(app), []
    store, feed.store = feed.store, SimpleNamespace(put=lambda *one: written.append(one))
    for _ in range(3):
        feed.write()
    feed.end()
    for number, taken in ((0, 1), (2, 1), (3, 1), (1, 3)):
        store.put(*written[number])
        feed.drop()
        app.work_off()
        assert app.read(JOB).stretches == taken
    job = app.read(JOB)
    store.put(*written[3])
    feed.drop()
    app.work_off()
    again = app.read(JOB)
    assert (job.state, job.totals.accepted.items) == (JobState.COMPLETE, 3 * EACH)
    assert (again.state, again.revision, again.totals) == (job.state, job.revision, job.totals)


def test_a_lost_message_is_made_up_for_by_the_tick(app):
    """One read of a blob: the second stretch, the end, and nobody said that they are there."""
    feed = Feed(app)
    feed.write()
    feed.drop()
    app.work_off()
    feed.write()
    feed.end()
    tick(app)
    assert app.read(JOB).state is JobState.COMPLETE


def test_a_stretch_keeps_its_place_in_a_row(app):
    """The first one is in the job's own row."""
    feed = Feed(app)
    feed.write()
    feed.write()
    feed.end()
    feed.drop()
    app.work_off()
    rows, job = app.stores.ledger.stretches_of(JOB), app.read(JOB)
    assert [(row.number, row.before, row.items) for row in rows] == [(1, EACH, EACH)]
    assert rows[0].chunk + rows[0].chunks == job.chunks
    assert rows[0].id_base >= job.id_base + EACH


def test_a_job_in_a_room_is_read_in_its_room():
    """Its publisher calls it by a name of its own, and writes to a container of its own."""
    with app_in_memory(rooms(["alpha"]), settings=replace(SETTINGS, rooms=("alpha",))) as app:
        feed = Feed(app, room="alpha")
        feed.write()
        feed.write()
        feed.end(2 * EACH)
        feed.drop()
        app.work_off()
        job = app.read(JOB, "alpha")
        assert (job.job, job.state, job.stretches) == ("alpha~meters", JobState.COMPLETE, 2)


def test_a_person_reads_how_far_it_has_come(app):
    """In the command and in the console; no end is predicted, and its row needs a person once its stretch is refused."""
    feed = Feed(app)
    feed.write()
    feed.drop()
    app.work_off()
    job = app.read(JOB)
    assert explain_pace(JobLook(job), app.clock.now()) == [f"grows: 1 stretch, {EACH} so far, end not declared"]
    assert read_progress(job, app.clock.now()).predicted is None
    feed.write(text="short")
    feed.drop()
    app.work_off()
    assert app.read(JOB).needs == "x-planless"


def test_one_behind_a_closed_gate_grows_and_puts_nothing(app):
    """Its release puts what it has by then, and the rest as it comes."""
    feed = Feed(app, gate="nightly")
    for _ in range(2):
        feed.write()
        feed.drop()
        app.work_off()
    job = app.read(JOB)
    assert (job.state, job.stretches, job.dispatch_cursor) == (JobState.HELD, 2, 0)
    app.stores.gate_operator.open("nightly", by="ann", why="")
    app.app.tick()
    app.work_off()
    assert app.read(JOB).totals.accepted.items == 2 * EACH
    feed.end()
    feed.drop()
    app.work_off()
    assert app.read(JOB).state is JobState.COMPLETE


@pytest.mark.parametrize(
    ("changed", "found"),
    [
        ({"previous": "0" * 64}, "two programs write this job"),
        ({"blob": "other/blob"}, "others_folder"),
        ({"blob": f"{JOB}/" + "0" * 64}, "payload_missing"),
        ({"codec": "brotli"}, "unknown_codec"),
        ({"frames": ()}, "empty"),
        ({"text": "short"}, "wrong_type"),
        ({"v": 2}, "unsupported_version"),
    ],
)
def test_a_stretch_that_cannot_be_taken_stops_no_other(app, changed, found):
    """It is a problem of the job, until its blob is written again."""
    feed = Feed(app)
    feed.write()
    feed.drop()
    before = feed.previous
    feed.write(**changed)
    feed.drop()
    app.work_off()
    job = app.read(JOB)
    assert (job.state, job.stretches, job.totals.accepted.items) == (JobState.DISPATCHING, 1, EACH)
    assert found in job.problem
    feed.number, feed.previous = 1, before
    app.others.blobs.get_container_client("payloads").delete_blob(f"{JOB}/stretches/000001")
    feed.write()
    feed.end()
    feed.drop()
    app.work_off()
    job = app.read(JOB)
    assert (job.state, job.problem, job.totals.accepted.items) == (JobState.COMPLETE, None, 2 * EACH)


@pytest.mark.parametrize(
    ("end", "state", "problem"),
    [
        ({"items": EACH + 1}, JobState.UNBALANCED, f"{EACH + 1} items were declared, its stretches have {EACH}"),
        ({"items": EACH}, JobState.COMPLETE, None),
        ({"price": "1"}, JobState.DISPATCHING, "unknown_sum"),
    ],
)
def test_the_declared_end_is_proven(app, end, state, problem):
    """A number that differs publishes nothing, and a sum that no workload adds up is not taken."""
    feed = Feed(app)
    feed.write()
    feed.end(**end)
    feed.drop()
    app.work_off()
    job = app.read(JOB)
    assert job.state is state
    assert (problem or "") in (job.problem or "")


def test_other_content_under_the_same_id_is_refused(app):
    """By the lines of the first stretch, however they are compressed."""
    feed = Feed(app)
    feed.write()
    feed.drop()
    feed.drop(most_rejected="7")
    feed.drop(gate="nightly")
    app.work_off()
    assert len(list(app.stores.parked_table.claiming(JOB))) == 1
    assert app.read(JOB).gate is None


def test_the_first_stretch_is_needed_at_the_door(app):
    """A payload that is not there is refused as any other."""
    Feed(app).drop()
    app.work_off()
    assert [entry.reason for entry in app.stores.parked_table.claiming(JOB)] == ["payload_missing"]


def go_on(app, job=JOB):
    """Follow the hint of a resume, and work off what it put: no tick is needed."""
    app.app.stages.releaser.on_signal(Hint(job=job))
    app.work_off()


def test_a_paused_one_takes_nothing_until_it_is_resumed(app):
    """Its stretches wait in their blobs."""
    feed = Feed(app)
    feed.write()
    feed.drop()
    app.work_off()
    app.stores.job_operator.pause(JOB, by="ann", why="wrong file")
    feed.write()
    feed.end()
    feed.drop()
    app.work_off()
    job = app.read(JOB)
    assert (job.state, job.stretches) == (JobState.PAUSED, 1)
    assert app.stores.job_operator.resume(JOB, by="ann", why="right").state is JobState.DISPATCHING
    go_on(app)
    assert app.read(JOB).state is JobState.COMPLETE


def test_a_stopped_one_takes_nothing_ever(app):
    """Its publisher never came back: in = accepted + not run."""
    feed = Feed(app)
    feed.write()
    feed.drop()
    app.work_off()
    stopped = app.stores.job_operator.stop(JOB, by="ann", why="it never came back")
    assert (stopped.state, stopped.not_run, stopped.growing) == (JobState.STOPPED, 0, True)
    feed.write()
    feed.end()
    feed.drop()
    tick(app)
    job = app.read(JOB)
    assert (job.state, job.stretches, job.items) == (JobState.STOPPED, 1, EACH)


def test_it_says_once_that_its_publisher_does_not_come_back(app):
    """The tick looks again, and writes nothing more."""
    feed = Feed(app)
    feed.write()
    feed.drop()
    app.work_off()
    tick(app)
    job = app.read(JOB)
    assert "sluice jobs stop" in job.problem
    tick(app)
    assert app.read(JOB).etag == job.etag


def test_it_is_stopped_after_the_retention_and_leaves_nothing():
    """Its publisher never came back. Also a stretch that was never taken goes."""
    with running_app() as app:
        feed = Feed(app)
        feed.write()
        feed.write()
        feed.drop()
        app.work_off()
        feed.write(previous="")
        tick(app, minutes=31 * 24 * 60)
        assert (app.read(JOB).state, app.read(JOB).by) == (JobState.STOPPED, "retention")
        for _ in range(3):
            tick(app, minutes=31 * 24 * 60)
        assert app.read(JOB).state is JobState.BURIED
        left = [blob.name for blob in app.others.blobs.get_container_client("payloads").list_blobs()]
        assert left == []
        assert app.stores.ledger.stretches_of(JOB) == []


def count_requests(stretch_bytes):
    """Return how many requests the app makes of 200 chunks, and in how many stretches they came."""
    lines = b"".join(json.dumps(one).encode() + b"\n" for one in [{"shop": "a", "amount": "1.10"}] * 400)
    limits = Limits(frame_items=2, message_bytes=500, stretch_bytes=len(lines) // stretch_bytes)
    with app_in_memory(settings=replace(SETTINGS, chunk_items=2)) as app:
        payloads = app.others.blobs.get_container_client("payloads")
        publisher = Publisher(app.others.queues.get_queue_client("submissions"), payloads, limits=limits)
        publisher.on_stretch = lambda _number, _is_found: app.work_off()
        before = app.made()
        sent = publisher.submit_file(job=JOB, file=io.BytesIO(lines), workload="sales")
        app.work_off()
        assert (app.read(JOB).state, app.read(JOB).chunks) == (JobState.COMPLETE, 200)
        return app.made() - before, sent.stretches


def test_stretches_of_fifty_chunks_cost_at_most_a_tenth_more():
    """A stretch of 64 MiB has about as many. Each takes some fourteen requests beside those of its chunks."""
    (whole, none), (grown, stretches) = count_requests(1), count_requests(4)
    assert (none, stretches) == (0, 4)
    assert grown <= 1.1 * whole


def test_a_lost_plan_of_a_later_stretch_pauses_the_job(app):
    """As that of a job that came whole: a person has to send it anew."""
    feed = Feed(app, gate="nightly")
    feed.write()
    feed.write()
    feed.drop()
    app.work_off()
    (row,) = app.stores.ledger.stretches_of(JOB)
    app.others.blobs.get_container_client("plans").delete_blob(row.plan.name)
    app.stores.gate_operator.open("nightly", by="ann", why="")
    tick(app)
    job = app.read(JOB)
    assert (job.state, "is gone" in job.problem) == (JobState.PAUSED, True)
