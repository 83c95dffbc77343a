import base64
import json
import uuid
from datetime import UTC, datetime, timedelta

import proton
import pytest
from azure.functions.meta import Datum, get_binding_registry
from azure.servicebus import ServiceBusReceivedMessage
from azure.storage.queue import QueueMessage
from functions_local_host.contract import Binding
from functions_local_host.datum_values import BytesCollection, StringCollection
from functions_local_host.message_datums import UnreadableBodyError, bus_batch_datums, bus_datums, merged, queue_datums

NOON = datetime(2026, 1, 2, 12, 0, 0, tzinfo=UTC)
TOKEN = uuid.UUID("12345678-1234-5678-1234-567812345678")


def queue_message() -> QueueMessage:
    """Return a message as storage gives it on its second delivery."""
    message = QueueMessage(content="ignored")
    message.id, message.dequeue_count, message.pop_receipt = "m-1", 2, "receipt"
    message.inserted_on, message.next_visible_on = NOON, NOON + timedelta(minutes=10)
    message.expires_on = NOON + timedelta(days=7)
    return message


def received(body: str, *, sequence: int = 1, **changes) -> ServiceBusReceivedMessage:
    """Return a message as the SDK reads it from the wire, with what a broker notes on it."""
    message = proton.Message(inferred=True, body=body.encode(), **changes)
    message.annotations = {
        proton.symbol("x-opt-sequence-number"): sequence,
        proton.symbol("x-opt-enqueued-time"): proton.timestamp(int(NOON.timestamp() * 1000)),
    }
    message.instructions = {proton.symbol("x-opt-lock-token"): TOKEN}
    return ServiceBusReceivedMessage.from_bytes(bytes(message.encode()))


def decoded_bus(message, **settings):
    """Return what a function for one message would get."""
    datum, metadata = bus_datums(message, Binding("serviceBusTrigger", "msg", settings))
    return get_binding_registry().get("serviceBusTrigger").decode(datum, trigger_metadata=metadata)


def decoded_batch(messages, **settings):
    """Return what a function for many messages would get."""
    datum, metadata = bus_batch_datums(messages, Binding("serviceBusTrigger", "msg", settings))
    return get_binding_registry().get("serviceBusTrigger").decode(datum, trigger_metadata=metadata)


def test_queue_metadata_has_the_types_of_the_real_host():
    """Texts are strings, numbers and times are JSON with the zone written out."""
    datum, metadata = queue_datums(queue_message(), b"hello", Binding("queueTrigger", "msg"))
    assert datum == Datum("hello", "string")
    assert metadata == {
        "QueueTrigger": Datum("hello", "string"),
        "DequeueCount": Datum("2", "json"),
        "ExpirationTime": Datum('"2026-01-09T12:00:00+00:00"', "json"),
        "Id": Datum("m-1", "string"),
        "InsertionTime": Datum('"2026-01-02T12:00:00+00:00"', "json"),
        "NextVisibleTime": Datum('"2026-01-02T12:10:00+00:00"', "json"),
        "PopReceipt": Datum("receipt", "string"),
    }


def test_a_json_body_replaces_the_id_of_its_message():
    """The trap of the real host: top-level properties overwrite metadata, whatever their case."""
    body = json.dumps({"ID": "mine", "dequeuecount": 99}).encode()
    datum, metadata = queue_datums(queue_message(), body, Binding("queueTrigger", "msg"))
    message = get_binding_registry().get("queueTrigger").decode(datum, trigger_metadata=metadata)
    assert (message.id, message.dequeue_count) == ("mine", 99)


def test_a_binary_trigger_gets_the_bytes_and_no_merge():
    """With data type binary the metadata stay those of the message."""
    binding = Binding("queueTrigger", "msg", {"dataType": "BINARY"})
    datum, metadata = queue_datums(queue_message(), b'{"id":"mine"}', binding)
    assert datum == Datum(b'{"id":"mine"}', "bytes")
    assert metadata["Id"] == Datum("m-1", "string")


def test_bytes_that_are_no_text_are_refused_by_a_text_trigger_only():
    """A binary trigger takes them."""
    with pytest.raises(UnreadableBodyError, match="not UTF-8 text at byte 0"):
        queue_datums(queue_message(), b"\xff", Binding("queueTrigger", "msg"))
    assert queue_datums(queue_message(), b"\xff", Binding("queueTrigger", "msg", {"dataType": "BINARY"}))


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ('{"Id": true}', Datum("True", "string")),
        ('{"Id": 1.0}', Datum("1", "string")),
        ('{"Id": 1.5}', Datum("1.5", "string")),
        ('{"Id": "2026-01-02T03:04:05Z"}', Datum("01/02/2026 03:04:05", "string")),
        ('{"Id": "2026-01-02T03:04:05+02:00"}', Datum("01/02/2026 01:04:05", "string")),
        ('{"Id": {"b": 1, "at": "2026-01-02T03:04:05.10Z"}}', Datum('{"b":1,"at":"2026-01-02T03:04:05.1Z"}', "json")),
        ('{"Id": null}', Datum("was", "string")),
        ('{"Id": [1]}', Datum("was", "string")),
        ('{"Id": 1', Datum("was", "string")),
        ('[{"Id": 1}]', Datum("was", "string")),
        ("{broken}", Datum("was", "string")),
        ('{"id": 1, "ID": 2}', Datum("2", "string")),
    ],
)
def test_scalars_become_text_and_objects_stay_json(body, expected):
    """Arrays, null and broken JSON change nothing; of two spellings the last one counts."""
    assert merged({"Id": Datum("was", "string")}, body) == {"Id": expected}


def test_a_new_property_of_the_body_becomes_metadata():
    """Under its own spelling."""
    assert merged({}, '{"batchId": "b"}') == {"batchId": Datum("b", "string")}


def test_a_bus_message_reads_as_it_was_sent():
    """Ids, properties and counts arrive, with the count of this delivery included."""
    message = decoded_bus(
        received(
            "hello",
            id="id-1",
            group_id="s-1",
            subject="created",
            correlation_id="c-1",
            content_type="text/plain",
            properties={"n": 1, "t": "x"},
            delivery_count=2,
            sequence=77,
        )
    )
    assert message.get_body() == b"hello"
    assert (message.message_id, message.session_id, message.correlation_id) == ("id-1", "s-1", "c-1")
    assert message.label == message.subject == "created"
    assert message.application_properties == message.user_properties == {"n": 1, "t": "x"}
    assert (message.delivery_count, message.sequence_number) == (3, 77)
    assert message.lock_token == str(TOKEN)


def test_the_times_of_a_bus_message_are_naive():
    """The real host sends them without a zone; code that compares must take naive ones."""
    message = decoded_bus(received("x"))
    assert message.enqueued_time_utc == NOON.replace(tzinfo=None)
    assert message.expires_at_utc.year == 9999


def test_what_a_message_does_not_have_is_left_out():
    """A null is no metadata at all, and what the real host never sends is None."""
    _, metadata = bus_datums(received("x"), Binding("serviceBusTrigger", "msg"))
    assert "CorrelationId" not in metadata
    message = decoded_bus(received("x"))
    assert message.time_to_live is None
    assert message.dead_letter_reason is None


def test_a_batch_reads_as_its_messages():
    """One array per property, one message per entry."""
    messages = decoded_batch(
        [received(f"b{n}", id=f"id-{n}", sequence=n, properties={"n": n}) for n in range(3)],
        dataType="STRING",
        cardinality="MANY",
    )
    assert [message.get_body() for message in messages] == [b"b0", b"b1", b"b2"]
    assert [message.message_id for message in messages] == ["id-0", "id-1", "id-2"]
    assert [message.sequence_number for message in messages] == [0, 1, 2]
    assert [message.application_properties for message in messages] == [{"n": 0}, {"n": 1}, {"n": 2}]
    assert [message.delivery_count for message in messages] == [1, 1, 1]


def test_absent_texts_shift_the_arrays_of_a_batch():
    """The real host drops empty entries, so that the second message's id is read as the first's."""
    messages = decoded_batch([received("a"), received("b", id="id-b", correlation_id="c-b")], dataType="STRING")
    assert [message.correlation_id for message in messages] == ["c-b", None]


@pytest.mark.parametrize(
    ("data_type", "expected"),
    [
        ("BINARY", Datum(BytesCollection((b"x", b'{"a": 1}')), "collection_bytes")),
        ("STRING", Datum(StringCollection(("x", '{"a": 1}')), "collection_string")),
        (None, Datum('["x",{"a":1}]', "json")),
    ],
)
def test_the_bodies_of_a_batch_follow_the_data_type(data_type, expected):
    """Without one, JSON bodies are parsed and written anew."""
    datum, _ = bus_batch_datums(
        [received("x"), received('{"a": 1}')], Binding("serviceBusTrigger", "msg", {"dataType": data_type})
    )
    assert datum == expected


def test_a_body_that_is_a_value_is_refused_by_name():
    """The trigger reads bytes only."""
    message = ServiceBusReceivedMessage.from_bytes(bytes(proton.Message(body="x").encode()))
    with pytest.raises(UnreadableBodyError, match="'value'"):
        bus_datums(message, Binding("serviceBusTrigger", "msg"))


def test_base64_text_is_only_text_on_the_bus():
    """The queue's encoding has no part in Service Bus bodies."""
    text = base64.b64encode(b"x").decode()
    assert decoded_bus(received(text)).get_body() == text.encode()
