"""Every place that takes or makes the id of a job takes the id of a room's job, and none takes what is no id."""

import re
from datetime import UTC, datetime

import msgspec
import pytest
from hypothesis import example, given, strategies as st

from shared.azure.row_groups import MOST_CHARACTERS
from shared.errors import RefusedError
from shared.grammar import LONGEST_ON_BUS, NAME, bus_name, check_kept, is_job, is_room, payload_name, room_job
from shared.ledger.entities import job_entity, job_of
from shared.ledger.records import Job, PlanBlob
from shared.ledger.settlement import result_blob
from shared.messages import (
    ChunkMessage,
    Completed,
    Delivery,
    DispatchMessage,
    Finish,
    Result,
    Segment,
    Shard,
    decode,
    encode,
)
from shared.parked.entry import NO_JOB
from shared.parked.parking import add_job_id, read_claimed_job
from shared.pending import Pointer
from shared.pipeline.results import MOST_BYTES, trim_result
from shared.pipeline.settle import Received, sort
from shared.signals import Hint, job_message
from shared.topology import room_of_queue, submission_queue
from tests.parked.stages import stages

NOON = datetime(2026, 11, 20, 12, tzinfo=UTC)
JOBS = st.from_regex(NAME, fullmatch=True)
ROOMS = st.just("") | st.from_regex(r"[a-z0-9]{1,9}(-[a-z0-9]{1,9}){0,3}", fullmatch=True).filter(is_room)
#: Ids inside, the longest among them.
IDS = st.builds(room_job, ROOMS, JOBS)
LONGEST = room_job("r" * 40, "j" * 100)
SHA = "a" * 64
#: What Azure refuses in a key of a table, beside control characters.
NO_KEY = re.compile(r"[/\\#?\x00-\x1f\x7f-\x9f]")


def identified(queue, body):
    """Return the claim of a message as it is parked from a queue."""
    return stages().identify(Delivery(queue=queue, message_id="m", body=body, count=1))[1]


def messages(job):
    """Return each message of the app that names a job."""
    fields = {"workload": "billing", "codec": "plain", "frames": [(0, 1, 1, SHA)], "first_id": 1}
    return [
        DispatchMessage(job=job),
        ChunkMessage(job=job, chunk=0, revision=1, blob=payload_name(job, SHA), is_kept=True, **fields),
        Result(job=job, chunk=0, revision=1, blob=result_blob(job, 1, 0), hash=SHA),
        Finish(job=job, revision=1),
        Segment(job=job, revision=1, segment=0),
        Shard(job=job, revision=1, shard=0),
        Completed(job=job, revision=1, workload="billing", state="complete"),
    ]


@given(IDS)
@example(LONGEST)
def test_messages_carry_it_and_their_readers_take_it(job):
    """On the wire, from the dead letters, from poison queues, on the bus."""
    for message in messages(job):
        assert decode(encode(message)) == message
        if isinstance(message, ChunkMessage | Finish | Segment | Shard):
            assert identified("work-00", encode(message)).job == job
        if isinstance(message, Result):
            assert identified("results", encode(message)).job == job
            assert len(encode(trim_result(message))) <= MOST_BYTES
            ((arrived,),) = sort([Received(encode(message), "m")]).groups
            assert arrived.result.job == job
    assert Hint.of(None, job_message(job).properties).job == job


@given(IDS)
@example(LONGEST)
def test_keys_and_names_are_such_as_azure_takes(job):
    """Tables, blobs, the index of what is due, and what the bus keeps of a message."""
    assert NO_KEY.search(job) is None
    assert len(job) < MOST_CHARACTERS
    assert check_kept(payload_name(job, SHA)) == f"{job}/{SHA}"
    kind, name = Pointer("job", NOON, job).row_key.split("|", 2)[1:]
    assert (kind, name) == ("job", job)
    assert len(bus_name(f"{job}:{2**31}")) <= LONGEST_ON_BUS
    held = Job(job=job, content_hash=SHA, workload="billing", accepted_at=NOON, plan=PlanBlob("p", "e", "plans"))
    assert job_of(job_entity(held), "") == held


@given(IDS, IDS)
def test_what_is_cut_for_the_bus_stays_apart(one, other):
    """Duplicate detection must not take one job's event for another's."""
    assert (bus_name(one * 2) == bus_name(other * 2)) == (one == other)


@given(ROOMS, JOBS)
def test_at_the_door_a_message_is_about_its_own_rooms_job_only(room, job):
    """What is parked and put back says the publisher's own name again."""
    queue = submission_queue(room)
    assert room_of_queue(queue) == room
    said = msgspec.json.encode({"sluice": {"job": job, "items": [{}]}})
    assert read_claimed_job(queue, said, "m") == room_job(room, job)
    nameless = msgspec.json.encode({"sluice": {"items": [{}]}})
    assert msgspec.json.decode(add_job_id(nameless, room_job(room, job)))["sluice"]["job"] == job


@given(IDS.filter(lambda one: "~" in one), ROOMS)
def test_a_publisher_that_says_an_id_inside_claims_nothing(job, room):
    """Not even its own room's: such a name is none."""
    body = msgspec.json.encode({"sluice": {"job": job, "items": [{}]}})
    assert read_claimed_job(submission_queue(room), body, "m") == NO_JOB


@given(st.text(max_size=60).filter(lambda text: not is_job(text)))
@example("~x")
@example("r~")
@example("a~b~c")
@example("poison~x")
def test_what_is_no_id_is_taken_nowhere(text):
    """Whoever wrote it: no table is asked for it, and no blob is named after it."""
    for message in (ChunkMessage, Finish, Segment, Shard, Result):
        fields = {"workload": "b", "codec": "plain", "frames": [], "first_id": 1} if message is ChunkMessage else {}
        number = {Finish: {}, Segment: {"segment": 0}, Shard: {"shard": 0}}.get(message, {"chunk": 0})
        try:
            body = encode(message(job=text, revision=1, **number, **fields))
        except UnicodeEncodeError:
            continue
        assert identified("results" if message is Result else "work-00", body).job == NO_JOB
        assert sort([Received(body, "m")]).groups == ()
    with pytest.raises(RefusedError):
        check_kept(f"{text}/{SHA}")
