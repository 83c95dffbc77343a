"""Carries out a plan: look first, send what differs, look again. Whoever asked sees the difference before it is sent."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from shared.scaling.plan import Plan
from shared.scaling.resource_manager import ResourceManager
from shared.scaling.words import Site, differences, scaled


@dataclass(frozen=True, slots=True)
class Change:
    """What would be sent, and what it changes."""

    site: Site
    body: Mapping[str, Any]
    differences: list[str]


def prepare(manager: ResourceManager, site: Site, plan: Plan) -> Change:
    """Return what the plan changes on the app as it is now; nothing is sent."""
    before = manager.read(site)
    body = scaled(before, plan)
    return Change(site, body, differences(before, body))


def send(manager: ResourceManager, change: Change) -> list[str]:
    """Send the change, and return what of it is not carried out yet; sending it again is harmless."""
    manager.change(change.site, change.body)
    return differences(manager.read(change.site), change.body)
