"""The network: none unless a parameter wants it. Then each account that the app reaches has a private address, and no other door."""

from collections.abc import Iterator
from typing import Any, Final

from tools.local.infra.deployment import Deployment
from tools.local.infra.finding import Finding
from tools.local.infra.project import Project, at
from tools.local.infra.resource import Resource

_ACCOUNTS: Final = "Microsoft.Storage/storageAccounts"
_NETWORKS: Final = "Microsoft.Network/virtualNetworks"
_ZONES: Final = "Microsoft.Network/privateDnsZones"
_ENDPOINTS: Final = "Microsoft.Network/privateEndpoints"
#: Flex Consumption joins a subnet that is delegated so, and not to Microsoft.Web/serverFarms as other plans do
#: (github.com/Azure-Samples/serverless-chat-langchainjs, infra/app/vnet.bicep, read 2026-11-27).
DELEGATED_TO: Final = "Microsoft.App/environments"
ADDRESS: Final = "203.0.113.7"


def check(project: Project) -> Iterator[Finding]:
    """Yield a door that stays open, an address that is missing, and one that is paid for nothing."""
    usual, private = project.deployed(), project.deployed(isStoragePrivate=True)
    for one in usual.resources:
        if one.type.startswith("Microsoft.Network/"):
            yield Finding(one.where, f"{one.type} is made although no parameter wants it: it costs")
    yield from _doors(usual, ("Enabled", "Allow", []))
    yield from _doors(private, ("Disabled", "Deny", []))
    allowed = project.deployed(isStoragePrivate=True, allowedAddresses=[ADDRESS])
    yield from _doors(allowed, ("Enabled", "Deny", [{"value": ADDRESS, "action": "Allow"}]))
    yield from _addresses(private)
    yield from _joined(usual, private)


def _doors(deployment: Deployment, wanted: tuple[str, str, list[Any]]) -> Iterator[Finding]:
    for one in deployment.of_type(_ACCOUNTS):
        acls = one.properties["networkAcls"]
        found = (one.properties["publicNetworkAccess"], acls["defaultAction"], acls["ipRules"])
        if found != wanted:
            yield Finding(one.where, f"{one.name} lets in {found}, expected {wanted}")


def _addresses(deployment: Deployment) -> Iterator[Finding]:
    """Yield each service that the app's settings name without an address, and each address that none of them needs."""
    reached = {
        (account.id, service)
        for account in deployment.of_type(_ACCOUNTS)
        for service in ("blob", "queue", "table")
        if f"https://{account.name}.{service}.core.windows.net/" in _settings(deployment).values()
    }
    found = {_end(one): one for one in deployment.of_type(_ENDPOINTS)}
    for account, service in sorted(reached - found.keys()):
        yield Finding(
            "network.bicep", f"the app reaches the {service} service of {account}, which has no private address"
        )
    for key in sorted(found.keys() - reached):
        yield Finding(found[key].where, f"{' and '.join(key)}: the app does not reach it, and the endpoint costs")
    linked = {one.name.split("/")[0] for one in deployment.of_type(f"{_ZONES}/virtualNetworkLinks")}
    zones = {one.id: one.name for one in deployment.of_type(_ZONES)}
    named = {one.name.split("/")[0]: one for one in deployment.of_type(f"{_ENDPOINTS}/privateDnsZoneGroups")}
    for (_, service), one in found.items():
        group = named.get(one.name)
        configured = [] if group is None else at(group.properties, "privateDnsZoneConfigs")
        ids = [at(zone, "properties.privateDnsZoneId") for zone in configured]
        if [zones.get(zone) for zone in ids] != [
            zone := f"privatelink.{service}.core.windows.net"
        ] or zone not in linked:
            yield Finding(one.where, f"{one.name} has no name in a zone of its service that the network uses")


def _joined(usual: Deployment, private: Deployment) -> Iterator[Finding]:
    (site,), (network,) = private.of_type("Microsoft.Web/sites"), private.of_type(_NETWORKS)
    subnets = {f"{network.id}/subnets/{one['name']}": one["properties"] for one in network.properties["subnets"]}
    joined = subnets.get(str(site.properties["virtualNetworkSubnetId"]), {})
    services = [at(one, "properties.serviceName") for one in joined.get("delegations", [])]
    if services != [DELEGATED_TO]:
        yield Finding(site.where, f"the app's subnet is delegated to {services}, expected {DELEGATED_TO}")
    for one in private.of_type(_ENDPOINTS):
        subnet = subnets.get(one.properties["subnet"]["id"])
        if subnet is None or "delegations" in subnet:
            yield Finding(one.where, f"{one.name} is in no subnet of its own: that of the app takes the app alone")
    (idle,) = usual.of_type("Microsoft.Web/sites")
    if idle.properties["virtualNetworkSubnetId"] is not None:
        yield Finding(idle.where, "the app is in a network although no parameter wants it")


def _end(endpoint: Resource) -> tuple[str, str]:
    (connection,) = endpoint.properties["privateLinkServiceConnections"]
    (service,) = connection["properties"]["groupIds"]
    return connection["properties"]["privateLinkServiceId"], service


def _settings(deployment: Deployment) -> dict[str, Any]:
    return next(
        one.properties for one in deployment.of_type("Microsoft.Web/sites/config") if one.last_name == "appsettings"
    )
