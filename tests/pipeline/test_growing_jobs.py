"""Jobs that grow by stretches, through the whole app: taken in order, run beside their publisher, ended by the declared end."""

import hashlib
import io
import json

import pytest

from shared.ledger.records import JobState
from shared.messages import Delivery
from shared.payload import StretchFields, StretchStore
from shared.payload.frames import Framing, spool_for, write_frames
from shared.payload.payload_store import PayloadStore
from shared.payload.submission import DeclaredFields
from tests.faults.world import SMALL, sales
from tests.pipeline.whole_app import app_in_memory
from shared.publish import encode_all

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
