"""The pages of nights: the list, one with its jobs in their order, and the ways between a night and its jobs."""

import re

from shared.ledger import JobState
from tests.console.conftest import HOST
from tests.console.fillings import fill_night, make_job, put_job
from tests.console.test_acts import ORIGIN, Form, acts
from tests.console.test_pages import words


def test_a_night_is_drawn_in_the_order_of_its_jobs(house, visitor):
    """Two steps: what is rated, and what is made from it. Each job says why it is not further."""
    first, second, invoice = fill_night(house.stores, "n-1124")
    reply, requests = house.count(lambda: visitor.get("/night/n-1124"))
    shown = words(reply)
    # The night, and for the forms the fleet and the speed of a workload.
    assert requests == 3
    assert "paused 3 jobs 30,000 transactions, 47 % ended" in shown
    assert f"2 jobs complete 1 paused 1 14,000 of 20,000 transactions ended {first} {second} 1 job held 1" in shown
    assert reply.text.count('<svg class="bar"') == 2
    assert f"waits for {second}, which is paused: wrong tariff" in shown
    for job in (first, second, invoice):
        assert f'href="{visitor.folder}/job/{job}"' in reply.text
    missing = visitor.get("/night/n-0001")
    assert (missing.status_code, "the page Nights lists the last ones" in missing.text) == (404, True)


def test_the_nights_are_listed_and_a_job_leads_to_its_own(house, visitor):
    """From the list of jobs to the nights, and from a job to its night, its sources and what was made from it."""
    first, _, invoice = fill_night(house.stores, "n-1125")
    assert f'href="{visitor.folder}/nights"' in visitor.get("/jobs").text
    reply, requests = house.count(lambda: visitor.get("/nights"))
    listed = house.stores.job_list.list_nights(20)
    assert requests == 1 + len(listed)
    assert re.search(r"n-1125 +paused +3 +30,000 +47 %", words(reply))
    assert f'href="{visitor.folder}/night/n-1125"' in visitor.get(f"/job/{invoice}").text
    assert f"Made from it: {invoice}" in words(visitor.get(f"/job/{first}"))
    assert "their lines are read when all have ended" in words(visitor.get(f"/job/{invoice}"))


def test_a_night_is_paused_resumed_and_stopped_from_its_page(house, visitor):
    """Each form says to how many jobs it does what; each job is audited by itself, and a form that was sent acts once."""
    first, second, invoice = fill_night(house.stores, "n-1126")
    page = "/night/n-1126"
    pause = Form(visitor, page, "Pause night n-1126")
    assert "1 of 3 jobs: 10 chunks with 10,000 transactions wait." in pause.html
    assert pause.send().status_code == 303
    assert house.stores.ledger.read(invoice).state is JobState.PAUSED
    assert [one[:3] for one in acts(house, invoice)] == [("dana", "job pause", "month end")]
    assert pause.send().status_code == 303
    assert len(acts(house, invoice)) == 1
    house.clock.advance(11)
    assert "2 of 3 jobs" in Form(visitor, page, "Resume night n-1126").html
    stopped = Form(visitor, page, "Stop night n-1126").send("wrong file")
    assert stopped.status_code == 303
    assert {house.stores.ledger.read(job).state for job in (second, invoice)} == {JobState.STOPPED}
    assert house.stores.ledger.read(first).state is JobState.COMPLETE


def test_a_night_that_has_grown_and_a_name_that_is_not_typed_are_refused(house, visitor):
    """Nothing was done, and the page says why."""
    jobs = fill_night(house.stores, "n-1127")
    before = [house.stores.ledger.read(job).state for job in jobs]
    erase = Form(visitor, "/night/n-1127", "Erase night n-1127")
    assert erase.send(typed="n-1128").status_code == 400
    put_job(house.stores, make_job("n-1127-late", night="n-1127"), is_open=False)
    assert erase.send(typed="n-1127").status_code == 409
    assert [house.stores.ledger.read(job).state for job in jobs] == before
    assert (
        visitor.client.post(
            f"{visitor.folder}/night/n-1127/burn",
            headers={"Host": HOST, "Origin": ORIGIN, "Sec-Fetch-Site": "same-origin"},
        ).status_code
        == 404
    )
