"""What is refused at the door: through the app's own handlers, the tick's drain and a person's replay."""

import base64
import gzip
import hashlib
import json
from contextlib import suppress
from dataclasses import replace

import msgspec
import pytest

from shared.app import Stores
from shared.errors import StorageUnavailableError
from shared.ledger.records import JobState
from shared.messages import Delivery
from shared.operating.replay import ReplayFate, ReplayPace, Selection
from shared.parked.entry import EntryState, chunk_key
from tests.faults.host import bury_dead_letter
from tests.faults.journal import Journal
from tests.faults.memory.storage import MemoryStorage
from tests.faults.plan import KilledError, Plan
from tests.faults.sales import PERMANENT
from tests.faults.scenarios import come_to_rest, quarter
from tests.faults.world import World, sales
from tests.parked.replaying import fates_of, replay_all

SALES = sales("x", "y", "x")
LINES = "".join(json.dumps(sale) + "\n" for sale in SALES)
NAMELESS = {"workload": "sales", "items": SALES}
LATE = {"workload": "sales", "payload": {"blob": "late/sales.ndjson"}}


class Doorstep:
    """A world, and what stands in front of its door."""

    def __init__(self, world):
        self.world, self.ledger = world, Stores(world.observer()).ledger
        self.parked = Stores(world.observer()).parked_table

    def drop(self, body, queue="submissions"):
        """Put a message on a queue as anybody who may, and return its id."""
        text = body if isinstance(body, str) else json.dumps({"sluice": body})
        return self.world.observer().queues.get_queue_client(queue).send_message(text, time_to_live=-1).id

    def run(self, **options):
        """Let a host deliver everything that waits."""
        with self.world.app() as app:
            app.host(**options).run()

    def kill_three_workers(self, name, body, at):
        """Have three processes end at this request of theirs, and the host give the message up: its copy is another."""
        for count in (1, 2, 3):
            plan = Plan.of(at, "kill_after")
            with suppress(KilledError), self.world.app(plan) as app:
                app.app.accept(Delivery(queue="submissions", message_id=name, body=body, count=count))
            assert plan.fired
        self.world.observer().queues.get_queue_client("submissions").clear_messages()
        self.drop(body.decode(), "submissions-poison")

    def drain(self):
        """Run the timer at a quarter of an hour."""
        quarter(self.world)
        with self.world.app() as app:
            app.tick()

    def upload(self):
        """Bring the file that was late."""
        self.world.observer().blobs.get_container_client("payloads").upload_blob("late/sales.ndjson", LINES)

    def replay(self, *, again=False, **selection):
        """Replay as a person does, while a host works, and return the fates."""
        with self.world.app() as app:
            pace = ReplayPace(patience=5, again=again)
            waves = replay_all(app.operator(), Selection(**selection), pace)
            come_to_rest(self.world, app)
        return fates_of(waves)

    def jobs(self):
        """Return every job that there is, with its state and how many it counted."""
        rows = self.world.observer().tables.get_table_client("jobs").query_entities("RowKey eq 'job'")
        found = [self.ledger.read(row["PartitionKey"]) for row in rows]
        return {job.job: (job.state, job.totals.accepted.items) for job in found}

    def entries(self, **options):
        """Return what is parked."""
        return list(self.parked.entries(**options))


@pytest.fixture
def door():
    """A door of a world of its own."""
    world = World(MemoryStorage(), Journal())
    yield Doorstep(world)
    world.close()


def complete(job):
    """Return what is expected of one job that counted everything once."""
    return {job: (JobState.COMPLETE, len(SALES))}


def test_a_submission_without_a_job_id_that_is_refused_and_replayed_stays_one_job(door):
    """Its job is the id of the message that its publisher dropped, however often it is replayed."""
    name = door.drop(LATE)
    door.run()
    (entry,) = door.entries()
    assert (entry.reason, entry.claimed) == ("payload_missing", name)
    door.upload()
    # Two people: the second does not know that the first has put it back.
    with door.world.app() as app:
        list(
            app.operator(lambda _seconds: door.world.clock.advance(seconds=9)).replay(
                Selection(), ReplayPace(), by="bo"
            )
        )
    assert door.replay(again=True) == [ReplayFate.DONE]
    assert door.jobs() == complete(name)


# A process that ends leaves its connections to the next one's garbage collector.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("at", range(1, 8))
def test_a_submission_without_a_job_id_whose_worker_is_killed_stays_one_job(door, at):
    """The host's copy on the poison queue has another id: the one that counts was noted before the work."""
    door.kill_three_workers("m-1", json.dumps({"sluice": NAMELESS}).encode(), at)
    door.drain()
    assert [(entry.reason, entry.claimed) for entry in door.entries()] == [("delivered_too_often", "m-1")]
    assert door.replay() == [ReplayFate.DONE]
    assert door.jobs() == complete("m-1")
    assert [entry.state for entry in door.entries(closed=True)] == [EntryState.DONE]


def test_a_copy_whose_publisher_nobody_knows_asks_for_its_job(door):
    """Without a note it could be a job that is there already: a person looks, and says which it is."""
    door.drop(NAMELESS, "submissions-poison")
    door.drain()
    (entry,) = door.entries()
    assert entry.reason == "unnamed"
    assert door.replay() == [ReplayFate.UNNAMED]
    assert door.jobs() == {}
    with door.world.app() as app:
        app.operator().name(entry, "found-it", by="ann")
    assert door.replay(job="found-it") == [ReplayFate.DONE]
    assert door.jobs() == complete("found-it")


def test_two_messages_of_one_content_are_never_taken_for_each_other(door):
    """Each was a job of its own; which copy is which, nobody can say."""
    for name in ("m-1", "m-2"):
        door.kill_three_workers(name, json.dumps({"sluice": NAMELESS}).encode(), 1)
    door.drain()
    assert [entry.reason for entry in door.entries()] == ["unnamed", "unnamed"]


@pytest.mark.parametrize("kind", ["chunk", "result", "finish", "dispatch", "completed"])
def test_no_message_of_a_publisher_takes_the_place_of_a_chunk(door, kind):
    """It is refused as what it is; the chunk fails for its own reason, keeps its bytes and can be replayed."""
    forged = {"kind": kind, "job": "victim", "chunk": 0, "revision": 1, "workload": "sales", "codec": "plain"}
    door.drop({**forged, "frames": [], "first_id": 0})
    with door.world.app() as app:
        app.submit("victim", SALES)
        door.world.sales.breaks_at = {"x": PERMANENT}
        app.host().run()
        door.world.sales.breaks_at = {}
    entries = {entry.key: entry for entry in door.parked.entries("victim")}
    assert {entry.reason for entry in entries.values()} == {"bad_sale"}
    assert all(b"sales" in door.parked.body(entry) for entry in entries.values())
    assert set(door.replay(reason="bad_sale")) == {ReplayFate.DONE}
    assert door.jobs() == complete("victim")
    assert {entry.claimed for entry in door.entries() if entry.job == "~door"} <= {"victim"}


def test_a_chunk_that_comes_twice_is_not_taken_for_the_message_that_claimed_to_be_it(door):
    """A forged message was parked before; the healthy chunk, delivered again, runs."""
    door.drop({"kind": "chunk", "job": "victim", "chunk": 0, "revision": 1, "workload": "sales", "codec": "plain",
               "frames": [], "first_id": 0})  # fmt: skip
    with door.world.app() as app:
        app.submit("victim", SALES)
        app.host(hold_back=["work-00", "results", "signals"]).run()
        queue = app.connections.queues.get_queue_client("work-00")
        for message in list(queue.receive_messages(max_messages=32, visibility_timeout=1)):
            body = message.content.encode()
            app.app.process(Delivery(queue="work-00", message_id=message.id, body=body, count=2))
            queue.delete_message(message)
        come_to_rest(door.world, app)
    assert door.jobs() == complete("victim")


@pytest.mark.parametrize("number", [2**31, 10**30])
@pytest.mark.parametrize("kind", ["chunk", "result", "finish"])
@pytest.mark.parametrize("queue", ["submissions", "work-00"])
def test_a_number_that_no_column_holds_stops_nothing(door, queue, kind, number):
    """What is forged is parked from its queue and from its poison queue, and so is what lies behind it."""
    forged = {"kind": kind, "job": "a", "chunk": number, "revision": number, "workload": "w", "codec": "plain"}
    door.drop({**forged, "frames": [], "first_id": 0}, f"{queue}-poison")
    door.drop({**forged, "frames": [], "first_id": 0}, queue)
    door.drop("something else", f"{queue}-poison")
    door.drain()
    door.run()
    assert door.world.depths() == dict.fromkeys(door.world.depths(), 0)
    assert {door.parked.body(entry)[:14] for entry in door.entries()} == {b'{"sluice": {"k', b"something else"}


def test_a_message_that_cannot_be_parked_keeps_no_other_on_the_poison_queue(door, monkeypatch):
    """Storage fails for one of them: the others are parked, the tick goes on, and the one stays for the next."""
    for text in ("first", "second", "third"):
        door.drop(text, "submissions-poison")
    park = type(door.parked).park

    def failing(table, entry, body):
        if body == b"first":
            raise StorageUnavailableError("not this one")
        return park(table, entry, body)

    monkeypatch.setattr(type(door.parked), "park", failing)
    with pytest.raises(StorageUnavailableError, match="not this one"):
        door.drain()
    assert {door.parked.body(entry) for entry in door.entries()} == {b"second", b"third"}
    assert door.world.depths()["submissions-poison"] == 1


def test_what_no_row_takes_is_parked_by_its_bytes(door, monkeypatch):
    """Whatever the reason: after seven days it would be gone without a record."""
    inserted = type(door.parked)._insert_or_get

    def odd(table, entry):
        if entry.chunk is not None:
            raise TypeError("too large to be cast to type Edm.Int32")
        return inserted(table, entry)

    monkeypatch.setattr(type(door.parked), "_insert_or_get", odd)
    door.drop({"kind": "chunk", "job": "a", "chunk": 1, "revision": 1, "workload": "w", "codec": "plain",
               "frames": [], "first_id": 0}, "work-00-poison")  # fmt: skip
    door.drain()
    (entry,) = door.entries()
    assert (entry.job, entry.stage, entry.chunk) == ("~none", "process", None)
    assert door.world.depths()["work-00-poison"] == 0


def test_a_submission_in_base64_that_fails_is_listed_under_its_job_and_its_replay_is_seen(door):
    """Portals send it so, and the page allows it."""
    door.drop(base64.b64encode(json.dumps({"sluice": {"job": "portal", **LATE}}).encode()).decode())
    door.run()
    (entry,) = door.entries()
    assert (entry.about, entry.reason) == ("portal", "payload_missing")
    door.upload()
    assert door.replay(job="portal") == [ReplayFate.DONE]
    assert door.jobs() == complete("portal")


def test_a_chunk_in_base64_keeps_its_place_when_the_host_gives_it_up(door):
    """Whoever sends it so: it is parked as the chunk that it is, and the ledger is told."""
    with door.world.app() as app:
        app.submit("portal", SALES)
        app.host(hold_back=["work-00", "results", "signals"]).run()
        queue = app.connections.queues.get_queue_client("work-00")
        for message in list(queue.receive_messages(max_messages=32)):
            door.drop(base64.b64encode(message.content.encode()).decode(), "work-00-poison")
            queue.delete_message(message)
    door.drain()
    entries = list(door.parked.entries("portal"))
    assert {(entry.key, entry.stage) for entry in entries} == {
        (chunk_key(entry.chunk, entry.revision), "process") for entry in entries
    }
    assert len(entries) == 2
    assert set(door.replay(job="portal")) == {ReplayFate.DONE}
    assert door.jobs() == complete("portal")


def test_what_the_version_before_parked_under_its_job_is_still_listed_and_replayed(door):
    """Its row lies in the partition of the job, and knows of no claim."""
    body = json.dumps({"sluice": {"job": "old", **LATE}}).encode()
    door.drop(body.decode())
    door.run()
    (entry,) = door.entries()
    tables = door.world.observer().tables.get_table_client("parked")
    row = dict(tables.get_entity(entry.job, entry.key))
    tables.delete_entity(entry.job, entry.key)
    del row["claimed"]
    tables.create_entity({**row, "PartitionKey": "old", "RowKey": "accept-0123"})
    door.world.observer().blobs.get_container_client("parked").upload_blob(f"old/{entry.sha256}", body)
    door.upload()
    with door.world.app() as app:
        assert [one.about for one in app.operator().select(Selection(job="old"))] == ["old"]
    assert door.replay(job="old") == [ReplayFate.DONE]
    assert door.jobs() == complete("old")
    assert door.entries() == []


@pytest.mark.parametrize("number", [2**31, 10**30])
def test_a_result_with_a_number_that_no_column_holds_ends_where_operators_look(door, number):
    """From the bus, and from its dead letters: the healthy results of its batch are credited, and nothing loops."""
    odd = json.dumps({"sluice": {"kind": "result", "job": "nightly", "chunk": number, "revision": 1}})
    with door.world.app() as app:
        app.submit("nightly", SALES)
        app.host(hold_back=["results"]).run()
        door.world.bus.send("results", "result", odd, "")
        app.host().run()
        bury_dead_letter(app, odd.encode())
    assert door.jobs() == complete("nightly")
    assert [letter.body for letter in door.world.bus.waiting("results")] == []
    assert {entry.reason for entry in door.entries()} <= {"result_unreadable", "dead_lettered"}
    assert {door.parked.body(entry) for entry in door.entries()} == {odd.encode()}


def test_a_corrected_submission_is_refused_and_not_swallowed(door):
    """The same job id and the same bytes, to be read in another way: the publisher is told, and nothing runs twice."""
    packed = base64.b64encode(gzip.compress(LINES.encode(), mtime=0)).decode()
    for codec in ("gzip", "plain", "gzip"):
        door.drop({"job": "nightly", "workload": "sales", "payload": {"inline": packed, "codec": codec}})
        door.run()
    assert door.jobs() == complete("nightly")
    assert [(entry.claimed, entry.reason) for entry in door.entries()] == [("nightly", "conflict")]
    assert "another job id" in door.entries()[0].instead


def test_a_submission_that_the_version_before_accepted_is_still_known_as_the_same(door):
    """Its job has a hash that says neither codec nor index; delivered again after an upgrade, it is no conflict."""
    body = {"job": "nightly", "workload": "sales", "items": SALES}
    door.drop(body)
    door.run()
    job = door.ledger.read("nightly")
    lines = hashlib.sha256(b"\n".join(json.dumps(sale).encode() for sale in SALES)).hexdigest()
    before = hashlib.sha256(msgspec.json.encode(("sales", None, None, {}, lines))).hexdigest()
    assert job.content_hash != before
    assert door.ledger.commit(replace(job, content_hash=before))
    door.drop(body)
    door.run()
    assert door.entries() == []
    assert door.jobs() == complete("nightly")
    door.drop({**body, "items": SALES[:2]})
    door.run()
    assert [entry.reason for entry in door.entries()] == ["conflict"]
