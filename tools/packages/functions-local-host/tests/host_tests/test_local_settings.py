"""local.settings.json, %SETTING%, connections, disabling."""

import json

import pytest
from functions_local_host.contract import ConnectionMissingError
from functions_local_host.local_settings import (
    SettingsError,
    UnresolvedSettingError,
    connection_string,
    expand,
    is_disabled,
    load_settings,
)


def written(tmp_path, document):
    """Write the document as a settings file."""
    path = tmp_path / "local.settings.json"
    path.write_text(json.dumps(document))
    return path


def test_the_environment_wins_over_the_file(tmp_path):
    """A value of the environment replaces the file's; the others come through as text."""
    path = written(tmp_path, {"Values": {"A": "file", "B": "file", "N": 5, "T": True}})
    assert load_settings(path, {"A": "environment"}) == {"A": "environment", "B": "file", "N": "5", "T": "true"}


def test_a_missing_file_is_an_empty_one(tmp_path):
    """Everything can come from the environment."""
    assert load_settings(tmp_path / "local.settings.json", {"A": "1"}) == {"A": "1"}


@pytest.mark.parametrize(
    ("document", "reason"),
    [
        ({"Values": []}, 'holds no object "Values"'),
        ([], 'holds no object "Values"'),
        ({"IsEncrypted": True, "Values": {}}, "is encrypted"),
        ({"Values": {"A": {"B": "1"}}}, "A is not plain text"),
    ],
)
def test_a_file_that_holds_no_settings_is_refused_with_the_fix(tmp_path, document, reason):
    """The error says what to write instead."""
    with pytest.raises(SettingsError, match=reason):
        load_settings(written(tmp_path, document), {})


def test_percent_names_are_replaced_in_any_case():
    """%NAME% stands for the setting, within text too."""
    assert expand("work-%Number%-%X%", {"NUMBER": "00", "X": "y"}) == "work-00-y"


def test_an_unresolved_name_is_the_hosts_reason():
    """The real host's words, and the name."""
    with pytest.raises(UnresolvedSettingError, match="'%QUEUE%' does not resolve to a value"):
        expand("%QUEUE%", {"OTHER": "1"})


def test_a_connection_is_found_under_both_names():
    """X first, then AzureWebJobsX; an empty name means the host's storage."""
    assert connection_string("Bus", {"Bus": "a", "AzureWebJobsBus": "b"}) == "a"
    assert connection_string("Bus", {"AzureWebJobsBus": "b"}) == "b"
    assert connection_string("Storage", {"AzureWebJobsStorage": "s"}) == "s"
    assert connection_string("", {"AzureWebJobsStorage": "s"}) == "s"


def test_a_missing_connection_names_the_settings_that_were_looked_for():
    """Both spellings are in the error; an empty value counts as missing."""
    with pytest.raises(ConnectionMissingError, match="set Bus or AzureWebJobsBus"):
        connection_string("Bus", {"Bus": ""})


@pytest.mark.parametrize("name", ["Bus__fullyQualifiedNamespace", "Bus__queueServiceUri", "bus:accountName"])
def test_an_identity_is_refused_with_the_way_out(name):
    """The stand-ins know no identities, and say that they take connection strings."""
    with pytest.raises(ConnectionMissingError, match="the local stand-ins take connection strings"):
        connection_string("Bus", {name: "somewhere"})


@pytest.mark.parametrize(
    "name", ["AzureWebJobs.tick.Disabled", "AzureWebJobs_tick_Disabled", "AzureWebJobs__tick__Disabled"]
)
@pytest.mark.parametrize(
    ("value", "expected"), [("true", True), ("1", True), ("True", True), ("false", False), ("0", False)]
)
def test_three_spellings_disable_a_function(name, value, expected):
    """Each spelling works, with `true` or `1` only, and for that function only."""
    assert is_disabled("tick", {name: value}) is expected
    assert is_disabled("tock", {name: value}) is False
