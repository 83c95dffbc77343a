"""`sluice jobs`, against a real ledger without the app."""

import itertools
import json
import re
from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest

from shared.app import Stores
from shared.azure.connections import Connections
from shared.ledger.records import Job, JobState, PlanBlob, Portion, Totals
from shared.pending import PendingTable

_numbers = itertools.count(1)


@pytest.fixture
def job_in(stack_settings):
    """Write a job of its own into the ledger, in some state, and return its id."""
    with Connections.parse(stack_settings) as connections:
        ledger = Stores(connections).ledger

        def make(state, **fields):
            name = f"cli-job-{next(_numbers)}"
            known = {"content_hash": "0" * 64, "workload": "billing", "accepted_at": datetime.now(UTC)}
            plan = PlanBlob(f"{name}/plan", "e")
            ledger.insert(Job(job=name, state=state, items=10, chunks=2, plan=plan, id_base=100, **known | fields))
            return name

        yield make


def test_a_finished_job_shows_its_totals(sluice, job_in):
    """Counts, exact sums, ids and where the outputs are, for programs and for people."""
    totals = Totals(accepted=Portion(9, {"amount": Decimal("12.30")}), rejected=Portion(1))
    requests = {"table useful": 15, "queue useful": 4, "table conflict": 1}
    name = job_in(JobState.COMPLETE, done=2, totals=totals, finished_at=datetime.now(UTC), requests=requests)
    said = json.loads(sluice("jobs", "show", name, "--json").stdout)
    assert (said["state"], said["accepted"]["sums"], said["rejected"]["items"]) == ("complete", {"amount": "12.30"}, 1)
    assert said["outputs"] == f"outputs/{name}/1/"
    shown = sluice("jobs", "show", name).stdout
    assert "100 to 109" in shown
    assert "12.30" in shown
    assert "20 (1 conflict, 19 useful), 2.0000 a transaction" in shown
    assert said["requests"] == requests


def test_who_watches_a_job_sees_when_it_will_end(sluice, job_in):
    """Half of it in ten minutes makes ten more; what has ended says nothing of the kind."""
    began = datetime.now(UTC) - timedelta(minutes=10)
    half = job_in(JobState.RUNNING, done=1, dispatch_cursor=2, started_at=began)
    said = sluice("jobs", "watch", half, "--timeout", "0").stderr
    hour, minute = re.search(r"ends about (\d\d):(\d\d):\d\d UTC", said).groups()
    expected = began + timedelta(minutes=20)
    assert abs(int(hour) * 60 + int(minute) - expected.hour * 60 - expected.minute) in {0, 1, 1439}
    ended = job_in(JobState.COMPLETE, done=2, started_at=began, finished_at=datetime.now(UTC))
    assert "ends about" not in sluice("jobs", "watch", ended).stderr


def test_a_deadline_at_risk_is_seen_wherever_one_looks(sluice, job_in):
    """In the list, beside the job and while it is watched; a program has the word."""
    now = datetime.now(UTC)
    name = job_in(
        JobState.HELD, gate="nightly", accepted_at=now - timedelta(hours=9), deadline=now + timedelta(hours=1)
    )
    assert "waits too long" in sluice("jobs", "show", name).stdout
    listed = {job["job"]: job for job in json.loads(sluice("jobs", "list", "--json").stdout)["jobs"]}
    assert (listed[name]["risk"], listed[name]["late"]) == ("waits_too_long", False)
    assert "waits too long" in sluice("jobs", "watch", name, "--timeout", "0").stderr


def test_the_newest_job_is_listed_first(sluice, job_in):
    """Who asks wants the last ones, and the states are those of the ledger."""
    older, newer = job_in(JobState.RUNNING), job_in(JobState.HELD, gate="nightly")
    listed = [job["job"] for job in json.loads(sluice("jobs", "list", "--json").stdout)["jobs"]]
    assert listed.index(newer) < listed.index(older)
    assert sluice("jobs", "list").returncode == 0


def test_a_job_nobody_knows_is_a_problem(sluice):
    """A misspelt id is said to be one."""
    done = sluice("jobs", "show", "no-such-job")
    assert (done.returncode, "there is no job 'no-such-job'" in done.stderr) == (1, True)


@pytest.mark.parametrize(
    ("state", "status"),
    [(JobState.COMPLETE, 0), (JobState.COMPLETED_WITH_PARKED, 1), (JobState.UNBALANCED, 1), (JobState.PAUSED, 1)],
)
def test_watching_ends_with_the_job_and_says_how(sluice, job_in, state, status):
    """Only a complete job is status 0, so that a script can rely on it."""
    assert sluice("jobs", "watch", job_in(state, finished_at=datetime.now(UTC))).returncode == status


def test_watching_a_job_that_does_not_end_is_bounded(sluice, job_in):
    """`--timeout` ends the wait with a status of its own, and the job as it is."""
    done = sluice("jobs", "watch", job_in(JobState.RUNNING), "--timeout", "0", "--json")
    assert (done.returncode, json.loads(done.stdout)["state"]) == (3, "running")


def test_watching_a_job_that_never_comes_is_bounded_too(sluice):
    """A job that nobody accepts is not waited for longer than asked."""
    done = sluice("jobs", "watch", "never-dropped", "--timeout", "0")
    assert (done.returncode, "check the id" in done.stderr) == (1, True)


def test_a_paused_job_is_resumed_and_audited(sluice, job_in, stack_settings):
    """It goes on where it stopped, by a pointer that the next tick follows, and who wanted it is in the audit."""
    name = job_in(JobState.PAUSED, parked_chunks=1, done=0, problem="too many chunks are parked")
    done = sluice("jobs", "resume", name, "--yes", "--why", "seen")
    assert done.returncode == 0, done.stderr
    assert json.loads(sluice("jobs", "show", name, "--json").stdout)["state"] == "dispatching"
    with Connections.parse(stack_settings) as connections:
        rows = connections.tables.get_table_client("audit").query_entities(f"target eq '{name}'")
        assert [(row["what"], row["why"], row["result"]) for row in rows] == [("job resume", "seen", "dispatching")]
        pending = PendingTable(connections.tables.get_table_client("pending"))
        assert name in {one.id for one in pending.due(datetime.now(UTC)) if one.kind == "dispatch"}


def test_a_job_that_is_not_paused_cannot_be_resumed(sluice, job_in):
    """The refusal says how the job is."""
    done = sluice("jobs", "resume", job_in(JobState.RUNNING), "--yes")
    assert (done.returncode, "it is running, expected paused" in done.stderr) == (1, True)
