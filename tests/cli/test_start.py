"""The command's start: it imports what it uses, its help says what the modules say, and doors give what they gave."""

import json
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

import shared
from tests import command
from tools.cli.doors import read_names
from tools.cli.main import NAMED, app
from tools.local.paths import ROOT

PACKAGE = Path(shared.__file__).parent
DOORS = {
    f"shared.{file.parent.relative_to(PACKAGE).as_posix().replace('/', '.')}": names
    for file in sorted(PACKAGE.rglob("*/__init__.py"))
    if (names := read_names(file.read_bytes()))
}


def run(*words):
    """Return what a process of its own prints."""
    done = subprocess.run([sys.executable, *words], cwd=ROOT, capture_output=True, text=True, check=True)
    return done.stdout


@pytest.mark.parametrize("name", NAMED)
def test_a_line_of_the_help_is_that_of_its_module(name):
    """The line is written where the help finds it without an import."""
    found = typer.main.get_command(app).get_command(None, name)
    assert found.name == name
    assert NAMED[name].help == found.help.partition("\n\n")[0].replace("\n", " ")


def test_every_door_gives_by_name_what_it_gives_whole():
    """Each name of each package, in a process that opens them by name, is of the module that has it in the app."""
    assert len(DOORS) > 10
    asked = [(door, name) for door, names in DOORS.items() for name in names]
    told = run(
        "-c",
        "from tools.cli.doors import open_by_name\n"
        "open_by_name()\n"
        "from importlib import import_module\n"
        f"for door, name in {asked!r}:\n"
        "    value = getattr(import_module(door), name)\n"
        "    print(door, name, type(value).__name__, getattr(value, '__module__', ''), getattr(value, '__name__', ''))",
    )
    expected = []
    for door, name in asked:
        value = getattr(import_module(door), name)
        words = (door, name, type(value).__name__, getattr(value, "__module__", ""), getattr(value, "__name__", ""))
        expected.append(" ".join(words))
    assert [line.rstrip() for line in told.splitlines()] == [line.rstrip() for line in expected]


def test_a_name_that_a_door_does_not_have_is_refused():
    """As by the usual door, so that `hasattr` and `import` find out."""
    script = "from tools.cli.doors import open_by_name\nopen_by_name()\nimport shared.gate\nprint(hasattr(shared.gate, 'nothing'))"
    assert run("-c", script) == "False\n"


@pytest.mark.parametrize(
    ("words", "unused"),
    [
        (("--version",), ("azure", "msgspec", "shared.settings")),
        (("--help",), ("aiohttp", "shared.app.stores")),
        (
            ("gate", "open", "--help"),
            ("aiohttp", "jinja2", "azure.storage.queue", "shared.app.stores", "shared.promises"),
        ),
    ],
)
def test_a_call_imports_no_more_than_it_uses(words, unused):
    """What is not used is not imported: it is most of the time that a person waits for."""
    script = (
        "import sys\n"
        f"sys.argv = ['sluice', *{words!r}]\n"
        "from sluice.__main__ import main\n"
        "try:\n"
        "    main()\n"
        "except SystemExit as end:\n"
        "    assert not end.code\n"
        f"print([one for one in {unused!r} if sys.modules.get(one)])"
    )
    assert run("-c", script).splitlines()[-1] == "[]"


def test_a_workload_may_use_what_the_command_does_not():
    """It is hidden while a command is imported, and no longer: `sluice worker` runs workloads that may use it."""
    script = (
        "import typer\n"
        "from tools.cli.main import app\n"
        "typer.main.get_command(app).get_command(None, 'worker')\n"
        "import aiohttp\n"
        "print(aiohttp.__name__)"
    )
    assert run("-c", script) == "aiohttp\n"


@pytest.fixture
def outcome(tmp_path):
    """Return the status and the standard error of a call."""

    def call(*words):
        done = command.run(words, {"PYTHONPATH": str(ROOT)}, ROOT, tmp_path)
        return done.returncode, done.stderr

    return call


@pytest.mark.parametrize(
    ("words", "status", "found"),
    [
        (("jobs", "list", "--limit", "many"), 2, "--limit"),
        (("jobs", "shwo", "a"), 2, "show"),
        (("jobs", "show", "a", "--settings", "nowhere.json"), 2, "nowhere.json"),
        (("gate", "open", "nightly", "--seed", "00"), 2, "--order lottery"),
    ],
)
def test_an_error_is_json_where_json_was_asked(outcome, words, status, found):
    """Of the call, of the settings, of the command itself: one document with the words that a person gets."""
    ended, said = outcome(*words, "--json")
    document = json.loads(said)
    assert (ended, document.keys(), document["status"]) == (status, {"error", "status"}, status)
    assert found in document["error"]
    ended, said = outcome(*words)
    assert (ended, said.startswith("{")) == (status, False)
    assert found in said


@pytest.mark.parametrize(
    "group",
    [("jobs", "list"), ("audit",), ("parked", "lines"), ("tune", "explain"), ("orders", "list"), ("processes", "list")],
)
def test_the_former_name_of_limit_still_works(group):
    """It is refused as `--limit` is, and the help shows `--limit` alone."""
    done = CliRunner().invoke(app, [*group, "--most", "none"])
    assert "--limit" in done.output
    shown = CliRunner().invoke(app, [*group, "--help"]).output
    assert ("--limit" in shown, "--most" in shown) == (True, False)
