"""Which queue a submission came from is who sent it: what it says and whose files it names are its room's alone."""

import itertools
import json

import pytest

from shared.errors import RefusedError
from shared.ledger.records import JobState
from shared.memory import Memory
from shared.messages import decode, encode
from shared.payload import PayloadStores
from shared.payload.reading import WORK, PayloadReader
from shared.pipeline.accept import Accepted
from shared.refusals import Reason
from shared.topology import PLANS, payload_container, room_of_queue, submission_queue
from tests.payload.hostile import index_of, sha

_numbers = itertools.count(1)
LINES = [b'{"amount": "1.10", "n": %d}\n' % n for n in range(25)]
STORED = b"".join(LINES)
ROWS = index_of((STORED, len(LINES)))
INDEX = json.dumps(ROWS, separators=(",", ":")).encode()


@pytest.fixture
def room(process):
    """A room of the test's own, its container empty."""
    name = f"team-{next(_numbers)}"
    container = process().connections.blobs.create_container(payload_container(name))
    yield name
    container.delete_container()


def submitted(job, **payload):
    """Return a submission of a payload in a blob."""
    return json.dumps({"sluice": {"job": job, "payload": payload}}).encode()


def read(one, world):
    """Return the lines that workers read for the chunks that were put, from their blobs and not from the messages."""
    job = world.ledger.read(world.queues.on("work-")[0]["job"])
    plan = one.acceptance.plans.read(job.job, job.plan)
    reader, found = PayloadReader(PayloadStores(one.connections.blobs.get_container_client), Memory(WORK)), []
    for number in range(job.chunks):
        with reader(plan.message(number, 1)) as parts:
            found += [line for part in parts for line in part]
    return found


def test_the_same_id_in_two_rooms_is_two_jobs(world, process, room):
    """Neither takes the other's place, whatever both say."""
    one = process()
    assert one.accept(world.submission(25), "m1") is Accepted.DISPATCHED
    assert one.accept(world.submission(30), "m2", room) is Accepted.DISPATCHED
    assert [world.ledger.read(name).items for name in (world.job, f"{room}~{world.job}")] == [25, 30]
    assert {message["job"] for message in world.queues.on("work-")} == {world.job, f"{room}~{world.job}"}


def test_without_an_id_the_job_is_the_message_in_its_room(world, process, room):
    """The id of the message is the publisher's name for it."""
    body = json.dumps({"sluice": {"items": [{"n": 1}]}}).encode()
    process().accept(body, "A-1", room)
    assert world.ledger.read(f"{room}~a-1").items == 1
    assert world.ledger.read("a-1") is None


@pytest.mark.parametrize("said", ["other~x", "~x", "x~", "r~x~y"])
def test_no_message_can_say_the_job_of_a_room(world, process, room, said):
    """Whoever sends it: a name with the character that joins is none."""
    for sender in ("", room):
        with pytest.raises(RefusedError) as refused:
            process().accept(json.dumps({"sluice": {"job": said, "items": [{}]}}).encode(), "m", sender)
        assert refused.value.reason == Reason.BAD_JOB


@pytest.mark.parametrize("form", ["file", "framed", "framed, index apart"])
def test_payloads_are_read_from_the_room_alone(world, process, room, form):
    """The same names in the common container hold other bytes: nobody reads them for this room."""
    one, job = process(), world.job
    payload, blobs = {
        "file": ({"blob": f"up/{job}"}, {f"up/{job}": STORED}),
        "framed": (
            {"blob": f"{job}/{sha(STORED)}", "codec": "plain", "frames": ROWS},
            {f"{job}/{sha(STORED)}": STORED},
        ),
        "framed, index apart": (
            {"blob": f"{job}/{sha(STORED)}", "codec": "plain", "index": sha(INDEX)},
            {f"{job}/{sha(STORED)}": STORED, f"{job}/{sha(INDEX)}": INDEX},
        ),
    }[form]
    for name, content in blobs.items():
        one.connections.blobs.get_blob_client(payload_container(room), name).upload_blob(content)
        one.connections.blobs.get_blob_client(payload_container(), name).upload_blob(b"somebody else's\n")
    assert one.accept(submitted(job, **payload), "m1", room) is Accepted.DISPATCHED
    assert [line + b"\n" for line in read(one, world)] == LINES
    kept = [*one.connections.blobs.get_container_client(PLANS).list_blob_names(name_starts_with=f"{room}~{job}/")]
    assert len(kept) == (2 if form == "file" else 1)


def test_a_payload_of_another_room_is_not_there(world, process, room):
    """A message of a room, and one of the common room, that name a blob of the other: both are missing."""
    one = process()
    one.connections.blobs.get_blob_client(payload_container(room), "up/mine").upload_blob(STORED)
    one.connections.blobs.get_blob_client(payload_container(), f"up/{world.job}").upload_blob(STORED)
    for sender, blob in (("", "up/mine"), (room, f"up/{world.job}")):
        with pytest.raises(RefusedError) as refused:
            one.accept(submitted(world.job, blob=blob), "m1", sender)
        assert refused.value.reason == Reason.PAYLOAD_MISSING
    assert world.ledger.read(world.job) is None


def test_no_path_leads_to_another_container(world, process, room):
    """Neither by steps upwards nor by the name of the container or of what is kept."""
    for blob in (f"../payloads/up/{world.job}", f"{PLANS}/../x", f"{room}~{world.job}/{'a' * 64}"):
        with pytest.raises(RefusedError) as refused:
            process().accept(submitted(world.job, blob=blob), "m1", room)
        assert refused.value.reason == Reason.BAD_BLOB_NAME


def test_a_job_of_a_room_waits_behind_a_gate_by_its_id_inside(world, process, room):
    """Two rooms hold the same name behind the same gate: two rows."""
    one = process()
    for sender in ("", room):
        assert one.accept(world.submission(gate="nightly"), "m1", sender) is Accepted.HELD
    assert {name for _, name in world.gates.rows} == {world.job, f"{room}~{world.job}"}
    assert world.ledger.read(f"{room}~{world.job}").state is JobState.HELD


def test_a_work_message_reads_the_room_of_its_job_whatever_it_says(world, process, room):
    """The container is not in the message: only a job's id, which no publisher can say."""
    one, job = process(), f"{room}~{world.job}"
    name = f"{world.job}/{sha(STORED)}"
    one.connections.blobs.get_blob_client(payload_container(room), name).upload_blob(STORED)
    one.accept(submitted(world.job, blob=name, codec="plain", frames=ROWS), "m1", room)
    message = one.acceptance.plans.read(job, world.ledger.read(job).plan).message(0, 1)
    assert (message.job, message.blob, message.is_kept) == (job, name, False)
    assert payload_container(room).encode() not in encode(message)
    assert decode(encode(message)) == message


@pytest.mark.parametrize("room", ["", "a", "team-42", "r" * 40])
def test_a_queue_says_its_room(room):
    """And nothing else does."""
    assert room_of_queue(submission_queue(room)) == room
