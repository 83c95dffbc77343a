"""The page for strangers: its example runs in a copy of the folder, with nothing else of this repository."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[1]
APP = """import azure.functions as func
app = func.FunctionApp()
@app.route("hello")
def hello(req: func.HttpRequest) -> str:
    return "hello"
"""


def test_the_example_runs_in_a_copy_of_the_folder(tmp_path, azurite):
    """Two instances of an app of one function; one is killed."""
    shutil.copytree(PACKAGE, tmp_path / PACKAGE.name, ignore=shutil.ignore_patterns("tests", "__pycache__"))
    (tmp_path / "my_app").mkdir()
    (tmp_path / "my_app" / "function_app.py").write_text(APP)
    (tmp_path / "my_app" / "host.json").write_text('{"version": "2.0"}')
    (example,) = re.findall(r"```python\n(.*?)```", (PACKAGE / "README.md").read_text(), re.DOTALL)
    here = example.replace("UseDevelopmentStorage=true", azurite.connection_string)
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    command = [sys.executable, "-c", here]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert re.fullmatch(r"http://127\.0\.0\.1:\d+ Running\n", done.stdout)


def test_the_commands_options_exist():
    """Each option that the page names is one of the command's."""
    command = [sys.executable, "-m", PACKAGE.name, "--help"]
    said = subprocess.run(command, cwd=PACKAGE.parent, capture_output=True, text=True, check=True).stdout
    page = (PACKAGE / "README.md").read_text()
    named = set(re.findall(rf"{PACKAGE.name}.* (--[a-z-]+)", page))
    assert named
    assert named <= set(re.findall(r"(--[a-z-]+)", said))
