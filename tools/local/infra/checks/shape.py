"""The shape of a resource: kind, region, tags, and the resource that it belongs to."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from tools.local.infra.deployment import Deployment
from tools.local.infra.finding import Finding
from tools.local.infra.project import Project, at, with_rooms
from tools.local.infra.resource import Resource

#: Resources with a region and tags of their own; azd finds what it made by the tag.
TAGGED: Final = frozenset(
    {
        "Microsoft.Insights/components",
        "Microsoft.Insights/scheduledQueryRules",
        "Microsoft.Insights/actionGroups",
        "Microsoft.Insights/workbooks",
        "Microsoft.ManagedIdentity/userAssignedIdentities",
        "Microsoft.OperationalInsights/workspaces",
        "Microsoft.Resources/resourceGroups",
        "Microsoft.ServiceBus/namespaces",
        "Microsoft.Storage/storageAccounts",
        "Microsoft.Web/serverfarms",
        "Microsoft.Web/sites",
    }
)
#: By type: the path of a value and the one that makes this app what docs/deploy.md says.
WANTED: Final[Mapping[str, Mapping[str, Any]]] = {
    "Microsoft.Insights/components": {"kind": "web", "properties.Application_Type": "web"},
    # mspnp/aks-baseline #422; a rule over a table that did not resolve was refused (learntocloud/learn-to-cloud-app #586,
    # 2026-06-30).
    "Microsoft.Insights/scheduledQueryRules": {"properties.skipQueryValidation": True},
    "Microsoft.ServiceBus/namespaces": {"sku.tier": "Standard"},
    "Microsoft.Storage/storageAccounts": {
        "kind": "StorageV2",
        "properties.accessTier": "Hot",
        "properties.networkAcls.defaultAction": "Allow",
    },
    "Microsoft.Web/serverfarms": {
        "kind": "functionapp",
        "sku.tier": "FlexConsumption",
        "properties.reserved": True,
    },
    "Microsoft.Web/sites": {
        "kind": "functionapp,linux",
        "identity.type": "UserAssigned",
        "properties.functionAppConfig.deployment.storage.type": "blobContainer",
        "properties.siteConfig.http20Enabled": True,
        # Flex Consumption refuses it on newer stamps (Azure/terraform-azurerm-avm-res-web-site #360, 2026-08-28).
        "properties.siteConfig.ftpsState": None,
        "properties.functionAppConfig.scaleAndConcurrency.instanceMemoryMB": 2048,
        "properties.functionAppConfig.scaleAndConcurrency.maximumInstanceCount": 100,
        "properties.functionAppConfig.scaleAndConcurrency.triggers.http.perInstanceConcurrency": 16,
    },
}
#: By type: the path of the property that names another resource, and the type of that one.
BELONGS: Final[Mapping[str, Mapping[str, str]]] = {
    "Microsoft.Insights/components": {"properties.WorkspaceResourceId": "Microsoft.OperationalInsights/workspaces"},
    "Microsoft.Insights/diagnosticSettings": {"properties.workspaceId": "Microsoft.OperationalInsights/workspaces"},
    "Microsoft.Web/sites": {
        "properties.serverFarmId": "Microsoft.Web/serverfarms",
        "properties.functionAppConfig.deployment.storage.authentication.userAssignedIdentityResourceId": (
            "Microsoft.ManagedIdentity/userAssignedIdentities"
        ),
    },
}
_LOGGED: Final = "Microsoft.Insights/diagnosticSettings"


def check(project: Project) -> Iterator[Finding]:
    """Yield resources that are not what they should be, or not where."""
    deployment = project.deployed(isStorageLogged=True, hasWorkbook=True, alertEmail="a@b.example", rooms=with_rooms())
    there = {one.id for one in deployment.resources}
    for one in deployment.resources:
        if one.type in TAGGED and (one.body.get("tags") or {}).get("azd-env-name") != "check":
            yield Finding(one.where, f"{one.name} has no tag azd-env-name: azd would not find it")
        if one.type in TAGGED and "location" not in one.body:
            yield Finding(one.where, f"{one.name} has no location")
        for path, wanted in WANTED.get(one.type, {}).items():
            if (found := at(one.body, path)) != wanted:
                yield Finding(one.where, f"{path} of {one.name} is {found!r}, expected {wanted!r}")
        for path, kind in BELONGS.get(one.type, {}).items():
            named = str(at(one.body, path))
            if named not in there or not named.startswith(f"{kind}:"):
                yield Finding(one.where, f"{path} of {one.name} is {named}, which is no {kind} that is deployed")
    yield from _versions(deployment)
    yield from _logs(project, deployment)


def _versions(deployment: Deployment) -> Iterator[Finding]:
    versions: dict[str, str] = {}
    for one in deployment.resources:
        of_parent = versions.setdefault("/".join(one.type.split("/")[:2]), one.version)
        if one.version != of_parent:
            yield Finding(one.where, f"{one.type} has version {one.version}, its parent {of_parent}")


def _logs(project: Project, deployment: Deployment) -> Iterator[Finding]:
    for one in deployment.of_type(_LOGGED):
        if not one.scope or not _enabled(one):
            yield Finding(one.where, f"the diagnostic setting {one.name} logs nothing")
    usual = [one for one in project.deployed().of_type(_LOGGED) if "Storage" in one.scope]
    if usual:
        yield Finding(usual[0].where, "storage requests are logged although no parameter wants it: a line costs more")


def _enabled(one: Resource) -> bool:
    return any(log.get("enabled") for log in one.properties.get("logs", []))
