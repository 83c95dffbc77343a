"""Places of a run's own in storage: made at first use, or names of its own in the app's places."""

from collections.abc import Callable
from threading import Lock
from typing import Final

from azure.core.exceptions import HttpResponseError
from azure.data.tables import TableClient
from azure.storage.blob import ContainerClient
from azure.storage.queue import QueueClient

from shared.azure import Connections, is_refused
from tools.conformance.belongings import Belongings, UncheckableError
from tools.conformance.bus_wishes import PREFIX

#: Where a run writes if its login may make no container or table: its readers read by name, and skip other names.
APPS_CONTAINER: Final = "settings"
APPS_TABLE: Final = "usage"
#: The name before each table of a run: tables have no hyphens.
TABLE_PREFIX: Final = PREFIX.replace("-", "")


class StorageSite:
    """The containers, tables and queues of one run."""

    def __init__(self, connections: Connections, nonce: str, belongings: Belongings) -> None:
        self._connections, self._nonce, self._belongings = connections, nonce, belongings
        self._lock = Lock()
        self._container: tuple[ContainerClient, str] | None = None
        self._table: tuple[TableClient, str] | None = None
        #: What the login may not make, for the reader.
        self.borrowed: list[str] = []

    def container(self) -> tuple[ContainerClient, str]:
        """Return a container, and the prefix of the names that a check may use there."""
        with self._lock:
            if self._container is None:
                self._container = self._make_container()
            return self._container

    def table(self) -> tuple[TableClient, str]:
        """Return a table, and the prefix of the partitions that a check may use there."""
        with self._lock:
            if self._table is None:
                self._table = self._make_table()
            return self._table

    def queue(self, name: str) -> QueueClient:
        """Return an empty queue for one check."""
        queue = self._connections.queues.get_queue_client(f"{PREFIX}-{self._nonce}-{name}")
        if not self._may("queue", queue.queue_name, queue.create_queue, queue.delete_queue):
            raise UncheckableError("your login may make no queue (role Storage Queue Data Contributor)")
        return queue

    def _make_container(self) -> tuple[ContainerClient, str]:
        own = self._connections.blobs.get_container_client(f"{PREFIX}-{self._nonce}")
        if self._may("container", own.container_name, own.create_container, own.delete_container):
            return own, ""
        prefix = f"{PREFIX}-{self._nonce}/"
        borrowed = self._connections.blobs.get_container_client(APPS_CONTAINER)
        self._belongings.keep("blobs", f"{APPS_CONTAINER}/{prefix}*", lambda: remove_blobs(borrowed, prefix))
        self.borrowed.append(f"container {APPS_CONTAINER}")
        return borrowed, prefix

    def _make_table(self) -> tuple[TableClient, str]:
        own = self._connections.tables.get_table_client(f"{TABLE_PREFIX}{self._nonce}")
        if self._may("table", own.table_name, own.create_table, own.delete_table):
            return own, ""
        prefix = f"{PREFIX}-{self._nonce}-"
        borrowed = self._connections.tables.get_table_client(APPS_TABLE)
        self._belongings.keep("rows", f"{APPS_TABLE}/{prefix}*", lambda: remove_rows(borrowed, prefix))
        self.borrowed.append(f"table {APPS_TABLE}")
        return borrowed, prefix

    def _may(self, kind: str, name: str, make: Callable[[], object], remove: Callable[[], object]) -> bool:
        """Make it, and say whether this login may."""
        try:
            self._belongings.make(kind, name, make, remove)
        except HttpResponseError as error:
            if not is_refused(error):
                raise
            self._belongings.forget(kind, name)
            return False
        return True


def remove_blobs(container: ContainerClient, prefix: str) -> None:
    """Remove the blobs of a run in a container of the app."""
    for name in list(container.list_blob_names(name_starts_with=prefix)):
        container.delete_blob(name)


def remove_rows(table: TableClient, prefix: str) -> None:
    """Remove the rows of a run in a table of the app."""
    # The character after the last one of the prefix ends the range.
    wanted = f"PartitionKey ge '{prefix}' and PartitionKey lt '{prefix[:-1]}.'"
    for row in list(table.query_entities(wanted, select=["PartitionKey", "RowKey"])):
        table.delete_entity(row["PartitionKey"], row["RowKey"])
