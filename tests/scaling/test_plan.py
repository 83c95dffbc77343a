"""How many instances: pure, and what they are called for the Azure CLI and for Bicep."""

import re
import shlex
from datetime import UTC, datetime, timedelta
from decimal import Decimal

from hypothesis import given, strategies as st

from shared.ledger.records import Job, JobState
from shared.scaling.instances import (
    CHUNK_SECONDS,
    GIVEN_MAXIMUM,
    MOST_MAXIMUM,
    HeldVolume,
    InstanceRequest,
    chunk_seconds,
    plan,
)
from shared.scaling.site import Site, az_commands, bicep_parameters
from shared.usage.bill import load
from tools.local.paths import ROOT

PRICES = load().functions
TEN_MINUTES = timedelta(minutes=10)


def wanted(**fields):
    """Ten minutes from the opening to the end, there ten minutes before it."""
    return InstanceRequest(**{"within": TEN_MINUTES, "lead": TEN_MINUTES} | fields)


def test_the_work_is_done_in_the_time_that_was_wanted():
    """6,000 chunks of two seconds are twenty instances for ten minutes."""
    found = plan(HeldVolume(jobs=3, chunks=6_000), wanted(chunk_seconds=2), PRICES)
    assert found.always_ready == {"release_gate": 1, "drain_work": 20, "settle_results": 1}
    assert found.finishes_in == TEN_MINUTES
    assert found.maximum == GIVEN_MAXIMUM


def test_what_it_costs_is_memory_by_time():
    """22 instances of 2 GB for 20 minutes, and 12,000 busy seconds of one."""
    found = plan(HeldVolume(jobs=3, chunks=6_000), wanted(chunk_seconds=2), PRICES)
    waiting = 22 * 2 * 1_200 * PRICES.ready_gb_second
    assert found.window == waiting + 12_000 * 2 * PRICES.ready_running_gb_second
    assert found.month == 22 * 2 * 30 * 86_400 * PRICES.ready_gb_second


def test_nothing_held_needs_nothing():
    """And costs nothing."""
    found = plan(HeldVolume(jobs=0, chunks=0), wanted(), PRICES)
    assert (found.instances, found.window, found.month) == (0, Decimal(), Decimal())


@given(st.integers(1, 10**7), st.floats(0.01, 600), st.integers(1, 600))
def test_a_plan_never_asks_for_more_than_there_can_be(chunks, seconds, minutes):
    """Whatever is held: within Azure's bounds, no more workers than chunks, and done in time unless the bound binds."""
    what = wanted(within=timedelta(minutes=minutes), chunk_seconds=seconds)
    found = plan(HeldVolume(jobs=1, chunks=chunks), what, PRICES)
    workers = found.always_ready["drain_work"]
    assert GIVEN_MAXIMUM <= found.maximum <= MOST_MAXIMUM
    assert max(found.always_ready.values()) <= found.maximum
    assert found.instances <= MOST_MAXIMUM
    assert 1 <= workers <= chunks
    assert (
        found.instances >= MOST_MAXIMUM - 1
        or found.finishes_in <= max(what.within, timedelta(seconds=seconds)) * 1.0001
    )


@given(st.integers(1, 10**6), st.integers(1, 10**6))
def test_more_work_never_gets_fewer_instances(chunks, more):
    """Nor is it cheaper."""
    less, all_of_it = (plan(HeldVolume(jobs=1, chunks=n), wanted(), PRICES) for n in (chunks, chunks + more))
    assert less.instances <= all_of_it.instances
    assert less.window <= all_of_it.window


def test_how_long_a_chunk_takes_is_what_finished_jobs_took():
    """Jobs that still run say nothing, and without any there is a guess."""
    known = {"content_hash": "0", "workload": "billing", "accepted_at": datetime(2026, 11, 20, tzinfo=UTC)}
    done = Job(job="a", state=JobState.COMPLETE, done=10, milliseconds=25_000, **known)
    running = Job(job="b", state=JobState.RUNNING, done=10, milliseconds=900_000, **known)
    assert chunk_seconds([done, running]) == 2.5
    assert chunk_seconds([running]) == CHUNK_SECONDS


def test_the_commands_name_every_function_and_the_last_one_takes_it_back():
    """Each is one that a shell takes as it is."""
    found = plan(HeldVolume(jobs=1, chunks=6_000), wanted(chunk_seconds=2), PRICES)
    maximum, ready, back = map(shlex.split, az_commands(found, "rg", "sluice-app"))
    assert maximum[-2:] == ["--maximum-instance-count", "100"]
    assert set(ready[ready.index("--settings") + 1 :]) == {
        "function:release_gate=1",
        "function:drain_work=20",
        "function:settle_results=1",
    }
    assert {one.partition("=")[0] for one in ready if "=" in one} == set(back[back.index("--setting-names") + 1 :])


def test_the_bicep_parameters_are_those_that_the_template_has():
    """A name that infra/main.bicep does not know would fail the deployment."""
    text = bicep_parameters(plan(HeldVolume(jobs=1, chunks=6_000), wanted(chunk_seconds=2), PRICES))
    named = set(re.findall(r"^param (\w+) =", text, re.MULTILINE))
    declared = set(re.findall(r"^param (\w+) ", (ROOT / "infra" / "main.bicep").read_text(), re.MULTILINE))
    assert named == {"maximumInstanceCount", "releaseGateAlwaysReady", "alwaysReady"}
    assert named <= declared
    assert "drain_work: 20" in text


def test_a_site_is_read_back_from_its_path():
    """The audit keeps the path."""
    site = Site("s-1", "rg", "sluice-app")
    assert Site.parse(site.path) == site
