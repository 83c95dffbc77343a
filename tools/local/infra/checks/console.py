"""The console: Azure's login before it where it is wanted, and nothing of it elsewhere."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from shared.capability import CAPABILITIES
from tools.local.infra.finding import Finding
from tools.local.infra.project import CONSOLE, Project, at

_FILE: Final = "console.bicep"
_PROVIDER: Final = "identityProviders.azureActiveDirectory"
#: Without the first, a sender's own header is believed. With another second, deployments and the host are asked to log in.
WANTED: Final[Mapping[str, Any]] = {
    "platform.enabled": True,
    "globalValidation.unauthenticatedClientAction": "AllowAnonymous",
    "httpSettings.requireHttps": True,
    "login.tokenStore.enabled": False,
    f"{_PROVIDER}.enabled": True,
    f"{_PROVIDER}.registration.clientId": CONSOLE,
    f"{_PROVIDER}.validation.allowedAudiences": [CONSOLE],
}
#: As `capabilities/console/azure_login.py` has them.
ROLES: Final = ["Reader", "Operator"]


def check(project: Project) -> Iterator[Finding]:
    """Yield a login that lets in too many, or an app that does not know whether it has one."""
    for is_on in (False, True):
        deployment = project.deployed(consoleClientId=CONSOLE if is_on else "")
        configs = {one.last_name: one.properties for one in deployment.of_type("Microsoft.Web/sites/config")}
        for where, given in (("the app", configs["appsettings"]), ("the command", deployment.outputs)):
            line = given.get(CAPABILITIES, "")
            if ("console" in line.split(",")) is not is_on:
                yield Finding("infra", f"with a console {is_on}, {where} has {CAPABILITIES} {line!r}")
        if (found := configs.get("authsettingsV2")) is None or not is_on:
            if bool(found) is not is_on:
                yield Finding(_FILE, f"with a console {is_on}, Azure's login is {'there' if found else 'missing'}")
            continue
        yield from _login(found)
        if str(deployment.outputs.get("WEBSITE_AUTH_ENABLED")).lower() != "true":
            yield Finding("main.bicep", "the command believes that Azure's login is off: output its `platform.enabled`")
    roles = project.json("infra/console-roles.json")
    if [one["value"] for one in roles if one["isEnabled"]] != ROLES or len({one["id"] for one in roles}) != len(ROLES):
        yield Finding(
            "console-roles.json", f"does not hold the roles {' and '.join(ROLES)}, each with an id of its own"
        )


def _login(found: Mapping[str, Any]) -> Iterator[Finding]:
    for path, wanted in WANTED.items():
        if (value := at(found, path)) != wanted:
            yield Finding(_FILE, f"{path} is {value!r}, expected {wanted!r}")
    issuer = str(at(found, f"{_PROVIDER}.registration.openIdIssuer"))
    if "tenant().tenantId" not in issuer or not issuer.endswith("/v2.0"):
        yield Finding(_FILE, f"openIdIssuer is {issuer}, which is not this tenant's: strangers could log in")
