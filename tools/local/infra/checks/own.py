"""A person's own folder: settings that the app reads, packages that fit, and parameters that main.bicep has."""

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from shared.capability import find_known
from shared.errors import SettingsError
from shared.grammar import MOST_ROOMS
from shared.own import FILE as SETTINGS, list_deployed, read_own
from tools.local.infra.bicep import Template, named, read
from tools.local.infra.checks.parameters import environment_of
from tools.local.infra.finding import Finding
from tools.local.infra.project import OWN_PARAMETERS, Project, both_ways

REQUIREMENTS: Final = "own/requirements.txt"
#: Two engines in one process would have two classes of each name.
_OURS: Final = re.compile(r"^\s*sluice\s*(?![\w.-])", re.IGNORECASE | re.MULTILINE)
_KINDS: Final[Mapping[str, type]] = {"array": list, "object": dict, "string": str, "bool": bool, "int": int}


def check(project: Project) -> Iterator[Finding]:
    """Yield what is wrong in the folder, and a parameter that main.bicep does not take from it."""
    try:
        read_own(project.root, {})
    except SettingsError as error:
        yield Finding(SETTINGS, str(error))
    if _OURS.search(project.text(REQUIREMENTS)):
        yield Finding(REQUIREMENTS, "names sluice, which is in this project already: remove the line")
    main = read(project.main)
    possible = set(_joined(main, "given"))
    for name in sorted(main.parameters.keys() - environment_of(project).keys() - possible):
        yield Finding("main.bicep", f"parameter {name} has no azd variable: take it from {OWN_PARAMETERS} by `given`")
    missing, extra = both_ways(list_deployed(find_known()), _joined(main, "decided"))
    for name in missing:
        yield Finding("main.bicep", f"setting {name} decides over entities: take it from {SETTINGS} by `decided`")
    for name in extra:
        yield Finding("main.bicep", f"`decided` has {name}, which decides over no entities (shared/own.py)")
    yield from _parameters(project, main, possible)


def _joined(main: Template, name: str) -> list[str]:
    """Return the names of an object that a file of the person's is joined with."""
    call = main.variables[name]
    joined = next(named(list(named(call))[1]))
    return [main.text(next(named(part))) for part in named(joined)]


def _parameters(project: Project, main: Template, possible: set[str]) -> Iterator[Finding]:
    given: dict[str, Any] = project.json(OWN_PARAMETERS)
    for name in sorted(given.keys() - possible):
        yield Finding(
            OWN_PARAMETERS, f"{name} is no parameter for this file; possible are {', '.join(sorted(possible))}"
        )
    for name in sorted(given.keys() & possible):
        kind = main.parameters[name].type
        if not isinstance(given[name], _KINDS[kind]):
            yield Finding(OWN_PARAMETERS, f"{name} is {given[name]!r}, expected a value of the type {kind}")
    if len(given.get("rooms", ())) > MOST_ROOMS:
        yield Finding(OWN_PARAMETERS, f"rooms has {len(given['rooms'])} rooms, expected at most {MOST_ROOMS}")
