"""A slice of every scene; `python -m tests.chaos` runs them in full size."""

import itertools

import pytest

from tests.chaos import scenes
from tests.chaos.corpus import sendable
from tests.chaos.stack import running


def found(rows):
    """Return everything that was wrong."""
    return [breach for row in rows for breach in row.found]


def test_killed_instances_lose_nothing_and_count_nothing_twice(tmp_path):
    """Six kills, messages twice, results out of order: every control total is exact."""
    assert found(scenes.kills(tmp_path, jobs=3, items=1_000, least=6, mean=1.0, instances=2)) == []


@pytest.fixture(scope="module")
def stack(tmp_path_factory):
    """One stack for the other scenes; what fails in it is tried again soon."""
    with running(tmp_path_factory.mktemp("chaos"), instances=2, retry="00:00:02") as started:
        yield started


def test_jobs_complete_from_the_ledger_after_bus_and_queues_are_lost(stack):
    """The bus, every queue, and both at once, in the middle of jobs."""
    assert found(scenes.losses(stack, jobs=1, items=1_500, hurries=True)) == []


def test_an_outage_parks_nothing_and_computes_again_what_was_lost_at_most(stack):
    """The bus away for seconds, then lost, then 503 from all of storage for seconds."""
    assert found(scenes.outages(stack, items=1_500, bus_seconds=2, storage_seconds=2, hurries=True)) == []


def test_submissions_that_collide_or_are_hostile_are_one_job_or_parked(stack):
    """Twenty times the same, once the same id with other content, and a dozen hostile ones among good ones."""
    assert found(scenes.collisions(stack, drops=20, items=1_000)) == []
    assert found(scenes.hostile(stack, itertools.islice(sendable(), 0, None, 12), good=2, items=300)) == []
