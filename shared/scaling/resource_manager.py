"""Azure Resource Manager: reads one app and changes it.

A plan is carried out in three steps:

1. Read the app, and prepare the differences for the operator to see.
2. Send the change.
3. Read the app again, because Azure may accept a change and carry it out later.
"""

from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import urlsplit

from azure.core import PipelineClient
from azure.core.credentials import TokenCredential
from azure.core.exceptions import AzureError, HttpResponseError
from azure.core.pipeline.policies import BearerTokenCredentialPolicy, HeadersPolicy, RetryPolicy
from azure.core.rest import HttpRequest, HttpResponse

from shared.azure import Login
from shared.clock import Closing
from shared.errors import ScalingRefusedError
from shared.scaling.instances import InstancePlan
from shared.scaling.site import Site, differences, make_site_body

PUBLIC: Final = "https://management.azure.com"
API_VERSION: Final = "2024-11-01"
#: The answers to a change: done, or accepted and done soon.
_ACCEPTED: Final = frozenset({200, 202})
#: Seconds for a connection, and for an answer. The library would wait for minutes, and a tick has other work.
_PATIENCE: Final = {"connection_timeout": 10, "read_timeout": 20}


@dataclass(frozen=True, slots=True)
class SiteChange:
    """A prepared change of an app: the body to send, and the differences that it makes."""

    site: Site
    body: Mapping[str, Any]
    differences: list[str]


class ResourceManager(Closing):
    """Azure Resource Manager of the public or another cloud. It allows plain HTTP only on this machine, for tests."""

    def __init__(self, credential: TokenCredential, endpoint: str = PUBLIC, *, retries: int = 2) -> None:
        address = urlsplit(endpoint)
        is_local = address.hostname in {"127.0.0.1", "localhost"}
        if address.scheme != "https" and not is_local:
            raise ScalingRefusedError(
                f"could not use {endpoint}: the operator's token goes over https only; use an https:// address"
            )
        self._options: dict[str, Any] = {**_PATIENCE, **({"enforce_https": False} if address.scheme == "http" else {})}
        self._client: PipelineClient[HttpRequest, HttpResponse] = PipelineClient(
            base_url=endpoint,
            policies=[
                HeadersPolicy({"Accept": "application/json"}),
                # Before a retry it waits as long as a reply's Retry-After says, so a tick makes none.
                RetryPolicy(retry_total=retries, retry_backoff_factor=0.2),
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
                f"Resource Manager did not answer {method} of app {site.name!r} ({type(error).__name__}): an operator "
                "logs in with `az login`, the app by its identity for this; then try again"
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


@contextmanager
def connect_manager(endpoint: str = PUBLIC, *, client_id: str = "", retries: int = 2) -> Iterator[ResourceManager]:
    """Yield Resource Manager for the user-assigned identity of this id, or else for the person who is logged in."""
    login = Login(is_managed=True, client_id=client_id) if client_id else Login()
    # Imported only here, because its library loads slowly.
    from shared.azure.credentials import credential_of  # noqa: PLC0415

    with closing(credential_of(login)) as credential, ResourceManager(credential, endpoint, retries=retries) as manager:
        yield manager


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
