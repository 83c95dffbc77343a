"""A job that waits for others beside an instance of the release before: it starts nothing early, and loses no column."""

import json
from datetime import UTC, datetime, timedelta

import pytest

from shared.ledger.entities import job_entity
from shared.ledger.records import Job, JobState, PlanText, Sources
from shared.refusals import Reason

NOON = datetime(2026, 11, 20, 12, tzinfo=UTC)
WAITING = Job(
    job="invoice",
    content_hash="x",
    workload="sales",
    accepted_at=NOON,
    state=JobState.HELD,
    items=3,
    chunks=1,
    waits=("rate-1", "rate-2"),
    waits_at=1,
    from_jobs=Sources(2, {"amount": "amount"}),
    ready=PlanText("{}"),
    waiters=("report",),
    night="n-1124",
)


@pytest.fixture
def before(release):
    """The modules of the release before."""
    find, _ = release
    if "after" in find("payload.submission").SubmissionFields.__struct_fields__:
        pytest.skip("this release knows jobs that wait")
    return find


@pytest.fixture
def row(before):
    """A job that waits, as that release reads it."""
    return before("ledger.entities").job_of(job_entity(WAITING), "")


@pytest.mark.parametrize(
    "said", [{"after": ["a"], "items": [{}]}, {"payload": {"jobs": ["a"]}}, {"night": "n", "items": [{}]}]
)
def test_a_submission_is_parked_as_one_with_an_unknown_field(before, said):
    """Its replay is taken by a newer instance."""
    payload = before("payload")
    envelope = payload.open_envelope(json.dumps({"sluice": said}).encode(), payload.Limits())
    with pytest.raises(before("errors").RefusedError) as refused:
        payload.read_submission(envelope, "m-1", payload.Limits())
    assert refused.value.reason == Reason.UNKNOWN_FIELD


@pytest.mark.parametrize("state", [JobState.HELD, JobState.PAUSED])
def test_it_puts_no_chunk_of_a_job_that_waits(before, row, state):
    """The row has no plan where that release looks for one, so no tick, hint or gate starts it."""
    decisions, later = before("ledger.job_decisions"), NOON + timedelta(days=1)
    one = before("ledger.entities").job_of(job_entity(WAITING) | {"state": state.value}, "")
    assert one.plan is None
    assert not decisions.may_dispatch(one)
    assert decisions.list_open(one, ()) == []
    assert decisions.note_missing_plan(one) is one
    assert not decisions.is_overdue(one, later, timedelta(minutes=10))


def test_its_writes_keep_the_columns(before, row):
    """It credits chunks to a job that others wait for, and must not forget whom to wake."""
    kept = before("ledger.entities").job_entity(row)
    new = {"waits", "waits_at", "from_jobs", "ready_text", "waiters", "night"}
    assert {name: kept[name] for name in new} == {name: job_entity(WAITING)[name] for name in new}


def test_a_pointer_to_it_stays(before):
    """That release follows no pointer of an unknown kind."""
    kinds = {value for name, value in vars(before("pending")).items() if name.endswith("_POINTER")}
    assert "wait" not in kinds
