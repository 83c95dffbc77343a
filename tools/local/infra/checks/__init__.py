"""One module per question. Each has `check`, which yields the findings."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final

from tools.local.infra.bicep import BicepError
from tools.local.infra.checks import (
    alerts,
    app_settings,
    automation,
    azd,
    compiled,
    console,
    entities,
    keeping,
    modules,
    network,
    own,
    parameters,
    policies,
    roles,
    scaling,
    security,
    shape,
    upload,
    workbook,
)
from tools.local.infra.finding import Finding
from tools.local.infra.project import Project

CHECKS: Final[Mapping[str, Callable[[Project], Iterator[Finding]]]] = {
    "compiled": compiled.check,
    "policies": policies.check,
    "modules": modules.check,
    "entities": entities.check,
    "shape": shape.check,
    "security": security.check,
    "keeping": keeping.check,
    "network": network.check,
    "roles": roles.check,
    "app settings": app_settings.check,
    "console": console.check,
    "parameters": parameters.check,
    "own": own.check,
    "scaling": scaling.check,
    "alerts": alerts.check,
    "workbook": workbook.check,
    "azd": azd.check,
    "package": upload.check,
    "automation": automation.check,
}


def findings(project: Project, named: Iterable[str] = tuple(CHECKS)) -> list[Finding]:
    """Return the findings of all checks. A check that fails does not stop the others."""
    found: list[Finding] = []
    for name in named:
        try:
            found += CHECKS[name](project)
        except BicepError as error:
            found.append(Finding("infra", str(error)))
        except (LookupError, TypeError, AttributeError, ValueError) as error:
            # A file that a check cannot read is wrong in any case.
            found.append(Finding("infra", f"the check of {name} stumbled: {type(error).__name__}: {error}"))
    return list(dict.fromkeys(found))
