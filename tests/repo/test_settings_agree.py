"""Settings: the code, the sample file and the settings' own rules are one set."""

import json
import re
from decimal import Decimal
from pathlib import Path

import pytest

from shared.settings import SETTINGS, Settings, SettingsError

ROOT = Path(__file__).resolve().parents[2]
#: Read by the Functions host, not by the app.
HOSTS_OWN = {"FUNCTIONS_WORKER_RUNTIME", "AzureWebJobsStorage"}
SAMPLE = json.loads((ROOT / "local.settings.sample.json").read_text())["Values"]


def test_the_sample_holds_every_setting_with_its_safe_local_value():
    """Who copies the sample has every setting, and no setting that nobody reads."""
    host_overrides = {name for name in SAMPLE if name.startswith("AzureFunctionsJobHost__")}
    own = {name: value for name, value in SAMPLE.items() if name not in HOSTS_OWN | host_overrides}
    assert own == {setting.name: setting.local for setting in SETTINGS}


def test_the_sample_is_accepted():
    """The app starts with the sample's values."""
    assert Settings.parse(SAMPLE).work_queues == 1


def test_everything_wrong_is_reported_at_once():
    """A person who has three settings wrong is told three things."""
    with pytest.raises(SettingsError) as error:
        Settings.parse({"SLUICE_WORK_QUEUES": "many"})
    for part in ("SluiceStorage is missing", "SluiceBus is missing", "SLUICE_WORK_QUEUES is 'many'"):
        assert part in str(error.value)


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
        (",".join(f"r{n}" for n in range(21)), "names 21 rooms, expected at most 20"),
    ],
)
def test_a_room_that_no_queue_can_be_called_is_refused(text, said):
    """Before anything is registered: a function on a queue that cannot be there would fail for ever."""
    with pytest.raises(SettingsError, match=said):
        Settings.parse({**SAMPLE, "SLUICE_ROOMS": text})
