"""One resource of a deployment, and what is known of it before it is deployed."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tools.local.infra.expressions import Unknown


@dataclass(slots=True, eq=False)
class Resource:
    """One resource: its type in full, its name from the top, and its body."""

    type: str
    name: str
    body: dict[str, Any]
    where: str
    is_existing: bool
    version: str = ""
    scope: str = ""

    @property
    def id(self) -> str:
        """The key that distinguishes it from any other."""
        return f"{self.type}:{self.name}"

    @property
    def properties(self) -> dict[str, Any]:
        """Its own properties."""
        found: dict[str, Any] = self.body.get("properties", {})
        return found

    @property
    def last_name(self) -> str:
        """Its name below its parent."""
        return self.name.rsplit("/", 1)[-1]


class AtRunTime(dict[str, Any]):
    """The properties that a resource is given. Azure adds others, for which `text` stands."""

    def __init__(self, text: str, given: Mapping[str, Any]) -> None:
        super().__init__(given)
        self.text = text


def _made_by_azure(resource: Resource) -> dict[str, Any]:
    """Return the known part of the properties that Azure adds: code that reads them is particular about their form."""
    if resource.type != "Microsoft.Storage/storageAccounts":
        return {}
    services = ("blob", "queue", "table")
    return {"primaryEndpoints": {one: f"https://{resource.name}.{one}.core.windows.net/" for one in services}}


def member_of(resource: Resource, name: str) -> Any:
    """Return a property of a resource: given, made by Azure, or unknown."""
    if name == "id":
        return resource.id
    if name == "properties":
        return AtRunTime(f"{resource.id}.properties", {**_made_by_azure(resource), **resource.properties})
    return resource.body.get(name, Unknown(f"{resource.id}.{name}"))
