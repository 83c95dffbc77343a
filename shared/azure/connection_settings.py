"""Reads a connection from settings, by the rules that the Functions host has for its triggers.

Either one setting holds a connection string. Or several settings begin with its name and two underscores, and give the
service's address and the login. As in the host, the connection string wins, and names match in upper or lower case.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

#: The services of a connection, each with the field that holds its address.
STORAGE_SERVICES: Final[Mapping[str, str]] = {
    "blob": "blobServiceUri",
    "queue": "queueServiceUri",
    "table": "tableServiceUri",
}
BUS_SERVICES: Final[Mapping[str, str]] = {"bus": "fullyQualifiedNamespace"}
#: The settings of the app's storage account and of its Service Bus namespace. Triggers name them too.
STORAGE_CONNECTION, BUS_CONNECTION = "SluiceStorage", "SluiceBus"
#: That of the host's own account.
HOST_STORAGE: Final = "AzureWebJobsStorage"
#: The services of each, with the fields that hold their addresses.
CONNECTIONS: Final = {STORAGE_CONNECTION: STORAGE_SERVICES, BUS_CONNECTION: BUS_SERVICES}
#: The well-known connection strings of Azurite and of the official Service Bus emulator, which are no secrets.
LOCAL_STORAGE = "UseDevelopmentStorage=true"
LOCAL_BUS = (
    "Endpoint=sb://localhost;SharedAccessKeyName=RootManageSharedAccessKey;"
    "SharedAccessKey=SAS_KEY_VALUE;UseDevelopmentEmulator=true;"
)
ACCOUNT_NAME: Final = "accountName"
_LOGIN_FIELDS: Final = ("credential", "clientId", "managedIdentityResourceId", "tenantId", "clientSecret")
#: The only kind of credential that has a name. Without one, the user who runs the program logs in.
MANAGED_IDENTITY: Final = "managedidentity"


@dataclass(frozen=True, slots=True)
class Setting:
    """One setting: its meaning, its safe local value, and its default. A setting without a default must be set."""

    name: str
    what: str
    local: str
    default: str | None = None
    #: True for a connection: one connection string, or settings that begin with its name and two underscores.
    is_connection: bool = False


STORAGE_SETTING: Final = Setting(
    STORAGE_CONNECTION, "the app's storage account: queues, blobs, tables", LOCAL_STORAGE, is_connection=True
)
BUS_SETTING: Final = Setting(
    BUS_CONNECTION, "the Service Bus namespace: results, signals, events of jobs", LOCAL_BUS, is_connection=True
)


def missing(setting: Setting) -> str:
    """Say that a setting is missing, and how to set it."""
    by_identity = f", or set {setting.name}__… to log in (docs/security.md)" if setting.is_connection else ""
    return f"{setting.name} is missing ({setting.what}): local.settings.sample.json has a local value{by_identity}"


@dataclass(frozen=True, slots=True)
class Login:
    """A login: by a managed identity of Azure, by an application's secret, or by the user who runs the program."""

    is_managed: bool = False
    client_id: str | None = None
    resource_id: str | None = None
    tenant_id: str | None = None
    client_secret: str | None = None


@dataclass(frozen=True, slots=True)
class ByLogin:
    """A connection without a key: the address of each service, and the login."""

    addresses: Mapping[str, str]
    login: Login


@dataclass(frozen=True, slots=True)
class Found:
    """The connection that settings give, and the faults in those settings."""

    #: A connection string, or addresses and a login. None: not set, or not usable.
    connection: str | ByLogin | None
    problems: tuple[str, ...] = ()


def find(name: str, services: Mapping[str, str], settings: Mapping[str, str], *, is_person: bool = False) -> Found:
    """Find the connection of this name. With `is_person`, the user who runs the program logs in, not the app."""
    if connection_string := settings.get(name, "").strip():
        return Found(None, (_no_key(name, services),)) if in_azure(settings) else Found(connection_string)
    given = _find_given(name, settings)
    if not given:
        return Found(None)
    addresses, problems = _addresses(name, services, given)
    login = _login(name, given, problems.append)
    if login.client_secret and in_azure(settings):
        problems.append(_no_key(name, services))
    if is_person and login.is_managed:
        # Only Azure's own machines have that identity. The addresses are valid for every login.
        login = Login()
    return Found(None, tuple(problems)) if problems else Found(ByLogin(addresses, login))


def in_azure(settings: Mapping[str, str]) -> bool:
    """Check whether this is a deployed app, which has an identity: a key would be one more secret."""
    return bool(settings.get("WEBSITE_SITE_NAME")) or (
        settings.get("AZURE_FUNCTIONS_ENVIRONMENT", "").lower() == "production"
    )


def _find_given(name: str, settings: Mapping[str, str]) -> dict[str, str]:
    prefix = f"{name}__".lower()
    found = {key.lower().removeprefix(prefix): text for key, text in settings.items() if key.lower().startswith(prefix)}
    return {field: text.strip() for field, text in found.items() if text.strip()}


def _addresses(name: str, services: Mapping[str, str], given: Mapping[str, str]) -> tuple[dict[str, str], list[str]]:
    fields = [*services.values(), *([ACCOUNT_NAME] if services is STORAGE_SERVICES else []), *_LOGIN_FIELDS]
    strange = sorted(set(given) - {field.lower() for field in fields})
    problems = [f"{name}__{field} is not known, known are {', '.join(fields)}" for field in strange]
    addresses = {}
    for service, field in services.items():
        address = given.get(field.lower()) or _of_account(service, given)
        if address is None:
            problems.append(f"{name}__{field} is missing{_or_account(services)}")
        elif service != "bus" and not address.startswith("https://"):
            problems.append(f"{name}__{field} is {address!r}: a login needs an address that begins with https://")
        else:
            addresses[service] = address.rstrip("/")
    return addresses, problems


def _of_account(service: str, given: Mapping[str, str]) -> str | None:
    account = given.get(ACCOUNT_NAME.lower())
    # As in the host, the account's name alone means the public cloud.
    return None if account is None or service == "bus" else f"https://{account}.{service}.core.windows.net"


def _or_account(services: Mapping[str, str]) -> str:
    return f" (or {ACCOUNT_NAME} for all of them)" if services is STORAGE_SERVICES else ""


def _login(name: str, given: Mapping[str, str], report: Callable[[str], None]) -> Login:
    kind = given.get("credential", "").lower()
    if kind not in {"", MANAGED_IDENTITY}:
        report(f"{name}__credential is {given['credential']!r}, expected {MANAGED_IDENTITY} or nothing")
    login = Login(
        is_managed=kind == MANAGED_IDENTITY,
        client_id=given.get("clientid"),
        resource_id=given.get("managedidentityresourceid"),
        tenant_id=given.get("tenantid"),
        client_secret=given.get("clientsecret"),
    )
    if login.client_id and login.resource_id:
        report(f"{name}__clientId and {name}__managedIdentityResourceId name one identity each: leave one out")
    if any(by_secret := (login.tenant_id, login.client_secret)) and not (all(by_secret) and login.client_id):
        report(f"{name}__tenantId, {name}__clientId and {name}__clientSecret belong together: one of them is missing")
    return login


def _no_key(name: str, services: Mapping[str, str]) -> str:
    instead = " and ".join(f"{name}__{field}" for field in services.values())
    return (
        f"{name} holds a key, and in Azure the app logs in by its identity: set {instead}, with "
        f"{name}__credential={MANAGED_IDENTITY} and {name}__clientId for a user-assigned one, and remove the key"
    )


def find_connection(name: str, environ: Mapping[str, str], *, is_person: bool = False) -> Found:
    """Find one of the app's two connections by the name of its setting."""
    return find(name, CONNECTIONS[name], environ, is_person=is_person)


def find_host_storage(environ: Mapping[str, str]) -> Found:
    """Find the connection of the host's own storage, for a person who looks at it. Its blobs are enough."""
    given = {field.lower(): name for name, field in STORAGE_SERVICES.items()}
    others = {name for name in environ if given.get(name.lower().partition("__")[2]) in {"queue", "table"}}
    named = {name: text for name, text in environ.items() if name not in others}
    whole = ACCOUNT_NAME.lower() in _find_given(HOST_STORAGE, named)
    services = STORAGE_SERVICES if whole else {"blob": STORAGE_SERVICES["blob"]}
    return find(HOST_STORAGE, services, named, is_person=True)
