"""The credential of a login. It is imported only where there is a login, because its library loads slowly."""

from typing import Any, Protocol

from azure import identity
from azure.core.credentials import TokenCredential

from shared.azure.connection_settings import Login


class Credential(TokenCredential, Protocol):
    """A source of tokens, which keeps them until they expire. Close it when done."""

    def close(self) -> None:
        """Close its connections."""
        ...


def credential_of(login: Login, **options: Any) -> Credential:
    """Build the credential. The options bound its retries."""
    if login.client_id and login.tenant_id and login.client_secret:
        return identity.ClientSecretCredential(login.tenant_id, login.client_id, login.client_secret, **options)
    if login.is_managed:
        by_resource = {"identity_config": {"resource_id": login.resource_id}} if login.resource_id else {}
        return identity.ManagedIdentityCredential(client_id=login.client_id, **by_resource, **options)
    # In turn: the environment, an identity of the machine, then the user who is logged in to az, azd or PowerShell.
    named = {"managed_identity_client_id": login.client_id} if login.client_id else {}
    return identity.DefaultAzureCredential(**named)
