"""The storage clients of the host itself. Every request they make is counted under the requester's name."""

from typing import TypeVar

from azure.storage.blob.aio import ContainerClient
from azure.storage.queue.aio import QueueClient

from functions_local_host.meter import Meter

_Client = TypeVar("_Client", QueueClient, ContainerClient)

#: What `UseDevelopmentStorage=true` stands for; the Python SDK does not know the short form. The key is published.
_DEVELOPMENT_STORAGE = (
    "DefaultEndpointsProtocol=http;AccountName=devstoreaccount1;"
    "AccountKey=Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==;"
    "BlobEndpoint=http://127.0.0.1:10000/devstoreaccount1;QueueEndpoint=http://127.0.0.1:10001/devstoreaccount1;"
    "TableEndpoint=http://127.0.0.1:10002/devstoreaccount1;"
)


class HostStorage:
    """Clients for one storage account. One per entity and requester, closed together."""

    def __init__(self, connection_string: str, meter: Meter) -> None:
        is_short = connection_string.strip().rstrip(";").lower() == "usedevelopmentstorage=true"
        self._connection = _DEVELOPMENT_STORAGE if is_short else connection_string
        self._meter = meter
        self._clients: dict[tuple[str, str, str], QueueClient | ContainerClient] = {}

    def queue(self, name: str, requester: str) -> QueueClient:
        """Return the client of one queue. Bodies pass unchanged, encoding is the caller's."""
        return self._client(QueueClient, "queue", name, requester)

    def container(self, name: str, requester: str) -> ContainerClient:
        """Return the client of one blob container."""
        return self._client(ContainerClient, "blob", name, requester)

    async def close(self) -> None:
        """Close every client. Those handed out stop working."""
        clients, self._clients = list(self._clients.values()), {}
        for client in clients:
            await client.close()

    def _client(self, kind: type[_Client], service: str, name: str, requester: str) -> _Client:
        key = (service, name, requester)
        client = self._clients.get(key)
        if not isinstance(client, kind):
            transport = self._meter.transport(requester, service)
            client = kind.from_connection_string(self._connection, name, transport=transport)
            self._clients[key] = client
        return client
