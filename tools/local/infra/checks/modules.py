"""Files that fit each other: what a module is given, what is asked of it, and that everything declared is used."""

import re
from collections.abc import Iterator

from shared.capability import builtin_names
from tools.local.infra.bicep import Template
from tools.local.infra.finding import Finding
from tools.local.infra.project import CONSOLE, Project, with_rooms


def check(project: Project) -> Iterator[Finding]:
    """Yield names that lead nowhere. The evaluation raises the first, and the others are found by reading."""
    everything = project.deployed(
        isStorageLogged=True,
        alertEmail="a@b.example",
        rooms=with_rooms(),
        isStoragePrivate=True,
        hasWarming=True,
        hasWorkbook=True,
        capabilities=",".join(builtin_names()),
        consoleClientId=CONSOLE,
    )
    used = {template.path for template in everything.templates.values()}
    for file in project.bicep_files():
        if file.resolve() not in used:
            yield Finding(file.name, "is a module that nothing deploys")
    for template in everything.templates.values():
        yield from _unused(template)
        yield from _perhaps_absent(template)


def _unused(template: Template) -> Iterator[Finding]:
    text = template.source.decode()
    for name in (*template.parameters, *template.variables):
        # Once where it is declared.
        if len(re.findall(rf"\b{name}\b", text)) < 2:
            yield Finding(template.path.name, f"{name} is declared and used by nothing")


def _perhaps_absent(template: Template) -> Iterator[Finding]:
    """Yield outputs of a conditional module that are read without `!`: Bicep warns of each, however it is guarded."""
    text = template.source.decode()
    for name, declared in template.modules.items():
        if declared.body.type == "if_statement" and re.search(rf"\b{name}\.outputs\b", text):
            yield Finding(
                f"{template.path.name}:{declared.line}", f"{name} may be absent: write {name}!.outputs (BCP318)"
            )
