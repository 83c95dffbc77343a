"""Rooms from outside: two publishers, each with signatures for its own queue and container, and no way to the other's."""

import json

import pytest

from tests.outside import checker, rights
from tests.outside.people import Publisher, running
from tests.waiting import until

USAGE = {"account": "a-1", "plan": "basic", "quantity": "2.50"}
LINES = [json.dumps({**USAGE, "quantity": f"{number}.5"}).encode() for number in range(1, 40)]


@pytest.fixture(scope="module")
def people():
    """The app with two rooms. Its publishers send no hints, so what they drop waits for the tick."""
    with running(SLUICE_ROOMS="north,south", SLUICE_TICK_SCHEDULE="*/2 * * * * *") as started:
        yield started


@pytest.fixture(scope="module")
def north(people):
    """A publisher of one room."""
    return Publisher(people.stack.azurite, "submissions-north", "payloads-north")


@pytest.fixture(scope="module")
def south(people):
    """A publisher of the other room."""
    return Publisher(people.stack.azurite, "submissions-south", "payloads-south")


def reasons(people, job):
    """Return the reasons for which something that claims a job is parked."""
    found = people.operator.asks("parked", "list", "--job", job, status=None)  # 1 as long as nothing is parked
    return [group["reason"] for group in found["groups"]]


def test_one_name_in_three_rooms_is_three_jobs(people, north, south):
    """Each has its own payload under the same name, its own totals, and numbers of its own."""
    ranges = []
    for publisher, room, count in ((north, "north~", 11), (south, "south~", 22), (people.publisher, "", 33)):
        publisher.put("daily/usage", b"\n".join(LINES[:count]))
        publisher.send({"sluice": {"job": "daily", "payload": {"blob": "daily/usage"}}})
        found = people.operator.ends(f"{room}daily")
        assert (found["state"], found["accepted"]["items"]) == ("complete", count)
        storage = people.operator.storage
        assert checker.check(storage, f"{room}daily", LINES[:count], first_id=found["first_id"]) == []
        ranges.append((found["first_id"], count, f"{room}daily"))
    assert list(checker.overlaps(ranges)) == []


def test_a_room_is_closed_to_the_other(north, south, people):
    """By operation: the other's queue and container, and those of the common room."""
    for publisher in (north, south):
        others = {"north", "south"} - {publisher.queue.queue_name.removeprefix("submissions-")}
        for room in (*(f"-{other}" for other in others), ""):
            tried = [rights.answer(call) for _, _, call in rights.on_a_room(publisher, room)]
            assert set(tried) == {rights.REFUSED}
        tried = [rights.answer(call) for _, _, call in rights.operations(publisher)]
        assert set(tried) == {rights.REFUSED}


def test_a_payload_of_another_room_is_not_there(people, north, south):
    """What a message names is looked for in the room of its queue, and nowhere else."""
    north.put("secret/usage", b"\n".join(LINES))
    south.send({"sluice": {"job": "thief", "payload": {"blob": "secret/usage"}}})
    until(lambda: reasons(people, "south~thief") == ["payload_missing"])


def test_no_message_can_mean_a_job_of_another_room(people, north, south):
    """Neither by its id, nor by a forged message: the victim waits for its gate as it did."""
    north.send({"sluice": {"job": "victim", "gate": "shut", "items": [USAGE]}})
    until(lambda: "north~victim" in [job["job"] for job in people.operator.asks("jobs", "list")["jobs"]])
    for number, text in enumerate((
        {"job": "north~victim", "items": [USAGE]},
        {"kind": "dispatch", "job": "north~victim"},
        {"kind": "chunk", "job": "north~victim", "chunk": 0, "revision": 1},
        {"kind": "result", "job": "victim", "chunk": 0, "revision": 1},
        {"room": "north", "job": "mine", "items": [USAGE]},
    ), 1):  # fmt: skip
        south.send({"sluice": text})
        until(lambda number=number: len(_refused(people)) == number)
    assert sorted(_refused(people)) == ["bad_job", "unknown_field", "unknown_kind", "unknown_kind", "unknown_kind"]
    assert people.operator.asks("jobs", "show", "north~victim")["state"] == "held"
    assert reasons(people, "north~victim") == []


def _refused(people):
    groups = people.operator.asks("parked", "list")["groups"]
    return [
        group["reason"] for group in groups for _ in range(group["entries"]) if group["reason"] != "payload_missing"
    ]
