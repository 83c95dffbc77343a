"""The rows of the port: an event store that loads all events, a process with its undispatched commands, and views.

It has Sluice's own clients of storage and bus, so that only the designs differ.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from azure.core import MatchConditions
from azure.core.exceptions import ResourceNotFoundError
from azure.data.tables import TableClient, UpdateMode

from shared.azure import BusMessage, BusSender, Connections, Destination, write_group

EVENTS, PROCESSES, VIEWS = "portevents", "portprocesses", "portviews"
TABLES: Final = (EVENTS, PROCESSES, VIEWS)
_UNPUBLISHED: Final = "unpublished|"


class PortEvent(NamedTuple):
    """One event of a stream."""

    kind: str
    body: Mapping[str, Any]


class PortEvents:
    """Streams of events. Each event has a second row until it was published."""

    def __init__(self, connections: Connections, sender: BusSender) -> None:
        self._table: TableClient = connections.tables.get_table_client(EVENTS)
        self._sender = sender

    def load(self, stream: str) -> list[PortEvent]:
        """Return all events of a stream, a thousand in a request."""
        rows = self._table.query_entities(
            "PartitionKey eq @stream and RowKey lt @end",
            parameters={"stream": stream, "end": _UNPUBLISHED},
            results_per_page=1000,
        )
        return [PortEvent(row["kind"], json.loads(row["body"])) for row in rows]

    def save(self, stream: str, version: int, events: Sequence[PortEvent]) -> None:
        """Save events after this version, or fail if there are others."""
        rows = []
        for number, event in enumerate(events, version + 1):
            row = {"PartitionKey": stream, "kind": event.kind, "body": json.dumps(event.body)}
            rows += [row | {"RowKey": f"{number:010}"}, row | {"RowKey": f"{_UNPUBLISHED}{number:010}"}]
        write_group(self._table, [("create", row) for row in rows])

    def publish(self, stream: str, to: Destination, session: str = "") -> None:
        """Send what is unpublished, one by one, and remove each row."""
        rows = self._table.query_entities(
            "PartitionKey eq @stream and RowKey ge @low and RowKey lt @high",
            parameters={"stream": stream, "low": _UNPUBLISHED, "high": f"{_UNPUBLISHED}~"},
        )
        for row in list(rows):
            said = {"stream": stream, "kind": row["kind"], "body": json.loads(row["body"])}
            name = f"{stream} {row['RowKey']}"
            self._sender.send(to, [message_of(said, name, session)])
            self._table.delete_entity(row["PartitionKey"], row["RowKey"])


class PortProcess(NamedTuple):
    """The process of an order."""

    order: str
    state: str
    #: Commands that may not have been sent yet.
    undispatched: Sequence[Mapping[str, Any]]
    etag: str = ""


class PortProcesses:
    """Processes, each in one row."""

    def __init__(self, connections: Connections) -> None:
        self._table: TableClient = connections.tables.get_table_client(PROCESSES)

    def find(self, order: str) -> PortProcess | None:
        """Return the process of an order, or None."""
        try:
            row = self._table.get_entity(order, "process")
        except ResourceNotFoundError:
            return None
        return PortProcess(order, row["state"], json.loads(row["undispatched"]), row.metadata["etag"])

    def save(self, process: PortProcess) -> PortProcess:
        """Save it in place of the row that it was made from."""
        row = {
            "PartitionKey": process.order,
            "RowKey": "process",
            "state": process.state,
            "undispatched": json.dumps(process.undispatched),
        }
        if process.etag:
            done = self._table.update_entity(
                row, mode=UpdateMode.REPLACE, etag=process.etag, match_condition=MatchConditions.IfNotModified
            )
        else:
            done = self._table.create_entity(row)
        return process._replace(etag=str(done["etag"]))


class PortViews:
    """What customers read. Each event changes columns of its own, so that no row is read before it is written."""

    def __init__(self, connections: Connections) -> None:
        self._table: TableClient = connections.tables.get_table_client(VIEWS)

    def merge(self, key: str, columns: Mapping[str, Any]) -> None:
        """Change columns of a row, which may be new."""
        self._table.upsert_entity({"PartitionKey": key, "RowKey": "view", **columns}, mode=UpdateMode.MERGE)

    def find(self, key: str) -> Mapping[str, Any]:
        """Return a row, empty if there is none."""
        try:
            return dict(self._table.get_entity(key, "view"))
        except ResourceNotFoundError:
            return {}


def message_of(said: Mapping[str, Any], name: str, session: str = "") -> BusMessage:
    """Return a message with one command or one event."""
    return BusMessage(body=json.dumps(said).encode(), id=name, session=session or None)
