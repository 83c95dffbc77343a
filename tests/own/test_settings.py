"""The settings of a person's own code: what the file may say, and who wins where the environment says otherwise."""

import json

import pytest

from shared.errors import SettingsError
from shared.names import RETIRED
from shared.own import FILE, Override, lay, list_deployed, read_own
from shared.settings import NAMES, SETTINGS, Settings
from tools.local.stack import sample_values


def written(folder, text):
    """Return a folder whose own/settings.json has this text or this document."""
    file = folder / FILE
    file.parent.mkdir(exist_ok=True)
    file.write_text(text if isinstance(text, str) else json.dumps(text))
    return folder


def test_a_project_without_the_file_has_no_settings_of_its_own(tmp_path):
    """As a copy of an earlier release, with its code beside function_app.py."""
    assert read_own(tmp_path, {}) == {}


def test_settings_of_a_person_s_own_code_stand_there_too(tmp_path):
    """A workload reads them in `configured`. A retired name is told of later, and refused nowhere."""
    said = {"SLUICE_WORKLOADS": "own.sales:Sales", "ENRICHMENT_URL": "http://x", "SLUICE_IDLE_STEP_MS": "5"}
    assert read_own(written(tmp_path, said), {}) == said
    assert list(Settings.parse({**sample_values(), **said}).unread) == ["SLUICE_IDLE_STEP_MS"]


@pytest.mark.parametrize(
    ("said", "why"),
    [
        ("{", "own/settings.json is not JSON"),
        ([], "expected an object"),
        ({"SLUICE_WORKQUEUES": "3"}, "did you mean SLUICE_WORK_QUEUES?"),
        ({"SLUICE_STRETCHES": "3"}, "SLUICE_STRETCHES is no setting"),
        ({"SLUICE_WORK_QUEUES": 3}, "SLUICE_WORK_QUEUES is 3, expected a text"),
        ({"SluiceStorage": "UseDevelopmentStorage=true"}, "SluiceStorage is a connection"),
        ({"SluiceBus__fullyQualifiedNamespace": "x"}, "SluiceBus__fullyQualifiedNamespace is a connection"),
        ({"AzureWebJobsStorage": "x"}, "AzureWebJobsStorage is a connection"),
        ({"SHOP": "DefaultEndpointsProtocol=https;AccountKey=abc"}, "SHOP holds a key"),
        ({"SHOP": "https://a.blob.core.windows.net/x?sv=1&sig=abc"}, "SHOP holds a key or a signature"),
        ({"SLUICE_TICK_SCHEDULE": "0 * * * * *"}, "`tickSchedule` of own/infra/parameters.json"),
        ({"SLUICE_CONSOLE": "on"}, "set SLUICE_CAPABILITIES=console"),
        ({"AzureFunctionsJobHost__logging__logLevel__default": "Debug"}, "the host reads it from the environment"),
    ],
)
def test_what_has_no_place_in_the_file_is_refused(tmp_path, said, why):
    """The file goes where the code goes: a wrong name in it is wrong everywhere, and a secret is everybody's."""
    with pytest.raises(SettingsError) as error:
        read_own(written(tmp_path, said), {})
    assert why in str(error.value)
    assert "abc" not in str(error.value)


def test_everything_wrong_is_said_at_once(tmp_path):
    """A person corrects the file once."""
    with pytest.raises(SettingsError, match=r"SluiceBus is a connection.*SLUICE_ROMOS is no setting"):
        read_own(written(tmp_path, {"SluiceBus": "x", "SLUICE_ROMOS": "a"}), {})


@pytest.mark.parametrize(
    ("own", "environment", "is_deployed", "counts"),
    [
        ("40", None, False, "40"),
        ("40", "50", False, "50"),
        ("40", "50", True, "50"),
        # A deployment before 0.3.0 wrote the default, and nobody asked for it.
        ("40", "30", True, "40"),
        ("40", "", True, "40"),
        (None, "50", True, "50"),
    ],
)
def test_what_a_person_gave_in_the_environment_counts_before_the_file(own, environment, is_deployed, counts):
    """And the file before the default of the code, which is 30."""
    name = "SLUICE_RETENTION_DAYS"
    laid = lay(
        {} if own is None else {name: own}, {} if environment is None else {name: environment}, is_deployed=is_deployed
    )
    assert laid.settings == {name: counts}
    assert laid.undeployed == {}


@pytest.mark.parametrize(("is_deployed", "counts"), [(True, "1"), (False, "3")])
def test_in_azure_the_deployment_decides_over_entities(is_deployed, counts):
    """It made them: an app that reads a queue which is not there would not start. Elsewhere a default is nobody's word."""
    laid = lay({"SLUICE_WORK_QUEUES": "3"}, {"SLUICE_WORK_QUEUES": "1"}, is_deployed=is_deployed)
    assert laid.settings["SLUICE_WORK_QUEUES"] == counts
    assert laid.undeployed == ({"SLUICE_WORK_QUEUES": Override("3", "1")} if is_deployed else {})


@pytest.mark.parametrize(
    ("file", "deployed", "is_missing"),
    [("a, b", "b,a", False), ("a", "a,b", False), ("a,b", "a", True), ("a", "", True), ("", "a", False)],
)
def test_rooms_of_both_files_are_deployed(file, deployed, is_missing):
    """The parameter `rooms` adds to those of the setting, so more rooms than the file has are no fault."""
    assert bool(lay({"SLUICE_ROOMS": file}, {"SLUICE_ROOMS": deployed}, is_deployed=True).undeployed) is is_missing


def test_the_names_that_decide_are_settings():
    """A name that is in no list would never be given."""
    decided = list_deployed([])
    assert decided <= NAMES
    assert not decided & set(RETIRED)
    assert all(one.default is not None for one in SETTINGS if one.name in decided)


def test_the_file_may_have_the_settings_of_a_capability(tmp_path):
    """Of one that comes with Sluice. In Azure the deployment decides over the setting that counts entities."""
    said = {"SLUICE_CAPABILITIES": "registration", "SLUICE_SEAT_LANES": "2", "SLUICE_RESERVATION_SECONDS": "60"}
    assert read_own(written(tmp_path, said), {}) == said
    environ = {
        "SLUICE_CAPABILITIES": "registration,console",
        "SLUICE_SEAT_LANES": "4",
        "SLUICE_RESERVATION_SECONDS": "900",
    }
    laid = lay(said, environ, is_deployed=True)
    assert laid.undeployed == {"SLUICE_SEAT_LANES": Override("2", "4")}
    assert laid.settings == environ | {"SLUICE_RESERVATION_SECONDS": "60"}
