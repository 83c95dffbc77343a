"""The entities of the bus that functions listen to, read from their triggers: the scale controller counts their messages."""

import ast
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from shared.capability import Chosen

#: The decorators of triggers of the bus, and the arguments that name the entity.
_TRIGGERS: Final = {
    "service_bus_queue_trigger": ("queue_name",),
    "service_bus_topic_trigger": ("topic_name", "subscription_name"),
}


class Entity(NamedTuple):
    """A queue of the bus, or a subscription with its topic."""

    name: str
    topic: str = ""

    def __str__(self) -> str:
        """Return its words in a finding and in a table."""
        return f"subscription {self.topic}/{self.name}" if self.topic else f"bus queue {self.name}"


def listened(root: Path) -> tuple[Entity, ...]:
    """Return each entity that the base has a trigger for once, by name. A queue's dead letters belong to the queue."""
    found = {one for file in (root / "functions").glob("*.py") for one in _triggers(file)}
    return tuple(sorted(found))


def of_capability(one: Chosen) -> tuple[Entity, ...]:
    """Return the entities that a capability has a trigger for, in the order of its triggers."""
    found = (
        Entity(trigger.subscription or trigger.source, trigger.source if trigger.subscription else "")
        for trigger in one.triggers
        if trigger.listens_on_bus
    )
    return tuple(dict.fromkeys(found))


def document(entities: Sequence[Entity]) -> dict[str, Any]:
    """Return the entities as Bicep wants them."""
    return {
        "queues": [one.name for one in entities if not one.topic],
        "subscriptions": [{"topic": one.topic, "name": one.name} for one in entities if one.topic],
    }


def _triggers(file: Path) -> Iterator[Entity]:
    for node in ast.walk(ast.parse(file.read_text())):
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
            continue
        if names := _TRIGGERS.get(node.func.attr):
            given = {one.arg: one.value for one in node.keywords if one.arg in names}
            if not all(isinstance(one, ast.Constant) for one in given.values()):
                # A trigger of a capability, which says its entities itself.
                continue
            *topic, name = (ast.literal_eval(given[one]) for one in names)
            yield Entity(name.split("/")[0], *topic)
