"""The throw-away installation of a proof, as its steps know it."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tools.local.prove.shell import ProblemError, Shell


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer to one question of docs/appendix/unproven.md."""

    question: str
    command: str
    found: str
    #: None: it says something, and neither right nor wrong.
    is_right: bool | None


@dataclass(slots=True)
class Site:
    """Its place, the way to it, and all that was learnt of it."""

    name: str
    region: str
    shell: Shell
    #: Where azd keeps its environments.
    kept: Path
    scratch: Path
    #: Seconds from one question to the same one again, where Azure needs minutes.
    pause: float
    #: The values that azd keeps: addresses, and the names of the resources.
    values: dict[str, str] = field(default_factory=dict)
    versions: dict[str, str] = field(default_factory=dict)
    answers: list[Answer] = field(default_factory=list)
    #: azd's own settings of before: a new environment becomes the one that it takes by default.
    azd_settings: bytes | None = None

    @property
    def group(self) -> str:
        """The resource group, named as infra/main.bicep names it."""
        return f"rg-{self.name}"

    def az(self, *words: str, minutes: float = 5) -> Any:
        """Return the JSON that az answers with."""
        text = self.shell.demand("az", *words, "--output", "json", minutes=minutes)
        return parsed(text, f"az {' '.join(words[:3])}")

    def azd(self, *words: str, minutes: float = 5) -> str:
        """Return the output of azd about this environment."""
        return self.shell.demand("azd", *words, "--environment", self.name, "--no-prompt", minutes=minutes)

    def resource(self, kind: str, beginning: str = "") -> str:
        """Return the id of the one resource of a kind in the group."""
        found = [
            one["id"]
            for one in self.az("resource", "list", "--resource-group", self.group, "--resource-type", kind)
            if one["name"].startswith(beginning)
        ]
        if len(found) != 1:
            raise ProblemError(f"{self.group} has {len(found)} resources of {kind}, expected one")
        return str(found[0])


def parsed(text: str, who: str) -> Any:
    """Return a program's JSON."""
    try:
        return json.loads(text or "null")
    except ValueError as error:
        raise ProblemError(f"`{who}` printed no JSON: {text[:200]!r}") from error


def strings(found: Mapping[str, Any]) -> dict[str, str]:
    """Return the values that are texts and not empty."""
    return {name: text for name, text in found.items() if isinstance(text, str) and text}
