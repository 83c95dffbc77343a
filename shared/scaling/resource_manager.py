"""Reads and changes one app through Azure Resource Manager, as the operator; two requests, and one to look again."""

from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import urlsplit

from azure.core import PipelineClient
from azure.core.credentials import TokenCredential
from azure.core.exceptions import AzureError, HttpResponseError
from azure.core.pipeline.policies import BearerTokenCredentialPolicy, HeadersPolicy, RetryPolicy
from azure.core.rest import HttpRequest, HttpResponse

from shared.closing import Closing
from shared.errors import ScalingRefusedError
from shared.scaling.words import Site

PUBLIC: Final = "https://management.azure.com"
API_VERSION: Final = "2024-11-01"
#: What a change is answered with: done, or accepted and done soon.
_TAKEN: Final = frozenset({200, 202})


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


def _reason(reply: HttpResponse) -> str:
    error = HttpResponseError(response=reply)
    return f"{error.error.code}: {error.error.message}" if error.error else str(error.reason or "no reason given")
