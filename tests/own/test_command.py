"""The command reads own/settings.json below the environment, and its doctor names what the environment overrides."""

import json

import pytest

from shared.errors import SettingsError
from shared.own import FILE
from tools.cli.doctor import State, compare_own
from tools.cli.settings_file import load, load_laid


@pytest.fixture
def project(tmp_path, monkeypatch):
    """A folder of an app with settings of a person's own, in which the command is typed."""
    (tmp_path / "function_app.py").touch()
    (tmp_path / FILE).parent.mkdir()
    (tmp_path / FILE).write_text(json.dumps({"SLUICE_ROOMS": "team-a", "SLUICE_RETENTION_DAYS": "40", "SHOP": "x"}))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_the_file_counts_below_local_settings_and_the_environment(project):
    """Who copied the sample of before has every default in local.settings.json: none of them hides the file."""
    (project / "local.settings.json").write_text(
        json.dumps({"Values": {"SluiceStorage": "a", "SLUICE_RETENTION_DAYS": "30", "SHOP": "y"}})
    )
    found = load(None, {"SLUICE_ROOMS": "team-b"})
    assert found == {"SluiceStorage": "a", "SLUICE_RETENTION_DAYS": "40", "SHOP": "y", "SLUICE_ROOMS": "team-b"}


def test_a_fault_of_the_file_stops_the_command(project):
    """As it stops the app."""
    (project / FILE).write_text('{"SLUICE_ROMOS": "a"}')
    with pytest.raises(SettingsError, match="did you mean SLUICE_ROOMS"):
        load(None, {})


def test_the_doctor_tells_a_deployment_from_a_choice(project):
    """`azd provision` was not run after a room came: a problem. A value that somebody gave on purpose: a note."""
    laid = load_laid(None, {"SLUICE_ROOMS": "team-b", "SLUICE_RETENTION_DAYS": "50", "SluiceStorage": "a"})
    deployed, chosen = sorted(compare_own(laid), key=lambda one: one.name, reverse=True)
    assert (deployed.name, deployed.state, "`azd provision`" in deployed.problem) == (
        "SLUICE_ROOMS",
        State.UNDEPLOYED,
        True,
    )
    assert (chosen.name, chosen.problem) == ("SLUICE_RETENTION_DAYS", "")
    assert "is '50' in the environment, which counts, and '40' in own/settings.json" in chosen.note
