"""Lists what of `shared` nobody reaches: by reading, and by running the front doors and the commands under coverage.

python -m tests.reached                     reads the code; the same as the test
python -m tests.reached --measure           runs the suites of the front doors, every process of theirs measured
python -m tests.reached --data .coverage    tells of coverage data that is there already
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import coverage

from tests.reached.graph import Program, repository

ARGUED = Path(__file__).with_name("argued.json")
#: What runs the app and the command as people do.
FRONT_DOORS = (
    "tests/outside",
    "tests/e2e",
    "tests/cli",
    "tests/publish",
    "tests/identity",
    "tests/gate/test_gate_command.py",
    "tests/parked/test_parked_command.py",
    "tests/parked/test_parked_app.py",
    "tests/concurrency/test_tune_command.py",
    "tests/dequeue/test_push_app.py",
    "tests/process/test_process_app.py",
)
#: Every process notes its lines in a file of its own, also one that is told to end.
_SETTINGS = """[run]
branch = false
parallel = true
sigterm = true
concurrency = thread, multiprocessing
source = {root}/shared,{root}/tools/planning,{root}/tools/conformance
data_file = {data}
"""
#: The local host ends its instances at once, which no exit handler sees: they note their lines before it.
_NOTED_AT_EXIT = """import os
import coverage

_exit = os._exit


def noted(status):
    found = coverage.Coverage.current()
    if found:
        found.stop()
        found.save()
    _exit(status)


os._exit = noted
"""


def main(arguments=None):
    """Tell; the status says whether something is reached by nobody without an argument for it."""
    options = _parser().parse_args(arguments)
    if options.measure:
        options.data = _measured(options.suites or FRONT_DOORS)
    found = [one.key for one in Program(repository()).unreached()]
    missing, stale = against(found, argued())
    _tell("reached by nobody, by reading", missing)
    _tell("argued and reached all the same, or gone", stale)
    if options.data:
        _tell("never run by the front doors and commands", not_run(options.data))
    return 1 if missing or stale else 0


def _parser():
    parser = argparse.ArgumentParser(
        prog="python -m tests.reached", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--measure", action="store_true", help="run the front doors under coverage")
    parser.add_argument("--data", type=Path, help="coverage data that is combined already")
    parser.add_argument("suites", nargs="*", help="what to run instead")
    return parser


def argued():
    """Return why something is there although nobody reaches it, by its name."""
    return json.loads(ARGUED.read_text())


def against(found, arguments):
    """Return what lacks an argument, and the arguments for what is reached or gone."""
    return sorted(set(found) - set(arguments)), sorted(set(arguments) - set(found))


def not_run(data):
    """Return the functions of `shared` of which no line was run in any process."""
    root, lines = repository(), coverage.CoverageData(str(data))
    lines.read()
    found = []
    for one in Program(root).every():
        ran = lines.lines(str(root / one.key.partition(":")[0])) or ()
        if not one.is_class and not one.is_declared and not set(one.body) & set(ran):
            found.append(one.key)
    return sorted(found)


def _measured(suites):
    """Run the suites with every Python process below them measured, and return the file with all of it."""
    folder = Path(tempfile.mkdtemp(prefix="sluice-reached-"))
    settings, data = folder / "coveragerc", folder / "data"
    settings.write_text(_SETTINGS.format(root=repository(), data=data))
    (folder / "sitecustomize.py").write_text(_NOTED_AT_EXIT)
    paths = os.pathsep.join([str(folder), str(repository())])
    environment = {**os.environ, "COVERAGE_PROCESS_START": str(settings), "PYTHONPATH": paths}
    command = [sys.executable, "-m", "pytest", "-q", "--numprocesses=2", "--dist=loadfile", *suites]
    subprocess.run(command, cwd=repository(), env=environment, check=False)
    whole = coverage.Coverage(config_file=str(settings))
    whole.combine()
    whole.save()
    return data


def _tell(what, names):
    print(f"{what}: {len(names)}")  # noqa: T201 - a command prints
    for name in names:
        print(f"    {name}")  # noqa: T201 - a command prints


if __name__ == "__main__":
    sys.exit(main())
