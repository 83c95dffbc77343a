"""`python -m tools.local.infra`: every check of the deployed resources. `make check` runs it."""

import sys

from tools.local.infra.checks import CHECKS, findings
from tools.local.infra.project import Project


def main(project: Project) -> int:
    """Print the findings, one line each. Skips are printed and are no failure."""
    found = findings(project)
    for finding in found:
        print(finding)
    wrong = [finding for finding in found if not finding.is_skip]
    print(f"infra: {len(CHECKS)} checks, {len(wrong)} findings")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(Project()))
