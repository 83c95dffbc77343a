"""Payloads whose submission never came are removed; whatever a job, a parked message or a publisher needs stays."""

import hashlib
import io
import itertools
import json
import uuid
from collections import Counter
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from shared.azure.connections import Connections
from shared.azure.meter import tally_requests
from shared.errors import SluiceError
from shared.ledger.records import TOMBSTONES, Job, JobState
from shared.messages import Delivery
from shared.parked.cause_index import CauseIndex
from shared.parked.entry import ACCEPT, EntryState
from shared.parked.overflow import Overflow
from shared.parked.parked_table import ParkedTable
from shared.parked.parking import Parking
from shared.payload import PayloadStore
from shared.pending import ORPHANS_POINTER, PendingTable
from shared.pipeline.removal import cleanup
from shared.pipeline.removal.cleanup import MARGIN, Orphans
from shared.refusals import Reason, refuse
from tests.faults.plan import MODES, Fault, FaultyTransport, KilledError, Plan as FaultPlan
from tests.gate.conftest import ManualClock
from tests.ledger.memory_ledger import MemoryLedger
from tests.parked.stages import stages

RETENTION = timedelta(days=30)
CONTENT = b"a line\n"


def next_night(monkeypatch):
    """Have the sweep begin some twelve hours from now, at any time of the day. Return that moment.

    So what a test writes is older than it, and younger than the one a day before.
    """
    night = (datetime.now(UTC) + timedelta(hours=12)).replace(minute=0, second=0)
    monkeypatch.setattr(cleanup, "SWEEP_HOUR", night.hour)
    return night


class Night:
    """Storage of a test's own, and sweeps over it in the night in which what is written now is too old."""

    def __init__(self, connections, night):
        self.mark = mark = uuid.uuid4().hex[:12]
        self.connections, self.clock = connections, ManualClock(night + RETENTION + MARGIN)
        self.payloads = connections.blobs.create_container(f"payloads-{mark}")
        self.plans = connections.blobs.create_container(f"plans-{mark}")
        self.queue = connections.queues.create_queue(f"submissions-{mark}")
        self.pending_rows = connections.tables.create_table(f"pending{mark}")
        connections.tables.create_table(f"parked{mark}")
        connections.blobs.create_container(f"parked-{mark}")
        connections.tables.create_table(f"causes{mark}")
        self.parked = self.open_parked(connections, "one")
        self.ledger, self.store = MemoryLedger(), PayloadStore(self.payloads)
        self.pending = PendingTable(self.pending_rows)

    def open_parked(self, connections, process):
        """Return the entries, as a process of this name has them."""
        index = CauseIndex(connections.tables.get_table_client(f"causes{self.mark}"), process)
        container = connections.blobs.get_container_client(f"parked-{self.mark}")
        table = connections.tables.get_table_client(f"parked{self.mark}")
        return ParkedTable(table, container, index, Overflow(container, index, self.clock))

    def drop(self, job="nightly"):
        """Write a payload as a publisher does, and return its name."""
        return self.store.put(job, io.BytesIO(CONTENT), len(CONTENT), hashlib.sha256(CONTENT).hexdigest()).name

    def accept(self, job, state):
        """Have a job of that id in the ledger."""
        made = Job(job=job, content_hash="0", workload="billing", accepted_at=self.clock.now(), state=state)
        self.ledger.insert(made)

    def park(self, body):
        """Park a submission, as it is refused, and return its entry."""
        error = refuse(Reason.UNKNOWN_WORKLOAD, "nobody deployed it yet")
        delivery = Delivery(queue="submissions", message_id="m1", body=body, count=1)
        return Parking(self.parked, self.clock, stages()).park(ACCEPT, delivery, error)

    def sweep(self, **changes):
        """Run what the tick runs, and return what is left."""
        replace(self.orphans(), **changes).run(
            [one for one in self.pending.due(self.clock.now()) if one.kind == ORPHANS_POINTER]
        )
        return self.left()

    def orphans(self, connections=None):
        """Return the sweep over all this, its requests those of a process of its own if it has connections."""
        blobs, tables = (connections or self.connections).blobs, (connections or self.connections).tables
        return Orphans(
            ledger=self.ledger,
            parked=self.open_parked(connections or self.connections, "two"),
            pending=PendingTable(tables.get_table_client(f"pending{self.mark}")),
            container=lambda name: blobs.get_container_client(f"{name}-{self.mark}"),
            queue=lambda name: (connections or self.connections).queues.get_queue_client(f"{name}-{self.mark}"),
            rooms=(),
            clock=self.clock,
            retention=RETENTION,
        )

    def left(self):
        """Return the names of the payloads."""
        return [*self.payloads.list_blob_names(), *self.plans.list_blob_names()]


@pytest.fixture
def night(azurite, monkeypatch):
    """A night."""
    with Connections(azurite.connection_string) as connections:
        yield Night(connections, next_night(monkeypatch))


def test_a_payload_that_nobody_names_is_removed_at_its_time(night):
    """Not a day before, and the note about the sweep goes with it."""
    name = night.drop()
    night.clock.advance(days=-1)
    assert night.sweep() == [name]
    night.clock.advance(days=1)
    assert night.sweep() == []
    assert list(night.pending_rows.list_entities()) == []


def test_at_any_other_time_nothing_is_requested(night):
    """The idle tick stays at its two requests."""
    night.drop()
    night.clock.advance(minutes=1)
    with tally_requests() as tally:
        night.orphans().run([])
    assert tally.total() == 0


@pytest.mark.parametrize("state", sorted(set(JobState) - TOMBSTONES))
def test_the_payload_of_a_job_is_retentions_to_remove(night, state):
    """Held for a year, paused or finished: as long as the job has its row, nothing of it is touched."""
    night.accept("nightly", state)
    name = night.drop()
    assert night.sweep() == [name]


def test_what_was_dropped_again_after_the_burial_is_removed(night):
    """The tombstone answers the submission; its payload would stay for ever."""
    night.accept("nightly", JobState.BURIED)
    night.drop()
    assert night.sweep() == []


def test_a_parked_submission_keeps_its_payload_until_it_is_discarded(night):
    """Whatever it was refused for, a replay needs the bytes, those of its index too, which only its folder tells."""
    name, index = night.drop(), "nightly/" + "1" * 64
    night.payloads.upload_blob(index, b"[]")
    entry = night.park(json.dumps({"sluice": {"job": "nightly", "payload": {"blob": name}}}).encode())
    assert night.sweep() == [index, name]
    night.parked.change(entry, replace(entry, state=EntryState.DISCARDED))
    assert night.sweep() == []


def test_a_file_that_a_parked_submission_names_stays(night):
    """A file may lie anywhere: what the message says counts, not the folder."""
    for name in ("uploads/named.gz", "uploads/other.gz"):
        night.payloads.upload_blob(name, CONTENT)
    body = b'{"sluice": {"v": 2, "payload": {"blob": "uploads\\/named.gz"}}}'
    night.park(body)
    night.park(b"rubbish that nobody can read")
    assert night.sweep() == ["uploads/named.gz"]


def test_a_name_that_no_submission_can_say_is_left_alone(night):
    """Somebody else put it there."""
    night.payloads.upload_blob("backups/of yesterday#1.zip", CONTENT)
    assert night.sweep() == ["backups/of yesterday#1.zip"]


class Interrupted:
    """A ledger whose reader is overtaken by somebody, once."""

    def __init__(self, ledger, overtake, at=1):
        self._ledger, self._overtake, self._left = ledger, overtake, at

    def read(self, job):
        """Read, then let the other one act."""
        found = self._ledger.read(job)
        self._left -= 1
        if not self._left:
            self._overtake()
        return found


@pytest.mark.parametrize("look", [1, 2])
def test_a_publisher_that_drops_it_again_meanwhile_wins(night, look):
    """It finds the blob and touches it: the removal by the old ETag is refused, whenever that was."""
    name = night.drop()
    assert night.sweep(ledger=Interrupted(night.ledger, night.drop, look)) == [name]


def test_a_replay_that_ends_meanwhile_wins(night):
    """Its entry is closed before what is parked is read, and its job has its row before that: the row is seen."""
    name = night.drop()
    entry = night.park(json.dumps({"sluice": {"job": "nightly", "payload": {"blob": name}}}).encode())

    def replayed():
        night.accept("nightly", JobState.PLANNING)
        night.parked.change(entry, replace(entry, state=EntryState.DONE))

    assert night.sweep(ledger=Interrupted(night.ledger, replayed)) == [name]


def test_a_large_container_is_gone_through_by_several_ticks(night):
    """Each goes on where the one before it stopped, and the last one takes the note away."""
    for number in range(5):
        night.drop(f"job-{number}")
    left = [len(night.sweep(page=2, pages_a_tick=1))]
    # The last page of the first container, and then the other one.
    for _ in range(3):
        assert [row["RowKey"].split("|")[1] for row in night.pending_rows.list_entities()] == [ORPHANS_POINTER]
        night.clock.advance(minutes=1)
        left.append(len(night.sweep(page=2, pages_a_tick=1)))
    assert left == [3, 1, 0, 0]
    assert list(night.pending_rows.list_entities()) == []


def test_nothing_is_removed_while_old_submissions_wait(night, caplog):
    """The app was away for a month: what lies on the queue may name any payload, so the sweep waits for tomorrow."""
    name = night.drop()
    night.queue.send_message('{"sluice": {}}', time_to_live=-1)
    assert night.sweep() == [name]
    assert "sluice.orphans.postponed {}" in caplog.messages
    assert list(night.pending_rows.list_entities()) == []


@pytest.mark.parametrize("mode", MODES)
def test_a_night_that_is_cut_off_anywhere_is_made_up_for_by_the_next(night, azurite, monkeypatch, mode):
    """Killed, answered 503 or not at all at any request: what is needed stays, the rest goes, nothing is left noted."""
    monkeypatch.setattr("shared.azure.connections.PAUSE", 0.001)
    held, parked = night.drop("held"), night.drop("parked")
    night.accept("held", JobState.HELD)
    night.park(b'{"sluice": {"job": "parked"}}')
    for at in itertools.count(1):
        night.drop("orphan")
        plan = FaultPlan([Fault(at, mode)])
        with Connections(azurite.connection_string, transport=lambda plan=plan: FaultyTransport(plan)) as process:
            with suppress(SluiceError, KilledError):
                night.orphans(process).run([])
            plan.catch_up()
        assert {held, parked} <= set(night.left())
        if not plan.fired:
            break
        night.clock.advance(days=1)
        assert night.sweep() == [held, parked]
        assert list(night.pending_rows.list_entities()) == []
    assert at > 6


def test_what_a_night_costs(night):
    """Besides the looks at the ledger: six requests, what is parked with its bytes, and each removal."""
    for job in ("a", "b", "c"):
        night.drop(job)
    night.accept("a", JobState.HELD)
    night.park(b'{"sluice": {"job": "b"}}')
    with tally_requests() as tally:
        night.orphans().run([])
    made = Counter((kind.service, kind.operation) for kind, _ in tally.counts().elements())
    assert made == {
        ("table", "UpdateEntity"): 1,
        ("queue", "PeekMessages"): 1,
        ("blob", "ListBlobs"): 2,
        # The parked entries, and the files of messages above the bound at the door.
        ("table", "QueryEntities"): 2,
        ("blob", "GetBlob"): 1,
        ("blob", "DeleteBlob"): 1,
        ("table", "DeleteEntity"): 1,
    }


@pytest.mark.parametrize("state", [JobState.RUNNING, JobState.BURIED])
def test_a_job_protects_and_takes_nothing_but_its_own(night, state):
    """It may be called as others call their folder: a file that was read long ago goes, a fresh one stays."""
    night.accept("uploads", state)
    night.payloads.upload_blob("uploads/usage.ndjson", CONTENT)
    own = night.drop("uploads")
    assert night.sweep() == ([own] if state is JobState.RUNNING else [])
    night.clock.advance(days=-2)
    night.payloads.upload_blob("uploads/usage.ndjson", CONTENT)
    assert "uploads/usage.ndjson" in night.sweep()


def test_what_the_app_framed_itself_goes_when_no_job_has_it(night):
    """A submission that was refused after its file was framed leaves a payload that nobody names."""
    digest = hashlib.sha256(CONTENT).hexdigest()
    for job in ("team~held", "refused"):
        night.plans.upload_blob(f"{job}/{digest}", CONTENT)
    night.accept("team~held", JobState.HELD)
    assert night.sweep() == [f"team~held/{digest}"]


def test_a_room_is_swept_by_the_jobs_of_its_own(night):
    """The same name is another job in another room; a container that its publishers deleted is swept already."""
    room = night.connections.blobs.create_container(f"payloads-team-{night.mark}")
    night.connections.queues.create_queue(f"submissions-team-{night.mark}")
    night.connections.queues.create_queue(f"submissions-gone-{night.mark}")
    name = night.drop("nightly")
    room.upload_blob(name, CONTENT)
    night.accept("team~nightly", JobState.HELD)
    assert night.sweep(rooms=("gone", "team")) == []
    assert list(room.list_blob_names()) == [name]
