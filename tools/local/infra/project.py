"""The material of the checks: a folder with the project's files, and the lists of the code that they must agree with."""

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from shared.azure import Setting
from shared.own import FILE as OWN_SETTINGS, read_own
from shared.settings import SETTINGS
from shared.telemetry import EVENTS, LogEvent
from shared.topology import Topology, topology
from tools.local.infra.deployment import Deployment, deployed
from tools.local.paths import ROOT

#: Parameters of main.bicep that a person keeps with their own code.
OWN_PARAMETERS: Final = "own/infra/parameters.json"
#: What azd fills in, and who is looked for among the role assignments.
DEPLOYER, PUBLISHER, OPERATOR = "the-deployer", "a-publisher", "an-operator"
#: The app registration of the console.
CONSOLE: Final = "a-registration"
#: Two rooms, so that one's publisher with a role in the other's is seen.
ROOMS: Final = ("team-a", "b")
PARAMETERS: Final = {
    "environmentName": "check",
    "location": "westeurope",
    "principalId": DEPLOYER,
    "publishers": [{"id": PUBLISHER, "type": "ServicePrincipal"}],
    "operators": [{"id": OPERATOR, "type": "Group"}],
}


@dataclass(frozen=True, slots=True)
class Project:
    """A folder under check. Tests give a changed copy, or changed lists."""

    root: Path = ROOT
    topology: Callable[..., Topology] = topology
    settings: tuple[Setting, ...] = SETTINGS
    events: tuple[LogEvent, ...] = EVENTS

    @property
    def infra(self) -> Path:
        """The folder of Bicep and its data."""
        return self.root / "infra"

    @property
    def main(self) -> Path:
        """The file that is deployed."""
        return self.infra / "main.bicep"

    def bicep_files(self) -> list[Path]:
        """Return every Bicep file of Sluice."""
        return sorted(self.infra.rglob("*.bicep"))

    def deployed(self, **parameters: Any) -> Deployment:
        """Return the deployment with these parameters, of a person who has written nothing into own/."""
        return self.deployed_of({}, {}, **parameters)

    def deployed_of(self, own: Mapping[str, str], given: Mapping[str, Any], /, **parameters: Any) -> Deployment:
        """Return the deployment of a person whose own/ has these settings and gives these parameters."""
        texts = {self.root / OWN_SETTINGS: json.dumps(own), self.root / OWN_PARAMETERS: json.dumps(given)}
        texts = {file.resolve(): text for file, text in texts.items()}
        return deployed(self.main.resolve(), {**PARAMETERS, **parameters}, texts)

    def deployed_with_own(self, **parameters: Any) -> Deployment:
        """Return the deployment with the settings and parameters of own/."""
        return self.deployed_of(read_own(self.root, {}), self.json(OWN_PARAMETERS), **parameters)

    def text(self, *names: str) -> str:
        """Return a file's text. A missing file is empty."""
        file = self.root.joinpath(*names)
        return file.read_text() if file.exists() else ""

    def json(self, *names: str) -> Any:
        """Return the document of a JSON file."""
        return json.loads(self.root.joinpath(*names).read_text())


def publisher_of(room: str) -> str:
    """Return the publisher that is looked for in a room."""
    return f"{PUBLISHER}-of-{room}"


def with_rooms() -> list[dict[str, Any]]:
    """Return the value of the parameter `rooms` for checks of rooms."""
    return [{"name": room, "publishers": [{"id": publisher_of(room), "type": "Group"}]} for room in ROOMS]


def both_ways(wanted: Iterable[str], found: Iterable[str]) -> tuple[list[str], list[str]]:
    """Return the missing and the superfluous items."""
    one, other = set(wanted), set(found)
    return sorted(one - other), sorted(other - one)


def at(value: Any, path: str) -> Any:
    """Return the value of a document at a dotted path, or None."""
    for name in path.split("."):
        value = value.get(name) if isinstance(value, Mapping) else None
    return value
