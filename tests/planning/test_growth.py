"""The goals of the benchmarks of large jobs: growth is found, and a first step that is dear is not taken for it."""

import pytest

from tests.benchmarks import large_job, ten_jobs
from tests.benchmarks.large_job import Case
from tests.benchmarks.large_job_stage import STAGES
from tests.benchmarks.ten_jobs import After


def took(cpu, requests):
    """Return what each stage took."""
    return {stage: {"cpu": cpu, "requests": requests} for stage in STAGES}


def test_growth_is_the_worst_step_from_one_size_to_the_next():
    """Jobs side by side are no size."""
    found = {
        Case(1, 100): took(100, 50),
        Case(1, 1_000): took(500, 500),
        Case(1, 10_000): took(6_000, 9_000),
        Case(10, 1_000): took(10**9, 10**9),
    }
    grown = large_job.growth(found)
    assert {(what, round(ratio, 3)) for _, what, ratio in grown} == {("cpu", 1.2), ("requests", 1.8)}
    assert {stage for stage, *_ in grown} == set(STAGES)


@pytest.mark.parametrize(
    ("held", "grown"), [([90, 50, 50, 50, 50], 1.0), ([50, 50, 50, 60, 60], 1.2), ([50], 1.0), ([50, 60], 1.0)]
)
def test_a_process_that_holds_more_after_each_job_is_found(held, grown):
    """The first job is left out, for it loads libraries."""
    jobs = [After(1.0, {"http-0": size, "http-1": 70}, {}, 0) for size in held]
    assert ten_jobs.growth(jobs) == pytest.approx(grown)
