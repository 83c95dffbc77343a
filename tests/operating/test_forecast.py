"""What opening a gate would start, from held rows, lines of the list, speeds and the rules in force."""

from dataclasses import replace
from datetime import timedelta
from decimal import Decimal

import pytest

from shared.concurrency import Fleet, parse
from shared.concurrency.fleet import Decision, RulesInForce, Worker
from shared.concurrency.rules import Observation
from shared.gate import HeldEntry
from shared.ledger import Listed
from shared.operating.forecast import MOST_HELD, forecast
from shared.pipeline import Speed
from shared.usage import add, load, price, requests_of_job
from tests.ledger.builders import NOON

PRICES = load()
TEN = RulesInForce(parse("version: 1\nrules:\n- {name: ten, tasks: 10}\n"), "", "")
RULED = Fleet(in_force=TEN)
#: Four milliseconds a transaction.
SPEEDS = {"billing": Speed(milliseconds=4_000, items=1_000)}


def row(job, chunks=10, deadline=None, queue="submissions"):
    """Return a held row."""
    return HeldEntry(
        gate="nightly", id=job, epoch=1, queue=queue, message="m", held_at=NOON, chunks=chunks, deadline=deadline
    )


def line(job, items=5_000, workload="billing"):
    """Return the line of a held job."""
    return Listed(job=job, state=None, workload=workload, gate="nightly", items=items, chunks=10, accepted_at=NOON)


def test_jobs_are_worked_off_one_after_the_other_by_the_tasks_that_the_rules_allow():
    """Two seconds a chunk: 20 chunks with ten tasks are four seconds, and their price is that of their requests."""
    found = forecast([row("a"), row("b")], {"a": line("a"), "b": line("b")}, SPEEDS, RULED, PRICES, NOON)
    assert (found.chunks, found.items, found.is_about, found.tasks, found.binding) == (20, 10_000, False, 10, "rule")
    assert [(job.job, job.ends) for job in found.jobs] == [
        ("a", NOON + timedelta(seconds=2)),
        ("b", NOON + timedelta(seconds=4)),
    ]
    assert found.seconds == 4
    usage = add(requests_of_job(10), requests_of_job(10))
    assert (found.requests, found.amount) == (sum(usage.values()), price(usage, PRICES).total)
    assert found.amount > Decimal(0)


def test_a_job_with_a_deadline_starts_first_and_is_said_to_be_late():
    """As the release sorts them."""
    rows = [row("a", chunks=100), row("b", chunks=50, deadline=NOON + timedelta(seconds=5))]
    lines = {"a": line("a", 50_000), "b": line("b", 25_000)}
    found = forecast(rows, lines, SPEEDS, RULED, PRICES, NOON)
    assert [(job.job, job.is_late) for job in found.jobs] == [("b", True), ("a", False)]


def test_what_waits_already_is_worked_off_before():
    """By the last sample of a fleet that works."""
    seen = Observation(depth=40, latency=2.0)
    worker = Worker(name="w", at=NOON, started_at=NOON, in_flight=3, done=0, busy=0.0)
    decided = Decision(10, NOON, {}, "rule", "", observation=seen)
    busy = replace(RULED, decision=decided, workers=[worker])
    found = forecast([row("a")], {"a": line("a")}, SPEEDS, busy, PRICES, NOON)
    assert (found.waiting, found.seconds) == (40, 10.0)
    assert forecast([row("a")], {"a": line("a")}, SPEEDS, replace(busy, workers=[]), PRICES, NOON).waiting == 0


@pytest.mark.parametrize("lines", [{}, {"a": line("a", workload="unknown")}])
def test_without_a_speed_no_time_is_promised(lines):
    """Nor are transactions of a job that the list does not have."""
    found = forecast([row("a")], lines, SPEEDS, RULED, PRICES, NOON)
    assert (found.seconds, found.jobs[0].ends, found.is_about) == (None, None, not lines)


def test_what_is_no_job_is_counted_beside():
    """Orders, and messages of others. More rows than are read are said."""
    found = forecast([row("o", queue="bus:commands"), row("x", queue="other")], {}, {}, Fleet(), PRICES, NOON)
    assert (found.jobs, found.others, found.seconds, found.is_cut) == ([], 2, None, False)
    assert forecast([row(f"j{n}", 1) for n in range(MOST_HELD + 1)], {}, {}, RULED, PRICES, NOON).is_cut
