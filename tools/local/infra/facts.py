"""Facts about Azure that a deployment depends on. Each has a dated source, the check that holds infra/ to it, and a mistake.

`tests/infra/test_checks.py` makes the mistake, and the check finds it. None of them was tried on Azure.
"""

from typing import Final, NamedTuple


class Fact(NamedTuple):
    """One fact: its words, the source with its date, the check, and the mistake that turns the check red."""

    says: str
    source: str
    check: str
    mistake: str


FACTS: Final = (
    Fact(
        "a log rule on a workspace that is seconds old is refused, unless it skips the validation of its query",
        "learntocloud/learn-to-cloud-app #586, 2026-06-30; mspnp/aks-baseline #422",
        "shape",
        "an alert whose query a new workspace does not know",
    ),
    Fact(
        "Flex Consumption refuses `siteConfig.ftpsState`",
        "Azure/terraform-azurerm-avm-res-web-site #360, 2026-08-28",
        "shape",
        "a property that Flex Consumption refuses",
    ),
    Fact(
        "`functionAppConfig` takes the place of some app settings, such as `FUNCTIONS_WORKER_RUNTIME`",
        "azure-functions-doctor 0.23.1, which cites learn.microsoft.com, read in November 2026",
        "app settings",
        "a setting that Flex Consumption refuses",
    ),
    Fact(
        "a remote build takes another Python than the app's",
        "Azure/azure-dev #8538, 2026-06-05",
        "azd",
        "a build by another Python",
    ),
    Fact(
        "azd asks `remoteBuild` on Flex Consumption from 1.23.5 on, and uploads the folder `dist`",
        "Azure/azure-dev PR 6748 of 2026-02-13; framework_service_python.go, read 2026-11-27",
        "azd",
        "an upload of the sources",
    ),
    Fact(
        "azd ends at a hook that has no command for its system",
        "Azure/azure-dev, hooks_manager.go, read 2026-11-27",
        "azd",
        "a hook without a command on Windows",
    ),
    Fact(
        "Flex Consumption joins a subnet that is delegated to `Microsoft.App/environments`",
        "Azure-Samples/serverless-chat-langchainjs, infra/app/vnet.bicep, read 2026-11-27",
        "network",
        "a subnet for another plan",
    ),
    Fact(
        "rolling updates drain instances; without them an update ends what runs",
        "learn.microsoft.com, flex-consumption-site-updates of 2025-12-04, read 2026-11-27",
        "scaling",
        "updates that end what runs",
    ),
    Fact(
        "Storage Blob Data Contributor may delete the container",
        "learn.microsoft.com, overview of Azure RBAC for data, action containers/delete, read 2026-11-27",
        "roles",
        "publishers with a role that is not the chosen one",
    ),
    Fact(
        "`tables/entities/add/action` allows to insert a row, and neither to replace nor to delete one",
        "learn.microsoft.com, authorize with Microsoft Entra ID (REST), permissions for table operations, read 2026-11-27",
        "roles",
        "operators who may change the audit",
    ),
    Fact(
        "a second assignment of a role to the same principal fails the deployment",
        "Azure/azure-dev, error RoleAssignmentExists, release 1.23.13 of 2026-03-26",
        "roles",
        "an operator who is listed twice",
    ),
    Fact(
        "blob versions pile up until a rule removes them by age",
        "learn.microsoft.com, soft-delete-blob-overview, read 2026-11-27",
        "keeping",
        "versions of blobs that are overwritten all the time",
    ),
)
