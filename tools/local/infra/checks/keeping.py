"""Protection of the app's account: its copies, soft delete, and a lock. Each as its parameter says, and no more."""

from collections.abc import Iterator
from typing import Final

from shared.usage import load
from tools.local.infra.bicep import read
from tools.local.infra.costs import app_account
from tools.local.infra.deployment import Deployment
from tools.local.infra.finding import Finding
from tools.local.infra.project import Project, at
from tools.local.infra.resource import Resource

_LOCKS: Final = "Microsoft.Authorization/locks"
_SERVICES: Final = "Microsoft.Storage/storageAccounts/blobServices"
#: Each parameter of soft delete, with the property that it sets.
POLICIES: Final = {
    "blobSoftDeleteDays": "deleteRetentionPolicy",
    "containerSoftDeleteDays": "containerDeleteRetentionPolicy",
}
DAYS: Final = 9


def check(project: Project) -> Iterator[Finding]:
    """Yield a parameter that does not do what it says, and what is kept although no parameter wants it."""
    yield from _copied(project)
    yield from _restored(project)
    yield from _locked(project)


def _copied(project: Project) -> Iterator[Finding]:
    said = read(project.main).parameters["storageRedundancy"].decorators["allowed"]
    named = [one.strip("' ") for one in said.strip("[]").split(",")]
    for name in named:
        found = app_account(project.deployed(storageRedundancy=name))
        if found.body["sku"]["name"] != name:
            yield Finding(found.where, f"the sku is {found.body['sku']['name']}, although storageRedundancy is {name}")
    for name in sorted(set(named) ^ load().redundancy.keys()):
        yield Finding(
            "shared/usage/prices.json", f"redundancy {name} is chosen without a price, or priced without a choice"
        )


def _restored(project: Project) -> Iterator[Finding]:
    for parameter, name in POLICIES.items():
        for days, wanted in ((0, {"enabled": False}), (DAYS, {"enabled": True, "days": DAYS})):
            service = _service(project.deployed(**{parameter: days}))
            if (found := at(service.properties, name)) != wanted:
                yield Finding(service.where, f"with {parameter} {days} {name} is {found}, expected {wanted}")
    if _service(project.deployed()).properties.get("isVersioningEnabled") is not False:
        # Each write makes one, and a rule by age is the one remedy (learn.microsoft.com, soft-delete-blob-overview,
        # read 2026-11-27). security.py refuses such a rule.
        yield Finding("app-storage.bicep", "blobs have versions, which pile up: no rule deletes by age")


def _locked(project: Project) -> Iterator[Finding]:
    if usual := project.deployed().of_type(_LOCKS):
        yield Finding(usual[0].where, "a lock is made although no parameter wants it: `azd down` would be refused")
    deployment = project.deployed(isStorageLocked=True)
    account = app_account(deployment).id
    # ReadOnly would refuse the next deployment, and the roles of the publishers with it.
    found = [(one.scope, one.properties["level"]) for one in deployment.of_type(_LOCKS)]
    if found != [(account, "CanNotDelete")]:
        yield Finding("app-storage.bicep", f"the locks are {found}, expected CanNotDelete on {account}")


def _service(deployment: Deployment) -> Resource:
    account = app_account(deployment)
    return next(one for one in deployment.of_type(_SERVICES) if one.name.startswith(f"{account.name}/"))
