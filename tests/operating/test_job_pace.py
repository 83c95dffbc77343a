"""How fast jobs of a size ended lately, from lines of the list."""

from datetime import timedelta

from shared.ledger import JobState, Listed
from shared.operating.forecast import forecast
from shared.operating.job_pace import JobPace, measure_pace
from shared.pipeline import Speed
from tests.ledger.builders import NOON
from tests.operating.test_forecast import PRICES, RULED, SPEEDS, line, row


def ended(number, after, *, took=3.0, chunks=1):
    """Return the line of a job that ended so many seconds after noon."""
    at = NOON + timedelta(seconds=after)
    return Listed(
        job=f"j{number}",
        accepted_at=NOON,
        workload="billing",
        gate=None,
        state=JobState.COMPLETE,
        items=100,
        chunks=chunks,
        started_at=at - timedelta(seconds=took),
        finished_at=at,
    )


def test_the_fastest_night_says_how_fast_jobs_end():
    """Two nights, the second one twice as fast. The time between them is no work, nor is that between jobs that come one by one."""
    first, second = [ended(n, n) for n in range(25)], [ended(n, 3_600 + n / 2) for n in range(25)]
    assert measure_pace(first, 1, {}).each == 1.0
    assert measure_pace(first + second, 1, {}).each == 0.5
    assert measure_pace(first[:20], 1, {}).each == 0.0
    assert measure_pace([ended(n, 30 * n) for n in range(60)], 1, {}).each == 0.0


def test_jobs_of_other_sizes_say_nothing():
    """A job of a hundred chunks takes its time for these."""
    large = [ended(n, 30 * n, took=45.0, chunks=100) for n in range(60)]
    assert measure_pace(large, 1, {}) == JobPace()
    assert measure_pace(large, 120, {}) == JobPace(each=30.0, rest=45.0)


def test_what_a_job_takes_beside_its_work_is_its_rest():
    """Of jobs that were few, the median. Of many, the least: most waited for others."""
    speeds = {"billing": Speed(milliseconds=500, items=100)}
    few = [ended(0, 9, took=3.0), ended(1, 99, took=5.0), ended(2, 199, took=60.0)]
    assert measure_pace(few, 1, speeds).rest == 4.5
    many = [ended(n, n, took=3.0 + n) for n in range(30)]
    assert measure_pace(many, 1, speeds).rest == 2.5
    assert measure_pace([ended(0, 9, took=0.1)], 1, speeds).rest == 0.0


def test_a_forecast_promises_no_more_than_was_seen():
    """Two jobs of two seconds of work by ten tasks end one after the other, at the pace of before."""
    rows, lines = [row("a", 1), row("b", 1)], {"a": line("a", 500), "b": line("b", 500)}
    found = forecast(rows, lines, SPEEDS, RULED, PRICES, NOON, JobPace(each=5.0, rest=1.0))
    assert [job.ends for job in found.jobs] == [NOON + timedelta(seconds=6), NOON + timedelta(seconds=11)]
