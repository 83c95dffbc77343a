"""Carries out a plan of instances: as commands of the Azure CLI, as Bicep, or through Azure Resource Manager.

By Resource Manager, it acts as the operator:

1. Read the app, and show the operator the differences.
2. Send the change.
3. Read the app again, because Azure may accept a change and carry it out later.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import urlsplit

from azure.core import PipelineClient
from azure.core.credentials import TokenCredential
from azure.core.exceptions import AzureError, HttpResponseError
from azure.core.pipeline.policies import BearerTokenCredentialPolicy, HeadersPolicy, RetryPolicy
from azure.core.rest import HttpRequest, HttpResponse

from shared.closing import Closing
from shared.errors import ScalingRefusedError
from shared.scaling.instances import InstancePlan

PUBLIC: Final = "https://management.azure.com"
API_VERSION: Final = "2024-11-01"
#: The answers to a change: done, or accepted and done soon.
_ACCEPTED: Final = frozenset({200, 202})


@dataclass(frozen=True, slots=True)
class Site:
    """The place of an app in Azure."""

    subscription: str
    group: str
    name: str

    @classmethod
    def parse(cls, path: str) -> "Site":
        """Read the form of `path`."""
        parts = path.split("/")
        return cls(parts[2], parts[4], parts[8])

    @property
    def path(self) -> str:
        """The path of the app under Resource Manager."""
        return (
            f"/subscriptions/{self.subscription}/resourceGroups/{self.group}/providers/Microsoft.Web/sites/{self.name}"
        )


def setting(function: str) -> str:
    """Name the scale group of a function. Each function without an HTTP trigger is a group of its own."""
    return f"function:{function}"


def az_commands(plan: InstancePlan, group: str, name: str) -> list[str]:
    """Return the commands that carry out the plan, and last the one that reverts it."""
    where = f"--resource-group {group} --name {name}"
    counts = " ".join(f"{setting(function)}={count}" for function, count in plan.always_ready.items())
    names = " ".join(map(setting, plan.always_ready))
    commands = [f"az functionapp scale config set {where} --maximum-instance-count {plan.maximum}"]
    if plan.always_ready:
        commands += [
            f"az functionapp scale config always-ready set {where} --settings {counts}",
            f"az functionapp scale config always-ready delete {where} --setting-names {names}",
        ]
    return commands


def bicep_parameters(plan: InstancePlan) -> str:
    """Return the parameters of infra/main.bicep in the form of a .bicepparam file."""
    others = {function: count for function, count in plan.always_ready.items() if function != "release_gate"}
    counts = "".join(f"  {function}: {count}\n" for function, count in others.items())
    return (
        f"param maximumInstanceCount = {plan.maximum}\n"
        f"param releaseGateAlwaysReady = {plan.always_ready.get('release_gate', 0)}\n"
        f"param alwaysReady = {{\n{counts}}}\n"
    )


def make_site_body(site: Mapping[str, Any], plan: InstancePlan) -> dict[str, Any]:
    """Build the body that changes a site to the plan. All settings outside the plan stay as they were read.

    The body has the whole configuration, so that the result does not depend on how deep the service merges.
    """
    configuration = site["properties"]["functionAppConfig"]
    scale = configuration.get("scaleAndConcurrency") or {}
    planned = {setting(function): count for function, count in plan.always_ready.items()}
    kept = [one for one in scale.get("alwaysReady") or [] if one["name"] not in planned]
    ready = [*kept, *({"name": name, "instanceCount": count} for name, count in planned.items())]
    others = sum(one["instanceCount"] for one in kept)
    # Never lower than before: a higher maximum was set for a reason that the plan does not know.
    maximum = max(plan.maximum + others, scale.get("maximumInstanceCount") or 0)
    changed = {**scale, "alwaysReady": ready, "maximumInstanceCount": maximum}
    return {"properties": {"functionAppConfig": {**configuration, "scaleAndConcurrency": changed}}}


def differences(site: Mapping[str, Any], body: Mapping[str, Any]) -> list[str]:
    """Return the changes that a body makes, one line each."""
    before, after = (
        _flatten(one["properties"]["functionAppConfig"].get("scaleAndConcurrency") or {}) for one in (site, body)
    )
    return [
        f"{name}: {before.get(name, 'not set')} -> {after[name]}"
        for name in sorted(after)
        if before.get(name) != after[name]
    ]


def _flatten(scale: Mapping[str, Any]) -> dict[str, int]:
    ready = {f"alwaysReady {one['name']}": one["instanceCount"] for one in scale.get("alwaysReady") or []}
    maximum = {"maximumInstanceCount": scale["maximumInstanceCount"]} if scale.get("maximumInstanceCount") else {}
    return {**ready, **maximum}


@dataclass(frozen=True, slots=True)
class SiteChange:
    """A prepared change of an app: the body to send, and the differences that it makes."""

    site: Site
    body: Mapping[str, Any]
    differences: list[str]


class ResourceManager(Closing):
    """Azure Resource Manager of the public or another cloud. It allows plain HTTP only on this machine, for tests."""

    def __init__(self, credential: TokenCredential, endpoint: str = PUBLIC) -> None:
        address = urlsplit(endpoint)
        is_local = address.hostname in {"127.0.0.1", "localhost"}
        if address.scheme != "https" and not is_local:
            raise ScalingRefusedError(
                f"could not use {endpoint}: the operator's token goes over https only; use an https:// address"
            )
        self._options = {"enforce_https": False} if address.scheme == "http" else {}
        self._client: PipelineClient[HttpRequest, HttpResponse] = PipelineClient(
            base_url=endpoint,
            policies=[
                HeadersPolicy({"Accept": "application/json"}),
                RetryPolicy(retry_total=3, retry_backoff_factor=0.2),
                BearerTokenCredentialPolicy(credential, f"{endpoint if not is_local else PUBLIC}/.default"),
            ],
        )

    def read(self, site: Site) -> dict[str, Any]:
        """Read the app, or raise ScalingRefusedError if its plan cannot be scaled this way."""
        app: dict[str, Any] = self._request("GET", site, None)
        if not (app.get("properties") or {}).get("functionAppConfig"):
            raise ScalingRefusedError(
                f"app {site.name!r} in group {site.group!r} has no functionAppConfig, so it is not on the Flex "
                "Consumption plan: only that plan has always-ready instances per function"
            )
        return app

    def change(self, site: Site, body: Mapping[str, Any]) -> None:
        """Send a change. Only reading the app again shows whether it was carried out."""
        self._request("PATCH", site, body)

    def _request(self, method: str, site: Site, body: Mapping[str, Any] | None) -> Any:
        address = f"{site.path}?api-version={API_VERSION}"
        request = HttpRequest(method, self._client.format_url(address), json=body)
        try:
            reply = self._client.send_request(request, **self._options)
        except AzureError as error:
            raise ScalingRefusedError(
                f"Resource Manager did not answer {method} of app {site.name!r} ({type(error).__name__}): log in with "
                "`az login`, then try again"
            ) from error
        if reply.status_code not in _ACCEPTED:
            raise ScalingRefusedError(
                f"Resource Manager answered {method} of app {site.name!r} in group {site.group!r} with "
                f"{reply.status_code}: {_reason(reply)}; check the names, and whether you may change the app"
            )
        return reply.json() if reply.status_code == 200 and reply.content else {}

    def close(self) -> None:
        """Close the connection."""
        self._client.close()


def prepare(manager: ResourceManager, site: Site, plan: InstancePlan) -> SiteChange:
    """Read the app, and prepare the change to the plan without sending it."""
    before = manager.read(site)
    body = make_site_body(before, plan)
    return SiteChange(site, body, differences(before, body))


def send(manager: ResourceManager, change: SiteChange) -> list[str]:
    """Send the change, and return the differences that are not carried out yet. Sending it again is harmless."""
    manager.change(change.site, change.body)
    return differences(manager.read(change.site), change.body)


def _reason(reply: HttpResponse) -> str:
    error = HttpResponseError(response=reply)
    return f"{error.error.code}: {error.error.message}" if error.error else str(error.reason or "no reason given")
