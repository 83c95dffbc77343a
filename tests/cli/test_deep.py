"""`sluice doctor --deep`, as a person runs it."""

import json
import os
import signal
import subprocess

import pytest
from azure.storage.blob import BlobServiceClient

from tests.cli.conftest import SLUICE
from tests.conformance.storage_mistakes import STORAGE
from tests.conformance.storage_proxy import in_front_of
from tests.waiting import LIMIT, until
from tools.conformance import PREFIX, PROPERTIES
from tools.local.paths import ROOT


def containers(settings):
    """Return the containers of runs."""
    with BlobServiceClient.from_connection_string(settings["SluiceStorage"]) as blobs:
        return [one.name for one in blobs.list_containers(name_starts_with=PREFIX)]


def test_a_property_that_holds(sluice):
    """One document, status 0, and the progress apart from it."""
    done = sluice("doctor", "--deep", "--yes", "--only", "table.atomic", "--json")
    report = json.loads(done.stdout)
    assert (done.returncode, report["ok"], report["left"]) == (0, True, [])
    assert [(one["property"], one["state"]) for one in report["properties"]] == [("table.atomic", "holds")]
    assert done.stderr == "1 of 1 checks have ended\n"


def test_a_property_that_does_not_hold(sluice, stack_settings, azurite):
    """Status 1, with what was tried, expected and found."""
    with in_front_of(azurite, STORAGE["an insert overwrites"][1]) as storage:
        settings = {**stack_settings, "SluiceStorage": storage}
        done = sluice("doctor", "--deep", "--yes", "--only", "table", settings=settings)
    assert done.returncode == 1
    (row,) = [line for line in done.stdout.splitlines() if "does not hold" in line]
    assert row.split("\t")[0] == "table.insert"
    assert "to insert a row that is there: expected refused with 409, found done" in row
    tables = sum(one.service == "table" for one in PROPERTIES.values())
    assert f"{tables} properties: {tables - 1} hold, 1 do not hold, 0 could not be checked" in done.stdout


def test_it_says_the_price_and_asks_first(sluice, stack_settings):
    """Who says nothing has made nothing."""
    done = sluice("doctor", "--deep", "--only", "blob.insert")
    assert done.returncode == 1
    assert "USD" in done.stderr
    assert "go on? [y/N]" in done.stderr
    assert (done.stdout.strip(), containers(stack_settings)) == ("", [])


def test_an_unknown_property_is_a_wrong_call(sluice):
    """The known ones are named."""
    done = sluice("doctor", "--deep", "--yes", "--only", "blob.nonsense")
    assert done.returncode == 2
    assert "table.atomic" in done.stderr


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_an_interrupted_run_removes_what_it_made(stack_settings, number):
    """At once, not at the end of what it waited for, and it says what was not checked."""
    words = [SLUICE, "doctor", "--deep", "--yes", "--only", "blob.lease_end", "--json"]
    environment = {**os.environ, **stack_settings, "PYTHONPATH": str(ROOT)}
    # A test run in the background of a shell ignores Ctrl-C, and its children would; what is handled is not inherited.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    run = subprocess.Popen(words, env=environment, text=True, **pipes)
    signal.signal(signal.SIGINT, before)
    until(lambda: containers(stack_settings) or run.poll() is not None)
    run.send_signal(number)
    out, _ = run.communicate(timeout=LIMIT)
    report = json.loads(out)
    (one,) = report["properties"]
    assert (run.returncode, one["state"], report["left"]) == (1, "could not be checked", [])
    assert "interrupted" in one["why"]
    assert containers(stack_settings) == []
