"""Writes infra/capabilities.json, which Bicep reads: by the word of the line, all that a capability brings to a deployment."""

import json
from pathlib import Path
from typing import Any, Final

from shared.capability import Chosen, builtin_names, choose, find, line_of
from shared.errors import SettingsError
from shared.own import read_own
from shared.settings import SETTINGS
from shared.topology import join_entities
from tools.local.infra import alerts, entities
from tools.local.infra.listened import document as listened_document, of_capability
from tools.local.paths import ROOT

FILE = ROOT / "infra" / "capabilities.json"
#: The same of a project's own capabilities, which its settings name.
OWN_NAME: Final = "own/infra/capabilities.json"
OWN_FILE = ROOT / OWN_NAME
#: The count of a capability whose entities are always the same.
UNCOUNTED: Final = "none"


def chosen(said: str, settings: dict[str, str] | None = None) -> Chosen:
    """Return a capability that is on with these settings, and else with its defaults."""
    faults: list[str] = []
    found = choose([said], SETTINGS, settings or {}, faults.append)
    if faults:
        raise SettingsError("; ".join(faults))
    return found[0]


def text() -> str:
    """Return the file's content."""
    return json.dumps({said: document(said) for said in builtin_names()}, indent=2) + "\n"


def own_text(root: Path = ROOT) -> str:
    """Return the file of the capabilities that are the project's own: those of its line that have a colon."""
    line = line_of(read_own(root, {}))
    return json.dumps({said: document(said) for said in line if ":" in said}, indent=2) + "\n"


def document(said: str) -> dict[str, Any]:
    """Return all that a capability brings. Bicep takes as many of the counted queues as the setting says."""
    counted = find(said).capability.counted
    whole = chosen(said, {counted.setting: str(counted.most)} if counted else {})
    own = join_entities(whole.entities)
    bus = entities.bus_lists(own)
    listened = listened_document(of_capability(whole))
    many = {queue.name for queue in own.bus.queues[-counted.most :]} if counted else set[str]()
    return {
        "counted": counted.setting if counted else UNCOUNTED,
        "storage": {"queues": list(own.queues), "containers": list(own.containers), "tables": list(own.tables)},
        "bus": bus
        | {
            "queues": [one for one in bus["queues"] if one["name"] not in many],
            "countedQueues": [one for one in bus["queues"] if one["name"] in many],
        },
        "listened": listened
        | {
            "queues": [name for name in listened["queues"] if name not in many],
            "countedQueues": [name for name in listened["queues"] if name in many],
        },
        "senders": [one._asdict() for one in whole.capability.senders],
        "alerts": [alerts.alert_of(event, event.alert) for event in whole.capability.events if event.alert],
    }
