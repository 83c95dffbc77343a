"""The file of compose and the emulator's Config.json: valid, and in agreement with the topology."""

import json
import re

import pytest
import yaml
from servicebus_local import emulator
from servicebus_local.entities import read

from shared.azure.connection_settings import LOCAL_BUS, LOCAL_STORAGE
from tools.local.paths import ROOT

COMPOSE = yaml.safe_load((ROOT / "tools" / "compose.yaml").read_text())
CONFIG = json.loads((ROOT / "tools/packages/servicebus-local/src/servicebus_local/Config.json").read_text())


def test_the_emulators_configuration_is_made_from_the_topology():
    """An entity that was added to the topology is in the committed file too."""
    assert emulator.config(read(ROOT / "infra" / "entities.json", ["registration"])) == CONFIG, (
        "run `python -m servicebus_local --part registration --emulator-config`"
    )


def test_the_configuration_keeps_the_emulators_limits():
    """One namespace of the fixed name, at most 50 entities, lives of an hour and ten deliveries at most."""
    (namespace,) = CONFIG["UserConfig"]["Namespaces"]
    assert namespace["Name"] == "sbemulatorns"
    assert len(namespace["Queues"]) + len(namespace["Topics"]) <= 50
    for queue in namespace["Queues"]:
        assert queue["Properties"]["MaxDeliveryCount"] <= 10
    for topic in namespace["Topics"]:
        assert 1 <= len(topic["Subscriptions"]) <= 50
        for subscription in topic["Subscriptions"]:
            assert subscription["Properties"]["MaxDeliveryCount"] <= 10


def test_every_service_is_one_image_on_the_loopback_interface():
    """Nothing that compose starts can be reached from another machine, and all volumes are declared."""
    for service in COMPOSE["services"].values():
        assert set(service) <= {"image", "command", "ports", "volumes", "profiles", "environment", "depends_on"}
        assert all(port.startswith("127.0.0.1:") for port in service.get("ports", []))
        for volume in service.get("volumes", []):
            source = volume.split(":")[0]
            assert source in COMPOSE["volumes"] if "/" not in source else (ROOT / "tools" / source).exists()


def test_the_sample_settings_reach_what_compose_starts():
    """The sample's connection strings name the ports that compose opens."""
    assert LOCAL_STORAGE == "UseDevelopmentStorage=true"
    assert {port.split(":")[1] for port in COMPOSE["services"]["azurite"]["ports"]} == {"10000", "10001", "10002"}
    assert "Endpoint=sb://localhost;" in LOCAL_BUS
    assert "127.0.0.1:5672:5672" in COMPOSE["services"]["servicebus"]["ports"]


def test_azurite_is_the_same_version_everywhere():
    """The container and the npm package are one version."""
    image = COMPOSE["services"]["azurite"]["image"]
    wanted = json.loads((ROOT / "tools" / "local" / "azurite" / "package.json").read_text())["dependencies"]["azurite"]
    assert image.endswith(f":{wanted}")
    assert re.fullmatch(r"\d+\.\d+\.\d+", wanted)


@pytest.mark.parametrize("name", ["ACCEPT_EULA", "MSSQL_SA_PASSWORD"])
def test_licences_are_the_users_to_accept(name):
    """The example environment leaves licence and password empty."""
    assert re.search(rf"^{name}=$", (ROOT / "tools" / ".env.example").read_text(), re.MULTILINE)
