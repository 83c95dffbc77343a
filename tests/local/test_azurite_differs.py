"""Where Azurite differs from Azure, as docs/appendix/stand-ins.md lists it: a difference that goes away is noticed here."""

import re
from http.client import HTTPException
from secrets import token_hex

import pytest
from azure.core.exceptions import HttpResponseError

from shared.azure import Connections
from tests.conformance.storage_proxy import connection_string
from tools.local.paths import ROOT


@pytest.fixture
def whole(azurite):
    """Clients with the account's key."""
    with Connections(azurite.connection_string, retries=0) as connections:
        yield connections


@pytest.fixture
def table(whole):
    """An empty table."""
    made = whole.tables.create_table(f"differs{token_hex(4)}")
    yield made
    made.delete_table()


def test_a_batch_of_deletions_by_signature_is_answered_by_500(azurite, whole):
    """Azure takes it."""
    name = f"differs-{token_hex(4)}"
    whole.blobs.create_container(name).upload_blob("one", b"")
    with Connections(connection_string(azurite, azurite.ports), retries=0) as signed:
        with pytest.raises(HttpResponseError) as refusal:
            list(signed.blobs.get_container_client(name).delete_blobs("one"))
        assert refusal.value.status_code == 500
    whole.blobs.delete_container(name)


def test_a_batch_of_101_rows_has_no_readable_answer(table):
    """Azure refuses it with 400, which the library raises as a refusal."""
    with pytest.raises(HTTPException):
        table.submit_transaction([("create", {"PartitionKey": "p", "RowKey": str(n)}) for n in range(101)])
    assert list(table.list_entities()) == []


def test_a_receipt_of_an_earlier_delivery_is_refused_with_400(whole):
    """Azure says 404."""
    queue = whole.queues.create_queue(f"differs-{token_hex(4)}")
    queue.send_message("x")
    message = next(iter(queue.receive_messages(visibility_timeout=60)))
    queue.update_message(message.id, message.pop_receipt, visibility_timeout=60)
    with pytest.raises(HttpResponseError) as refusal:
        queue.delete_message(message.id, message.pop_receipt)
    assert refusal.value.status_code == 400
    queue.delete_queue()


def test_a_row_of_more_than_a_mebibyte_is_taken(table):
    """Azure refuses an entity above 1 MiB."""
    table.create_entity({"PartitionKey": "p", "RowKey": "r", **{f"b{n}": bytes(60_000) for n in range(20)}})
    assert len(table.get_entity("p", "r")) == 22


def test_an_unknown_api_version_is_taken(whole):
    """Azure refuses a version that it does not have."""
    seen = []
    whole.queues.get_service_properties(raw_response_hook=seen.append, headers={"x-ms-version": "2099-01-01"})
    assert seen[0].http_response.status_code == 200


def test_each_difference_of_the_page_has_a_test():
    """A row more needs a test more."""
    page = (ROOT / "docs" / "appendix" / "stand-ins.md").read_text()
    rows = re.search(r"\| matter \| Azure Storage \| Azurite \|\n.*?\n\n", page, re.DOTALL)[0].count("\n| ") - 1
    tests = [name for name in globals() if name.startswith("test_")]
    assert rows == len(tests) - 1
