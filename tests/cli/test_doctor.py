"""`sluice doctor`, as a person runs it, against the real stack."""

import json
import os
import re
import socket
import subprocess
from dataclasses import replace

import pytest
from azure.storage.queue import QueueServiceClient
from servicebus_local.entities import Namespace, Queue

from shared import __version__
from shared.settings import Settings
from shared.topology import topology
from tests.forked import ForkedBroker
from tools.cli.doctor import how_to_log_in
from tools.cli.settings_file import load
from tools.local.stack import bus_entities

STORAGE_KINDS, BUS_KINDS = {"queue", "container", "table"}, {"bus queue", "subscription"}
#: What is looked at beside the entities.
SETTINGS = {
    ("clock", "of this machine"),
    ("account", "removed blobs"),
    ("host", "AzureWebJobsStorage"),
    *(
        ("host.json", f"extensions.{key}")
        for key in (
            "queues.messageEncoding",
            "queues.maxDequeueCount",
            "servicebus.prefetchCount",
            "servicebus.autoCompleteMessages",
        )
    ),
    *(("setting", name) for name in ("PYTHON_THREADPOOL_THREAD_COUNT", "SLUICE_TICK_SCHEDULE", "SLUICE_WORKLOADS")),
}


def entities():
    """Return the kind and name of everything that must be looked at."""
    whole = topology()
    subscriptions = [f"{topic.name}/{one.name}" for topic in whole.bus.topics for one in topic.subscriptions]
    return {
        *(("queue", name) for name in whole.queues),
        *(("container", name) for name in whole.containers),
        *(("table", name) for name in whole.tables),
        *(("bus queue", queue.name) for queue in whole.bus.queues),
        *(("topic", topic.name) for topic in whole.bus.topics),
        *(("subscription", name) for name in subscriptions),
    }


def test_a_whole_installation_is_well(sluice):
    """Every entity of the topology is looked at, and all is well with status 0."""
    done = sluice("doctor", "--json")
    report = json.loads(done.stdout)
    assert (done.returncode, report["ok"]) == (0, True)
    assert {(finding["kind"], finding["name"]) for finding in report["findings"]} == entities() | SETTINGS


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


def test_messages_above_the_number_of_work_queues_are_named(sluice, stack_settings):
    """A larger setting left them, and no function reads them: with their number, and what to do."""
    with QueueServiceClient.from_connection_string(stack_settings["SluiceStorage"]) as queues:
        left = queues.create_queue("work-07")
        try:
            left.send_message("{}")
            done = sluice("doctor", "--json")
            left.clear_messages()
            again = sluice("doctor", "--json")
        finally:
            left.delete_queue()
    (found,) = (one for one in json.loads(done.stdout)["findings"] if one["problem"])
    assert (done.returncode, found["name"]) == (1, "work-07")
    assert found["problem"].startswith(
        "has 1 messages that the app does not read, for SLUICE_WORK_QUEUES is 1: raise it"
    )
    assert (again.returncode, json.loads(again.stdout)["ok"]) == (0, True)


def test_what_is_missing_on_the_bus_is_not_taken_for_a_refused_login(sluice, stack_settings):
    """The service answers 404 to the login for an entity that is not there."""
    with ForkedBroker.start(Namespace((Queue("another"),)), sas_key="a-key") as bus:
        done = sluice("doctor", "--json", settings={**stack_settings, "SluiceBus": bus.connection_string})
    problems = {one["problem"] for one in json.loads(done.stdout)["findings"] if one["problem"]}
    assert (done.returncode, len(problems)) == (1, 1)
    assert problems.pop().startswith("does not exist")


def test_a_bus_that_does_not_answer_is_named(sluice, stack_settings):
    """With the bus gone every bus entity is a problem, storage is not, and there is no traceback."""
    nowhere = "Endpoint=sb://127.0.0.1:9;SharedAccessKeyName=a;SharedAccessKey=b;UseDevelopmentEmulator=true;"
    dead = {**stack_settings, "SluiceBus": nowhere}
    done = sluice("doctor", "--json", settings=dead)
    problems = {finding["kind"] for finding in json.loads(done.stdout)["findings"] if finding["problem"]}
    assert (done.returncode, problems) == (1, BUS_KINDS)
    assert "Traceback" not in done.stderr


def test_the_fault_of_one_bus_entity_is_its_own(sluice, stack_settings):
    """A queue that was made with sessions refuses to be looked at; the first one looked at stands for no other."""
    whole = bus_entities(Settings.parse(stack_settings))
    (first, *rest) = whole.queues
    wrong = replace(first, delivery=replace(first.delivery, sessions=True))
    with ForkedBroker.start(Namespace((wrong, *rest), whole.topics)) as bus:
        done = sluice("doctor", "--json", settings={**stack_settings, "SluiceBus": bus.connection_string})
    (found,) = [one for one in json.loads(done.stdout)["findings"] if one["problem"]]
    assert (done.returncode, found["name"], found["state"]) == (1, first.name, "differs")
    assert "sessions: on, deployed is off, so its receivers are refused" in found["problem"]


def with_key(text, key):
    """Return a connection string with another key."""
    return re.sub(r"(AccountKey|SharedAccessKey)=[^;]*", rf"\1={key}", text)


@pytest.mark.parametrize("key", ["d3Jvbmc=", "no-base-64"])
@pytest.mark.parametrize(("name", "kinds"), [("SluiceStorage", STORAGE_KINDS), ("SluiceBus", BUS_KINDS)])
def test_a_wrong_key_is_named_and_nobody_is_told_to_log_in(sluice, stack_settings, name, kinds, key):
    """`az login` changes nothing about a key; and a key is in no output."""
    with ForkedBroker.start(bus_entities(Settings.parse(stack_settings)), sas_key="a-key") as bus:
        settings = {**stack_settings, "SluiceBus": bus.connection_string}
        done = sluice("doctor", "--json", settings={**settings, name: with_key(settings[name], key)})
    wrong = [one for one in json.loads(done.stdout)["findings"] if one["problem"]]
    assert (done.returncode, {one["kind"] for one in wrong}, {one["state"] for one in wrong}) == (1, kinds, {"refused"})
    assert {one["problem"].partition(":")[0] for one in wrong} == {f"refuses the key in {name}"}
    assert "az login" not in done.stdout
    assert key not in done.stdout + done.stderr


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"SluiceStorage": "BlobEndpoint=x;SharedAccessSignature=sv=1"}, "refuses the signature in SluiceStorage"),
        ({"SluiceStorage__accountName": "a"}, "refuses your login: run `az login`"),
        ({"SluiceStorage__accountName": "a", "SluiceStorage__credential": "managedidentity"}, "refuses your login"),
        (
            {f"SluiceStorage__{name}": "x" for name in ("accountName", "tenantId", "clientId", "clientSecret")},
            "refuses the application of SluiceStorage: check SluiceStorage__tenantId",
        ),
    ],
)
def test_a_refusal_names_the_remedy_of_the_login_that_was_used(settings, said):
    """A key, a signature, a person and an application are mended in different places."""
    assert how_to_log_in("SluiceStorage", settings).startswith(said)


def test_a_console_that_the_app_leaves_out_is_named(sluice, stack_settings):
    """The work goes on without it, so nothing else would say why its address is not there."""
    done = sluice("doctor", "--json", settings={**stack_settings, "SLUICE_CAPABILITIES": "console"})
    (problem,) = [one for one in json.loads(done.stdout)["findings"] if one["problem"]]
    assert (done.returncode, problem["kind"], problem["name"]) == (1, "function", "console")
    assert "WEBSITE_AUTH_ENABLED is not true" in problem["problem"]
    guarded = {**stack_settings, "SLUICE_CAPABILITIES": "console", "WEBSITE_AUTH_ENABLED": "True"}
    assert json.loads(sluice("doctor", "--json", settings=guarded).stdout)["ok"]


def test_missing_settings_are_one_line(sluice):
    """Without settings the command says how to come by them, with status 2, from every command that needs them."""
    for command in (("doctor",), ("jobs", "list"), ("parked", "list"), ("gate", "list"), ("orders", "list")):
        done = sluice(*command, settings={})
        assert done.returncode == 2
        assert done.stderr.startswith("sluice: no stack runs in this folder: type `make up`")
        assert done.stderr.count("\n") == 1


def test_settings_without_storage_say_what_is_missing(sluice, tmp_path):
    """There is a file, so the person has an installation in mind: its mistake is named."""
    (tmp_path / "local.settings.json").write_text(json.dumps({"Values": {"SluiceBus": "x"}}))
    assert "SluiceStorage is missing" in sluice("jobs", "list", settings={}).stderr


def test_a_running_stack_goes_before_a_file_of_ones_own(sluice, stack_settings, tmp_path):
    """And a file that a killed stack left behind counts no more."""
    (tmp_path / "local.settings.json").write_text(json.dumps({"Values": {"SluiceStorage": "nonsense"}}))
    running = tmp_path / ".stack" / "up" / "local.settings.json"
    running.parent.mkdir(parents=True)
    running.write_text(json.dumps({"Process": os.getpid(), "Values": stack_settings}))
    assert sluice("jobs", "list", settings={}).returncode == 0
    ended = subprocess.Popen(["true"])
    ended.wait()
    running.write_text(json.dumps({"Process": ended.pid, "Values": stack_settings}))
    assert "SluiceStorage" in sluice("jobs", "list", settings={}).stderr


@pytest.mark.parametrize(
    "command", [("jobs", "list"), ("gate", "wait", "nightly", "--timeout", "5"), ("ids", "next", "numbers"), ("audit",)]
)
def test_storage_that_is_down_is_one_line_with_its_address(sluice, stack_settings, command):
    """From every command, at once: a gate that cannot be asked is not a gate that stayed closed."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    address = f"http://127.0.0.1:{port}/dev"
    dead = f"AccountName=dev;AccountKey=AAAA;BlobEndpoint={address};QueueEndpoint={address};TableEndpoint={address};"
    done = sluice(*command, settings={**stack_settings, "SluiceStorage": dead})
    assert done.returncode == 1
    assert done.stderr.startswith(f"sluice: storage does not answer at 127.0.0.1:{port} (Connection refused)")
    assert done.stderr.count("\n") == 1


def test_the_shell_completes_commands(sluice, stack_settings):
    """Typer's own completion is on. It looks for a shell above it, and a test runner need not be below one."""
    named = stack_settings | {"_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION": "1"}
    assert "_SLUICE_COMPLETE" in sluice("--show-completion", "bash", settings=named).stdout


def test_a_settings_file_is_found_and_the_environment_wins(sluice, stack_settings, tmp_path):
    """local.settings.json of the current folder is read; what the environment says counts more."""
    values = {**stack_settings, "SLUICE_WORK_QUEUES": "none"}
    (tmp_path / "local.settings.json").write_text(json.dumps({"Values": values}))
    assert "SLUICE_WORK_QUEUES is 'none'" in sluice("doctor", settings={}).stderr
    assert sluice("doctor", settings={"SLUICE_WORK_QUEUES": "1"}).returncode == 0


def test_an_account_from_the_environment_is_not_opened_with_the_key_of_a_file(tmp_path):
    """A local stack runs in the folder, and the environment names an account: a connection is overridden as a whole."""
    file = tmp_path / "local.settings.json"
    file.write_text(json.dumps({"Values": {"SluiceStorage": "UseDevelopmentStorage=true", "SluiceBus": "bus"}}))
    found = load(file, {"SluiceStorage__accountName": "theirs"})
    assert {name: text for name, text in found.items() if name.startswith("Sluice")} == {
        "SluiceStorage__accountName": "theirs",
        "SluiceBus": "bus",
    }


def test_the_settings_of_an_app_are_read_as_azure_prints_them(tmp_path):
    """A list of names and values."""
    file = tmp_path / "app.json"
    file.write_text(json.dumps([{"name": "SluiceBus", "slotSetting": False, "value": "bus"}]))
    assert load(file, {})["SluiceBus"] == "bus"


@pytest.mark.parametrize("text", ["", "[3]", '{"Values": 3}', "{"])
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
        ("container", "payloads-team-a"),
    }


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("SLUICE_WORKQUEUES", "SLUICE_WORKQUEUES is no setting: did you mean SLUICE_WORK_QUEUES?"),
        ("SLUICE_SHOP_URL", "SLUICE_SHOP_URL is no setting: this release does not know it"),
    ],
)
def test_a_name_that_is_no_setting_is_one_line(sluice, stack_settings, tmp_path, name, said):
    """From the environment and from a file: who sets it believes to have set something."""
    (tmp_path / "local.settings.json").write_text(json.dumps({"Values": {**stack_settings, name: "3"}}))
    tried = [("doctor",), ("jobs", "list"), ("cost", "idle"), ("gate", "list")]
    for command, settings in [(one, stack_settings | {name: "3"}) for one in tried] + [(tried[0], {})]:
        done = sluice(*command, settings=settings)
        assert (done.returncode, done.stderr.count("\n"), done.stderr.startswith(f"sluice: {said}")) == (2, 1, True)


def test_a_retired_name_is_told_once_and_stops_nothing(sluice, stack_settings):
    """A settings file outlives many releases."""
    done = sluice("jobs", "list", "--json", settings=stack_settings | {"SLUICE_ENRICHMENT_URL": "x"})
    assert (done.returncode, "jobs" in json.loads(done.stdout)) == (0, True)
    assert done.stderr.startswith("sluice: SLUICE_ENRICHMENT_URL is retired, and nothing reads it: ")
    assert done.stderr.count("\n") == 1
