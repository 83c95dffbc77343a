"""Timers through running hosts: one instance of many, status kept, a missed run made up once."""

import json
from datetime import UTC, datetime, timedelta
from itertools import pairwise

import pytest
from azure.storage.blob import ContainerClient
from host_tests.client import eventually, get, runs


@pytest.fixture
def hosts_container(azurite):
    """Where the host keeps leases and timers."""
    with ContainerClient.from_connection_string(azurite.connection_string, "azure-webjobs-hosts") as container:
        yield container


@pytest.fixture
def enabled(settings):
    """Settings in which the named timers run."""

    def enable(*names):
        for name in names:
            del settings[f"AzureWebJobs_{name}_Disabled"]

    return enable


def mine(azurite, timer, host):
    """Return the runs of this host's processes."""
    pids = set(host.instance_pids().values())
    return [run for run in runs(azurite, timer) if run["pid"] in pids]


def test_one_instance_of_three_runs_a_timer(start_host, azurite, enabled):
    """Every tick runs once, all in one process, and the host pays for the lease that sees to it."""
    enabled("every_second")
    host = start_host(instances=3)
    eventually(lambda: len(mine(azurite, "every_second", host)) >= 4)
    found = mine(azurite, "every_second", host)
    assert len({run["pid"] for run in found}) == 1
    seconds = [datetime.fromisoformat(run["at"]).replace(microsecond=0) for run in found]
    assert len(set(seconds)) == len(seconds)
    leases = [count for (requester, *_), count in host.requests().items() if requester == "timer every_second"]
    assert sum(leases) >= 3


def test_a_stopped_instance_hands_its_timer_over(start_host, azurite, enabled):
    """A graceful end releases the lease, so the next host does not wait for it to end."""
    enabled("every_second")
    first = start_host(options=["--timer-lease", "60", "--timer-retry", "60"])
    eventually(lambda: mine(azurite, "every_second", first))
    first.stop()
    second = start_host(options=["--timer-lease", "60", "--timer-retry", "60"])
    eventually(lambda: mine(azurite, "every_second", second), 20)


def test_a_killed_instance_loses_its_timer_to_another_when_the_lease_ends(start_host, azurite, enabled):
    """Nobody released the lease, so it has to run out first; then the timer goes on."""
    enabled("every_second")
    host = start_host(instances=2, options=["--timer-lease", "15", "--timer-retry", "1"])
    (pid,) = {run["pid"] for run in eventually(lambda: mine(azurite, "every_second", host))}
    (name,) = [name for name, running in host.instance_pids().items() if running == pid]
    host.kill_instance(name)
    taken_over = eventually(lambda: [r for r in mine(azurite, "every_second", host) if r["pid"] != pid])
    assert {run["pid"] for run in taken_over} != {pid}


def test_a_timer_never_runs_beside_itself(start_host, azurite, enabled):
    """A run longer than the interval delays the next one; what was missed meanwhile is dropped."""
    enabled("slow_tick")
    host = start_host()
    eventually(lambda: len(mine(azurite, "slow_tick", host)) >= 3)
    found = sorted(mine(azurite, "slow_tick", host), key=lambda run: run["started"])
    assert all(before["ended"] <= after["started"] for before, after in pairwise(found))


def test_a_first_start_writes_the_next_due_time_without_running(
    start_host, azurite, enabled, settings, hosts_container
):
    """The status blob has the real host's place and fields."""
    enabled("hourly")
    host = start_host()
    blob = f"timers/{settings['AzureFunctionsWebHost__hostid']}/Host.Functions.hourly/status"
    eventually(lambda: hosts_container.get_blob_client(blob).exists())
    status = json.loads(hosts_container.download_blob(blob).readall())
    assert status["Last"].startswith("0001-01-01")
    assert datetime.fromisoformat(status["Next"]) > datetime.now(UTC) - timedelta(minutes=1)
    assert not mine(azurite, "hourly", host)


def test_a_missed_run_is_made_up_once(start_host, azurite, enabled, settings, hosts_container):
    """Three missed hours are one run, marked as past due, and the status moves on."""
    enabled("hourly")
    blob = f"timers/{settings['AzureFunctionsWebHost__hostid']}/Host.Functions.hourly/status"
    hour = datetime.now(UTC).replace(minute=0, second=0, microsecond=0) - timedelta(hours=3)
    stored = {
        "Last": hour.isoformat(),
        "Next": (hour + timedelta(hours=1)).isoformat(),
        "LastUpdated": hour.isoformat(),
    }
    if not hosts_container.exists():
        hosts_container.create_container()
    hosts_container.upload_blob(blob, json.dumps(stored))
    host = start_host(instances=2)
    (run,) = eventually(lambda: mine(azurite, "hourly", host))
    assert run["past_due"]
    assert datetime.fromisoformat(run["status"]["Next"]) == hour + timedelta(hours=1)
    eventually(lambda: datetime.fromisoformat(json.loads(hosts_container.download_blob(blob).readall())["Next"]) > hour + timedelta(hours=2))  # fmt: skip
    assert len(mine(azurite, "hourly", host)) == 1


def test_run_on_startup_runs_at_each_start(start_host, azurite, enabled):
    """Once for each host that takes the timer up."""
    enabled("on_startup")
    for _ in range(2):
        host = start_host()
        (run,) = eventually(lambda host=host: mine(azurite, "on_startup", host))
        assert not run["past_due"]
        host.stop()


def test_a_timer_run_by_hand_is_not_past_due(start_host, azurite):
    """The administrative run has a timer request of its own."""
    host = start_host()
    assert get(host, "/admin/functions/hourly", method="POST", body=b"{}")[0] == 202
    (run,) = eventually(lambda: mine(azurite, "hourly", host))
    assert not run["past_due"]
