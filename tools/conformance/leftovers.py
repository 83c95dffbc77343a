"""The places of runs that were killed. Their names say when the run began, so another run can tell them from its own."""

import re
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from functools import partial
from secrets import token_hex
from typing import Any, Final

from azure.core.exceptions import AzureError

from shared.azure import Connections, is_missing, is_refused
from tools.conformance.belongings import Belonging
from tools.conformance.bus_wishes import PREFIX
from tools.conformance.storage_site import APPS_CONTAINER, APPS_TABLE, TABLE_PREFIX, remove_blobs, remove_rows

#: No run lasts so long.
_OVER: Final = timedelta(minutes=10)
_NAME: Final = re.compile(rf"(?:{PREFIX}-|{TABLE_PREFIX})(?P<began>[0-9a-f]{{8}})[0-9a-f]{{4}}(?![0-9a-f])")


def new_nonce(now: datetime) -> str:
    """Return the part of a run's names that no other run has: its beginning, and random letters."""
    return f"{int(now.timestamp()):08x}{token_hex(2)}"


def run_of(name: str, now: datetime) -> str:
    """Return the beginning of a name that all places of its run share, or nothing unless that run is over for certain."""
    found = _NAME.match(name)
    if found is None or now - datetime.fromtimestamp(int(found["began"], 16), UTC) < _OVER:
        return ""
    return found[0]


def find_leftovers(connections: Connections, now: datetime) -> list[Belonging]:
    """Return the places of killed runs. A login that may not list some of them finds none of those."""
    found: list[Belonging] = []
    for search in (_in_queues, _in_blobs, _in_tables, _on_bus):
        try:
            found += search(connections, now)
        except AzureError as error:
            if not is_refused(error) and not is_missing(error):
                # The others of a service that does not answer would keep a person waiting as long again.
                break
    return found


def _in_queues(connections: Connections, now: datetime) -> Iterator[Belonging]:
    for one in connections.queues.list_queues(name_starts_with=PREFIX):
        if run_of(one.name, now):
            yield Belonging("queue", one.name, partial(connections.queues.delete_queue, one.name))


def _in_blobs(connections: Connections, now: datetime) -> Iterator[Belonging]:
    for one in connections.blobs.list_containers(name_starts_with=PREFIX):
        if run_of(one.name, now):
            yield Belonging("container", one.name, partial(connections.blobs.delete_container, one.name))
    apps = connections.blobs.get_container_client(APPS_CONTAINER)
    for run in {run_of(name, now) for name in apps.list_blob_names(name_starts_with=PREFIX)} - {""}:
        yield Belonging("blobs", f"{APPS_CONTAINER}/{run}/*", partial(remove_blobs, apps, f"{run}/"))


def _in_tables(connections: Connections, now: datetime) -> Iterator[Belonging]:
    # The character after the last one of the prefix ends the range.
    names = f"TableName ge '{TABLE_PREFIX}' and TableName lt '{TABLE_PREFIX[:-1]}s'"
    for one in connections.tables.query_tables(names):
        if run_of(one.name, now):
            yield Belonging("table", one.name, partial(connections.tables.delete_table, one.name))
    apps = connections.tables.get_table_client(APPS_TABLE)
    rows = apps.query_entities(f"PartitionKey ge '{PREFIX}-' and PartitionKey lt '{PREFIX}.'", select=["PartitionKey"])
    for run in {run_of(row["PartitionKey"], now) for row in rows} - {""}:
        yield Belonging("rows", f"{APPS_TABLE}/{run}-*", partial(remove_rows, apps, f"{run}-"))


def _on_bus(connections: Connections, now: datetime) -> Iterator[Belonging]:
    if not connections.has_bus:
        return
    with connections.bus_administration() as admin:
        names = [("bus queue", one.name) for one in admin.list_queues()]
        names += [("topic", one.name) for one in admin.list_topics()]
    for kind, name in names:
        if run_of(name, now):
            yield Belonging(kind, name, partial(_remove_on_bus, connections, kind, name))


def _remove_on_bus(connections: Connections, kind: str, name: str) -> None:
    with connections.bus_administration() as admin:
        remove: Callable[[str], Any] = admin.delete_topic if kind == "topic" else admin.delete_queue
        remove(name)
