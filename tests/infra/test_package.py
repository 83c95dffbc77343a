"""The package that azd would upload: it is whole, it needs nothing but its own requirements, and it does the work."""

import json
import os
import shutil
import subprocess
import sys
import urllib.request
import venv
from io import StringIO

import pathspec
import pytest
from rich.console import Console

from tests.waiting import LIMIT
from tools.local import demo_jobs
from tools.local.errors import StackError
from tools.local.infra import package
from tools.local.paths import ROOT, venv_python
from tools.local.stack import StackOptions, running, sample_values

SITE = package.SITE
#: What the package says of itself in these tests, so that it cannot be taken for the project beside it.
VERSION = "0.0.0+package"
#: Loaded only where SLUICE_TELEMETRY asks for them, by an operator who has added their library.
#: And, as the commands of capabilities, loaded in a terminal alone: there tools/ is.
OPTIONAL = {"shared.telemetry.otel", "shared.telemetry.printing", "shared.payload.parquet_rows", "sluice.commands"}
IMPORT_EVERYTHING = f"""
import importlib, json, pkgutil
import capabilities.console, functions, shared, sluice
found = [one.name for top in (shared, functions, capabilities.console, sluice) for one in pkgutil.walk_packages(top.__path__, top.__name__ + ".")]
names = sorted(set(found) - {OPTIONAL})
for name in names:
    importlib.import_module(name)
print(json.dumps(names))
"""


@pytest.fixture(scope="module")
def uploaded(tmp_path_factory):
    """The package for the Python of these tests, as `make deploy` builds it."""
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    folder = package.build_upload(tmp_path_factory.mktemp("package"), version, python=sys.executable)
    (folder / "shared" / "__init__.py").write_text(f'__version__ = "{VERSION}"\n')
    # Its bytecode is taken unseen, so it goes with the text that it was made of.
    shutil.rmtree(folder / "shared" / "__pycache__")
    return folder


@pytest.fixture(scope="module")
def empty_python(tmp_path_factory):
    """An interpreter with nothing installed."""
    folder = tmp_path_factory.mktemp("empty")
    venv.EnvBuilder(symlinks=True).create(folder)
    return venv_python(folder)


def test_the_package_is_indexed_in_an_empty_environment(uploaded, empty_python):
    """The worker finds the same functions in it as in the project."""
    settings = {**sample_values(), "PYTHONPATH": str(uploaded / SITE)}
    found = package.functions(uploaded, [str(empty_python)], settings)
    assert found == package.functions(ROOT, [str(venv_python())], sample_values())
    assert "accept_submission" in found


def test_every_module_of_the_package_can_be_imported(uploaded, empty_python):
    """Also what is imported late, at the first message of a kind, finds what it needs."""
    kept = {name: text for name, text in os.environ.items() if not name.startswith(("PYTHON", "SLUICE"))}
    done = subprocess.run(
        [str(empty_python), "-c", IMPORT_EVERYTHING],
        cwd=uploaded,
        env={**kept, **sample_values(), "PYTHONPATH": str(uploaded / SITE)},
        capture_output=True,
        text=True,
        check=False,
        timeout=LIMIT,
    )
    assert done.returncode == 0, done.stderr
    names = json.loads(done.stdout)
    assert {"shared.app.stages", "functions.tick", "shared.workloads.billing"} <= set(names)


def test_bytecode_goes_up_and_is_taken_without_a_look_at_the_source(uploaded):
    """A zip changes the time of a file, by which Python would compile everything again at each start."""
    compiled = [*(uploaded / "functions").rglob("*.pyc"), *(uploaded / SITE / "msgspec").rglob("*.pyc")]
    assert {"tick", "structs"} <= {file.name.split(".")[0] for file in compiled}
    # The second word of the header: a hash is there, and nothing compares it.
    assert {file.read_bytes()[4:8] for file in compiled} == {b"\1\0\0\0"}
    ignored = pathspec.GitIgnoreSpec.from_lines((uploaded / ".funcignore").read_text().splitlines())
    assert not any(ignored.match_file(file.relative_to(uploaded).as_posix()) for file in compiled)


def test_a_package_with_another_hash_does_not_go_up(tmp_path):
    """What was locked is what is uploaded, or nothing is."""
    (tmp_path / package.LOCK).parent.mkdir()
    (tmp_path / package.LOCK).write_text(f"isodate==0.7.2 --hash=sha256:{'0' * 64}\n")
    (tmp_path / ".funcignore").write_text("tools/\n")
    with pytest.raises(StackError, match="the packages for the upload cannot be installed"):
        package.build_upload(tmp_path / "upload", "3.12", tmp_path)


def test_nothing_secret_and_nothing_local_is_uploaded(tmp_path):
    """What lies beside the app on a developer's machine stays there."""
    shutil.copy(ROOT / ".funcignore", tmp_path)
    secrets = (
        "local.settings.json",
        "local.settings.mine.json",
        ".env",
        ".azure/dev/.env",
        ".stack/up/local.settings.json",
    )
    data = ("usage.ndjson", "mydata/__azurite_db_table__.json", "mydata/__blobstorage__/1", "mydata/account.json")
    local = (".venv/lib/x.py", "shared/__pycache__/x.pyc", "tests/test_x.py", "infra/main.bicep", ".git/config")
    for name in (*secrets, *data, *local, "function_app.py", "shared/x.py"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    assert {file.as_posix() for file in package.files(tmp_path)} == {"function_app.py", "shared/x.py"}


def test_the_package_runs_the_jobs_of_the_demonstration(uploaded):
    """On the local host it does all that `make demo` shows; nothing of the project beside it takes part."""
    options = StackOptions(app=uploaded, settings={"PYTHONPATH": str(uploaded / SITE)})
    shown = StringIO()
    with running(options) as stack:
        with urllib.request.urlopen(f"{stack.host.base_url}/api/health", timeout=LIMIT) as reply:
            assert json.load(reply)["version"] == VERSION
        demo_jobs.run(stack, Console(file=shown, width=120))
    assert shown.getvalue().count("complete") >= len(demo_jobs.JOBS)
