"""`sluice doctor`, as a person runs it, against the real stack."""

import json

import pytest
from azure.storage.queue import QueueServiceClient

from shared import __version__
from shared.topology import topology


def entities():
    """Return the kind and name of everything that must be looked at."""
    whole = topology()
    subscriptions = [f"{topic.name}/{one.name}" for topic in whole.bus.topics for one in topic.subscriptions]
    return {
        *(("queue", name) for name in whole.queues),
        *(("container", name) for name in whole.containers),
        *(("table", name) for name in whole.tables),
        *(("bus queue", queue.name) for queue in whole.bus.queues),
        *(("subscription", name) for name in subscriptions),
    }


def test_a_whole_installation_is_well(sluice):
    """Every entity of the topology is looked at, and all is well with status 0."""
    done = sluice("doctor", "--json")
    report = json.loads(done.stdout)
    assert (done.returncode, report["ok"]) == (0, True)
    assert {(finding["kind"], finding["name"]) for finding in report["findings"]} == entities()


def test_what_is_missing_is_named(sluice, stack_settings):
    """A queue that was never made is found, with what to do, and the status is 1."""
    connection = stack_settings["SluiceStorage"]
    with QueueServiceClient.from_connection_string(connection) as queues:
        queues.delete_queue("work-00")
        try:
            done = sluice("doctor")
        finally:
            queues.create_queue("work-00")
    assert done.returncode == 1
    assert "does not exist" in " ".join(done.stdout.split())


def test_a_bus_that_does_not_answer_is_named(sluice, stack_settings):
    """With the bus gone every bus entity is a problem, storage is not, and there is no traceback."""
    nowhere = "Endpoint=sb://127.0.0.1:9;SharedAccessKeyName=a;SharedAccessKey=b;UseDevelopmentEmulator=true;"
    dead = {**stack_settings, "SluiceBus": nowhere}
    done = sluice("doctor", "--json", settings=dead)
    problems = {finding["kind"] for finding in json.loads(done.stdout)["findings"] if finding["problem"]}
    assert (done.returncode, problems) == (1, {"bus queue", "subscription"})
    assert "Traceback" not in done.stderr


def test_missing_settings_are_one_line(sluice):
    """Without settings the command says which are missing, with status 2."""
    done = sluice("doctor", settings={})
    assert done.returncode == 2
    assert done.stderr.startswith("sluice: SluiceStorage is missing")
    assert done.stderr.count("\n") == 1


def test_a_settings_file_is_found_and_the_environment_wins(sluice, stack_settings, tmp_path):
    """local.settings.json of the current folder is read; what the environment says counts more."""
    values = {**stack_settings, "SLUICE_WORK_QUEUES": "none"}
    (tmp_path / "local.settings.json").write_text(json.dumps({"Values": values}))
    assert "SLUICE_WORK_QUEUES is 'none'" in sluice("doctor", settings={}).stderr
    assert sluice("doctor", settings={"SLUICE_WORK_QUEUES": "1"}).returncode == 0


@pytest.mark.parametrize("text", ["", "[]", '{"Values": 3}', "{"])
def test_a_file_that_is_no_settings_file_is_refused(sluice, text, tmp_path):
    """A wrong file is named, with what was expected."""
    (tmp_path / "x.json").write_text(text)
    done = sluice("doctor", "--settings", "x.json", settings={})
    assert (done.returncode, "x.json is not a settings file" in done.stderr) == (2, True)


def test_the_version_is_the_packages(sluice):
    """`sluice --version` says the one version there is."""
    assert sluice("--version", settings={}).stdout.strip() == __version__


@pytest.mark.parametrize("name", ["SluiceStorage", "SluiceBus"])
def test_a_connection_string_that_is_none_is_one_line(sluice, stack_settings, name):
    """The setting is named, its value is not: half a connection string may hold the whole key."""
    done = sluice("doctor", settings={**stack_settings, name: "canary"})
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert f"{name} is not a connection string" in done.stderr
    assert "canary" not in done.stderr


def test_a_room_is_looked_at_with_its_queues_and_its_container(sluice, stack_settings):
    """One that nobody made is found before its publishers find it."""
    done = sluice("doctor", "--json", settings={**stack_settings, "SLUICE_ROOMS": "team-a"})
    report = json.loads(done.stdout)
    missing = {(finding["kind"], finding["name"]) for finding in report["findings"] if finding["problem"]}
    assert missing == {
        ("queue", "submissions-team-a"),
        ("queue", "submissions-team-a-poison"),
        ("container", "payloads-team-a"),
    }
