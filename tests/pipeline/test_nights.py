"""Nights: what shares a name is listed together, and acts on it are those on each job."""

import pytest

from shared.ledger import JobState
from shared.operating import NightAct, choose_jobs, explain_line, judge_night, put_in_order, sum_up
from shared.operating.descent import describe_sources, describe_waiting, list_made_from
from shared.operating.night_acts import _GRAVITY
from shared.usage import bill_of, load
from tests.pipeline.test_after import night, quick  # noqa: F401 - fixtures


@pytest.fixture
def rated(night):  # noqa: F811
    """Two files that are rated, and an invoice that is made from them."""
    night.submit("rate-1", "x", "", night="n-1")
    night.submit("rate-2", "y", night="n-1")
    night.submit_jobs("invoice", "rate-1", "rate-2", sums={"amount": "amount"}, night="n-1")
    return night


def read(night, name="n-1"):  # noqa: F811
    """Return the rows of the night."""
    return night.stores.job_list.read_night(name)


def test_a_night_has_its_jobs_and_their_sum(rated):
    """By one request; its state is the gravest, and its share is of all that it has."""
    rated.run("work-00")
    lines = read(rated)
    assert [one.listed.job for one in lines] == ["rate-1", "rate-2", "invoice"]
    assert explain_line(lines[2], lines) == "waits for rate-1, which is dispatching"
    rated.run()
    lines = read(rated)
    found = sum_up(lines, load(), rated.world.clock.now())
    assert (found.state, found.ended, found.items, found.share, found.jobs) == ("complete", 5, 5, "100 %", 3)
    assert found.amount == sum(bill_of(rated.read(one.listed.job), load()).total for one in lines)
    assert [(one.accepted, one.rejected) for one in lines] == [(1, 1), (1, 0), (2, 0)]
    assert all(one.requests for one in lines)
    assert rated.stores.job_list.list_nights(9) == ["n-1"]


def test_the_rows_of_a_night_go_with_the_retention_of_its_jobs(rated):
    """A day after each was buried. The night's own row goes with the last job of its day."""

    def rows():
        found = rated.app.connections.tables.get_table_client("nights").list_entities()
        return sorted((row["PartitionKey"], row["RowKey"].partition("|")[2] or row["RowKey"]) for row in found)

    rated.run()
    rated.tick(days=10)
    rated.submit("late", night="n-1")
    rated.run()
    assert len(rows()) == 6
    rated.tick(days=21)
    assert {rated.state(job) for job in ("rate-1", "rate-2", "invoice")} == {JobState.BURIED}
    assert len(rows()) == 6
    rated.tick(days=1)
    assert rows() == [("!", "n-1"), ("n-1", "late")]
    rated.tick(days=9)
    rated.tick(days=1)
    assert (rated.state("late"), rows()) == (JobState.BURIED, [])


def test_a_job_that_joins_its_night_meanwhile_keeps_that_listed(rated, monkeypatch):
    """The row of the night is removed as it was read."""
    rated.run()
    nights = rated.stores.job_list._nights
    read = type(nights._table).query_entities

    def join_first(table, *words, **more):
        nights.begin(rated.read("invoice"))
        return read(table, *words, **more)

    for job in ("rate-1", "rate-2"):
        nights.forget(rated.read(job))
    monkeypatch.setattr(type(nights._table), "query_entities", join_first)
    nights.forget(rated.read("invoice"))
    monkeypatch.undo()
    assert rated.stores.job_list.list_nights(9) == ["n-1"]
    nights.forget(rated.read("invoice"))
    assert rated.stores.job_list.list_nights(9) == []


def test_the_row_of_an_erased_job_goes_after_the_second_check(rated):
    """Until then the night says that it was erased."""
    rated.submit("wrong", night="n-2")
    rated.run()
    rated.stores.job_eraser.erase("wrong", by="ann", why="request 4711")
    for _ in range(6):
        rated.tick(minutes=6)
    assert [one.listed.state for one in read(rated, "n-2")] == [JobState.ERASED]
    rated.tick(days=1)
    assert (read(rated, "n-2"), rated.stores.job_list.list_nights(9)) == ([], ["n-1"])


def test_a_job_without_a_night_is_in_no_row(night):  # noqa: F811
    """It makes no request for it."""
    night.submit("rate")
    night.run()
    rows = night.app.connections.tables.get_table_client("nights").list_entities()
    assert list(rows) == []


def test_all_jobs_of_a_night_are_paused_resumed_and_stopped(rated):
    """Those that wait first; a second act finds all of them so already."""
    rated.run("work-00")

    def act(what):
        jobs = choose_jobs(read(rated), what)
        return [one.job for one in rated.stores.night_operator.act(jobs, what, by="ann", why="wrong") if one.is_done]

    assert act(NightAct.PAUSE) == ["invoice", "rate-1", "rate-2"]
    assert judge_night(read(rated)) == "paused"
    assert act(NightAct.PAUSE) == []
    assert sorted(act(NightAct.RESUME)) == ["invoice", "rate-1", "rate-2"]
    rated.world.clock.advance(seconds=11)
    assert len(act(NightAct.STOP)) == 3
    assert {rated.state(job) for job in ("rate-1", "rate-2", "invoice")} == {JobState.STOPPED}
    assert act(NightAct.STOP) == []


def test_a_night_runs_again_from_its_sources_on_and_is_erased_from_its_end(rated):
    """What is made from others waits for their new revisions; what others were made from goes after these."""
    rated.run()
    assert {rated.state(job) for job in ("rate-1", "rate-2", "invoice")} == {JobState.COMPLETE}

    def act(what):
        rated.world.clock.advance(seconds=11)
        jobs = choose_jobs(read(rated), what)
        acted = list(rated.stores.night_operator.act(jobs, what, by="ann", why="wrong"))
        assert all(one.is_done for one in acted), acted
        return [one.job for one in acted]

    assert act(NightAct.RERUN) == ["rate-1", "rate-2", "invoice"]
    assert (rated.state("invoice"), rated.read("invoice").waits[:1]) == (JobState.HELD, ("rate-1",))
    rated.run()
    rated.tick()
    assert [rated.state(job) for job in ("rate-1", "rate-2", "invoice")] == [JobState.COMPLETE] * 3
    assert dict(rated.read("invoice").used) == {job: rated.read(job).revision for job in ("rate-1", "rate-2")}
    assert act(NightAct.ERASE) == ["invoice", "rate-1", "rate-2"]
    assert act(NightAct.ERASE) == []


def test_an_act_takes_so_many_jobs_and_leaves_the_others(rated, monkeypatch):
    """A page of the fleet's rows has room for so many halts."""
    monkeypatch.setattr("shared.operating.night_acts.MOST_ACTS", 2)
    rated.run("work-00")
    jobs = choose_jobs(read(rated), NightAct.PAUSE)
    acted = list(rated.stores.night_operator.act(jobs, NightAct.PAUSE, by="ann", why="wrong"))
    assert len(acted) == 2
    assert len(choose_jobs(read(rated), NightAct.PAUSE)) == 1


def test_a_job_says_for_whom_it_waits_and_what_it_was_made_from(rated):
    """And its sources say what was made from them, which an erasure needs."""
    rated.run("work-00")
    rated.act("pause", "rate-1")
    waits = describe_waiting(rated.stores.ledger, rated.read("invoice"))
    assert waits == "it waits for rate-1, which is paused by ann: wrong tariff; then for 1 more"
    assert [one.job for one in list_made_from(rated.stores.ledger, rated.read("rate-1"))] == ["invoice"]
    rated.act("resume", "rate-1")
    rated.world.clock.advance(seconds=11)
    rated.tick()
    (words,) = describe_sources(rated.stores.ledger, rated.read("invoice"))
    assert words == (
        "rate-1 rev 1, rate-2 rev 1: 2 lines = 2 declared = 2 accepted; amount 2.20 = accepted there: proven"
    )
    assert describe_waiting(rated.stores.ledger, rated.read("invoice")) == ""
    assert [one.job for one in list_made_from(rated.stores.ledger, rated.read("rate-2"))] == ["invoice"]


def test_the_jobs_of_a_night_stand_in_the_order_in_which_they_wait(rated):
    """Those that wait for each other come last, and so does what waits for them."""
    rated.submit("report", after=["invoice", "of-another-night"], night="n-1")
    rated.run("work-00")
    names = [[one.listed.job for one in some] for some in put_in_order(read(rated))]
    assert names == [["rate-1", "rate-2"], ["invoice"], ["report"]]
    rated.submit("a", after=["b"], night="n-2")
    rated.submit("b", after=["a"], night="n-2")
    rated.submit("c", night="n-2")
    rated.run("work-00")
    assert [len(some) for some in put_in_order(read(rated, "n-2"))] == [1, 2]


def test_each_state_has_its_gravity():
    """A night in which all were erased is no night of which nothing is recorded."""
    assert set(_GRAVITY) == set(JobState)
