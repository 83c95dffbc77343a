"""The line SLUICE_CAPABILITIES: what it names is there, and whoever writes it wrongly hears it at the start of the app."""

import json
import os
import subprocess
import sys

import pytest

from shared.capability import builtin_names
from shared.errors import SettingsError
from shared.settings import SETTINGS, Settings
from tests import command
from tools.local.paths import ROOT
from tools.local.stack import sample_values

_INDEX = "import json, function_app; print(json.dumps(sorted(one.get_function_name() for one in function_app.app.get_functions())))"
MINE = """
from sluice.capability import BusEntities, BusQueue, Capability, CommandGroup, Entities, Setting, bus, queue

def entities(choice):
    return (Entities("mine", queues=("parcels",), bus=BusEntities(queues=(BusQueue("answers"),))),)

MINE = Capability(
    name="mine",
    settings=(Setting("SLUICE_PARCEL_DAYS", "days", "30", default="30"),),
    read=lambda read: read.whole_number("SLUICE_PARCEL_DAYS", 1, 365),
    entities=entities,
    triggers=lambda days: (queue("take_parcels", "parcels", "take"), bus("hear_parcels", "answers", "hear")),
    build=".flows:build",
    commands=(CommandGroup("parcels", ".commands:app", "parcels"),),
)
EDITED = MINE.name
"""
FLOWS = """
class Verbs:
    def __init__(self, site):
        self.days = site.choice

    def take(self, delivery): ...

    def hear(self, bodies): ...

build = Verbs
"""
COMMANDS = """
import typer

app = typer.Typer()

@app.command("show")
def show(): print("three parcels")

@app.command("count")
def count(): print(3)
"""


@pytest.fixture
def mine(tmp_path):
    """The folder of a capability of somebody's own, outside of the repository."""
    folder = tmp_path / "mine_of_test"
    folder.mkdir()
    (folder / "__init__.py").write_text(MINE)
    (folder / "flows.py").write_text(FLOWS)
    (folder / "commands.py").write_text(COMMANDS)
    return folder


def environment(folder, line, **settings):
    """Return an environment with this line, and with the folder of the own capability beside the app."""
    path = f"{ROOT}{os.pathsep}{folder.parent}"
    return {**os.environ, **sample_values(), "SLUICE_CAPABILITIES": line, "PYTHONPATH": path, **settings}


def start(folder, line, **settings):
    """Start the app."""
    return command.start_app(environment(folder, line, **settings), ROOT, folder.parent)


def functions(folder, line, **settings):
    """Return the names of the app's functions."""
    done = start(folder, line, **settings)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_one_line_brings_the_functions_of_a_capability_and_nothing_else_is_edited(mine):
    """Those of the base stay, and the two parts know nothing of each other."""
    base = set(functions(mine, ""))
    assert set(functions(mine, "mine_of_test:MINE")) - base == {"take_parcels", "hear_parcels"}
    both = functions(mine, "registration, mine_of_test:MINE")
    assert set(both) > base | {"take_parcels", "hear_parcels", "take_orders"}
    # As the worker starts it: a process that has imported nothing before.
    environ = environment(mine, "registration, mine_of_test:MINE")
    done = subprocess.run([sys.executable, "-c", _INDEX], cwd=ROOT, env=environ, capture_output=True, check=True)
    assert json.loads(done.stdout) == both


def test_a_capability_brings_its_commands(mine):
    """`sluice parcels show` is there with the line, and not without it."""
    shown, refused = (
        command.run(["parcels", "show"], environment(mine, line), ROOT, mine.parent)
        for line in ("mine_of_test:MINE", "")
    )
    assert shown.stdout == "three parcels\n"
    assert "No such command" in refused.stderr


def test_the_line_of_the_settings_in_this_folder_counts_as_that_of_the_environment(mine):
    """An installed command looks for a project's own code beside its settings."""
    values = {**sample_values(), "SLUICE_CAPABILITIES": "mine_of_test:MINE"}
    (mine.parent / "local.settings.json").write_text(json.dumps({"Values": values}))
    environ = {name: value for name, value in os.environ.items() if not name.startswith("SLUICE_")}
    environ |= {"PYTHONPATH": str(ROOT), "PYTHONSAFEPATH": "1"}
    words = [sys.executable, "-m", "sluice", "parcels", "count"]
    done = subprocess.run(words, cwd=mine.parent, env=environ, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "3\n"), done.stderr


@pytest.mark.parametrize(
    ("line", "edit", "said"),
    [
        (
            "retruns",
            None,
            f"SLUICE_CAPABILITIES names 'retruns': there is no capabilities/retruns (known: {', '.join(builtin_names())})",
        ),
        ("nowhere.at.all:IT", None, "'nowhere.at.all:IT', which cannot be imported: ModuleNotFoundError"),
        ("mine_of_test:NONE", None, "'mine_of_test:NONE', which cannot be imported: AttributeError"),
        ("mine_of_test:EDITED", None, "which is str and no Capability"),
        (
            "mine_of_test:MINE",
            ("flows.py", "def take(", "def takes("),
            "trigger 'take_parcels' calls 'take', which build()",
        ),
        (
            "mine_of_test:MINE",
            ("flows.py", "site.choice", "site.nothing"),
            "mine_of_test:MINE cannot be built: AttributeError",
        ),
        ("mine_of_test:MINE", ("__init__.py", 'name="mine"', "name=1 / 0"), "cannot be imported: ZeroDivisionError"),
        (
            "registration,mine_of_test:MINE",
            ("__init__.py", '"parcels"', '"orders"'),
            "queue 'orders' is in the topology 2 times, by the entities of registration, mine",
        ),
        (
            "mine_of_test:MINE",
            ("__init__.py", '"answers"', '"results"'),
            "bus entity 'results' is in the topology 2 times, by the entities of base, mine",
        ),
        (
            "mine_of_test:MINE",
            ("__init__.py", "SLUICE_PARCEL_DAYS", "SLUICE_WORK_QUEUES"),
            "setting 'SLUICE_WORK_QUEUES' is there 2 times, by the base and mine",
        ),
        (
            "registration,mine_of_test:MINE",
            ("__init__.py", "hear_parcels", "hear_seats"),
            "function 'hear_seats' is there 2 times, by registration and mine",
        ),
    ],
)
def test_a_wrong_line_is_refused_at_the_start_in_a_sentence(mine, line, edit, said):
    """Nothing is indexed, and messages wait."""
    if edit:
        file, before, after = edit
        text = (mine / file).read_text()
        assert before in text
        (mine / file).write_text(text.replace(before, after))
    done = start(mine, line)
    assert done.returncode != 0
    assert said in done.stderr


def test_pages_that_fail_are_left_out_and_the_app_runs(mine):
    """Orders and jobs must not wait for a page."""
    text = (mine / "flows.py").read_text()
    (mine / "flows.py").write_text(text.replace("site.choice", "site.nothing"))
    text = (mine / "__init__.py").read_text()
    (mine / "__init__.py").write_text(text.replace('name="mine",', 'name="mine",\n    may_fail=True,'))
    done = start(mine, "registration,mine_of_test:MINE")
    assert {"health", "take_orders"} <= set(json.loads(done.stdout)), done.stderr
    assert "take_parcels" not in done.stdout
    assert "sluice.console.refused" in done.stderr
    assert "mine_of_test:MINE cannot be built: AttributeError" in done.stderr


def test_its_settings_are_read_and_refused_as_those_of_the_base_are(mine):
    """Also a misspelt one."""
    line = "mine_of_test:MINE"
    assert "take_parcels" in functions(mine, line, SLUICE_PARCEL_DAYS="365")
    wrong = start(mine, line, SLUICE_PARCEL_DAYS="366")
    assert "SLUICE_PARCEL_DAYS is '366', expected a whole number from 1 to 365" in wrong.stderr
    misspelt = start(mine, line, SLUICE_PARCEL_DAY="3")
    assert "did you mean SLUICE_PARCEL_DAYS?" in misspelt.stderr


def test_a_switch_of_before_without_the_line_stops_the_start():
    """Orders would wait unseen. Beside the line it is only named: a deployment of 0.3.0 set both."""
    both = Settings.parse(sample_values() | {"SLUICE_CAPABILITIES": "registration", "SLUICE_REGISTRATION": "on"})
    assert [one.name for one in both.capabilities] == ["registration"]
    assert "SLUICE_CAPABILITIES" in both.unread["SLUICE_REGISTRATION"]
    for word in ("on", " On ", "yes"):
        with pytest.raises(SettingsError, match="nothing reads it: set SLUICE_CAPABILITIES=console,registration"):
            Settings.parse(sample_values() | {"SLUICE_CAPABILITIES": "console", "SLUICE_REGISTRATION": word})
    assert Settings.parse(sample_values() | {"SLUICE_REGISTRATION": "off"}).capabilities == ()


def test_the_app_whose_instances_are_warmed_is_the_word_of_warming_for_this_release():
    """A deployment of 0.3.0 names it alone, and its record must not be left. A wrong one is refused, as before."""
    site = "/subscriptions/s/resourceGroups/g/providers/Microsoft.Web/sites/app"
    implied = Settings.parse(sample_values() | {"SLUICE_WARM_SITE": site, "SLUICE_WARM_MOST": "7"})
    assert (implied.capability("warming").choice.site, implied.capability("warming").choice.most) == (site, 7)
    assert implied.unread == {}
    assert Settings.parse(sample_values() | {"SLUICE_WARM_SITE": " "}).capabilities == ()
    with pytest.raises(SettingsError, match="SLUICE_WARM_SITE: 'my-app' is not the resource id of an app"):
        Settings.parse(sample_values() | {"SLUICE_WARM_SITE": "my-app"})


def test_a_setting_of_a_capability_that_is_off_is_told():
    """Whoever sets it believes it to be on."""
    parsed = Settings.parse(sample_values() | {"SLUICE_SEAT_LANES": "2"})
    assert "SLUICE_CAPABILITIES" in parsed.unread["SLUICE_SEAT_LANES"]
    assert "SLUICE_SEAT_LANES" not in {one.name for one in SETTINGS}
