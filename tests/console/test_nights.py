"""The pages of nights: the list, one with its jobs in their order, and the ways between a night and its jobs."""

import re

from tests.console.fillings import fill_night
from tests.console.test_pages import words


def test_a_night_is_drawn_in_the_order_of_its_jobs(house, visitor):
    """Two steps: what is rated, and what is made from it. Each job says why it is not further."""
    first, second, invoice = fill_night(house.stores, "n-1124")
    reply, requests = house.count(lambda: visitor.get("/night/n-1124"))
    shown = words(reply)
    assert requests == 1
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
