"""A run of the tests says what it left out, and a run of everything leaves nothing out but what it draws."""

import json
import os
import re
import subprocess
import sys

import pytest

from tests import left_out
from tools.local.paths import ROOT

CONFTEST = """
from pathlib import Path
from tests import left_out
from tests.left_out import *
left_out.ROOT, left_out.LEFT_OUT = Path(__file__).parents[1], {"tests/far": "it is far"}
left_out.PACKAGES = {"beside/tests": "it is a package"}
pytest_addoption = add_option
"""
SETTINGS = '[tool.pytest.ini_options]\ntestpaths = ["tests"]\nmarkers = ["ci(reason): left out"]\n'
NEAR = """
import pytest
def test_usual(): ...
@pytest.mark.ci("it is slow")
def test_slow(): ...
@pytest.mark.parametrize("size", [1, pytest.param(9, marks=pytest.mark.ci("it is large"))])
def test_sizes(size): ...
"""
#: Tests and points of an enumeration.
MANY = 100
LONG = f"""
import json
from pathlib import Path
import pytest
from tests import left_out
@pytest.mark.ci("it is long", is_drawn=True)
@pytest.mark.parametrize("point", range({MANY}))
def test_one(point): ...
def test_points(request):
    points = left_out.some(request.config, "a", range({MANY}))
    Path(__file__).with_name("points.json").write_text(json.dumps(points))
"""


class Run:
    """One run, and what it tried."""

    def __init__(self, folder, *words):
        command = [sys.executable, "-m", "pytest", "-v", "-p", "no:cacheprovider", "-p", "xdist.plugin", *words]
        # No plugin but this one: the others take half of the CPU of such a run.
        environ = {**os.environ, "PYTHONPATH": str(ROOT), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
        done = subprocess.run(command, cwd=folder, env=environ, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        self.said = done.stdout
        names = re.findall(r"\S+::\S+", self.said)
        self.files = [*dict.fromkeys(name.partition("::")[0] for name in names)]
        self.drawn = {name for name in names if "::test_one[" in name}
        file = folder / "tests" / "points.json"
        self.points = json.loads(file.read_text()) if file.exists() else None
        file.unlink(missing_ok=True)

    def passed(self):
        """Return how many tests there were, besides those of the enumeration."""
        return int(re.search(r" (\d+) passed", self.said)[1]) - len(self.drawn)


@pytest.fixture
def run(tmp_path):
    """Run pytest in a folder of its own."""
    (tmp_path / "tests" / "far").mkdir(parents=True)
    (tmp_path / "beside" / "tests").mkdir(parents=True)
    for name, text in {
        "pyproject.toml": SETTINGS,
        "tests/conftest.py": CONFTEST,
        "tests/test_early.py": "def test_early(): ...",
        "tests/test_long.py": LONG,
        "tests/test_near.py": NEAR,
        "tests/far/test_far.py": "def test_far(): ...",
        "beside/tests/test_beside.py": "def test_beside(): ...",
    }.items():
        (tmp_path / name).write_text(text)
    return lambda *words: Run(tmp_path, *words)


@pytest.mark.parametrize("workers", ["-n0", "-n2"])
def test_a_run_says_what_it_left_out_and_why(run, workers):
    """With workers too, which read the tests where nothing is printed. Of a long enumeration it tries every tenth point."""
    usual = run(workers)
    assert (usual.passed(), usual.drawn) == (4, set())
    assert usual.points == [*range(0, MANY, left_out.USUAL)]
    for line in (
        "1 files of tests/far: it is far",
        "1 files of beside/tests: it is a package",
        "1 tests: it is slow",
        "1 tests: it is large",
        f"{MANY} tests: it is long",
        "ARGS=--all",
    ):
        assert line in usual.said


def test_a_run_of_everything_draws_a_part_of_a_long_enumeration_and_leaves_nothing_else_out(run):
    """By a seed that its end says: who gives it again tries the same, with workers too.

    It begins with the files that others leave out. These take longest: the last one to begin would keep one worker busy alone.
    """
    whole, again = run("--all", "--drawn", "7"), run("--all", "--drawn", "7", "-n1")
    assert whole.files == [
        "tests/far/test_far.py",
        "tests/test_long.py",
        "tests/test_near.py",
        "tests/test_early.py",
        "beside/tests/test_beside.py",
    ]
    assert (whole.passed(), again.passed()) == (7 + 1, 7 + 1)
    assert whole.points == [*range(whole.points[0], MANY, left_out.DRAWN)]
    assert 0 < len(whole.drawn) < MANY / 2
    assert (again.drawn, again.points) == (whole.drawn, whole.points)
    assert "left out" not in whole.said
    for one in (whole, again):
        assert 'drawn by 7; `make test ARGS="--all --drawn 7"`' in one.said
        assert f"{MANY - len(whole.drawn)} tests: it is long" in one.said


def test_whoever_names_a_path_leaves_nothing_out(run):
    """A path means all that is below it, and every point."""
    named = run("tests/far", "tests/test_near.py", "tests/test_long.py", "-n1")
    assert (named.passed(), len(named.drawn), named.points) == (5 + 1, MANY, [*range(MANY)])
    assert "left out" not in named.said
    assert "drawn by" not in named.said


def test_days_draw_different_parts():
    """And each part is drawn some day."""
    days = [f"2026-11-{day:02}" for day in range(1, 31)]
    drawn = [{n for n in range(MANY) if left_out._lot(day, f"test_one[{n}]") % left_out.DRAWN == 0} for day in days]
    assert len({*map(frozenset, drawn)}) == len(days)
    assert set().union(*drawn) == {*range(MANY)}


def test_what_is_left_out_is_there():
    """A folder that was renamed would be run again, and the reason would stand for nothing."""
    assert [path for path in left_out.PACKAGES | left_out.LEFT_OUT if not (ROOT / path).exists()] == []
