"""The list of jobs: the last word wins in whatever order the writers come, and a page is what a person wants to see."""

from dataclasses import replace
from datetime import timedelta

import pytest

from shared.errors import ListPlaceError, StorageUnavailableError
from shared.ledger import CLOSED, Wanted, change
from shared.ledger.records import JobState
from shared.operating import find_job_of_number
from shared.telemetry import events
from tests.ledger.builders import NOON, job


@pytest.fixture
def jobs(table_ledger):
    """A list that holds nothing yet."""
    return table_ledger.list


def listed(jobs, name="nightly"):
    """Return the line of one job."""
    return next(one for one in jobs.newest(100) if one.job == name)


RUNNING = job(listed_at=NOON)
ENDED = job(state=JobState.COMPLETE, done=3, finished_at=NOON + timedelta(minutes=1), listed_at=NOON)
AGAIN = replace(RUNNING, revision=2)
OVER = replace(ENDED, revision=2, state=JobState.COMPLETED_WITH_PARKED, parked_chunks=1)


@pytest.mark.parametrize(
    ("told", "state"),
    [
        ((RUNNING, ENDED), JobState.COMPLETE),
        ((ENDED, RUNNING), JobState.COMPLETE),
        ((ENDED, AGAIN), JobState.RUNNING),
        ((AGAIN, ENDED), JobState.RUNNING),
        ((ENDED, OVER, AGAIN), JobState.COMPLETED_WITH_PARKED),
        ((AGAIN, OVER, RUNNING), JobState.COMPLETED_WITH_PARKED),
    ],
)
@pytest.mark.parametrize("is_marked", [True, False])
def test_a_slow_writer_hides_no_end(jobs, told, state, is_marked):
    """The news of two processes come in any order; no write reads first. A replay opens the job again.

    `is_marked`: by this release, which lists a job that runs beside its month. One of before does not.
    """
    for news in told:
        jobs.tell(replace(news, listed_open=is_marked))
    if is_marked and told == (AGAIN, ENDED):
        # A late end of a revision before takes the row of the later one, until the next news of that.
        jobs.tell(replace(AGAIN, listed_open=True))
    assert [one.state for one in jobs.page(Wanted(), 10).jobs] == [state]
    assert [one for other in CLOSED - {state} for one in jobs.page(Wanted(state=other), 10).jobs] == []
    # As the tick tells the end once more, or the next progress of an open job.
    jobs.tell(replace(next(news for news in told if news.state is state), listed_open=True))
    assert [one.job for one in jobs.page(Wanted(state=state), 10).jobs] == ["nightly"]
    if state in CLOSED:
        assert jobs.list_open() == ([], True)


def test_a_line_has_what_the_list_shows(jobs):
    """Counts, times and the problem, as the job's row had them."""
    told = job(
        state=JobState.PAUSED,
        gate="nightly",
        done=1,
        parked_chunks=2,
        problem="x" * 300,
        deadline=NOON + timedelta(hours=1),
        listed_at=NOON + timedelta(minutes=2),
    )
    jobs.tell(told)
    found = listed(jobs)
    assert (found.state, found.done, found.parked_chunks, found.ended_chunks) == (JobState.PAUSED, 1, 2, 3)
    assert (found.gate, found.workload, found.items, found.chunks) == ("nightly", "billing", 30, 3)
    assert (found.as_of, found.deadline, found.started_at) == (told.listed_at, told.deadline, NOON)
    assert found.problem == "x" * 200


def test_pages_follow_each_other_to_the_end(jobs):
    """No job is on two pages, and none is left out, across the turn of a month."""
    names = [f"job-{number:02}" for number in range(25)]
    for number, name in enumerate(names):
        jobs.tell(job(job=name, accepted_at=NOON + timedelta(days=number)))
    found, after = [], ""
    while after is not None:
        page = jobs.page(Wanted(), 10, after)
        found, after = [*found, *(one.job for one in page.jobs)], page.after
    assert found == names[::-1]
    with pytest.raises(ListPlaceError, match="nowhere"):
        jobs.page(Wanted(), 10, "nowhere")


def test_filters_select_by_what_a_person_knows(jobs):
    """Workload, gate and time of acceptance, alone and together."""
    for number in range(6):
        gate, workload = ("nightly", "billing") if number % 2 else (None, "sales")
        moment = NOON + timedelta(days=10 * number)
        jobs.tell(job(job=f"job-{number}", gate=gate, workload=workload, accepted_at=moment))

    def found(**wanted):
        return [int(one.job[-1]) for one in jobs.page(Wanted(**wanted), 10).jobs]

    day = timedelta(days=1)
    assert found(workload="sales") == [4, 2, 0]
    assert found(gate="nightly") == [5, 3, 1]
    assert found(since=NOON + 20 * day) == [5, 4, 3, 2]
    assert found(before=NOON + 20 * day) == [1, 0]
    assert found(since=NOON + 10 * day, before=NOON + 40 * day, workload="sales") == [2]


def test_a_commit_tells_a_new_state_at_once_and_progress_once_a_minute(table_of):
    """A settler writes a job's row many times a minute; the list is one request a minute."""
    ledger, told = table_of(), []
    clock = Clock()
    ledger._clock = clock
    tell, ledger.list.tell = ledger.list.tell, lambda news: (told.append(news.state), tell(news))
    ledger.insert(job(state=JobState.DISPATCHING, started_at=NOON + timedelta(milliseconds=1)))
    for state, seconds in (
        (JobState.RUNNING, 1),
        (JobState.RUNNING, 59),
        (JobState.RUNNING, 2),
        (JobState.FINISHING, 1),
        (JobState.COMPLETE, 1),
    ):
        clock.seconds += seconds
        change(ledger, "nightly", lambda one, state=state: replace(one, state=state, done=one.done + 1), tried="go on")
    assert told == [JobState.DISPATCHING, JobState.RUNNING, JobState.RUNNING, JobState.FINISHING, JobState.COMPLETE]
    assert (listed(ledger.list).state, listed(ledger.list).done) == (JobState.COMPLETE, 5)


def test_the_finish_of_a_small_job_is_no_news(table_of):
    """Its chunks end by one commit, so the list has not seen it running: no request more."""
    ledger, told = table_of(), []
    ledger._clock = Clock()
    ledger.insert(job(state=JobState.DISPATCHING, started_at=NOON + timedelta(milliseconds=1)))
    ledger.list.tell = lambda news: told.append(news.state)
    for state in (JobState.FINISHING, JobState.COMPLETE):
        change(ledger, "nightly", lambda one, state=state: replace(one, state=state, done=3), tried="go on")
    assert told == [JobState.COMPLETE]


class Clock:
    """Noon, and some seconds."""

    seconds = 0.0

    def now(self):
        """Return the time."""
        return NOON + timedelta(seconds=self.seconds)


def test_news_that_cannot_be_written_fail_no_stage(table_ledger, told):
    """The job is written; the list is a hint that the tick mends."""
    stored, _ = table_ledger.insert(job())
    tell = table_ledger.list.tell

    def fail(_job):
        raise StorageUnavailableError("busy")

    table_ledger.list.tell = fail
    ended = table_ledger.commit(replace(stored, state=JobState.COMPLETE))
    assert ended.state is JobState.COMPLETE
    assert [one["state"] for one in told(events.JOB_UNLISTED)] == ["complete"]
    table_ledger.list.tell = tell
    assert listed(table_ledger.list).state is JobState.RUNNING
    table_ledger.tell_list(ended)
    assert listed(table_ledger.list).state is JobState.COMPLETE


def test_the_beginning_of_an_id_finds_jobs_however_old(table_ledger):
    """Not only among the last ones: by the keys of the jobs themselves."""
    for name in ("north-1", "north-2", "south-1"):
        table_ledger.insert(job(job=name))
    assert [one.job for one in table_ledger.list.find("north-", 10)] == ["north-1", "north-2"]
    assert [one.job for one in table_ledger.list.find("north-", 1)] == ["north-1"]
    assert table_ledger.list.find("east-", 10) == []


def test_jobs_that_an_earlier_version_listed_are_shown_and_found(jobs):
    """Their lines have no state until `sluice jobs reindex` fills them in."""
    jobs.tell(job(job="new", id_base=1))
    line = {"job": "old", "workload": "billing", "accepted_at": NOON.isoformat()}
    jobs._index.upsert_entity({"PartitionKey": "797388", "RowKey": "99820|old", **line})
    assert listed(jobs, "old").state is None
    assert [one.job for one in jobs.untold()] == ["old"]


LARGE = 2**60


@pytest.mark.parametrize("first", [0, 1, 100, LARGE])
def test_a_number_leads_to_the_job_that_has_it(jobs, first):
    """Only among jobs of that time, by one request; a job that has no numbers yet is no answer."""
    jobs.tell(job(job="planned-late", id_base=None))
    jobs.tell(job(job="before", id_base=first + 60))
    jobs.tell(job(job="mine", id_base=first, items=30))
    early, late = NOON - timedelta(hours=1), NOON + timedelta(hours=1)
    assert [jobs.find_numbered(first + place, early, late) for place in (0, 29, 30)] == ["mine", "mine", None]
    assert jobs.find_numbered(first, late, late + timedelta(days=40)) is None
    assert listed(jobs, "mine").first_id == first
    assert listed(jobs, "planned-late").first_id is None


def test_a_job_whose_line_has_no_numbers_is_filled_in_again(jobs):
    """As the last version listed it. A buried job has none left."""
    for name, fields in (("open", {}), ("buried", {"state": JobState.BURIED})):
        jobs.tell(job(job=name, id_base=None, **fields))
    assert [one.job for one in jobs.untold()] == ["open"]


RELEASED = replace(RUNNING, state=JobState.DISPATCHING, listed_at=NOON - timedelta(seconds=1), listed_open=True)


def rows_of(jobs, partition="open"):
    """Return the rows of the months, or those of jobs under way, as they are stored."""
    rows = jobs._index.list_entities()
    return [row for row in rows if (row["PartitionKey"] == "open") == (partition == "open")]


def test_a_job_under_way_has_its_news_beside_its_month(jobs):
    """One request finds it by its state, however many others there are. A page of the months says the same of it."""
    planned = job(state=JobState.PLANNING, started_at=None, listed_at=NOON - timedelta(seconds=9))
    jobs.tell(planned)
    for number in range(5):
        jobs.tell(replace(ENDED, job=f"over-{number}", accepted_at=NOON + timedelta(seconds=1 + number)))
    jobs.tell(replace(RELEASED, state=JobState.RUNNING, done=2))
    assert [row["state"] for row in rows_of(jobs, "months") if row["job"] == "nightly"] == ["planning"]
    for found in (jobs.list_open()[0], jobs.page(Wanted(state=JobState.RUNNING), 1).jobs):
        assert [(one.job, one.state, one.done) for one in found] == [("nightly", JobState.RUNNING, 2)]
    assert jobs.page(Wanted(state=JobState.PLANNING), 10).jobs == []
    whole = jobs.page(Wanted(), 10)
    assert ([one.job for one in whole.jobs], whole.after) == (
        [f"over-{n}" for n in (4, 3, 2, 1, 0)] + ["nightly"],
        None,
    )
    assert (whole.jobs[-1].state, whole.jobs[-1].done) == (JobState.RUNNING, 2)
    early, late = NOON - timedelta(minutes=1), NOON + timedelta(minutes=1)
    for name, (since, before), number in (("now", (early, late), 1), ("then", (late, late + timedelta(days=40)), 0)):
        assert len(jobs.page(Wanted(state=JobState.RUNNING, since=since, before=before), 9).jobs) == number, name


def test_the_end_takes_a_job_from_those_under_way(jobs):
    """Behind the row of its month. A process that dies in between leaves both, and the tick writes the end again."""
    over = replace(ENDED, listed_open=True)
    jobs.tell(RELEASED)
    delete, jobs._index.delete_entity = jobs._index.delete_entity, refuse
    with pytest.raises(ConnectionError):
        jobs.tell(over)
    jobs._index.delete_entity = delete
    assert [one.state for one in jobs.page(Wanted(), 10).jobs] == [JobState.COMPLETE]
    assert [one.job for one in jobs.list_open()[0]] == ["nightly"]
    for _ in range(2):
        jobs.tell(over)
    assert jobs.list_open() == ([], True)
    jobs.tell(replace(RELEASED, revision=2))
    assert [one.state for one in jobs.page(Wanted(), 10).jobs] == [JobState.DISPATCHING]
    assert jobs.page(Wanted(state=JobState.COMPLETE), 10).jobs == []


def refuse(*_, **__):
    """Stand for a process that dies before its request."""
    raise ConnectionError


def test_what_a_slow_process_leaves_under_way_goes_at_night(table_of):
    """After a day without news, and only if its job's own row says so. The list says its end meanwhile."""
    ledger, clock = table_of(), Clock()
    ledger._clock = clock
    ledger.insert(replace(ENDED, listed_open=True))
    ledger.insert(job(job="paused", state=JobState.PAUSED, listed_open=True))
    for one in (RELEASED, replace(RELEASED, job="gone")):
        ledger.list.tell(one)
    ledger.tidy_list()
    assert len(ledger.list.list_open()[0]) == 3
    assert [one.state for one in ledger.list.page(Wanted(), 10).jobs] == [JobState.COMPLETE]
    clock.seconds += timedelta(days=1, minutes=1).total_seconds()
    ledger.tidy_list()
    assert [one.job for one in ledger.list.list_open()[0]] == ["paused"]


def test_an_instance_of_before_and_this_one_share_the_list(jobs):
    """It writes news into the month, where the later ones count. It reads jobs under way once more behind the oldest month."""
    later = {"listed_at": NOON + timedelta(minutes=1), "done": 1}
    jobs.tell(replace(RELEASED, state=JobState.PLANNING))
    jobs.tell(RELEASED)
    jobs.tell(replace(RELEASED, listed_open=False, state=JobState.RUNNING, **later))
    assert [(one.state, one.done) for one in jobs.page(Wanted(), 10).jobs] == [(JobState.RUNNING, 1)]
    jobs.tell(replace(RELEASED, state=JobState.FINISHING, listed_at=NOON + timedelta(minutes=2), done=3))
    assert [(one.state, one.done) for one in jobs.page(Wanted(), 10).jobs] == [(JobState.FINISHING, 3)]
    rows = [(row["job"], row["open"]) for row in jobs._index.list_entities()]
    assert rows == [("nightly", "running"), ("nightly", "finishing")]


def test_a_large_job_is_listed_as_soon_as_it_begins(table_of):
    """In place of its first chunks that ended, so it makes no request more. So is one that a person resumes."""
    ledger, clock = table_of(), Clock()
    ledger._clock = clock
    ledger.insert(job(100, state=JobState.PLANNING, started_at=None))
    clock.seconds = 5
    begun = {"state": JobState.DISPATCHING, "started_at": clock.now()}
    told, tell = [], ledger.list.tell
    ledger.list.tell = lambda news: (told.append(news.state), tell(news))
    for changes in (begun, {"done": 1}, {"state": JobState.PAUSED}, {"state": JobState.RUNNING}, {"done": 2}):
        clock.seconds += 1
        change(ledger, "nightly", lambda one, changes=changes: replace(one, **changes), tried="go on")
    assert told == [JobState.DISPATCHING, JobState.PAUSED, JobState.RUNNING]
    assert [one.state for one in ledger.list.list_open()[0]] == [JobState.RUNNING]


def test_a_number_leads_to_a_job_under_way(jobs):
    """The row of its month was written before it had numbers."""
    jobs.tell(job(id_base=None, state=JobState.PLANNING))
    jobs.tell(replace(RELEASED, id_base=5000, items=30))
    between = NOON, NOON + timedelta(minutes=1)
    assert [find_job_of_number(jobs, None, number, between) for number in (5000, 5029)] == ["nightly"] * 2


def test_a_job_that_is_dispatched_is_found_in_its_month_or_under_way(jobs):
    """A small one is accepted so, and has no news until its end. Each is found once."""
    jobs.tell(job(1, job="small", state=JobState.DISPATCHING, listed_at=NOON))
    jobs.tell(job(1, job="runs", state=JobState.DISPATCHING, listed_at=NOON))
    jobs.tell(replace(RELEASED, job="runs", state=JobState.RUNNING, listed_at=NOON))
    for told in (replace(RELEASED, listed_open=False), RELEASED):
        jobs.tell(told)
    assert sorted(one.job for one in jobs.page(Wanted(state=JobState.DISPATCHING), 9).jobs) == ["nightly", "small"]
