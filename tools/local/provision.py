"""Creates the storage entities of the topology in a local account. In Azure, Bicep does that. The broker has its own."""

from shared.azure import Connections
from shared.topology import Topology
from tools.cli.provision import STORAGE, make_in_storage


def provision(connection_string: str, topology: Topology) -> None:
    """Make every queue, container and table that is not there yet."""
    with Connections(connection_string) as connections:
        for kind, names in zip(STORAGE, (topology.queues, topology.containers, topology.tables), strict=True):
            for name in names:
                make_in_storage(connections, kind, name)
