"""A plan in the words of those who can carry it out: the Azure CLI, Bicep, and the body for Resource Manager; pure.

Carries out a plan: look first, send what differs, look again. Whoever asked sees the difference before it is sent.

Reads and changes one app through Azure Resource Manager, as the operator; two requests, and one to look again.
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


@dataclass(frozen=True, slots=True)
class Site:
    """Where the app is."""

    subscription: str
    group: str
    name: str

    @classmethod
    def parse(cls, path: str) -> "Site":
        """Return the site of a path that `path` made."""
        parts = path.split("/")
        return cls(parts[2], parts[4], parts[8])

    @property
    def path(self) -> str:
        """Its path under Resource Manager."""
        return (
            f"/subscriptions/{self.subscription}/resourceGroups/{self.group}/providers/Microsoft.Web/sites/{self.name}"
        )


def setting(function: str) -> str:
    """Return what a function without an HTTP trigger is called among the groups that scale by themselves."""
    return f"function:{function}"


def az_commands(plan: InstancePlan, group: str, name: str) -> list[str]:
    """Return the commands that carry out the plan, and the one that takes it back."""
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
    """Return the parameters of infra/main.bicep, as a .bicepparam file has them."""
    rest = {function: count for function, count in plan.always_ready.items() if function != "release_gate"}
    counts = "".join(f"  {function}: {count}\n" for function, count in rest.items())
    return (
        f"param maximumInstanceCount = {plan.maximum}\n"
        f"param releaseGateAlwaysReady = {plan.always_ready.get('release_gate', 0)}\n"
        f"param alwaysReady = {{\n{counts}}}\n"
    )


def make_site_body(site: Mapping[str, Any], plan: InstancePlan) -> dict[str, Any]:
    """Return the body that changes a site, as it was read, to the plan; everything that a plan knows nothing of stays.

    The whole configuration goes back, so that nothing depends on how deep the service merges.
    """
    configuration = site["properties"]["functionAppConfig"]
    scale = configuration.get("scaleAndConcurrency") or {}
    planned = {setting(function): count for function, count in plan.always_ready.items()}
    kept = [one for one in scale.get("alwaysReady") or [] if one["name"] not in planned]
    ready = [*kept, *({"name": name, "instanceCount": count} for name, count in planned.items())]
    others = sum(one["instanceCount"] for one in kept)
    # Never lower than it was: who set a higher one had a reason that a plan does not see.
    maximum = max(plan.maximum + others, scale.get("maximumInstanceCount") or 0)
    changed = {**scale, "alwaysReady": ready, "maximumInstanceCount": maximum}
    return {"properties": {"functionAppConfig": {**configuration, "scaleAndConcurrency": changed}}}


def differences(site: Mapping[str, Any], body: Mapping[str, Any]) -> list[str]:
    """Return what a body changes, a line each."""
    before, after = (
        _flat(one["properties"]["functionAppConfig"].get("scaleAndConcurrency") or {}) for one in (site, body)
    )
    return [
        f"{name}: {before.get(name, 'not set')} -> {after[name]}"
        for name in sorted(after)
        if before.get(name) != after[name]
    ]


def _flat(scale: Mapping[str, Any]) -> dict[str, int]:
    ready = {f"alwaysReady {one['name']}": one["instanceCount"] for one in scale.get("alwaysReady") or []}
    known = {"maximumInstanceCount": scale["maximumInstanceCount"]} if scale.get("maximumInstanceCount") else {}
    return {**ready, **known}


@dataclass(frozen=True, slots=True)
class SiteChange:
    """What would be sent, and what it changes."""

    site: Site
    body: Mapping[str, Any]
    differences: list[str]


PUBLIC: Final = "https://management.azure.com"


class ResourceManager(Closing):
    """Azure Resource Manager, or one of another cloud; over plain HTTP only on this machine, for tests."""

    def __init__(self, credential: TokenCredential, endpoint: str = PUBLIC) -> None:
        address = urlsplit(endpoint)
        is_local = address.hostname in {"127.0.0.1", "localhost"}
        if address.scheme != "https" and not is_local:
            raise ScalingRefusedError(f"{endpoint} is not asked: the operator's token goes over https only")
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
        """Return the app as it is; raises ScalingRefusedError when it is none that can be scaled like this."""
        found: dict[str, Any] = self._ask("GET", site, None)
        if not (found.get("properties") or {}).get("functionAppConfig"):
            raise ScalingRefusedError(
                f"app {site.name!r} in group {site.group!r} has no functionAppConfig, so it is not on the Flex "
                "Consumption plan: always-ready instances of a function are for that plan alone"
            )
        return found

    def change(self, site: Site, body: Mapping[str, Any]) -> None:
        """Send a change; whether it has been carried out, only reading again tells."""
        self._ask("PATCH", site, body)

    def _ask(self, method: str, site: Site, body: Mapping[str, Any] | None) -> Any:
        address = f"{site.path}?api-version={API_VERSION}"
        request = HttpRequest(method, self._client.format_url(address), json=body)
        try:
            reply = self._client.send_request(request, **self._options)
        except AzureError as error:
            raise ScalingRefusedError(
                f"Resource Manager did not answer {method} of app {site.name!r} ({type(error).__name__}): log in with "
                "`az login`, then try again"
            ) from error
        if reply.status_code not in _TAKEN:
            raise ScalingRefusedError(
                f"Resource Manager answered {method} of app {site.name!r} in group {site.group!r} with "
                f"{reply.status_code}: {_reason(reply)}; check the names, and whether you may change the app"
            )
        return reply.json() if reply.status_code == 200 and reply.content else {}

    def close(self) -> None:
        """Close the connection."""
        self._client.close()


def prepare(manager: ResourceManager, site: Site, plan: InstancePlan) -> SiteChange:
    """Return what the plan changes on the app as it is now; nothing is sent."""
    before = manager.read(site)
    body = make_site_body(before, plan)
    return SiteChange(site, body, differences(before, body))


def send(manager: ResourceManager, change: SiteChange) -> list[str]:
    """Send the change, and return what of it is not carried out yet; sending it again is harmless."""
    manager.change(change.site, change.body)
    return differences(manager.read(change.site), change.body)


API_VERSION: Final = "2024-11-01"
#: What a change is answered with: done, or accepted and done soon.
_TAKEN: Final = frozenset({200, 202})


def _reason(reply: HttpResponse) -> str:
    error = HttpResponseError(response=reply)
    return f"{error.error.code}: {error.error.message}" if error.error else str(error.reason or "no reason given")
