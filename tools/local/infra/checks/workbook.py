"""The workbook: there where it is wanted, on the workspace of the logs, and as the catalogues make it."""

import json
from collections.abc import Iterator
from typing import Final

from tools.local.infra import workbook
from tools.local.infra.finding import Finding
from tools.local.infra.project import Project

_KIND: Final = "Microsoft.Insights/workbooks"
_FILE: Final = "infra/workbook.json"


def check(project: Project) -> Iterator[Finding]:
    """Yield a workbook that no parameter wants, or that shows something else."""
    if project.json(_FILE) != workbook.document():
        yield Finding(_FILE, "is not what the catalogue of metrics and infra/queries make: run `make docs`")
    if usual := project.deployed().of_type(_KIND):
        yield Finding(usual[0].where, "a workbook is made although no parameter wants it")
    deployment = project.deployed(hasWorkbook=True)
    workspaces = [one.id for one in deployment.of_type("Microsoft.OperationalInsights/workspaces")]
    for one in (found := deployment.of_type(_KIND)):
        # A name that is no GUID is refused (learn.microsoft.com, New-AzApplicationInsightsWorkbook; read 2026-11-27).
        if not one.name.startswith("guid-"):
            yield Finding(one.where, f"the workbook is called {one.name}, expected guid(...)")
        if [one.properties.get("sourceId")] != workspaces or one.body.get("kind") != "shared":
            yield Finding(one.where, "the workbook is not shared, or not one of the workspace that has the logs")
        if json.loads(one.properties["serializedData"]) != project.json(_FILE):
            yield Finding(one.where, f"the workbook is not {_FILE}")
    if len(found) != 1:
        yield Finding("monitoring.bicep", f"with hasWorkbook {len(found)} workbooks are made")
