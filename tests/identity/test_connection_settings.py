"""How a connection is read from its settings: as the host reads it, and never a key in Azure."""

import pytest

from shared.azure.connection_settings import BUS_SERVICES, STORAGE_SERVICES, ByLogin, Login, find, in_azure
from shared.azure.credentials import credential_of
from shared.errors import SettingsError
from shared.settings import Settings

ACCOUNT = {"SluiceStorage__accountName": "acc"}
ADDRESSES = {service: f"https://acc.{service}.core.windows.net" for service in STORAGE_SERVICES}
MANAGED = {"SluiceStorage__credential": "managedidentity"}
SECRET = {"SluiceStorage__tenantId": "t", "SluiceStorage__clientId": "c", "SluiceStorage__clientSecret": "s"}


def storage(settings, **options):
    """Return what is found for storage."""
    return find("SluiceStorage", STORAGE_SERVICES, settings, **options)


@pytest.mark.parametrize(
    ("settings", "login"),
    [
        ({}, Login()),
        (MANAGED, Login(is_managed=True)),
        ({**MANAGED, "SluiceStorage__clientId": "c"}, Login(is_managed=True, client_id="c")),
        ({**MANAGED, "SluiceStorage__managedIdentityResourceId": "r"}, Login(is_managed=True, resource_id="r")),
        ({"SluiceStorage__credential": "ManagedIdentity"}, Login(is_managed=True)),
        ({"SluiceStorage__clientId": "c"}, Login(client_id="c")),
        (SECRET, Login(tenant_id="t", client_id="c", client_secret="s")),
    ],
)
def test_the_logins_that_the_host_knows(settings, login):
    """The account's name is enough for all three addresses, and says nothing of who logs in."""
    assert storage({**ACCOUNT, **settings}).connection == ByLogin(ADDRESSES, login)


def test_addresses_are_taken_one_by_one_and_in_any_case():
    """An address that is given wins over that of the account; the host does not look at the case of names."""
    found = storage({**ACCOUNT, "sluicestorage__QUEUESERVICEURI": "https://q.example/"})
    assert found.connection.addresses == {**ADDRESSES, "queue": "https://q.example"}


def test_a_connection_string_wins_as_it_does_in_the_host():
    """Both are set: the triggers take the string, so the rest of the app does too."""
    assert (
        storage({**ACCOUNT, "SluiceStorage": "UseDevelopmentStorage=true"}).connection == "UseDevelopmentStorage=true"
    )


def test_the_bus_has_one_address():
    """The namespace's name, without a scheme."""
    found = find("SluiceBus", BUS_SERVICES, {"SluiceBus__fullyQualifiedNamespace": "n.servicebus.windows.net"})
    assert found.connection == ByLogin({"bus": "n.servicebus.windows.net"}, Login())


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        ({"SluiceStorage__blobServiceUri": "https://b"}, "SluiceStorage__queueServiceUri is missing (or accountName"),
        ({**ACCOUNT, "SluiceStorage__queueServiceUri": "http://q"}, "needs an address that begins with https://"),
        ({**ACCOUNT, "SluiceStorage__queueServiceUrl": "https://q"}, "SluiceStorage__queueserviceurl is not known"),
        ({**ACCOUNT, "SluiceStorage__credential": "workloadidentity"}, "expected managedidentity or nothing"),
        ({**ACCOUNT, "SluiceStorage__clientSecret": "canary"}, "belong together"),
        ({**ACCOUNT, "SluiceStorage__tenantId": "t"}, "belong together"),
        (
            {**ACCOUNT, "SluiceStorage__clientId": "c", "SluiceStorage__managedIdentityResourceId": "r"},
            "name one identity each",
        ),
    ],
)
def test_what_cannot_work_is_refused_by_its_name(settings, problem):
    """Each with the setting that is wrong, and without the secret that may be in it."""
    found = storage(settings)
    assert found.connection is None
    assert problem in "; ".join(found.problems)
    assert "canary" not in "; ".join(found.problems)


@pytest.mark.parametrize("where", [{"WEBSITE_SITE_NAME": "sluice"}, {"AZURE_FUNCTIONS_ENVIRONMENT": "Production"}])
@pytest.mark.parametrize("secret", [{"SluiceStorage": "AccountName=a;AccountKey=canary"}, {**ACCOUNT, **SECRET}])
def test_in_azure_a_key_is_refused_and_never_shown(where, secret):
    """The app does not start with a secret where it has an identity; the error says what to set instead."""
    with pytest.raises(SettingsError, match="SluiceStorage__queueServiceUri") as refused:
        Settings.parse({**secret, **where, "SluiceBus__fullyQualifiedNamespace": "n", "SLUICE_TICK_SCHEDULE": "x"})
    assert "canary" not in str(refused.value)


def test_a_developers_machine_is_not_azure():
    """Core Tools say Development, and nothing is said at all by a shell."""
    assert not in_azure({"AZURE_FUNCTIONS_ENVIRONMENT": "Development"})
    assert not in_azure({})


def test_a_person_does_not_log_in_as_the_app():
    """Only Azure's own machines have the app's identity; an application with its secret is one anywhere."""
    named = {**ACCOUNT, **MANAGED, "SluiceStorage__clientId": "c"}
    assert storage(named, is_person=True).connection == ByLogin(ADDRESSES, Login())
    assert storage({**ACCOUNT, **SECRET}, is_person=True).connection.login.client_secret == "s"


@pytest.mark.parametrize(
    ("login", "kind"),
    [
        (Login(), "DefaultAzureCredential"),
        (Login(client_id="c"), "DefaultAzureCredential"),
        (Login(is_managed=True), "ManagedIdentityCredential"),
        (Login(is_managed=True, resource_id="r"), "ManagedIdentityCredential"),
        (
            Login(tenant_id="00000000-0000-0000-0000-000000000000", client_id="c", client_secret="s"),
            "ClientSecretCredential",
        ),
    ],
)
def test_each_login_has_its_credential(login, kind):
    """Made without asking anybody for a token yet."""
    made = credential_of(login)
    assert type(made).__name__ == kind
    made.close()
