"""What requests are called: from addresses as the services document them, and from the clients' own requests."""

import pytest
from azure.core.pipeline.transport import RequestsTransport

from shared.azure.connections import Connections
from shared.azure.meter import RequestKind, identify, tally_requests

EMULATED = "http://127.0.0.1:10000/account"


@pytest.mark.parametrize(
    ("service", "asked", "entity", "operation"),
    [
        ("queue", "GET /work-00/messages?numofmessages=16&visibilitytimeout=600", "work-00", "GetMessages"),
        ("queue", "GET /work-00/messages?peekonly=true", "work-00", "PeekMessages"),
        ("queue", "POST /work-00/messages?messagettl=-1", "work-00", "PutMessage"),
        ("queue", "PUT /work-00/messages/1?popreceipt=a&visibilitytimeout=0", "work-00", "UpdateMessage"),
        ("queue", "DELETE /work-00/messages/1?popreceipt=a", "work-00", "DeleteMessage"),
        ("queue", "GET /work-00?comp=metadata", "work-00", "GetQueueMetadata"),
        ("queue", "GET /?comp=list&include=metadata", "", "ListQueues"),
        ("blob", "GET /payloads?restype=container&comp=list&prefix=a", "payloads", "ListBlobs"),
        ("blob", "PUT /payloads?restype=container", "payloads", "CreateContainer"),
        ("blob", "PUT /payloads/job/1/2/3", "payloads", "PutBlob"),
        ("blob", "PUT /payloads/job/1?comp=block&blockid=AA", "payloads", "PutBlock"),
        ("blob", "HEAD /payloads/job", "payloads", "GetBlobProperties"),
        ("table", "GET /jobs()?$filter=a%20eq%20'comp=x'", "jobs", "QueryEntities"),
        ("table", "GET /jobs(PartitionKey='a',RowKey='b')", "jobs", "QueryEntity"),
        ("table", "PATCH /jobs(PartitionKey='a',RowKey='b')", "jobs", "MergeEntity"),
        ("table", "POST /jobs", "jobs", "InsertEntity"),
        ("table", "POST /Tables", "", "CreateTable"),
        ("table", "DELETE /Tables('jobs')", "jobs", "DeleteTable"),
        ("blob", "PUT /payloads/a?comp=new-one", "payloads", "PUT new-one"),
    ],
)
@pytest.mark.parametrize("is_emulated", [True, False])
def test_a_request_is_named_as_the_service_names_it(service, asked, entity, operation, is_emulated):
    """The same name whether the account is in the path, as the emulators have it, or in the host."""
    start = EMULATED if is_emulated else f"https://account.{service}.core.windows.net"
    method, rest = asked.split(" ", 1)
    assert identify(service, method, start + rest) == RequestKind("account", service, entity, operation)


def test_every_request_of_the_clients_has_a_name(provisioned, monkeypatch):
    """No request that the libraries really send is left under its mere method."""
    seen = []
    send = RequestsTransport.send
    monkeypatch.setattr(
        RequestsTransport, "send", lambda self, request, **rest: seen.append(request) or send(self, request, **rest)
    )
    with Connections(provisioned.connection_string) as connections, tally_requests() as tally:
        _ask_for_much(connections)
    kinds = {counted.kind for counted in tally.counts()}
    assert all(kind.account == provisioned.account.name for kind in kinds)
    assert {(kind.entity, kind.operation) for kind in kinds} == {
        ("audit", "InsertEntity"),
        ("audit", "EntityGroupTransaction"),
        ("audit", "QueryEntities"),
        ("audit", "QueryEntity"),
        ("audit", "DeleteEntity"),
        ("settings", "PutBlob"),
        ("settings", "GetBlob"),
        ("settings", "LeaseBlob"),
        ("settings", "ListBlobs"),
        ("settings", "DeleteBlob"),
        ("work-00-poison", "PutMessage"),
        ("work-00-poison", "GetMessages"),
        ("work-00-poison", "GetQueueMetadata"),
        ("work-00-poison", "UpdateMessage"),
        ("work-00-poison", "DeleteMessage"),
    }
    assert tally.total() == len(seen)


def _ask_for_much(connections):
    table = connections.tables.get_table_client("audit")
    table.create_entity({"PartitionKey": "named", "RowKey": "1"})
    table.submit_transaction(
        [("upsert", {"PartitionKey": "named", "RowKey": f"{n}", "text": "x" * 3000}) for n in range(2, 4)]
    )
    for row in list(table.query_entities("PartitionKey eq 'named'")):
        table.delete_entity(table.get_entity(row["PartitionKey"], row["RowKey"]))
    blob = connections.blobs.get_blob_client("settings", "named/one")
    blob.upload_blob(b"x")
    blob.acquire_lease(15).release()
    blob.download_blob().readall()
    assert [one.name for one in connections.blobs.get_container_client("settings").list_blobs("named/")] == [
        "named/one"
    ]
    blob.delete_blob()
    queue = connections.queues.get_queue_client("work-00-poison")
    queue.send_message("x")
    queue.get_queue_properties()
    message = queue.receive_message()
    queue.delete_message(queue.update_message(message, visibility_timeout=30))
