"""What an act on jobs or a replay would do, from rows of jobs, entries, speeds and the rules in force."""

from dataclasses import replace
from datetime import timedelta
from decimal import Decimal

import pytest

from shared.ledger import Job, JobState, Portion, Totals
from shared.operating import NightAct, describe_act, describe_replay, may_act
from shared.operating.act_forecast import ActForecaster, forecast_act, forecast_replay, size_of_job
from shared.operating.replay_record import estimate
from shared.pipeline import Speed
from shared.usage import load, price, requests_of_replay, requests_of_rerun
from tests.ledger.builders import NOON
from tests.operating.test_forecast import RULED
from tests.parked.test_cause_index import make_entry

PRICES = load()
#: Half of it has ended, in four milliseconds a transaction; a tenth of that is parked.
HALF = Job(
    job="half",
    content_hash="0",
    workload="billing",
    accepted_at=NOON,
    state=JobState.PAUSED,
    items=10_000,
    chunks=20,
    done=9,
    parked_chunks=1,
    milliseconds=20_000,
    totals=Totals(accepted=Portion(4_500), parked=Portion(500)),
    requests={"table useful": 10_000},
)


def say(act, *jobs, speeds=None):
    """Return the sentence of an act on these jobs."""
    sizes = [size_of_job(job, PRICES) for job in jobs]
    return describe_act(forecast_act(act, sizes, speeds or {}, RULED, PRICES, NOON))


def test_a_resume_runs_what_has_not_ended():
    """Ten chunks of two seconds by ten tasks; the price is that of another run of ten chunks."""
    found = forecast_act(NightAct.RESUME, [size_of_job(HALF, PRICES)], {}, RULED, PRICES, NOON)
    usage = requests_of_rerun(10)
    assert (found.jobs, found.chunks, found.items, found.work.seconds) == (1, 10, 5_000, 2.0)
    assert (found.work.requests, found.work.amount) == (sum(usage.values()), price(usage, PRICES).total)
    assert describe_act(found).startswith(
        "1 job: 10 chunks with 5,000 transactions have not ended and are put again: about 2 s with 10 tasks (bound by rule), "
    )


def test_a_rerun_runs_all_and_says_what_was_spent():
    """Also what becomes of the outputs and of parked transactions."""
    said = say(NightAct.RERUN, HALF)
    assert said.startswith("1 job, with the deployed code: 20 chunks with 10,000 transactions: about 4 s with 10 tasks")
    assert "; spent: 0.000" in said
    assert said.endswith("The outputs of the run before stay; 500 parked transactions of the run before are closed")


def test_what_runs_nothing_has_no_time():
    """It says what is not run, what stays, what goes."""
    assert say(NightAct.PAUSE, HALF).startswith(
        "1 job: 10 chunks with 5,000 transactions wait. About ten seconds later"
    )
    stopped = say(NightAct.STOP, HALF, HALF)
    assert stopped.startswith(
        "2 jobs, for good: 20 chunks with 10,000 transactions are not run, nothing is published; "
    )
    assert "1,000 parked transactions stay so" in stopped
    assert "of 10,000 transactions, 500 of them parked, go" in say(NightAct.ERASE, HALF)


def test_without_a_speed_no_time_is_promised_but_that_of_the_workload_is_taken():
    """A job of which nothing has ended has no speed of its own."""
    fresh = replace(HALF, done=0, parked_chunks=0, totals=Totals(), milliseconds=0)
    assert ": no speed is known with 10 tasks" in say(NightAct.RESUME, fresh)
    known = {"billing": Speed(milliseconds=4_000, items=1_000)}
    assert ": about 4 s with 10 tasks" in say(NightAct.RESUME, fresh, speeds=known)


@pytest.mark.parametrize(
    ("state", "acts"),
    [
        (JobState.RUNNING, {NightAct.STOP, NightAct.ERASE}),
        (JobState.PAUSED, {NightAct.RESUME, NightAct.STOP, NightAct.ERASE}),
        (JobState.FINISHING, {NightAct.STOP, NightAct.ERASE}),
        (JobState.BURIED, {NightAct.ERASE}),
        (JobState.ERASED, set()),
    ],
)
def test_only_acts_that_may_be_done_are_forecast(state, acts):
    """By the rules of the acts. A job without a plan cannot pause, nor run again."""
    assert {act for act in NightAct if may_act(replace(HALF, state=state), act)} == acts


def entry(chunk, job="half", **fields):
    """Return an open entry of a chunk."""
    return make_entry(f"chunk-{chunk:09}-1", job=job, chunk=chunk, at=NOON + timedelta(seconds=chunk), **fields)


def test_a_replay_counts_jobs_revisions_transactions_and_requests():
    """A job that has ended gets a new revision. The transactions of a chunk are the mean of its job's; those set aside are known."""
    entries = [entry(0), entry(1), entry(0, "done"), entry(1, "done", items=7)]
    known = {"half": HALF, "done": replace(HALF, job="done", state=JobState.COMPLETED_WITH_PARKED, chunks=1)}
    found = forecast_replay(entries, known, estimate(entries), PRICES)
    usage = requests_of_replay(4, 3, 1)
    assert (found.jobs, found.again, found.items, found.is_about) == (2, 1, 500 + 500 + 10_000 + 7, True)
    assert (found.requests, found.amount) == (sum(usage.values()), price(usage, PRICES).total)
    assert describe_replay(found).startswith(
        "4 entries of 2 jobs, of which 1 get a new revision: about 11,007 transactions in 3 waves, 3 s to 30 s, about "
    )
    assert found.amount > Decimal()


def test_of_many_jobs_ten_rows_are_read():
    """The sentence then says no number of revisions."""
    asked = []

    class Ledger:
        """Notes which rows are read."""

        def read(self, name):
            """Return the job."""
            asked.append(name)
            return replace(HALF, job=name)

    entries = [entry(0, f"job-{number:02}") for number in range(12)]
    found = ActForecaster(ledger=Ledger(), fleet=None, speeds=None).of_replay(entries, PRICES)
    assert (len(asked), found.jobs, found.again, found.is_about) == (10, 12, None, True)
    assert "12 entries of 12 jobs: about" in describe_replay(found)
