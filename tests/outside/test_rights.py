"""A publisher has its queue and its container: it can do its work with that, and nothing else at all."""

import pytest
from azure.core.exceptions import HttpResponseError

from tests.outside import rights
from tests.outside.people import Publisher


def test_a_publisher_can_do_its_work(outside):
    """Put, replace, touch, read, list and take back a payload, and send."""
    payloads = outside.publisher.payloads
    for content in (b"first", b"second"):
        payloads.upload_blob("mine/a", content, overwrite=True)
    payloads.get_blob_client("mine/a").set_blob_metadata({"touched": "now"})
    assert payloads.download_blob("mine/a").readall() == b"second"
    assert [blob.name for blob in payloads.list_blobs(name_starts_with="mine/")] == ["mine/a"]
    payloads.delete_blob("mine/a")
    assert outside.publisher.send({"sluice": {"items": [{"account": "a", "plan": "basic", "quantity": "1"}]}})


def test_everything_else_is_refused(outside):
    """By operation: on its own queue and container, on those of the app, on tables, on the account."""
    tried = [(what, where, rights.answer(call)) for what, where, call in rights.operations(outside.publisher)]
    assert [one for one in tried if one[2] != rights.REFUSED] == []
    assert len(tried) > 80


def test_a_signature_for_one_queue_opens_no_other(outside):
    """Who holds a signature of another queue and container cannot use it here."""
    other = Publisher(outside.stack.azurite, queue="submissions-other", container="payloads-other")
    with pytest.raises(HttpResponseError) as refused:
        other.queue_named("submissions").send_message("{}")
    assert refused.value.status_code == rights.REFUSED
    with pytest.raises(HttpResponseError) as refused:
        other.container_named("payloads").upload_blob("a", b"x")
    assert refused.value.status_code == rights.REFUSED
