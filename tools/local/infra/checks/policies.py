"""Checkov's findings on the Bicep files. infra/.checkov.yaml has the skipped checks, with reasons."""

import re
from collections.abc import Iterator
from typing import Final

from tools.local.errors import SetupError
from tools.local.infra import checkov
from tools.local.infra.finding import Finding
from tools.local.infra.project import Project

_SKIP: Final = re.compile(r"^  - CKV_\w+(?: # (\S.*))?$")


def check(project: Project) -> Iterator[Finding]:
    """Yield its findings. A file that it cannot parse is one, and would otherwise pass in silence."""
    yield from unreasoned(project)
    try:
        said = checkov.look(project.infra)
    except SetupError as error:
        yield Finding("infra", f"checkov could not be installed or run, so it was not asked: {error}", is_skip=True)
        return
    if said["summary"]["parsing_errors"]:
        yield Finding("infra", f"checkov cannot parse {', '.join(said['results']['parsing_errors'])}")
    for failed in said["results"]["failed_checks"]:
        where = f"{failed['file_path'].rpartition('/')[2]}:{failed['file_line_range'][0]}"
        yield Finding(where, f"{failed['check_id']}: {failed['check_name']}")


def unreasoned(project: Project) -> Iterator[Finding]:
    """Yield what checkov is not asked without saying why."""
    for line in project.text("infra", ".checkov.yaml").splitlines():
        if line.startswith("  - ") and not ((match := _SKIP.match(line)) and match[1]):
            yield Finding("infra/.checkov.yaml", f"{line.strip(' -')} is skipped without a reason")
