"""Rooms on the running stack: publishers that hold one right on one queue and one on one container, and mean harm."""

import json

import pytest
from azure.core.exceptions import HttpResponseError

from shared.app import Stores
from shared.azure.connections import Connections
from shared.ledger.records import FINISHED, JobState
from tests.e2e.test_pipeline import wait_for
from tests.outside.people import Publisher
from tests.waiting import until
from tools.local.stack import StackOptions, running

LINES = "".join(json.dumps({"account": f"a-{n}", "plan": "basic", "quantity": "1"}) + "\n" for n in range(30)).encode()
DENIED = {401, 403}
#: No publisher here sends a hint, so what is in a room waits for the tick.
SETTINGS = {"SLUICE_ROOMS": "team-a,b", "SLUICE_TICK_SCHEDULE": "*/2 * * * * *"}


@pytest.fixture(scope="module")
def stack(worker):
    """A stack with two rooms."""
    with running(StackOptions(worker=worker, instances=1, settings=SETTINGS)) as started:
        yield started


@pytest.fixture(scope="module")
def connections(stack):
    """The operator's view of it."""
    with Connections.parse(stack.settings) as opened:
        yield opened


@pytest.fixture(scope="module")
def rooms(stack):
    """The publisher of each room, and one without a room."""
    return {room: Publisher(stack.azurite, f"submissions{room}", f"payloads{room}") for room in ("", "-team-a", "-b")}


def submission(job, **fields):
    """Return a submission."""
    return {"sluice": {"job": job, **fields}}


def test_one_name_in_three_rooms_is_three_jobs(connections, rooms):
    """Each reads its own file of the same name, and is complete with its own count."""
    for number, publisher in enumerate(rooms.values(), 1):
        publisher.put("up/nightly.ndjson", LINES * number)
        publisher.send(submission("nightly", payload={"blob": "up/nightly.ndjson"}))
    for number, room in enumerate(rooms, 1):
        job = wait_for(connections, f"{room.removeprefix('-')}~nightly".removeprefix("~"), FINISHED)
        assert (job.state, job.totals.accepted.items) == (JobState.COMPLETE, 30 * number)


@pytest.mark.parametrize("other", ["", "-b"])
def test_a_publisher_reaches_no_other_room_and_nothing_of_the_app(stack, rooms, other):
    """Its rights end at its queue and its container; nor can it read what it has sent."""
    mine = rooms["-team-a"]
    tries = [
        lambda: mine.queue_named(f"submissions{other}").send_message("{}"),
        lambda: mine.container_named(f"payloads{other}").upload_blob("x", b"x"),
        lambda: mine.container_named(f"payloads{other}").get_blob_client("up/nightly.ndjson").download_blob(),
        lambda: list(mine.container_named(f"payloads{other}").list_blob_names()),
        *(lambda name=name: mine.container_named(name).upload_blob("x", b"x") for name in ("plans", "results")),
        lambda: mine.queue_named("work-00").send_message("{}"),
        lambda: list(mine.queue.receive_messages()),
        mine.queue.clear_messages,
    ]
    for attempt in tries:
        with pytest.raises(HttpResponseError) as denied:
            attempt()
        assert denied.value.status_code in DENIED


def test_what_a_room_says_of_others_ends_with_its_reason(connections, rooms):
    """Ids of other rooms, payloads of other rooms, and messages of the app's own: refused, and parked for this room."""
    mine = rooms["-team-a"]
    rooms["-b"].put("theirs/secret.ndjson", LINES)
    for body in (
        submission("b~nightly", items=[{}]),
        submission("thief", payload={"blob": "theirs/secret.ndjson"}),
        submission("climber", payload={"blob": "../payloads-b/theirs/secret.ndjson"}),
        {"sluice": {"kind": "dispatch", "job": "b~nightly"}},
    ):
        mine.send(body)
    # Behind all of these in the queue: when it has ended, they have been looked at.
    mine.send(submission("last", items=[{"account": "a", "plan": "basic", "quantity": "1"}]))
    assert wait_for(connections, "team-a~last", FINISHED).state is JobState.COMPLETE
    reasons = _parked(connections, 4)
    assert sorted(reasons) == ["bad_blob_name", "bad_job", "payload_missing", "unknown_kind"]
    ledger = Stores(connections).ledger
    assert [ledger.read(name) for name in ("team-a~thief", "team-a~climber", "thief", "climber")] == [None] * 4
    assert ledger.read("b~nightly").totals.accepted.items == 90


def _parked(connections, wanted):
    """Return the reasons of what team-a sent, once there are so many."""
    table = connections.tables.get_table_client("parked")
    found = lambda: [row["reason"] for row in table.query_entities("queue eq 'submissions-team-a'")]  # noqa: E731
    return until(lambda: len(reasons := found()) >= wanted and reasons)
