"""The settings of this machine, as `make up` takes them."""

import json

import pytest

from shared.errors import SettingsError
from tools.local.up import local_settings


def test_make_up_takes_the_settings_of_a_capability(tmp_path):
    """From the file and from the environment, where the line names it or not. A name of nothing is refused."""
    file = tmp_path / "local.settings.json"
    of_file = {"SLUICE_CAPABILITIES": "registration", "SLUICE_SEAT_LANES": "2"}
    file.write_text(json.dumps({"Values": of_file}))
    assert local_settings(file, {"SLUICE_SNAPSHOT_EVENTS": "50"}) == of_file | {"SLUICE_SNAPSHOT_EVENTS": "50"}
    with pytest.raises(SettingsError, match="SLUICE_SHOP_URL is no setting"):
        local_settings(file, {"SLUICE_SHOP_URL": "x"})


def test_make_up_refuses_a_switch_of_before_without_its_capability_in_the_line(tmp_path):
    """The app would not start; beside the line the switch is only retired."""
    file = tmp_path / "local.settings.json"
    file.write_text(json.dumps({"Values": {"SLUICE_REGISTRATION": "on"}}))
    with pytest.raises(
        SettingsError, match=r"SLUICE_REGISTRATION is 'on', and .*: set SLUICE_CAPABILITIES=registration"
    ):
        local_settings(file, {})
    assert local_settings(file, {"SLUICE_CAPABILITIES": "registration"})["SLUICE_CAPABILITIES"] == "registration"
