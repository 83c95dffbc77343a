"""Rules for every resource: no keys, no public data, no secret that leaves, no age rule."""

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from tools.local.infra.deployment import Deployment
from tools.local.infra.finding import Finding
from tools.local.infra.project import Project, at, with_rooms
from tools.local.infra.resource import Resource

#: By type: the path of a property and the one value that it may have.
REQUIRED: Final[Mapping[str, Mapping[str, Any]]] = {
    "Microsoft.Storage/storageAccounts": {
        "networkAcls.bypass": "AzureServices",
        "allowBlobPublicAccess": False,
        "allowSharedKeyAccess": False,
        "allowCrossTenantReplication": False,
        "defaultToOAuthAuthentication": True,
        "minimumTlsVersion": "TLS1_2",
        "supportsHttpsTrafficOnly": True,
    },
    "Microsoft.Storage/storageAccounts/blobServices/containers": {"publicAccess": "None"},
    "Microsoft.ServiceBus/namespaces": {"disableLocalAuth": True, "minimumTlsVersion": "1.2"},
    "Microsoft.Insights/components": {"DisableLocalAuth": True},
    "Microsoft.OperationalInsights/workspaces": {"features.disableLocalAuth": True},
    "Microsoft.Web/sites": {
        "httpsOnly": True,
        "siteConfig.minTlsVersion": "1.2",
        "functionAppConfig.deployment.storage.authentication.type": "UserAssignedIdentity",
    },
    "Microsoft.Web/sites/basicPublishingCredentialsPolicies": {"allow": False},
}
#: None of these: keys that pass identity by, and rules that delete by age what a held or parked job needs.
FORBIDDEN_TYPES: Final[Mapping[str, str]] = {
    "Microsoft.Storage/storageAccounts/managementPolicies": "deletes by age: a held or a parked job may be old",
    "Microsoft.Storage/storageAccounts/localUsers": "opens the account beside Entra",
    "Microsoft.ServiceBus/namespaces/AuthorizationRules": "is a shared key",
    "Microsoft.ServiceBus/namespaces/queues/authorizationRules": "is a shared key",
    "Microsoft.ServiceBus/namespaces/topics/authorizationRules": "is a shared key",
}
FORBIDDEN_WORDS: Final = re.compile(
    r"\b(listKeys|listAccountSas|listServiceSas|listConnectionStrings)\b|AccountKey=|SharedAccessKey=|\bsig="
)
_SECRET_NAME: Final = re.compile(r"key|secret|password|connection_?string|token$", re.IGNORECASE)
#: What Azure takes as a name, by type.
NAMES: Final[Mapping[str, str]] = {
    "Microsoft.Storage/storageAccounts": r"[a-z0-9]{3,24}",
    "Microsoft.Storage/storageAccounts/queueServices/queues": r"(?!.*--)[a-z0-9][a-z0-9-]{1,61}[a-z0-9]",
    "Microsoft.Storage/storageAccounts/blobServices/containers": r"(?!.*--)[a-z0-9][a-z0-9-]{1,61}[a-z0-9]",
    "Microsoft.Storage/storageAccounts/tableServices/tables": r"[A-Za-z][A-Za-z0-9]{2,62}",
    "Microsoft.ServiceBus/namespaces": r"[A-Za-z][A-Za-z0-9-]{4,48}[A-Za-z0-9]",
    "Microsoft.ServiceBus/namespaces/topics/subscriptions": r"[\w.-]{1,50}",
    "Microsoft.Web/sites": r"[A-Za-z0-9-]{2,60}",
}


def check(project: Project) -> Iterator[Finding]:
    """Yield each property that opens a door."""
    for file in project.bicep_files():
        for number, line in enumerate(file.read_text().splitlines(), 1):
            if found := FORBIDDEN_WORDS.search(line):
                yield Finding(f"{file.name}:{number}", f"{found[0]}: use roles, no key leaves its resource")
    # Everything that can be switched on is on.
    deployment = project.deployed(
        isStorageLogged=True, isStoragePrivate=True, alertEmail="a@b.example", rooms=with_rooms()
    )
    for resource in deployment.resources:
        yield from _required(resource)
        yield from _named(resource)
    yield from _outputs(deployment)


def _required(resource: Resource) -> Iterator[Finding]:
    if resource.type in FORBIDDEN_TYPES:
        yield Finding(resource.where, f"{resource.type}: {FORBIDDEN_TYPES[resource.type]}; leave it out")
    for path, wanted in REQUIRED.get(resource.type, {}).items():
        if (found := at(resource.properties, path)) != wanted:
            yield Finding(resource.where, f"{path} of {resource.name} is {found!r}, expected {wanted!r}")


def _named(resource: Resource) -> Iterator[Finding]:
    pattern = NAMES.get(resource.type)
    if pattern and not re.fullmatch(pattern, resource.last_name):
        yield Finding(resource.where, f"{resource.type} cannot be called {resource.last_name!r}: expected {pattern}")


def _outputs(deployment: Deployment) -> Iterator[Finding]:
    for name, value in deployment.outputs.items():
        if _SECRET_NAME.search(name) or _SECRET_NAME.search(str(value)):
            yield Finding("main.bicep", f"output {name} may be a secret: outputs are written into files as they are")
