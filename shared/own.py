"""The settings of a person's own code: `own/settings.json`, below the environment and above the defaults of the code.

The file travels with the code. So it holds no secret, and nothing that only the environment can say.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from shared.azure import BUS_CONNECTION, STORAGE_CONNECTION
from shared.errors import SettingsError
from shared.names import RETIRED, misspelt, unread
from shared.settings import NAMES, SETTINGS

#: Where the file is, below the folder of the app.
FILE: Final = "own/settings.json"
#: Settings that decide over entities, functions or polls: in Azure the deployment decides, for it made them.
DEPLOYED: Final = frozenset(
    {"SLUICE_WORK_QUEUES", "SLUICE_ROOMS", "SLUICE_DEQUEUE", "SLUICE_REGISTRATION", "SLUICE_SEAT_LANES"}
)
_ROOMS: Final = "SLUICE_ROOMS"
_HOSTS: Final = "the host reads it from the environment alone: give it by `settings` of own/infra/parameters.json"
#: Names that have no place in the file, and what to do instead.
_ELSEWHERE: Final[Mapping[str, str]] = {
    "SLUICE_TICK_SCHEDULE": "the host reads it from the environment alone: give it by `tickSchedule` of own/infra/parameters.json",
    "SLUICE_CONSOLE": "it follows from the login of Azure: `azd env set CONSOLE_CLIENT_ID ID`",
    "SLUICE_WARM_SITE": "the deployment knows it: `azd env set HAS_WARMING true`",
    "SLUICE_WARM_IDENTITY": "the deployment knows it: `azd env set HAS_WARMING true`",
}
_OF_HOST: Final = ("AzureFunctionsJobHost__", "AzureWebJobs", "FUNCTIONS_", "PYTHON", "WEBSITE_")
_CONNECTIONS: Final = (STORAGE_CONNECTION, BUS_CONNECTION, "AzureWebJobsStorage", "APPLICATIONINSIGHTS_")
#: What the text of a connection or of a signed address has in it.
_SECRET: Final = ("accountkey=", "sharedaccesskey=", "sharedaccesssignature=", "sig=")
_DEFAULTS: Final = {one.name: one.default for one in SETTINGS}


@dataclass(frozen=True, slots=True)
class Override:
    """A setting of the file that the environment overrides: both values."""

    file: str
    environment: str


@dataclass(frozen=True, slots=True)
class Laid:
    """The environment over the file."""

    settings: Mapping[str, str]
    overridden: Mapping[str, Override]

    @property
    def undeployed(self) -> Mapping[str, Override]:
        """Settings of the file that the deployment does not know yet."""
        return {name: both for name, both in self.overridden.items() if name in DEPLOYED}


def read_own(folder: Path) -> dict[str, str]:
    """Return the settings of the file below a folder, or none without a file. Raise one error with every fault in it."""
    file = folder / FILE
    if not file.exists():
        return {}
    try:
        found = json.loads(file.read_text(encoding="utf-8"))
    except ValueError as error:
        raise SettingsError(f"{FILE} is not JSON: {error}") from error
    if not isinstance(found, dict):
        raise SettingsError(f"{FILE} is not a settings file: expected an object of names and texts")
    if problems := list(_problems(found)):
        raise SettingsError("; ".join(f"{FILE}: {problem}" for problem in problems))
    return found


def _problems(found: Mapping[str, object]) -> Iterator[str]:
    for name, text in found.items():
        if name.startswith(_CONNECTIONS):
            yield f"{name} is a connection, and the file goes where the code goes: give it by the environment"
        elif name in _ELSEWHERE or name.startswith(_OF_HOST):
            yield f"{name} has no place here: {_ELSEWHERE.get(name, _HOSTS)}"
        elif not isinstance(text, str):
            yield f'{name} is {text!r}, expected a text such as "3"'
        elif any(mark in text.lower() for mark in _SECRET):
            yield f"{name} holds a key or a signature, and the file goes where the code goes: give it by the environment"
    yield from misspelt(found, NAMES)
    yield from (
        f"{name} is no setting: {remedy}" for name, remedy in unread(found, NAMES).items() if name not in RETIRED
    )


def lay(own: Mapping[str, str], environ: Mapping[str, str], *, is_deployed: bool = False) -> Laid:
    """Lay the environment over the settings of the file.

    A value of the environment that is the code's default counts as not given: before 0.3.0 a deployment wrote all of them.
    """
    given = {name for name in own if _is_given(name, environ, is_deployed=is_deployed)}
    settings = {**environ, **{name: text for name, text in own.items() if name not in given}}
    overridden = {
        name: Override(own[name], environ[name]) for name in sorted(given) if not _agree(name, own[name], environ[name])
    }
    return Laid(settings, overridden)


def _is_given(name: str, environ: Mapping[str, str], *, is_deployed: bool) -> bool:
    if name not in environ:
        return False
    return (is_deployed and name in DEPLOYED) or environ[name].strip() not in ("", _DEFAULTS.get(name))


def _agree(name: str, file: str, environment: str) -> bool:
    if name != _ROOMS:
        return file.strip() == environment.strip()
    # The parameter `rooms` may add some.
    wanted, there = ({one.strip() for one in text.split(",")} - {""} for text in (file, environment))
    return wanted <= there
