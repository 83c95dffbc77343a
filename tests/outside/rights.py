"""What a publisher tries that is not its own: each operation, and Azurite's answer to its two signatures."""

from azure.core.credentials import AzureSasCredential
from azure.core.exceptions import HttpResponseError
from azure.data.tables import TableServiceClient
from azure.storage.blob import BlobServiceClient
from azure.storage.queue import QueueServiceClient

#: Where publishers have nothing to look for.
CONTAINERS = ("plans", "results", "outputs", "gates", "ids", "parked")
QUEUES = ("work-00", "submissions-poison", "work-00-poison")
TABLES = ("jobs", "parked", "totals", "pending", "audit")
REFUSED = 403


def operations(publisher):
    """Yield (what, on what, a call) for everything that must be refused."""
    yield from _on_its_own(publisher)
    for name in CONTAINERS:
        yield from _on_blobs(publisher.container_named(name), name)
    for name in QUEUES:
        other = publisher.queue_named(name)
        yield "send", f"queue {name}", lambda other=other: other.send_message("x")
        yield "receive", f"queue {name}", lambda other=other: list(other.receive_messages())
    yield from _on_the_account(publisher)


def on_a_room(publisher, room):
    """Yield the same for a room that is not the publisher's; `room` is the end of its names."""
    other = publisher.queue_named(f"submissions{room}")
    for what, call in (("send", lambda: other.send_message("{}")), ("peek", other.peek_messages)):
        yield what, f"queue {other.queue_name}", call
    yield from _on_blobs(publisher.container_named(f"payloads{room}"), f"payloads{room}")


def _on_its_own(publisher):
    queue, payloads = publisher.queue, publisher.payloads
    yield "peek", "its queue", queue.peek_messages
    yield "receive", "its queue", lambda: list(queue.receive_messages())
    yield "clear", "its queue", queue.clear_messages
    yield "delete a message", "its queue", lambda: queue.delete_message("a", "b")
    yield "change a message", "its queue", lambda: queue.update_message("a", "b", content="x")
    yield "count", "its queue", queue.get_queue_properties
    yield "delete", "its queue", queue.delete_queue
    yield "create", "its queue", queue.create_queue
    yield "set rights", "its queue", lambda: queue.set_queue_access_policy({})
    yield "delete", "its container", payloads.delete_container
    yield "create", "its container", payloads.create_container
    yield "open to all", "its container", lambda: payloads.set_container_access_policy({}, public_access="blob")


def _on_blobs(container, name):
    where, blob = f"container {name}", container.get_blob_client("a/b")
    yield "list", where, lambda: list(container.list_blobs())
    yield "read", where, blob.download_blob
    yield "write", where, lambda: blob.upload_blob(b"x", overwrite=True)
    yield "delete", where, blob.delete_blob
    yield "set metadata", where, lambda: blob.set_blob_metadata({"a": "b"})
    yield "delete", f"the whole container {name}", container.delete_container


def _on_the_account(publisher):
    for credential in publisher.signatures:
        blobs = BlobServiceClient(publisher.endpoints["blob"], credential, retry_total=0)
        queues = QueueServiceClient(publisher.endpoints["queue"], credential, retry_total=0)
        tables = TableServiceClient(
            publisher.endpoints["table"], credential=AzureSasCredential(credential), retry_total=0
        )
        yield "list containers", "the account", lambda blobs=blobs: list(blobs.list_containers())
        yield "create a container", "the account", lambda blobs=blobs: blobs.create_container("mine")
        yield "set properties", "the account", lambda blobs=blobs: blobs.set_service_properties(cors=[])
        yield "list queues", "the account", lambda queues=queues: list(queues.list_queues())
        yield "create a queue", "the account", lambda queues=queues: queues.create_queue("mine")
        yield "list tables", "the account", lambda tables=tables: list(tables.list_tables())
        for name in TABLES:
            table, row = tables.get_table_client(name), {"PartitionKey": "a", "RowKey": "b"}
            yield "read", f"table {name}", lambda table=table: list(table.list_entities())
            yield "write", f"table {name}", lambda table=table, row=row: table.upsert_entity(row)
            yield "delete", f"table {name}", lambda table=table, row=row: table.delete_entity(row)


def answer(call):
    """Return the status that storage answers with; 200 where it did what was asked."""
    try:
        call()
    except HttpResponseError as refusal:
        return refusal.status_code
    return 200
