"""Real parts for the host's tests: one Azurite for all, and hosts that run the fixture app."""

from pathlib import Path
from uuid import uuid4

import pytest
from functions_local_host.launcher import Host

from tools.local.azurite.launcher import Azurite

APP = Path(__file__).parent / "app"
TIMERS = ("every_second", "hourly", "on_startup", "slow_tick")


@pytest.fixture(scope="session")
def azurite():
    """One storage account for the session."""
    with Azurite.start() as running:
        yield running


@pytest.fixture(autouse=True)
def host_logs(tmp_path, monkeypatch):
    """Keep the logs of hosts that are meant to fail with the test, not with the stack's."""
    monkeypatch.setattr("functions_local_host.launcher.LOGS", tmp_path)


@pytest.fixture
def settings(azurite):
    """Settings of a host with state of its own and without timers."""
    disabled = {f"AzureWebJobs_{name}_Disabled": "true" for name in TIMERS}
    return {
        "AzureWebJobsStorage": azurite.connection_string,
        "AzureFunctionsWebHost__hostid": uuid4().hex,
        "HOURLY": "0 0 * * * *",
        **disabled,
    }


@pytest.fixture
def start_host(settings):
    """Start hosts that are stopped at the end of the test, whatever its end."""
    started = []

    def start(extra=None, app=APP, **options):
        host = Host.start(app, settings | (extra or {}), **options)
        started.append(host)
        return host

    yield start
    for host in started:
        host.stop()
