"""Creates the storage entities of the topology in a local account. In Azure, Bicep does that. The broker has its own."""

from collections.abc import Callable
from contextlib import suppress

from azure.core.exceptions import ResourceExistsError
from azure.data.tables import TableServiceClient
from azure.storage.blob import BlobServiceClient
from azure.storage.queue import QueueServiceClient

from shared.topology import Topology


def provision(connection_string: str, topology: Topology) -> None:
    """Make every queue, container and table that is not there yet."""
    with QueueServiceClient.from_connection_string(connection_string) as queues:
        for name in topology.queues:
            _unless_there(queues.create_queue, name)
    with BlobServiceClient.from_connection_string(connection_string) as blobs:
        for name in topology.containers:
            _unless_there(blobs.create_container, name)
    with TableServiceClient.from_connection_string(connection_string) as tables:
        for name in topology.tables:
            tables.create_table_if_not_exists(name)


def _unless_there(create: Callable[[str], object], name: str) -> None:
    with suppress(ResourceExistsError):
        create(name)
