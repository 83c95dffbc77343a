"""`make deploy` with an azd that only notes what it is asked: what is found before it, and what it is asked in which order."""

import hashlib
import json
import os
import shutil
import subprocess
import uuid
from contextlib import suppress
from types import SimpleNamespace

import pytest

from tests.own_returns import add_returns
from tools.local import deploy, readme
from tools.local.infra import checks, package
from tools.local.paths import ROOT, STACK

SALES = "shared.workloads.billing:Billing,sales:Sales"
#: What azd knows before and after the first deployment.
NEW = {"AZURE_ENV_NAME": "dev", "AZURE_LOCATION": "westeurope"}
DEPLOYED = NEW | {deploy.APP_NAME: "func-sluice-dev", "SLUICE_WORK_QUEUES": "2", "SLUICE_ROOMS": ""}
AZD = """#!/bin/sh
echo "$@" >> {folder}/calls
[ "$1" = env ] && exec cat {folder}/values.json
[ "$1" != "$(cat {folder}/fails)" ]
"""


@pytest.fixture(scope="module")
def clone(tmp_path_factory):
    """What is committed, in a folder of its own."""
    target = tmp_path_factory.mktemp("clone")
    names = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout.split("\n")
    for name in filter(None, names):
        if (ROOT / name).is_file() and not name.startswith("tests/"):
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, target / name)
    subprocess.run(["git", "init", "--quiet"], cwd=target, check=True)
    subprocess.run(["git", "add", "."], cwd=target, check=True)
    return target


@pytest.fixture(scope="module", autouse=True)
def checked_once(clone):
    """Two seconds of CPU find in the same files the same."""
    found = {}

    def findings(project, names):
        changes = subprocess.run(["git", "diff"], cwd=clone, capture_output=True, check=True).stdout
        if changes not in found:
            found[changes] = list(checks.findings(project, names))
        return found[changes]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(deploy, "checks", SimpleNamespace(CHECKS=checks.CHECKS, findings=findings))
        yield


@pytest.fixture(scope="module", autouse=True)
def installed_once(clone, tmp_path_factory):
    """The packages of the lock are the same in each upload, and in each run. The project's files are copied anew for each.

    To compile them takes a quarter of a minute of CPU. tests/infra/test_package.py holds what is compiled.
    """
    site, build = clone / package.UPLOAD / package.SITE, package.build_upload

    def build_upload(target, version, root, python):
        if not site.exists():
            wanted = hashlib.sha256(version.encode() + (root / package.LOCK).read_bytes()).hexdigest()
            kept = STACK / f"upload-{wanted[:12]}"
            if not kept.exists():
                made = tmp_path_factory.mktemp("upload")
                build(made, version, root, python)
                fresh = shutil.copytree(made / package.SITE, STACK / f"upload-{uuid.uuid4().hex}")
                # Nothing is taken away from a run that has it already.
                with suppress(OSError):
                    fresh.rename(kept)
                shutil.rmtree(fresh, ignore_errors=True)
            shutil.copytree(kept, site, copy_function=os.link)
        for one in target.iterdir():
            if one.name != site.parts[-3]:
                shutil.rmtree(one) if one.is_dir() else one.unlink()
        return package.build(target, root)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(package, "build_upload", build_upload)
        yield


@pytest.fixture
def azd(tmp_path, monkeypatch):
    """An azd on the PATH: `answers` sets what it knows and what it fails at; `asked` returns what it was asked."""

    class Azd:
        def answers(self, values, fails=""):
            (tmp_path / "values.json").write_text(json.dumps(values))
            (tmp_path / "fails").write_text(fails)

        def asked(self):
            calls = (tmp_path / "calls").read_text().splitlines()
            assert calls[0] == "env get-values --output json"
            return calls[1:]

    (tmp_path / "azd").write_text(AZD.format(folder=tmp_path))
    (tmp_path / "azd").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    for name in ("SLUICE_WORKLOADS", *NEW):
        monkeypatch.delenv(name, raising=False)
    found = Azd()
    found.answers(DEPLOYED)
    return found


@pytest.fixture
def sales(clone):
    """The workload of the README beside the app; taken away afterwards."""
    (clone / "sales.py").write_text(readme.workload())
    yield clone / "sales.py"
    (clone / "sales.py").unlink()


def test_a_changed_workload_goes_up_before_its_setting(azd, clone, sales, capfd):
    """So the setting never names a file that the app does not have. What git does not know is named."""
    azd.answers(DEPLOYED | {"SLUICE_WORKLOADS": SALES})
    others = [clone / "notes.csv", clone / "usage.ndjson"]
    for file in others:
        file.write_text("{}")
    assert deploy.main([], clone) == 0
    for file in others:
        file.unlink()
    assert azd.asked() == ["deploy", "provision"]
    said = capfd.readouterr().out
    assert f"workloads {SALES}\n" in said
    assert "git does not have them: notes.csv, sales.py;" in said


def test_the_first_time_everything_is_created(azd, clone, sales):
    """Without an app of an earlier deployment there is nothing that code could go to."""
    azd.answers(NEW | {"SLUICE_WORKLOADS": SALES})
    assert deploy.main([], clone) == 0
    assert azd.asked() == ["up"]


@pytest.mark.parametrize(
    "fault",
    [
        ("import aiohttp\n", "No module named 'aiohttp'"),
        ("class Sales: name = 'sales'\n", "it has no map, combine, merge, finish"),
        ("def (\n", "SyntaxError: invalid syntax"),
    ],
)
def test_code_that_would_not_start_does_not_go_up(azd, clone, sales, capsys, fault):
    """A package that is in the developer's environment and not in requirements.txt, and any other fault of the file."""
    text, why = fault
    sales.write_text(text)
    azd.answers(DEPLOYED | {"SLUICE_WORKLOADS": SALES})
    assert deploy.main([], clone) == 1
    assert why in capsys.readouterr().err
    assert azd.asked() == []


def test_a_setting_that_azd_keeps_for_nothing_is_refused(azd, clone, capsys):
    """No parameter reads it, so the app would never have it."""
    azd.answers(DEPLOYED | {"SLUICE_CHUNK_ITEMS": "500"})
    assert deploy.main([], clone) == 1
    said = capsys.readouterr().err
    assert "SLUICE_CHUNK_ITEMS is set in azd's environment, and no parameter reads it" in said
    assert azd.asked() == []


def test_a_process_of_your_own_goes_up_by_the_one_command(azd, clone, monkeypatch, capsys):
    """What it needs in Azure is written first. A capability that is not there ends the command in a sentence."""
    add_returns(clone / "own", monkeypatch)
    own, made = clone / "own" / "settings.json", clone / "own" / "infra" / "capabilities.json"
    before = own.read_text(), made.read_text()
    own.write_text('{"SLUICE_CAPABILITIES": "own.returns:RETURNS"}')
    done = deploy.main([], clone)
    text = made.read_text()
    own.write_text('{"SLUICE_CAPABILITIES": "own.returns:RETURN"}')
    refused = deploy.main([], clone)
    own.write_text(before[0])
    made.write_text(before[1])
    shutil.rmtree(clone / "own" / "returns")
    said = capsys.readouterr()
    assert (done, refused) == (0, 1), said.err
    assert "returns-answers" in text
    assert "own/infra/capabilities.json is written" in said.out
    assert "sluice deploy: SLUICE_CAPABILITIES names 'own.returns:RETURN'" in said.err
    assert azd.asked() == ["deploy", "provision", "env get-values --output json"]


def test_a_fault_of_the_template_does_not_go_up(azd, clone, capsys):
    """The checks of infra/ come first."""
    file = clone / "infra" / "main.parameters.json"
    before = file.read_text()
    file.write_text(before.replace('"workloads"', '"wrkloads"'))
    assert deploy.main([], clone) == 1
    file.write_text(before)
    assert "main.bicep has no parameter wrkloads" in capsys.readouterr().err
    assert azd.asked() == []


def test_settings_of_the_parameters_file_are_those_that_the_package_is_tried_with(azd, clone, capsys):
    """What azd would put into the app counts: the file's objects, and its values by environment variable."""
    file = clone / "infra" / "main.parameters.json"
    before = file.read_text()
    settings = '"settings": { "value": { "SLUICE_CHUNK_ITEMS": "many" } },'
    file.write_text(before.replace('"dequeue":', f'{settings}\n    "dequeue":'))
    assert deploy.main([], clone) == 1
    file.write_text(before)
    assert "SLUICE_CHUNK_ITEMS" in capsys.readouterr().err


def test_the_settings_stay_as_they_are_where_the_code_did_not_go_up(azd, clone, capsys):
    """The status of azd is told, and nothing follows."""
    azd.answers(DEPLOYED, fails="deploy")
    assert deploy.main([], clone) == 1
    assert azd.asked() == ["deploy"]
    assert "`azd deploy` ended with exit status 1" in capsys.readouterr().err


def test_without_an_environment_the_way_to_one_is_said(azd, clone, capsys):
    """Nothing is checked and nothing is asked."""
    azd.answers({})
    assert deploy.main([], clone) == 1
    assert "azd env new" in capsys.readouterr().err
    assert azd.asked() == []


def test_it_can_check_where_there_is_no_azd(clone, sales, monkeypatch, capsys):
    """With the settings of the environment, as a workflow has them."""
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    monkeypatch.setenv("SLUICE_WORKLOADS", SALES)
    assert deploy.main([], clone) == 1
    assert "azd is not on the PATH" in capsys.readouterr().err
    assert deploy.main(["--check"], clone) == 0
    assert f"workloads {SALES}" in capsys.readouterr().out
