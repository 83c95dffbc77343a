"""What a newer version wrote: nothing of it is parked while a newer instance may come, and nothing of it is lost."""

import json
from dataclasses import replace

import pytest
from azure.data.tables import EdmType, EntityProperty

from shared.errors import LedgerCorruptError, NewerVersionError
from shared.ledger import ChunkState, JobState, change
from shared.ledger.entities import job_entity, job_of, row_entity, row_of_entity
from shared.messages import STREAMS_VERSION, Results, decode, encode
from shared.pipeline.results import Received
from shared.pipeline.settle import Settled
from shared.versions import LOOKS
from tests.ledger.builders import brought, job, parked, result, row
from tests.ledger.stage import Stage

LATER = {"furlongs": EntityProperty(2**40, EdmType.INT64), "colour": "invoices"}


@pytest.fixture
def stage(ledger):
    """A settler over an accepted job of three chunks."""
    ledger.insert(job())
    return Stage(ledger)


def newer(message, **fields):
    """Return a message as a newer version sends it."""
    body = json.loads(encode(message))
    body["sluice"] |= {"v": 1 + STREAMS_VERSION, **fields}
    return json.dumps(body).encode()


@pytest.mark.parametrize(
    "body",
    [
        newer(result(1)),
        newer(result(1), chunk={"of": 1}),
        newer(Results(results=[result(1)])),
        newer(result(1), kind="range"),
    ],
    ids=["a higher version", "another shape", "a bundle", "another kind"],
)
def test_a_newer_result_is_sent_once_more_as_it_is(stage, body):
    """The others of its batch are credited, and not delivered again for its sake."""
    assert stage.settle(result(0), body, result(2)) == Settled(credited=2)
    assert [one.body for one in stage.later] == [body]
    assert stage.parked.entries == {}


def test_of_a_bundle_the_newer_result_goes_on_alone_with_all_its_fields(stage):
    """What this version does not know of it is there for the newer one."""
    bundle = json.loads(encode(Results(results=[brought(0), brought(1), brought(2)])))
    bundle["sluice"]["results"][1] |= {"v": 1 + STREAMS_VERSION, "extends": "a hash"}
    assert stage.settle(json.dumps(bundle).encode()) == Settled(credited=2)
    (later,) = stage.later
    assert json.loads(later.body) == {"sluice": bundle["sluice"]["results"][1]}


def test_a_newer_result_is_parked_when_no_newer_instance_came(stage):
    """After ten minutes, with the remedy; it can be replayed."""
    body = newer(result(1))
    assert stage.settler.settle([Received(body, "m", looks=LOOKS - 1)]) == Settled()
    assert stage.settler.settle([Received(body, "m", looks=LOOKS)]) == Settled(parked=1)
    ((entry, kept),) = stage.parked.entries.values()
    assert (entry.reason, kept) == ("newer_version", body)
    assert "deploy" in entry.instead


@pytest.mark.parametrize("at_fault", [{"v": 10**6}, {"kind": "RANGE"}, {"v": "2"}])
def test_what_no_version_of_sluice_sends_is_parked_at_once(stage, at_fault):
    """A head that is not well-formed does not wait for anything."""
    assert stage.settle(newer(result(1), **at_fault)) == Settled(parked=1)
    assert stage.parked.reasons() == ["result_unreadable"]


def test_a_result_for_a_row_in_a_newer_state_waits(stage):
    """The job is another one's business until that one has changed it."""
    found = stage.ledger.read("nightly")

    class NewerLedger:
        """The ledger, with this job in a state of a newer version."""

        def __getattr__(self, name):
            return getattr(stage.ledger, name)

        def read(self, name):
            return job_of(job_entity(found) | {"state": "archived"}, "e")

    stage.settler._ledger = NewerLedger()
    assert stage.settle(brought(0), brought(1)) == Settled()
    assert [decode(one.body) for one in stage.later] == [brought(0), brought(1)]


def test_columns_of_a_newer_version_survive_every_write(ledger):
    """Rows are replaced as a whole, and yet keep what this version does not know."""
    ledger.insert(job(others=LATER))
    changed = change(ledger, "nightly", lambda one: replace(one, problem="why"), tried="change it")
    assert (changed.others, ledger.read("nightly").others) == (LATER, LATER)
    assert ledger.read("nightly").tombstone().others == {}


def test_a_parked_row_keeps_them_when_its_replay_is_credited(stage):
    """The row of the chunk is replaced, too."""
    stage.settle(parked(1))
    (known,) = stage.ledger.rows("nightly")
    stage.ledger.commit(stage.ledger.read("nightly"), [replace(known, others=LATER)])
    stage.settle(result(1), deliveries=2)
    (after,) = stage.ledger.rows("nightly")
    assert (after.state, after.others) == (ChunkState.DONE, LATER)


def test_a_state_that_no_version_knows_by_its_form_is_corrupt():
    """A word is of a newer version; anything else is damage."""
    with pytest.raises(NewerVersionError, match="JobState 'archived'"):
        job_of(job_entity(job()) | {"state": "archived"}, "")
    with pytest.raises(NewerVersionError, match="ChunkState 'aside'"):
        row_of_entity(row_entity(row(1)) | {"state": "aside"}, "")
    for odd in ("", "No state", 7, "x" * 99):
        with pytest.raises(LedgerCorruptError):
            job_of(job_entity(job()) | {"state": odd}, "")


def test_a_job_that_went_through_a_newer_state_is_read():
    """Only its story names that state, and keeps it."""
    entity = job_entity(job(story=()))
    entity["story"] = json.dumps([{"state": "archived", "at": "2026-11-25T00:00:00+00:00", "revision": 1}])
    found = job_of(entity, "")
    assert (found.state, [one.state for one in found.story]) == (JobState.RUNNING, ["archived"])
    assert json.loads(job_entity(found)["story"])[0]["state"] == "archived"
