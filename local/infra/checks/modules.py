"""Files that fit each other: what a module is given, what is asked of it, and that everything declared is used."""

import re
from collections.abc import Iterator

from local.infra.bicep import Template
from local.infra.finding import Finding
from local.infra.project import Project, with_rooms


def check(project: Project) -> Iterator[Finding]:
    """Yield names that lead nowhere. The evaluation raises the first, and the others are found by reading."""
    everything = project.deployed(isStorageLogged=True, alertEmail="a@b.example", rooms=with_rooms(), hasWarming=True)
    used = {template.path for template in everything.templates.values()}
    for file in project.bicep_files():
        if file.resolve() not in used:
            yield Finding(file.name, "is a module that nothing deploys")
    for template in everything.templates.values():
        yield from _unused(template)


def _unused(template: Template) -> Iterator[Finding]:
    text = template.source.decode()
    for name in (*template.parameters, *template.variables):
        # Once where it is declared.
        if len(re.findall(rf"\b{name}\b", text)) < 2:
            yield Finding(template.path.name, f"{name} is declared and used by nothing")
