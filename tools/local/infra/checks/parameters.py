"""Parameters: described, bounded, given where they must be, and known where they are given."""

import re
from collections.abc import Iterator
from typing import Any, Final

from tools.local.infra.bicep import Parameter, Template, read
from tools.local.infra.finding import Finding
from tools.local.infra.project import Project, both_ways

FILE: Final = "infra/main.parameters.json"
_ENVIRONMENT: Final = re.compile(r"\$\{([A-Z][A-Z0-9_]*)(?:=([^}]*))?\}")


def check(project: Project) -> Iterator[Finding]:
    """Yield parameters that a person could not use."""
    main = read(project.main)
    for file in project.bicep_files():
        template = read(file)
        for one in template.parameters.values():
            yield from _described(template, one)
    given = project.json(FILE)["parameters"]
    missing, _ = both_ways((name for name, one in main.parameters.items() if one.default is None), given)
    for name in missing:
        yield Finding(FILE, f"parameter {name} has no default and is not given")
    for name in sorted(given.keys() - main.parameters.keys()):
        yield Finding(FILE, f"main.bicep has no parameter {name}")
    for name in sorted(given.keys() & main.parameters.keys()):
        yield from _value(main, main.parameters[name], given[name].get("value"))


def _described(template: Template, one: Parameter) -> Iterator[Finding]:
    where = f"{template.path.name}:{one.line}"
    if not one.decorators.get("description"):
        yield Finding(where, f"parameter {one.name} has no @description")
    if one.type == "int" and "allowed" not in one.decorators and not {"minValue", "maxValue"} <= one.decorators.keys():
        yield Finding(where, f"parameter {one.name} is a number without @minValue and @maxValue")


def _value(main: Template, one: Parameter, value: Any) -> Iterator[Finding]:
    if one.type in {"array", "object"} and isinstance(value, list | dict):
        # No environment variable can say it, so the deployer writes it here.
        return
    match = _ENVIRONMENT.fullmatch(value) if isinstance(value, str) else None
    if match is None:
        yield Finding(FILE, f"{one.name} is {value!r}, expected ${{NAME}} or ${{NAME=default}}")
        return
    default = default_of(main, one)
    if default is not None and match[2] is not None and match[2] != default:
        yield Finding(FILE, f"the default of {one.name} is {match[2]!r}, main.bicep says {default!r}")


def default_of(template: Template, one: Parameter) -> str | None:
    """Return a parameter's default as written, without quotes."""
    return None if one.default is None else template.text(one.default).strip("'")


def environment_of(project: Project) -> dict[str, str]:
    """Return the environment variable of each parameter that has one."""
    given = project.json(FILE)["parameters"]
    found = {name: _ENVIRONMENT.fullmatch(str(one.get("value"))) for name, one in given.items()}
    return {name: match[1] for name, match in found.items() if match}
