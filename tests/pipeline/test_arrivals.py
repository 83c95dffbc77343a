"""What arrives on `submissions`, as the app logs it; nothing of the app's own does."""

import json
import logging

import msgspec
import pytest

from shared.errors import NewerVersionError, RefusedError
from shared.ledger.records import JobState
from shared.messages import ChunkMessage, Completed, Delivery, DispatchMessage, Finish, Result, Segment, Shard, encode
from shared.parked.parking import Deliveries
from shared.pipeline.accept import Arrivals
from shared.telemetry import events
from shared.versions import LOOKS


class Parked:
    """Keeps what is parked, with why."""

    def __init__(self):
        self.reasons = []

    def park(self, _stage, _delivery, error):
        """Remember it."""
        self.reasons.append(error)


class Notes:
    """Forgets what was never noted."""

    def forget(self, _key):
        """Forget it."""

    def note_begun(self, _key, _count, _suspected):
        """Know nothing of it."""

    def note_failure(self, _key, _count, _error, _tries):
        """Know nothing of it."""

    def of(self, _key):
        """Return no deaths."""
        return {}, 0


@pytest.fixture
def parked():
    """Everything that was parked."""
    return Parked()


@pytest.fixture
def deliver(world, process, parked):
    """Hand a message to the app as the host does, in its first delivery or a later one."""
    arrivals = Arrivals(process().acceptance, Deliveries(Notes(), parked))

    def handle(body, count=1):
        arrivals.handle(Delivery(queue="submissions", message_id="m-1", body=body, count=count))

    return handle


def test_an_accepted_submission_is_done_with_where_its_acceptance_is_logged(world, deliver, caplog):
    """The line in the log says which message it was, and does not have it delivered again until it is parked."""
    with caplog.at_level(logging.INFO, "sluice"):
        deliver(world.submission())
    (line,) = (line for line in caplog.messages if line.startswith("sluice.submission.accepted "))
    assert json.loads(line.split(" ", 1)[1])["message_id"] == "m-1"


def forged(job):
    """Return one message of each kind that the app's stages send each other, for a job."""
    fields = {"workload": "billing", "codec": "plain", "frames": [], "first_id": 0}
    return [
        DispatchMessage(job=job),
        ChunkMessage(job=job, chunk=0, revision=1, **fields),
        Result(job=job, chunk=0, revision=1),
        Finish(job=job, revision=1),
        Segment(job=job, revision=1, segment=0),
        Shard(job=job, revision=1, shard=0),
        Completed(job=job, revision=1, workload="billing", state="complete"),
    ]


@pytest.mark.parametrize("number", range(7))
def test_whoever_sends_what_the_app_sends_itself_is_refused_at_the_first_delivery(world, deliver, parked, number):
    """A held job stays held, nothing is put anywhere, and the reason is that of the catalogue."""
    deliver(world.submission(gate="nightly"))
    before = world.ledger.read(world.job)
    deliver(encode(forged(world.job)[number]))
    assert world.ledger.read(world.job) == before
    assert (before.state, world.queues.sent, world.gates.held) == (JobState.HELD, [], [("nightly", world.job)])
    (error,) = parked.reasons
    assert isinstance(error, RefusedError)
    assert str(error).startswith("unknown_kind")


@pytest.mark.parametrize("job", ["../x", "a'b/c#?", "x" * 60_000])
def test_a_job_that_no_job_can_be_called_is_refused_at_once_and_in_few_words(deliver, parked, caplog, job):
    """Storage is never asked about it, so its refusal cannot pass for an outage that is tried again for an hour."""
    with caplog.at_level(logging.DEBUG):
        deliver(msgspec.json.encode({"sluice": {"kind": "dispatch", "job": job}}))
    assert str(parked.reasons[0]).startswith("unknown_kind")
    assert sum(map(len, caplog.messages)) < 2_000


@pytest.mark.parametrize(("count", "is_marked"), [(1, None), (2, True)])
def test_a_submission_that_comes_again_says_so_to_the_chunks(world, process, deliver, count, is_marked):
    """Whoever had it before may have put them all, so what is computed already is not computed again."""
    if count > 1:
        process().plan(world.submission(), "m-1")
    deliver(world.submission(), count)
    assert [message.get("again") for message in world.queues.on("work-")] == [is_marked]


def test_a_submission_of_a_newer_version_waits_for_an_instance_that_reads_it(world, deliver, parked, told):
    """For ten minutes. Then it is parked with the publisher's remedy, and can be replayed."""
    body = json.dumps({"sluice": {"v": 2, "kind": "submission", "job": "later", "rows": 1}}).encode()
    for count in (1, LOOKS - 1):
        with pytest.raises(NewerVersionError, match="a submission of version 2"):
            deliver(body, count)
    assert parked.reasons == []
    assert len(told(events.NEWER_VERSION)) == 2
    deliver(body, LOOKS)
    assert [error.reason for error in parked.reasons] == ["unsupported_version"]


@pytest.mark.parametrize("head", [{"v": 2}, {"v": 10**6, "kind": "submission"}, {"v": 0, "kind": "submission"}])
def test_a_version_that_no_library_writes_is_refused_at_once(deliver, parked, head):
    """Whoever wrote it by hand is told."""
    deliver(json.dumps({"sluice": {**head, "items": [{}]}}).encode())
    assert [error.reason for error in parked.reasons] == ["unsupported_version"]
