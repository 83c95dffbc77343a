"""A start that settings forbid: what a person sees of it, on a host as on Azure and in a terminal."""

import json
import os
import subprocess
import sys
import urllib.error
import urllib.request

import pytest

from shared import __version__
from shared.telemetry import events
from tests.waiting import LIMIT
from tools.local.paths import ROOT
from tools.local.stack import StackOptions, start_host

MISSPELT = {"SLUICE_WORKQUEUES": "3"}
#: What Azure's platform sets for each app.
AZURE = {"WEBSITE_SITE_NAME": "sluice"}


def indexed(settings):
    """Load the app as a worker does, and return its functions, or what it says at its end."""
    script = "import function_app; print(sorted(one.get_function_name() for one in function_app.app.get_functions()))"
    environ = {**os.environ, **settings, "PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, "-c", script], env=environ, capture_output=True, text=True, check=False)
    return done.stdout.strip() or done.stderr.strip().splitlines()[-1]


def test_on_azure_an_app_that_may_not_start_answers_that_and_listens_to_nothing(stack_settings):
    """Without a function there would be silence. With its tick, the alert of a silent app would not come."""
    host = start_host(StackOptions(instances=1), stack_settings | AZURE | MISSPELT)
    try:
        assert [one["name"] for one in host.get_json("/admin/functions")] == ["health"]
        with pytest.raises(urllib.error.HTTPError) as refused:
            urllib.request.urlopen(f"{host.base_url}/api/health", timeout=LIMIT)
        with refused.value as answer:
            found = json.load(answer)
        assert (answer.code, found["status"], found["version"]) == (503, "refused", __version__)
        log = host.log.read_text()
    finally:
        host.stop()
    assert found["log"] == events.START_REFUSED.name
    assert f"{found['log']} " in log
    assert "SLUICE_WORKQUEUES is no setting: did you mean SLUICE_WORK_QUEUES?" in log
    assert "QUEUES" not in json.dumps(found), "anybody may ask for it"


def test_in_a_terminal_the_start_fails_with_what_was_meant(stack_settings):
    """Core Tools and the local host show the error of the app and end."""
    assert "did you mean SLUICE_WORK_QUEUES?" in indexed(stack_settings | MISSPELT)


def test_a_name_that_a_newer_release_knows_stops_no_app(stack_settings):
    """Infra may be a release ahead of the code, and a rollback leaves it so."""
    assert "'tick'" in indexed(stack_settings | {"SLUICE_STRETCHES": "9", "SLUICE_ENRICHMENT_URL": "x"})


def test_a_workload_that_cannot_be_loaded_is_told_in_the_same_way(stack_settings):
    """It is one of the settings that a person gets wrong."""
    identity = {"SluiceStorage": "", "SluiceBus": "", "SluiceStorage__accountName": "a"}
    identity["SluiceBus__fullyQualifiedNamespace"] = "b.servicebus.windows.net"
    assert indexed(stack_settings | identity | AZURE | {"SLUICE_WORKLOADS": "nowhere:Nothing"}) == "['health']"
