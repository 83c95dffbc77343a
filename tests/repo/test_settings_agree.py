"""Settings: the code, the sample file and the settings' own rules are one set."""

import json
import re
from decimal import Decimal
from pathlib import Path

import pytest

from shared.errors import SettingsError
from shared.grammar import Rate
from shared.names import RETIRED, nearest_names
from shared.parked.poison_policy import PoisonPolicy
from shared.settings import NAMES, SETTINGS, Dequeue, Settings
from shared.usage import Installation

ROOT = Path(__file__).resolve().parents[2]
#: Read by the Functions host, not by the app.
HOSTS_OWN = {"FUNCTIONS_WORKER_RUNTIME", "PYTHON_THREADPOOL_THREAD_COUNT", "AzureWebJobsStorage"}
SAMPLE = json.loads((ROOT / "local.settings.sample.json").read_text())["Values"]


def test_the_sample_holds_what_only_the_environment_can_say():
    """A default of the code in it would hide own/settings.json from who copies the sample."""
    own = {name: value for name, value in SAMPLE.items() if name not in HOSTS_OWN}
    assert own == {setting.name: setting.local for setting in SETTINGS if setting.default is None}


def test_the_sample_is_accepted():
    """The app starts with the sample's values."""
    assert Settings.parse(SAMPLE).work_queues == 1


def test_plans_and_prices_start_from_the_mode_that_is_deployed():
    """Who names no mode to a command is told of the default one."""
    is_push = Settings.parse(SAMPLE).dequeue is Dequeue.PUSH
    assert Settings.parse({**SAMPLE, "SLUICE_DEQUEUE": ""}).dequeue is Settings.parse(SAMPLE).dequeue
    assert Installation().is_push == is_push


def test_everything_wrong_is_reported_at_once():
    """A person who has three settings wrong is told three things."""
    with pytest.raises(SettingsError) as error:
        Settings.parse({"SLUICE_WORK_QUEUES": "many"})
    for part in ("SluiceStorage is missing", "SluiceBus is missing", "SLUICE_WORK_QUEUES is 'many'"):
        assert part in str(error.value)


@pytest.mark.parametrize(
    ("line", "auth", "is_on", "said"),
    [
        ("", "", False, ""),
        (" , ", "true", False, ""),
        ("console", "True", True, ""),
        (" console ", " true", True, ""),
        ("console", "", False, "WEBSITE_AUTH_ENABLED is not true"),
        ("console", "1", False, "WEBSITE_AUTH_ENABLED is not true"),
    ],
)
def test_a_console_that_is_not_guarded_is_left_out_and_stops_nothing(line, auth, is_on, said):
    """Payments must not stand still because somebody switched off a login page."""
    parsed = Settings.parse({**SAMPLE, "SLUICE_CAPABILITIES": line, "WEBSITE_AUTH_ENABLED": auth})
    assert bool(parsed.capability("console")) is is_on
    assert said in parsed.left_out.get("console", "")
    assert bool(parsed.left_out) is bool(said)


def test_the_switch_of_a_console_leaves_it_out_and_says_what_to_set():
    """As any fault of a console."""
    parsed = Settings.parse({**SAMPLE, "SLUICE_CONSOLE": "on", "WEBSITE_AUTH_ENABLED": "true"})
    assert parsed.capability("console") is None
    assert "set SLUICE_CAPABILITIES=console" in parsed.left_out["console"]


@pytest.mark.parametrize("text", ["0", "101", "-1", "1.5", "²", "1e1"])
def test_a_number_out_of_its_range_is_refused(text):
    """Only whole numbers within the range pass."""
    with pytest.raises(SettingsError, match="from 1 to 100"):
        Settings.parse({**SAMPLE, "SLUICE_WORK_QUEUES": text})


@pytest.mark.parametrize(
    ("text", "budget"), [("none", None), ("None", None), ("2.50", Decimal("2.50")), (" 1 ", Decimal(1))]
)
def test_a_budget_is_an_amount_or_none(text, budget):
    """What is written is what is held."""
    assert Settings.parse({**SAMPLE, "SLUICE_BUDGET_PER_DAY": text}).budget_per_day == budget


@pytest.mark.parametrize("text", ["0", "-1", "NaN", "Infinity", "two", "1,5"])
def test_a_budget_that_is_no_amount_is_refused(text):
    """Nobody should believe to have a budget that is none."""
    with pytest.raises(SettingsError, match="SLUICE_BUDGET_PER_DAY"):
        Settings.parse({**SAMPLE, "SLUICE_BUDGET_PER_DAY": text})


@pytest.mark.parametrize(
    ("text", "limits"), [("", {}), (" bank=50/s, mail = 30/min,", {"bank": Rate(50, 1), "mail": Rate(30, 60)})]
)
def test_limits_are_rates_by_name(text, limits):
    """What is written is what is held."""
    assert Settings.parse({**SAMPLE, "SLUICE_LIMITS": text}).limits == limits


@pytest.mark.parametrize("text", ["bank", "bank=", "bank=-1/s", "bank=5", "=5/s", "bank=5/s,bank=6/s"])
def test_limits_that_are_none_are_refused(text):
    """The start says which, and how one is written."""
    with pytest.raises(SettingsError, match="SLUICE_LIMITS"):
        Settings.parse({**SAMPLE, "SLUICE_LIMITS": text})


def test_without_a_setting_the_limits_of_poison_are_those_of_the_policy():
    """The catalogue shows the values of the one place that has them."""
    assert Settings.parse(SAMPLE).poison == PoisonPolicy()


def test_each_limit_of_poison_has_its_setting():
    """What an operator sets is what the stages go by."""
    texts = {"DELIVERIES": "7", "PAUSE_PERCENT": "50", "PAUSE_CHUNKS": "0"}
    named = {f"SLUICE_POISON_{name}": text for name, text in texts.items()}
    expected = PoisonPolicy(deliveries=7, pause_share=0.5, pause_chunks=0)
    assert Settings.parse({**SAMPLE, **named}).poison == expected


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("DELIVERIES", "0", "from 1 to 99"),
        ("DELIVERIES", "100", "from 1 to 99"),
        ("PAUSE_PERCENT", "101", "from 0 to 100"),
        ("PAUSE_PERCENT", "0.2", "from 0 to 100"),
        ("PAUSE_CHUNKS", "-1", "from 0 to 1000000"),
    ],
)
def test_a_limit_of_poison_that_never_or_always_strikes_is_refused(name, text, said):
    """Parked at no delivery, or at one that the host never makes."""
    with pytest.raises(SettingsError, match=f"SLUICE_POISON_{name} is '{text}', expected a whole number {said}"):
        Settings.parse({**SAMPLE, f"SLUICE_POISON_{name}": text})


def test_the_host_gives_up_after_every_limit_of_poison():
    """It knows no reasons: a message that it moves first is parked without one."""
    most = json.loads((ROOT / "host.json").read_text())["extensions"]["queues"]["maxDequeueCount"]
    assert Settings.parse({**SAMPLE, "SLUICE_POISON_DELIVERIES": str(most - 1)}).poison.deliveries == most - 1
    with pytest.raises(SettingsError):
        Settings.parse({**SAMPLE, "SLUICE_POISON_DELIVERIES": str(most)})


def test_an_identity_connection_counts_as_set():
    """A connection may be given by its identity settings instead of by a connection string."""
    identity = {"SluiceStorage__accountName": "a"}
    rest = {name: value for name, value in SAMPLE.items() if name != "SluiceStorage"}
    assert Settings.parse({**rest, **identity}).work_queues == 1


def test_every_setting_that_a_trigger_names_is_in_the_list():
    """A %SETTING% or a connection of a trigger that no list knows would fail at the first start in Azure."""
    names = {setting.name for setting in SETTINGS}
    for module in (ROOT / "functions").glob("*.py"):
        text = module.read_text()
        used = set(re.findall(r'"%(\w+)%"', text)) | set(re.findall(r'connection="(\w+)"', text))
        assert used <= names | HOSTS_OWN, module.name


@pytest.mark.parametrize(
    ("text", "rooms"), [("", ()), (" ", ()), ("team-a", ("team-a",)), (" b , a ", ("b", "a")), ("none", ("none",))]
)
def test_rooms_are_a_list_of_names(text, rooms):
    """In the order in which they are written; without any, all publishers share the common one."""
    assert Settings.parse({**SAMPLE, "SLUICE_ROOMS": text}).rooms == rooms


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("Team", "names the room 'Team'"),
        ("a_b", "names the room 'a_b'"),
        ("a,,b", "names the room ''"),
        ("a,", "names the room ''"),
        ("poison", "names the room 'poison'"),
        ("x-poison", "names the room 'x-poison'"),
        ("a" * 41, "at most 40"),
        ("a~b", "names the room 'a~b'"),
        ("a,b,a", "name each room once"),
        (",".join(f"r{n}" for n in range(201)), "names 201 rooms, expected at most 200"),
    ],
)
def test_a_room_that_no_queue_can_be_called_is_refused(text, said):
    """Before anything is registered: a function on a queue that cannot be there would fail for ever."""
    with pytest.raises(SettingsError, match=said):
        Settings.parse({**SAMPLE, "SLUICE_ROOMS": text})


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("SLUICE_WORKQUEUES", "SLUICE_WORK_QUEUES"),
        ("SLUICE_WORK_QUEUE", "SLUICE_WORK_QUEUES"),
        ("SLUICE_ROMOS", "SLUICE_ROOMS"),
        ("sluice_rooms", "SLUICE_ROOMS"),
        ("SLUICE_BUDGET", "SLUICE_BUDGET_PER_DAY"),
        ("SLUICE_STORAGE", "SluiceStorage"),
        ("SLUICE_POISON_PAUSE", "SLUICE_POISON_PAUSE_CHUNKS or SLUICE_POISON_PAUSE_ITEMS or"),
    ],
)
def test_a_misspelt_name_is_refused_with_what_was_meant(name, meant):
    """Nobody should believe to have three work queues, or a budget, and have none."""
    with pytest.raises(SettingsError, match=f"{name} is no setting: did you mean {meant}?"):
        Settings.parse({**SAMPLE, name: "3"})


@pytest.mark.parametrize("name", ["WORK_QUEUES", "SLUICEGATE_ROOM", "MY_SLUICE_ROOM", "SluiceOther", "ENRICHMENT_URL"])
def test_a_name_from_elsewhere_is_nobodys_fault(name):
    """Other programs and a person's own code have settings too."""
    assert not Settings.parse({**SAMPLE, name: "x"}).unread


def test_a_retired_name_and_one_of_a_newer_release_are_told_and_not_refused():
    """A deployment leaves its settings to the release before it and to the one after it."""
    parsed = Settings.parse({**SAMPLE, "SLUICE_ENRICHMENT_URL": "x", "SLUICE_STRETCHES": "x", "SLUICE_TRACEBACK": "1"})
    assert list(parsed.unread) == ["SLUICE_ENRICHMENT_URL", "SLUICE_STRETCHES"]
    assert "rename it" in parsed.unread["SLUICE_ENRICHMENT_URL"]
    assert "update" in parsed.unread["SLUICE_STRETCHES"]


def test_no_setting_comes_near_to_an_older_one():
    """An older release would take it for a misspelt name of its own, and not start beside a newer one's settings."""
    older = {
        "SLUICE_NOTIFY",
        "SLUICE_POISON_PAUSE_PERCENT",
        "SLUICE_RESERVATION_SECONDS",
    }  # of the first release to look
    every = NAMES | set(RETIRED)
    assert {name: meant for name in every - older if (meant := nearest_names(name, every - {name}))} == {}
    assert not NAMES & set(RETIRED)
