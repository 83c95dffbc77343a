"""Jobs of rooms through the whole app: every stage, table, container, event and command takes the id inside."""

import json
import os
import tempfile
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from shared.app import Stores
from shared.dequeue.hint_follower import MOST_DELIVERIES
from shared.grammar import LONGEST_ROOM
from shared.ledger.records import JobState
from shared.operating.parked_acts import Selection
from shared.operating.replay import ReplayPace
from shared.parked import drain_poison
from shared.parked.entry import DOOR
from shared.pending import RETENTION_POINTER
from shared.topology import PLANS, payload_container, rooms, submission_queue
from tests import command
from tests.faults.world import SETTINGS
from tests.pipeline.whole_app import running_app
from tools.local.paths import ROOT

LONGEST_JOB = "j" * 100
ROOMS = ("team-a", "b", "r" * LONGEST_ROOM)
EVERYBODY = ("", *ROOMS)


@pytest.fixture(scope="module")
def app():
    """An installation with rooms, on storage of its own: the queues have their real names."""
    with running_app(rooms(ROOMS), settings=replace(SETTINGS, rooms=ROOMS)) as made:
        yield made


def inside(room, job):
    """Return what a job is called inside, in the test's own words."""
    return f"{room}~{job}" if room else job


def sluice(app, *arguments):
    """Run the command against the installation."""
    kept = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
    nowhere = "Endpoint=sb://127.0.0.1:9;SharedAccessKeyName=a;SharedAccessKey=b;UseDevelopmentEmulator=true;"
    settings = {"SluiceStorage": app.storage, "SluiceBus": nowhere, "SLUICE_ROOMS": ",".join(ROOMS)}
    environ = {**kept, **settings, "SLUICE_TICK_SCHEDULE": "0 * * * * *", "PYTHONPATH": str(ROOT)}
    with tempfile.TemporaryDirectory() as scratch:
        return command.run(arguments, environ, ROOT, Path(scratch))


def test_the_same_id_in_every_room_is_a_job_of_each(app):
    """From the queue to outputs and events, at the longest names that there are; each has its own counts."""
    for items, room in enumerate(EVERYBODY, 2):
        app.submit(LONGEST_JOB, items, room)
    app.work_off()
    ledger = Stores(app.others).ledger
    for items, room in enumerate(EVERYBODY, 2):
        job = ledger.read(inside(room, LONGEST_JOB))
        assert (job.state, job.totals.accepted.items) == (JobState.COMPLETE, 2 * items)
        outputs = app.others.blobs.get_container_client("outputs")
        assert f"{job.job}/1/manifest.json" in {*outputs.list_blob_names(name_starts_with=f"{job.job}/")}
        own = app.others.blobs.get_container_client(payload_container(room))
        assert {name.partition("/")[0] for name in own.list_blob_names()} == {LONGEST_JOB}
    told = {json.loads(body)["sluice"]["job"] for body in app.bus.told("completed")}
    assert told == {inside(room, LONGEST_JOB) for room in EVERYBODY}


def test_the_command_takes_the_id_inside(app):
    """Listing, showing, counting what it cost: `r~x` is one word to every shell."""
    app.run("shown", 2, "team-a")
    listed = json.loads(sluice(app, "jobs", "list", "--json").stdout)
    assert "team-a~shown" in json.dumps(listed)
    shown = sluice(app, "jobs", "show", "team-a~shown", "--json")
    assert (shown.returncode, json.loads(shown.stdout)["job"]) == (0, "team-a~shown")
    cost = sluice(app, "cost", "job", "team-a~shown", "--json")
    assert cost.returncode == 0, cost.stderr
    assert sluice(app, "jobs", "show", "shown").returncode == 1


def test_a_gate_holds_jobs_of_rooms_and_starts_them_all(app):
    """The same name from three publishers behind one gate: three entries, none in another's place."""
    for room in EVERYBODY:
        app.submit("held", 2, room, gate="nightly")
    app.work_off()
    ledger = Stores(app.others).ledger
    assert {ledger.read(inside(room, "held")).state for room in EVERYBODY} == {JobState.HELD}
    assert app.stores.held.summary("nightly").count == len(EVERYBODY)
    app.stores.gate_operator.open("nightly", by="ann")
    app.app.tick()
    app.work_off()
    assert {ledger.read(inside(room, "held")).state for room in EVERYBODY} == {JobState.COMPLETE}


def drop_as_spent(app, body, rooms_of_it):
    """Drop the message and deliver it as often as the host allows: in time, by clients that die with it."""
    for room in rooms_of_it:
        queue = app.others.queues.get_queue_client(submission_queue(room))
        queue.send_message(body)
        for _ in range(MOST_DELIVERIES):
            (found,) = queue.receive_messages(messages_per_page=1, visibility_timeout=60)
            queue.update_message(found, visibility_timeout=0)
    app.app.accept_hinted()


def test_what_the_host_gave_up_is_parked_for_its_room_and_replayed_into_it(app):
    """The same bytes from two rooms: two entries, each under its own job, each put back where it came from."""
    body = json.dumps({"sluice": {"job": "given-up", "workload": "sales", "items": [{"shop": "a", "amount": "1"}]}})
    drop_as_spent(app, body, EVERYBODY)
    operator = app.stores.build_parked_operator(lambda _seconds: app.work_off())
    for room in EVERYBODY:
        (entry,) = operator.select(Selection(job=inside(room, "given-up")))
        assert (entry.job, entry.queue) == (DOOR, submission_queue(room))
    listed = sluice(app, "parked", "list", "--job", "team-a~given-up", "--json")
    assert [group["entries"] for group in json.loads(listed.stdout)["groups"]] == [1]
    list(operator.replay(Selection(job="team-a~given-up"), ReplayPace(), by="ann"))
    ledger = Stores(app.others).ledger
    assert ledger.read("team-a~given-up").state is JobState.COMPLETE
    assert [ledger.read(inside(room, "given-up")) for room in ("", "b")] == [None, None]


def test_a_chunk_of_a_room_fails_is_repaired_and_replayed(app):
    """What is parked of a room's job is under its id inside, and its replay reads the room's payload."""
    app.submit("spoilt", 3, "b")
    container = app.others.blobs.get_container_client(payload_container("b"))
    (message,) = app.others.queues.get_queue_client(submission_queue("b")).peek_messages()
    name = json.loads(message.content)["sluice"]["payload"]["blob"]
    content = container.download_blob(name).readall()
    container.upload_blob(name, b"x" * len(content), overwrite=True)
    app.work_off()
    ledger = Stores(app.others).ledger
    assert ledger.read("b~spoilt").parked_chunks > 0
    container.upload_blob(name, content, overwrite=True)
    operator = app.stores.build_parked_operator(lambda _seconds: app.work_off())
    list(operator.replay(Selection(job="b~spoilt"), ReplayPace(), by="ann"))
    app.work_off()
    job = ledger.read("b~spoilt")
    assert (job.state, job.totals.accepted.items) == (JobState.COMPLETE, 6)


def test_a_submission_that_nobody_can_name_is_named_within_its_room(app):
    """As its publisher calls the job, or as it is called inside; never as a job of another room."""
    body = json.dumps({"sluice": {"workload": "sales", "items": [{"shop": "a", "amount": "1"}]}})
    # A poison queue holds copies, whose ids are not those of the publisher's messages.
    poison = app.others.queues.create_queue(f"{submission_queue('b')}-poison")
    poison.send_message(body)
    drain_poison(poison, app.stores.parking, app.stores.attempts)
    operator = app.stores.build_parked_operator(lambda _seconds: app.work_off())
    (entry,) = operator.select(Selection(reason="unnamed"))
    for other in ("team-a~found", "b~b~found", "Found"):
        with pytest.raises(ValueError, match="no job of queue 'submissions-b'"):
            operator.name(entry, other, by="ann")
    assert operator.name(entry, "b~found", by="ann").claimed == "b~found"
    list(operator.replay(Selection(job="b~found"), ReplayPace(), by="ann"))
    assert Stores(app.others).ledger.read("b~found").state is JobState.COMPLETE


def test_a_job_of_a_room_is_buried_with_what_is_its_own(app):
    """Its payload in its room, and what the app kept; the same name in another room, and other files, stay."""
    for room in ("team-a", "b"):
        app.submit("old", 3, room)
    app.work_off()
    containers = {room: app.others.blobs.get_container_client(payload_container(room)) for room in ("team-a", "b")}
    containers["b"].upload_blob("old/notes.txt", b"somebody's file")
    ledger = Stores(app.others).ledger
    # The first tick after their end leaves the pointers to their burial; of the other room's job nothing is due then.
    app.clock.advance(days=1)
    app.app.tick()
    for pointer in app.stores.pending.due(app.clock.now() + SETTINGS.retention + timedelta(days=1)):
        if pointer.kind == RETENTION_POINTER and pointer.id == "team-a~old":
            app.stores.pending.remove(pointer)
    app.clock.advance(days=SETTINGS.retention.days, seconds=60)
    app.app.tick()
    assert ledger.read("b~old").state is JobState.BURIED
    assert ledger.read("team-a~old").state is JobState.COMPLETE
    assert [*containers["b"].list_blob_names(name_starts_with="old/")] == ["old/notes.txt"]
    assert [*containers["team-a"].list_blob_names(name_starts_with="old/")]
    kept = app.others.blobs.get_container_client(PLANS)
    assert not [*kept.list_blob_names(name_starts_with="b~old/")]
    assert [*kept.list_blob_names(name_starts_with="team-a~old/")]
