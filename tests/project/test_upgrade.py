"""An upgrade: of a project of the release before with a person's changes, there and back; killed at every moment."""

import json
import os
import random
import shutil
import signal
import subprocess
import sys

import pytest
from typer.testing import CliRunner

from shared import __version__
from tests.project.kit import (
    BEFORE,
    SALES,
    changed,
    committed,
    content,
    engine,
    git,
    persons_project,
    release,
    unpacked,
)
from tools.cli.main import app
from tools.local.paths import AZURITE, ROOT, VENV
from tools.project.bases import Bases
from tools.project.changes import Kind
from tools.project.files import MANIFEST, carried
from tools.project.plan import Project, plan
from tools.project.upgrade import ChangedSinceError, finish, pending, prepare

#: A release and the next one: a file of each kind, and one that both a person and the release change.
ONE = release("1.0.0", same_py="x = 1\n", text_py="a = 1\n\n\n\nb = 2\n", going_py="g = 1\n", a__moved_py="m = 1\n")
TWO = release("1.1.0", same_py="x = 2\n", text_py="a = 1\n\n\n\nb = 3\n", new_py="n = 1\n", b__moved_py="m = 1\n")


def sluice(*words):
    """Type a command."""
    return CliRunner().invoke(app, [str(word) for word in words])


def small(folder):
    """Return a project of the small release in which a person changed one line of text.py."""
    unpacked(ONE, folder)
    changed(folder, "text.py", "a = 1", "a = 7")
    return folder


def begin(folder):
    """Prepare the upgrade of the small project, if none is pending, and carry it out."""
    if not pending(folder):
        project = Project.read(folder)
        changes = plan(project, TWO, Bases(folder, [ONE]))
        made = [one for one in changes if one.after is not None or one.kind is Kind.REMOVE]
        prepare(folder, project.version, TWO, made)
    finish(folder)


class KilledError(BaseException):
    """The end of a process, which nothing in it can handle."""


MOMENTS = {"left": None}


def die_at_the_moment(event, arguments):
    """Count what changes the disk, and end the process ahead of one of these."""
    is_change = event in ("os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.chmod") or (
        event == "open" and isinstance(arguments[2], int) and arguments[2] & (os.O_WRONLY | os.O_RDWR)
    )
    if MOMENTS["left"] is not None and is_change:
        MOMENTS["left"] -= 1
        if MOMENTS["left"] < 0:
            MOMENTS["left"] = None
            raise KilledError


def test_killed_at_any_moment_and_run_again_it_ends_the_same(tmp_path):
    """Ahead of each write, each move and each removal. The files are those of an upgrade that was left alone."""
    sys.addaudithook(die_at_the_moment)
    begin(small(tmp_path / "whole"))
    wanted = content(tmp_path / "whole")
    assert wanted["text.py"] == b"a = 7\n\n\n\nb = 3\n"
    kills = 0
    for moment in range(1000):
        folder = small(tmp_path / f"killed-{moment}")
        MOMENTS["left"] = moment
        try:
            begin(folder)
        except KilledError:
            kills += 1
            begin(folder)
        left, MOMENTS["left"] = MOMENTS["left"], None
        assert content(folder) == wanted
        assert not list((folder / ".stack").glob("upgrade*"))
        if left is not None:
            break
    assert kills > 20


def test_a_file_that_changes_meanwhile_is_not_lost(tmp_path):
    """The person edited it after the kill: neither the upgrade nor the edit is thrown away in silence."""
    folder = small(tmp_path / "project")
    prepare(folder, "1.0.0", TWO, [one for one in plan(Project.read(folder), TWO, Bases(folder, [ONE])) if one.after])
    (folder / "same.py").write_text("mine = 1\n")
    with pytest.raises(ChangedSinceError, match=r"same\.py changed since the upgrade began"):
        finish(folder)
    assert (folder / "same.py").read_text() == "mine = 1\n"
    assert json.loads((folder / MANIFEST).read_text())["version"] == "1.0.0"


@pytest.mark.parametrize(
    ("edit", "said"),
    [
        (("text.py", "b = 2", "b = 9"), "text.py (both changed the same lines"),
        (("going.py", "g = 1", "g = 9"), "going.py (you changed it, and the release has it no more)"),
        (("new.py", None, "mine = 1\n"), "new.py (the release has a file of this name)"),
    ],
)
def test_a_conflict_is_named_and_writes_nothing(tmp_path, edit, said, monkeypatch):
    """Only the person can say which of the two counts."""
    name, old, new = edit
    folder = unpacked(ONE, tmp_path / "project")
    if old is None:
        (folder / name).write_text(new)
    else:
        changed(folder, name, old, new)
    monkeypatch.setattr("tools.cli.project.carried", lambda _: TWO)
    before = content(folder)
    changes = plan(Project.read(folder), TWO, Bases(folder, [ONE]))
    (found,) = [one for one in changes if one.kind is Kind.CONFLICT]
    assert said.rstrip(")") in f"{found.name} ({found.why})"
    done = sluice("upgrade", folder, "--write")
    assert (done.exit_code, content(folder)) == (1, before)
    assert "nothing was written" in done.output


def test_a_merge_that_cannot_be_read_is_a_conflict(tmp_path):
    """Lines of both may fit side by side and be no program."""
    old, new = release("1", a_py="if a:\n    b\n\n\n\nc\n"), release("2", a_py="if a:\n    b\n\n\n\n    c\n")
    folder = unpacked(old, tmp_path / "project")
    changed(folder, "a.py", "if a:\n", "")
    changed(folder, "a.py", "    b", "b")
    (found,) = plan(Project.read(folder), new, Bases(folder, [old]))
    assert (found.kind, "cannot be read" in found.why) == (Kind.CONFLICT, True)


def test_the_text_of_the_release_is_found_in_git_else_asked_for(tmp_path):
    """Whoever committed the project as it came needs no archive."""
    folder = unpacked(ONE, tmp_path / "project")
    changed(folder, "text.py", "a = 1", "a = 7")
    (found,) = [one for one in plan(Project.read(folder), TWO, Bases(folder, [])) if one.name == "text.py"]
    assert (found.kind, "--base" in found.why) == (Kind.CONFLICT, True)
    changed(folder, "text.py", "a = 7", "a = 1")
    committed(folder)
    changed(folder, "text.py", "a = 1", "a = 7")
    committed(folder, "mine")
    (found,) = [one for one in plan(Project.read(folder), TWO, Bases(folder, [])) if one.name == "text.py"]
    assert (found.kind, found.after.content) == (Kind.MERGE, b"a = 7\n\n\n\nb = 3\n")


def test_changes_that_are_not_committed_stop_it(tmp_path):
    """The person could not tell the upgrade's changes from their own."""
    folder = committed(unpacked(carried(__version__), tmp_path / "project"))
    (folder / "own" / "sales.py").write_text("")
    done = sluice("upgrade", folder, "--write")
    assert (done.exit_code, "own/sales.py" in done.output, "--force" in done.output) == (2, True, True)
    assert sluice("upgrade", folder, "--write", "--force").exit_code == 0


@pytest.mark.parametrize(("manifest", "said"), [(None, "has no .sluice.json"), ("{", "cannot be read")])
def test_a_folder_that_is_no_project_is_refused(tmp_path, manifest, said):
    """Nothing is written into it."""
    if manifest:
        (tmp_path / MANIFEST).write_text(manifest)
    done = sluice("upgrade", tmp_path, "--write")
    assert (done.exit_code, said in done.output) == (2, True)


@pytest.fixture(scope="module")
def mine(tmp_path_factory):
    """A project of 0.2.0 with a person's own workload, package, setting, room and parameters."""
    return persons_project(tmp_path_factory.mktemp("mine") / "project")


@pytest.fixture
def project(mine, tmp_path):
    """A copy of it, to upgrade."""
    return shutil.copytree(mine, tmp_path / "project")


def test_an_upgrade_names_what_azd_keeps_and_nothing_reads_any_more(project):
    """Before anything is written: the deployment would fail by it."""
    kept = project / ".azure" / "prod" / ".env"
    kept.parent.mkdir(parents=True)
    kept.write_text('HAS_REGISTRATION="true"\n')
    shown = sluice("upgrade", project).output
    assert "settings: HAS_REGISTRATION does nothing any more: azd env set SLUICE_CAPABILITIES registration" in shown


def test_a_person_s_project_comes_to_this_release_and_back(project):
    """No edit by hand. All that is theirs is there, and after the way back each file is as it was."""
    before = content(project)
    shown = sluice("upgrade", project)
    assert (shown.exit_code, content(project)) == (0, before), shown.output
    assert "Nothing was written" in shown.output
    assert "settings: SLUICE_IDLE_STEP_MS does nothing any more: " in shown.output
    for name in ("functions/mine.py", "sales.py"):
        assert name not in shown.output, "a file of the person's own is nothing that an upgrade decides about"
    done = sluice("upgrade", project, "--write", "--base", BEFORE)
    assert done.exit_code == 0, done.output
    after = content(project)
    assert json.loads(after[MANIFEST])["version"] == __version__
    assert (after["sales.py"].decode(), after["functions/mine.py"]) == (SALES, before["functions/mine.py"])
    assert b'"aiohttp>=3.14,<4"' in after["pyproject.toml"]
    assert b"tools.project" in after["pyproject.toml"]
    assert b"\naiohttp==3.14.1\n" in after["requirements.txt"]
    assert b'"functionTimeout": "00:20:00"' in after["host.json"]
    given = json.loads(after["infra/main.parameters.json"])["parameters"]
    assert (given["rooms"]["value"][0]["name"], given["alwaysReady"]["value"]) == ("team-a", {"drain_work": 2})
    assert after["own/settings.json"] == b"{}\n"
    assert "own/sales.py" not in after
    assert not [name for name in after if name.startswith("tests/")]
    committed(project, "upgraded")
    back = sluice("upgrade", project, "--write", "--release", BEFORE)
    assert back.exit_code == 0, back.output
    returned, untested = engine(content(project)), engine(before)
    differing = {name for name in untested if returned.get(name) != untested[name]}
    assert differing <= {MANIFEST, "requirements.txt", "tools/requirements-dev.txt", "tools/requirements-browser.txt"}
    assert json.loads(content(project)[MANIFEST])["version"] == "0.2.0"
    assert {name for name in returned if name not in untested} == set()


def test_the_upgraded_project_is_what_the_app_can_be_deployed_from(project):
    """The checks of infra/ find nothing, and the app loads with the person's settings: as `make deploy ARGS=--check` does it."""
    assert sluice("upgrade", project, "--write").exit_code == 0
    script = (
        "import sys; from pathlib import Path\n"
        "from tools.local.infra import checks; from tools.local.infra.project import Project\n"
        "from tools.local.deploy import _parameters, _settings\n"
        "named = [name for name in checks.CHECKS if name != 'policies']  # a tool of its own\n"
        "found = [str(one) for one in checks.findings(Project(), named) if not one.is_skip]\n"
        "assert not found, found\n"
        "named = _parameters(Project(), {'AZURE_ENV_NAME': 'dev', 'AZURE_LOCATION': 'x'})\n"
        "given = _settings(Project(), named)\n"
        "print(given['SLUICE_ROOMS'], given['SLUICE_RETENTION_DAYS'])\n"
    )
    kept = {name: text for name, text in os.environ.items() if not name.startswith(("SLUICE", "PYTHON"))}
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=project, env=kept, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout.split()) == (0, ["team-a", "60"]), done.stderr


@pytest.mark.ci("a whole `make check` and `make test`, a minute")
def test_the_upgraded_project_passes_its_checks_and_its_tests(project):
    """Lint, formatting, types, the checks of infra/, and the person's tests, with no edit by hand."""
    assert sluice("upgrade", project, "--write", "--base", BEFORE).exit_code == 0
    # The packages of this repository, so that nothing is downloaded. A link is never installed into.
    (project / ".venv").symlink_to(VENV)
    (project / AZURITE.relative_to(ROOT)).parent.mkdir(exist_ok=True)
    (project / AZURITE.relative_to(ROOT)).symlink_to(AZURITE)
    # Without the words of a `make` that runs these tests.
    ours = ("SLUICE", "PYTHON", "MAKE", "MFLAGS", "ARGS")
    kept = {name: text for name, text in os.environ.items() if not name.startswith(ours)}

    def make(what):
        return subprocess.run(["make", what], cwd=project, env=kept, capture_output=True, text=True, check=False)

    done = make("check")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "All checks passed!" in done.stdout
    assert "Success: no issues found" in done.stdout
    assert "checks, 0 findings" in done.stdout
    tested = make("test")
    assert tested.returncode == 0, tested.stdout + tested.stderr
    assert " passed" in tested.stdout


KILLING = """
import os, random, signal, sys
left = [int(sys.argv[1])]
def die(event, arguments):
    is_write = event == "open" and isinstance(arguments[2], int) and arguments[2] & (os.O_WRONLY | os.O_RDWR)
    if event in ("os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.chmod") or is_write:
        left[0] -= 1
        if left[0] < 0:
            os.kill(os.getpid(), signal.SIGKILL)
from tools.cli.main import app
sys.addaudithook(die)
try:
    app(["upgrade", sys.argv[2], "--write", "--force"])
finally:
    print(int(sys.argv[1]) - left[0], file=sys.stderr)
"""


@pytest.mark.ci("ten upgrades of a whole project")
def test_a_whole_project_killed_at_ten_moments_ends_the_same(mine, tmp_path):
    """By SIGKILL, at moments between the first write and the last one."""

    def upgraded(folder, moment):
        command = [sys.executable, "-c", KILLING, str(moment), str(folder)]
        return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)

    whole = shutil.copytree(mine, tmp_path / "whole")
    writes = int(upgraded(whole, 1_000_000).stderr.splitlines()[-1])
    wanted, dice = content(whole), random.Random(20261126)
    assert json.loads(wanted[MANIFEST])["version"] == __version__
    for moment in dice.sample(range(writes), 10):
        folder = shutil.copytree(mine, tmp_path / f"killed-{moment}")
        assert upgraded(folder, moment).returncode == -signal.SIGKILL
        done = sluice("upgrade", folder, "--write", "--force")
        assert done.exit_code == 0, done.output
        assert content(folder) == wanted
        assert git(folder, "status", "--porcelain") == git(whole, "status", "--porcelain")
        shutil.rmtree(folder)


def test_a_setting_of_a_capability_is_known(project):
    """Of one that comes with the release: nothing is said against it."""
    text = json.dumps({"SLUICE_CAPABILITIES": "registration", "SLUICE_SEAT_LANES": "2", "SLUICE_ROMOS": "a"})
    (project / "own").mkdir()
    (project / "own" / "settings.json").write_text(text)
    shown = sluice("upgrade", project, "--force").output
    assert "SLUICE_ROMOS" in shown
    assert "SLUICE_SEAT_LANES" not in shown


def test_a_setting_of_a_capability_of_own_is_known(project):
    """Its module is read and not imported, so one that cannot be imported is no fault. A retired name is still named."""
    settings = ("SLUICE_RETURNS_DAYS", "SLUICE_IDLE_STEP_MS", "SLUICE_SHOP_URL")
    returns = project / "own" / "returns"
    returns.mkdir(parents=True)
    (returns / "__init__.py").write_text(
        'import absent\n\nSETTINGS = (Setting("SLUICE_RETURNS_DAYS", "days"), Setting("SLUICE_IDLE_STEP_MS", "ms"))\n'
    )
    (project / "own" / "settings.json").write_text(json.dumps(dict.fromkeys(settings, "3")))
    shown = sluice("upgrade", project, "--force").output
    assert "SLUICE_RETURNS_DAYS" not in shown
    assert "SLUICE_SHOP_URL is no setting" in shown
    assert "SLUICE_IDLE_STEP_MS does nothing any more" in shown


def test_modules_that_a_person_had_beside_ours_are_theirs(project):
    """`make check` of the release finds nothing in them. It still does in ours."""
    assert sluice("upgrade", project, "--write", "--base", BEFORE).exit_code == 0
    ruff = [sys.executable, "-m", "ruff", "check", "--output-format", "concise", "--no-cache"]
    assert subprocess.run([*ruff, "."], cwd=project, check=False).returncode == 0
    (project / "function_app.py").write_text("import os\n")
    done = subprocess.run([*ruff, "."], cwd=project, capture_output=True, text=True, check=False)
    assert "function_app.py:1:8: F401" in done.stdout
