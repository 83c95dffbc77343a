"""The settings of a person's own code: `own/settings.json`, below the environment and above the defaults of the code.

The file travels with the code. So it holds no secret, and nothing that only the environment can say.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from shared.azure import BUS_CONNECTION, STORAGE_CONNECTION
from shared.capability import CAPABILITIES, Chosen, find_known, line_of, names_of_settings
from shared.errors import SettingsError
from shared.names import RETIRED, find_switched, misspelt, unread
from shared.settings import NAMES, SETTINGS

#: Where the file is, below the folder of the app.
FILE: Final = "own/settings.json"
#: Lists. The deployment may add words of its own.
_LISTS: Final = frozenset({CAPABILITIES, "SLUICE_ROOMS"})
_HOSTS: Final = "the host reads it from the environment alone: give it by `settings` of own/infra/parameters.json"
#: Names that have no place in the file, and what to do instead.
_ELSEWHERE: Final[Mapping[str, str]] = {
    "SLUICE_TICK_SCHEDULE": "the host reads it from the environment alone: give it by `tickSchedule` of own/infra/parameters.json",
    "SLUICE_WARM_SITE": "the deployment knows it: `azd env set HAS_WARMING true`",
    "SLUICE_WARM_IDENTITY": "the deployment knows it: `azd env set HAS_WARMING true`",
}
#: Settings that decide over entities, functions or polls: in Azure the deployment decides, for it made them.
_DEPLOYED: Final = {CAPABILITIES, "SLUICE_WORK_QUEUES", "SLUICE_ROOMS", "SLUICE_DEQUEUE"}
_OF_HOST: Final = ("AzureFunctionsJobHost__", "AzureWebJobs", "FUNCTIONS_", "PYTHON", "WEBSITE_")
_CONNECTIONS: Final = (STORAGE_CONNECTION, BUS_CONNECTION, "AzureWebJobsStorage", "APPLICATIONINSIGHTS_")
#: What the text of a connection or of a signed address has in it.
_SECRET: Final = ("accountkey=", "sharedaccesskey=", "sharedaccesssignature=", "sig=")


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
    #: Those of the file that the deployment does not know yet.
    undeployed: Mapping[str, Override]


def read_own(folder: Path, environ: Mapping[str, str]) -> dict[str, str]:
    """Return the settings of the file below a folder, or none without a file. Raise one error with every fault in it.

    It may have the settings of each capability that comes with Sluice, or that the file or the environment turns on.
    """
    file = folder / FILE
    if not file.exists():
        return {}
    try:
        found = json.loads(file.read_text(encoding="utf-8"))
    except ValueError as error:
        raise SettingsError(f"{FILE} is not JSON: {error}") from error
    if not isinstance(found, dict):
        raise SettingsError(f"{FILE} is not a settings file: expected an object of names and texts")
    if problems := list(_problems(found, environ)):
        raise SettingsError("; ".join(f"{FILE}: {problem}" for problem in problems))
    return found


def _problems(found: Mapping[str, object], environ: Mapping[str, str]) -> Iterator[str]:
    for name, text in found.items():
        if name.startswith(_CONNECTIONS):
            yield f"{name} is a connection, and the file goes where the code goes: give it by the environment"
        elif name in _ELSEWHERE or name.startswith(_OF_HOST):
            yield f"{name} has no place here: {_ELSEWHERE.get(name, _HOSTS)}"
        elif not isinstance(text, str):
            yield f'{name} is {text!r}, expected a text such as "3"'
        elif any(mark in text.lower() for mark in _SECRET):
            yield f"{name} holds a key or a signature, and the file goes where the code goes: give it by the environment"
    texts = {name: text for name, text in found.items() if isinstance(text, str)}
    known = NAMES | names_of_settings(_capabilities(texts, environ))
    yield from misspelt(found, known)
    yield from find_switched(texts, line_of(texts)).values()
    yield from (
        f"{name} is no setting: {remedy}" for name, remedy in unread(found, known).items() if name not in RETIRED
    )


def _capabilities(own: Mapping[str, str], environ: Mapping[str, str]) -> list[Chosen]:
    """Return those whose settings the file may have. None is imported for a file that has only the base's."""
    return [] if own.keys() <= NAMES else find_known(environ, own)


def list_deployed(capabilities: Iterable[Chosen]) -> set[str]:
    """Return the settings that the deployment decides."""
    counted = (one.capability.counted for one in capabilities)
    return _DEPLOYED | {one.setting for one in counted if one}


def lay(own: Mapping[str, str], environ: Mapping[str, str], *, is_deployed: bool = False) -> Laid:
    """Lay the environment over the settings of the file.

    A value of the environment that is the code's default counts as not given: before 0.3.0 a deployment wrote all of them.
    """
    capabilities = _capabilities(own, environ)
    decided = list_deployed(capabilities)
    settings = (*SETTINGS, *(one for each in capabilities for one in each.capability.settings))
    counts_as_none = {one.name: ("", one.default) for one in settings}
    given = {
        name
        for name in own.keys() & environ.keys()
        if (is_deployed and name in decided) or environ[name].strip() not in counts_as_none.get(name, ("",))
    }
    laid = {**environ, **{name: text for name, text in own.items() if name not in given}}
    overridden = {
        name: Override(own[name], environ[name]) for name in sorted(given) if not _agree(name, own[name], environ[name])
    }
    return Laid(laid, overridden, {name: both for name, both in overridden.items() if name in decided})


def _agree(name: str, file: str, environment: str) -> bool:
    if name not in _LISTS:
        return file.strip() == environment.strip()
    # The deployment may add some, such as those of the parameter `rooms`.
    wanted, there = ({one.strip() for one in text.split(",")} - {""} for text in (file, environment))
    return wanted <= there
