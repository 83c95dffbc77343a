"""Messages and blobs of a newer version on the work queues."""

import json

import pytest

from shared.errors import FinishRefusedError, NewerVersionError
from shared.messages import Delivery, Finish, encode
from shared.parked import NO_JOB
from shared.versions import LOOKS


def handle(process, body, count=1):
    """Have this process handle a delivery."""
    process.processor.handle(Delivery(queue="work-00", message_id="m1", body=body, count=count))


def reasons(process, job, body):
    """Return why these bytes are parked."""
    return [one.reason for one in process.parked.entries(job) if process.parked.body(one) == body]


def newer(message, **fields):
    """Return a message as a newer version sends it."""
    body = json.loads(encode(message))
    body["sluice"] |= fields
    return json.dumps(body).encode()


@pytest.mark.parametrize(
    "fields",
    [{"v": 4}, {"v": 4, "frames": "elsewhere"}, {"kind": "merge", "v": 1}, {"kind": "merge", "v": 1, "frames": {}}],
    ids=["a higher version", "another shape", "another kind", "another kind and shape"],
)
def test_a_newer_message_comes_again_until_no_newer_instance_can_be_expected(world, fields):
    """Then it is parked under its bytes: a replay brings it back."""
    body = newer(world.message, **fields)
    with world.process() as process:
        for count in (1, LOOKS - 1):
            with pytest.raises(NewerVersionError):
                handle(process, body, count)
        assert reasons(process, NO_JOB, body) == []
        handle(process, body, LOOKS)
        assert reasons(process, NO_JOB, body) == ["newer_version"]
    assert world.workload.runs == 0


@pytest.mark.parametrize("fields", [{"kind": "Range"}, {"v": 10**6}, {"kind": "submission"}])
def test_what_is_of_no_newer_version_is_parked_at_once(world, fields):
    """Whoever put it there made a mistake, and is told."""
    with world.process() as process:
        body = newer(world.message, **fields)
        handle(process, body)
        assert reasons(process, NO_JOB, body) == ["unreadable"]


def test_a_finish_that_meets_newer_blobs_waits_and_then_pauses_its_job(world):
    """As a plan of a newer version does."""

    def meets(message):
        raise NewerVersionError("blob 'plan' is newer")

    world.finishing.fault = meets
    body = encode(Finish(job=world.job, revision=1))
    with world.process() as process:
        with pytest.raises(NewerVersionError):
            handle(process, body, LOOKS - 1)
        assert world.finishing.paused == []
        handle(process, body, LOOKS)
        assert len(world.finishing.paused) == 1
        assert reasons(process, world.job, body) == ["newer_version"]


def test_a_finish_that_fails_otherwise_is_no_matter_of_versions(world):
    """It pauses at once."""

    def fails(message):
        raise FinishRefusedError("it does not balance")

    world.finishing.fault = fails
    with world.process() as process:
        handle(process, encode(Finish(job=world.job, revision=1)), 5)
    assert len(world.finishing.paused) == 1
