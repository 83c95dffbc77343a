"""`make deploy`: from changed code to Azure, by azd. A fault that would show in the cloud only is found before it goes."""

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from shared.errors import SettingsError
from shared.own import FILE as OWN_SETTINGS, lay, read_own
from shared.settings import BILLING
from tools.local.errors import StackError
from tools.local.infra import capabilities, checks, package
from tools.local.infra.checks.app_settings import given_settings
from tools.local.infra.checks.parameters import FILE, environment_of
from tools.local.infra.project import Project
from tools.local.installation import ensure_app, find_python
from tools.local.paths import ROOT

#: An output of infra/main.bicep, which azd keeps: without it nothing was created yet.
APP_NAME = "AZURE_FUNCTION_APP_NAME"
#: One needs a tool of its own. The other knows Sluice's files alone; here the package with one's own is loaded instead.
LEFT_OUT = {"policies", "package"}
_SUBSTITUTED = re.compile(r"\$\{([A-Z][A-Z0-9_]*)(?:=([^}]*))?\}")
#: Files of the package that are named beside those of git.
MOST_NAMED = 10


def main(arguments: Sequence[str], root: Path = ROOT) -> int:
    """Check, then deploy. With `--check` nothing is deployed, and azd need not be there."""
    try:
        return _run(root, is_check="--check" in arguments)
    except StackError as error:
        if os.environ.get("SLUICE_TRACEBACK"):
            raise
        print(f"sluice deploy: {error}", file=sys.stderr)
        return 1


def _run(root: Path, *, is_check: bool) -> int:
    azd = shutil.which("azd")
    if azd is None and not is_check:
        raise StackError(
            "azd is not on the PATH: install the Azure Developer CLI (1.23.5 or later), or check alone by "
            "`make deploy ARGS=--check`"
        )
    values = _values(azd, root) if azd else {}
    _write_own(root)
    _check(Project(root), values)
    return 0 if is_check or azd is None else _deploy(azd, values, root)


def _write_own(root: Path) -> None:
    """Write what the project's own capabilities need in Azure, as `make docs` does."""
    file = root / capabilities.OWN_NAME
    try:
        text = capabilities.own_text(root)
    except SettingsError as error:
        raise StackError(str(error)) from error
    if file.read_text() != text:
        file.write_text(text)
        print(f"sluice deploy: {capabilities.OWN_NAME} is written: commit it", flush=True)


def _deploy(azd: str, values: Mapping[str, str], root: Path) -> int:
    # Code before settings: a setting that names a workload is of no use to an app that does not have its file yet.
    for word in ("deploy", "provision") if values.get(APP_NAME) else ("up",):
        print(f"sluice deploy: azd {word}", flush=True)
        if status := subprocess.run([azd, word], cwd=root, check=False).returncode:
            raise StackError(f"`azd {word}` ended with exit status {status}: its output is above; run this again")
    return 0


def _values(azd: str, root: Path) -> dict[str, str]:
    """Return the values of azd's environment."""
    done = subprocess.run(
        [azd, "env", "get-values", "--output", "json"], cwd=root, capture_output=True, text=True, check=False
    )
    try:
        values: dict[str, str] = json.loads(done.stdout) if done.returncode == 0 else {}
    except ValueError:
        values = {}
    if not values:
        raise StackError(
            "azd has no environment here: `azd env new NAME` makes one, and docs/deploy.md has all steps; azd said: "
            f"{' '.join((done.stderr or done.stdout).split()) or 'nothing'}"
        )
    return values


def _check(project: Project, values: Mapping[str, str]) -> None:
    wrong = [
        one
        for one in checks.findings(project, [name for name in checks.CHECKS if name not in LEFT_OUT])
        if not one.is_skip
    ]
    if wrong:
        raise StackError("; ".join(map(str, wrong)))
    _refuse_unread(project, values)
    given = _parameters(project, {**os.environ, **values})
    settings = _settings(project, given)
    found = _built(project.root, str(given["pythonVersion"]), settings)
    workloads = lay(read_own(project.root, settings), settings).settings.get("SLUICE_WORKLOADS", BILLING)
    print(f"sluice deploy: the package loads: {len(found)} functions, workloads {workloads}")
    if others := _not_in_git(project.root):
        more = f" and {len(others) - MOST_NAMED} more" if len(others) > MOST_NAMED else ""
        print(
            f"sluice deploy: these are uploaded, and git does not have them: {', '.join(others[:MOST_NAMED])}{more}; "
            ".funcignore keeps a file out",
            flush=True,
        )


def _refuse_unread(project: Project, values: Mapping[str, str]) -> None:
    """Refuse a setting that azd keeps for nothing."""
    read = {*environment_of(project).values(), *project.deployed().outputs}
    if unread := sorted(
        name for name, text in values.items() if text and name.startswith("SLUICE_") and name not in read
    ):
        raise StackError(
            f"{', '.join(unread)} is set in azd's environment, and no parameter reads it: write it into "
            f"{OWN_SETTINGS}, and take it away by `azd env set {unread[0]} ''`"
        )


def _built(root: Path, version: str, settings: Mapping[str, str]) -> list[str]:
    """Build what goes up, and return the functions that its Python finds in it with its own packages alone."""
    python = find_python(version)
    folder = package.build_upload(root / package.UPLOAD, version, root, python)
    if python:
        # Without the packages of this interpreter: those of the folder have to be enough.
        return package.functions(folder, [python, "-S"], {**settings, "PYTHONPATH": str(folder / package.SITE)})
    print(
        f"sluice deploy: python{version} is not here, so the package has no bytecode, and was loaded by another Python",
        flush=True,
    )
    return package.functions(folder, [str(ensure_app(root / "requirements.txt"))], settings)


def _parameters(project: Project, environment: Mapping[str, str]) -> dict[str, Any]:
    """Return the parameters of the deployment, of their file and azd's values."""
    types = {name: one.type for name, one in project.deployed().templates[project.main.resolve()].parameters.items()}
    return {
        name: _value(one["value"], types[name], environment) for name, one in project.json(FILE)["parameters"].items()
    }


def _settings(project: Project, given: Mapping[str, Any]) -> dict[str, str]:
    """Return the app's settings as the template makes them of these parameters."""
    deployment = project.deployed_with_own(**{name: value for name, value in given.items() if value != ""})
    return {name: str(value) for name, value in given_settings(deployment).items()}


def _value(written: Any, kind: str, environment: Mapping[str, str]) -> Any:
    """Return a value of the parameters' file after azd's substitution and the resource manager's conversion."""
    if not isinstance(written, str):
        return written
    text = _SUBSTITUTED.sub(lambda found: environment.get(found[1]) or found[2] or "", written)
    if kind == "int":
        return int(text)
    return text.lower() == "true" if kind == "bool" else text


def _not_in_git(root: Path) -> list[str]:
    git = shutil.which("git")
    if git is None or not (root / ".git").exists():
        return []
    done = subprocess.run([git, "ls-files", "-z"], cwd=root, capture_output=True, text=True, check=False)
    known = set(done.stdout.split("\0"))
    return [file.as_posix() for file in package.files(root) if file.as_posix() not in known]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
