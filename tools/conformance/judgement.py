"""Observations of a service, and the findings that follow from them. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from threading import Lock

from tools.conformance.properties import PROPERTIES, Property


class State(StrEnum):
    """The result of a property's checks."""

    HOLDS = "holds"
    BROKEN = "does not hold"
    UNCHECKED = "could not be checked"


@dataclass(frozen=True, slots=True)
class Observation:
    """One try at a property: what should have come, and what came."""

    key: str
    tried: str
    expected: str
    found: str


@dataclass(frozen=True, slots=True)
class Finding:
    """A property and what a run found out about it."""

    property: Property
    state: State
    #: The first try that went otherwise: its three texts. Empty without one.
    tried: str = ""
    expected: str = ""
    found: str = ""
    #: Why it could not be checked.
    why: str = ""


class Notebook:
    """Observations and obstacles of one run. Checks on several threads write it."""

    def __init__(self) -> None:
        self._lock = Lock()
        self.observations: list[Observation] = []
        #: Why properties could not be checked, by their keys.
        self.obstacles: dict[str, str] = {}

    def note(self, key: str, tried: str, expected: object, found: object) -> None:
        """Keep one observation."""
        with self._lock:
            self.observations.append(Observation(key, tried, str(expected), str(found)))

    def block(self, keys: Iterable[str], why: str) -> None:
        """Keep the reason why properties could not be checked to the end."""
        with self._lock:
            self.obstacles.update(dict.fromkeys(keys, why))


def judge(
    keys: Iterable[str], observations: Sequence[Observation], obstacles: Mapping[str, str], otherwise: str
) -> list[Finding]:
    """Return a finding for each property. `otherwise`: why nothing was observed.

    One try that went otherwise is enough. An obstacle after tries that went well leaves the property unchecked, because
    the obstacle stood in the way of the rest.
    """
    return [_judge(PROPERTIES[key], observations, obstacles.get(key, ""), otherwise) for key in keys]


def _judge(one: Property, observations: Sequence[Observation], obstacle: str, otherwise: str) -> Finding:
    tries = [each for each in observations if each.key == one.key]
    wrong = next((each for each in tries if each.expected != each.found), None)
    if wrong is not None:
        return Finding(one, State.BROKEN, wrong.tried, wrong.expected, wrong.found)
    if obstacle or not tries:
        return Finding(one, State.UNCHECKED, why=obstacle or otherwise)
    return Finding(one, State.HOLDS)


def at_least(found: int, wanted: int) -> str:
    """Return the text of a number that may be higher than wanted."""
    return f"{wanted} or more" if found >= wanted else str(found)
