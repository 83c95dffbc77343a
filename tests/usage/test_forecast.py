"""Forecasts and comparisons: pure, checked by hand and by properties."""

from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest

from shared.ledger.records import Job
from shared.usage.bill import bill_of, load, price
from shared.usage.month import Installation, Who, demand_of_arrivals, demand_of_jobs, forecast_month

PRICES = load()
NOON = datetime(2026, 11, 20, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)


def job(**fields):
    """A job of 20,000 transactions in 20 chunks."""
    known = {"job": "j", "content_hash": "0", "workload": "billing", "accepted_at": NOON, "items": 20_000}
    requests = {"queue useful": 21, "blob-read useful": 20, "blob-write useful": 20, "table useful": 12}
    return Job(**known | {"chunks": 20, "done": 20, "requests": requests} | fields)


def test_a_job_is_billed_for_what_it_counted_and_for_taking_its_messages():
    """73 requests that its stages made; 20 chunks and 2 more messages taken and deleted; three bus operations each."""
    bill = bill_of(job(), PRICES)
    metered, calculated = bill.parts
    assert (metered.name, metered.bill.requests) == ("metered", 73)
    assert {charge.meter: number for charge, number, _ in calculated.bill.lines} == {"queue": 22 + 4, "bus": 60}
    assert bill.total == metered.bill.total + calculated.bill.total
    assert bill.requests == 73 + 22 + 4 + 60
    assert bill.one_by_one.requests == 60_000
    assert bill.total < bill.one_by_one.total


def test_a_month_is_its_parts():
    """The work scaled to thirty days, idleness, the fixed charges; and nothing else."""
    demand = demand_of_jobs([job()], NOON + timedelta(days=1))
    found = forecast_month(demand, Installation(), PRICES)
    work = 30 * price({c: n for c, n in demand.usage.items() if c.meter != "bus"}, PRICES).total
    assert found.items[0].amount == work
    assert found.items[1].requests == 30 * 60
    assert any(item.amount == PRICES.bus.month for item in found.items)
    assert found.total() < found.total(with_assumed=True)
    assert {who for who in Who if any(str(who) in item.what for item in found.items)} == set(Who)


def test_without_jobs_a_month_is_idleness_and_charges():
    """Nothing is divided by a time that never was."""
    found = forecast_month(demand_of_jobs([], NOON), Installation(instances=0), PRICES)
    assert found.items[0].requests == 0
    assert not any("always-ready" in item.what for item in found.items)


def test_a_trace_of_the_same_chunks_is_forecast_like_the_jobs():
    """What is assumed of a chunk is what jobs count of theirs, within a tenth."""
    of_jobs = demand_of_jobs(
        [
            job(
                chunks=1_000,
                done=1_000,
                requests={
                    "queue useful": 1_002,
                    "blob-read useful": 36,
                    "blob-write useful": 40,
                    "table useful": 46,
                },
            )
        ],
        NOON + timedelta(days=1),
    )
    of_trace = demand_of_arrivals([(NOON, 60.0, 400), (NOON + HOUR, 60.0, 600)], "a trace")
    amounts = [price(one.usage, PRICES).total for one in (of_jobs, of_trace)]
    assert of_trace.chunks == 1_000
    assert amounts[1] == pytest.approx(amounts[0], rel=Decimal("0.1"))
