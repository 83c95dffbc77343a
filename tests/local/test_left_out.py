"""A run of the tests says what it left out, and a run of everything leaves nothing out."""

import os
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


@pytest.fixture
def run(tmp_path):
    """Run pytest in a folder of its own, and return what it printed."""
    (tmp_path / "tests" / "far").mkdir(parents=True)
    (tmp_path / "beside" / "tests").mkdir(parents=True)
    for name, text in {
        "pyproject.toml": SETTINGS,
        "tests/conftest.py": CONFTEST,
        "tests/test_early.py": "def test_early(): ...",
        "tests/test_near.py": NEAR,
        "tests/far/test_far.py": "def test_far(): ...",
        "beside/tests/test_beside.py": "def test_beside(): ...",
    }.items():
        (tmp_path / name).write_text(text)

    def start(*words):
        command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-p", "xdist.plugin", *words]
        # No plugin but this one: the others take half of the CPU of such a run.
        environ = {**os.environ, "PYTHONPATH": str(ROOT), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
        done = subprocess.run(command, cwd=tmp_path, env=environ, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    return start


@pytest.mark.parametrize("workers", ["-n0", "-n2"])
def test_a_run_says_what_it_left_out_and_why(run, workers):
    """With workers too, which read the tests where nothing is printed."""
    said = run(workers)
    assert " 3 passed" in said
    for line in (
        "1 files of tests/far: it is far",
        "1 files of beside/tests: it is a package",
        "1 tests: it is slow",
        "1 tests: it is large",
        "ARGS=--all",
    ):
        assert line in said


@pytest.mark.parametrize(
    ("words", "passed"),
    [(["--all"], 7), (["--all", "-n2"], 7), (["tests/test_near.py", "-n2"], 4), (["tests/far"], 1)],
)
def test_all_and_whoever_names_a_path_leave_nothing_out(run, words, passed):
    """A path means all that is below it."""
    said = run(*words)
    assert f" {passed} passed" in said
    assert "left out" not in said


def test_all_of_them_begin_with_the_files_that_others_leave_out(run):
    """These take longest: the last one to begin would keep one worker busy alone."""
    files = [line.split("::")[0] for line in run("--all", "-v").splitlines() if "PASSED" in line]
    assert list(dict.fromkeys(files)) == [
        "tests/far/test_far.py",
        "tests/test_near.py",
        "tests/test_early.py",
        "beside/tests/test_beside.py",
    ]


def test_what_is_left_out_is_there():
    """A folder that was renamed would be run again, and the reason would stand for nothing."""
    assert [path for path in left_out.PACKAGES | left_out.LEFT_OUT if not (ROOT / path).exists()] == []
