"""Messages as bytes, against the SDK's own encoder and decoder."""

import pytest
from azure.servicebus._pyamqp._decode import decode_payload
from azure.servicebus._pyamqp._encode import encode_payload
from azure.servicebus._pyamqp.message import Header, Message, Properties
from hypothesis import given, strategies as st
from servicebus_local import wire
from servicebus_local.amend import identified, with_properties
from servicebus_local.parcel import Label, labelled, parcel_from, parcels_from
from servicebus_local.wire import UNREADABLE, MalformedError


def encoded(**parts):
    """A message as the SDK sends it."""
    output = bytearray()
    encode_payload(output, Message(**parts))
    return bytes(output)


def decoded(raw):
    """A message as the SDK reads it."""
    return decode_payload(memoryview(raw))


_FULL = {
    "header": Header(ttl=90_000, priority=3),
    "message_annotations": {"x-opt-partition-key": "p", "x-opt-sequence-number": 9},
    "properties": Properties(message_id="m", subject="s", group_id="g"),
    "application_properties": {"n": 1, "DeadLetterReason": "old"},
    "data": [b"body"],
}


def test_a_message_is_read_as_it_was_written():
    """What the broker decides by is all there."""
    parcel = parcel_from(encoded(**_FULL))
    assert (parcel.message_id, parcel.session_id, parcel.properties["subject"]) == ("m", "g", "s")
    assert parcel.time_to_live == 90.0
    assert parcel.application_properties == {"n": 1, "DeadLetterReason": "old"}


def test_a_label_goes_beside_the_sender_s_annotations_and_replaces_forged_ones():
    """A sender's own sequence number does not get through; its partition key does."""
    message = decoded(labelled(parcel_from(encoded(**_FULL)), Label(7, 5, 1.5, 300, 2.25, 60.0)))
    assert message.message_annotations == {
        b"x-opt-partition-key": b"p",
        b"x-opt-sequence-number": 7,
        b"x-opt-enqueue-sequence-number": 5,
        b"x-opt-enqueued-time": 1500,
        b"x-opt-locked-until": 2250,
    }
    assert (message.header.delivery_count, message.header.ttl, message.header.priority) == (300, 60_000, 3)
    assert list(message.data) == [b"body"]


def test_added_properties_replace_those_of_the_same_name_only():
    """Everything else of the message is untouched."""
    added = {"DeadLetterReason": wire.string("new"), "More": wire.string("é" * 200)}
    parcel = with_properties(parcel_from(encoded(**_FULL)), added)
    assert parcel.application_properties == {"n": 1, "DeadLetterReason": "new", "More": "é" * 200}
    message = decoded(labelled(parcel, Label(1, 1, 0.0)))
    assert (message.properties.message_id, list(message.data)) == (b"m", [b"body"])


@pytest.mark.parametrize("given", [None, Properties(), Properties(subject="s", group_id="g")])
def test_a_message_without_an_id_gets_one_beside_what_it_has(given):
    """The id is the only thing that changes."""
    parcel = identified(parcel_from(encoded(properties=given, data=[b"body"])))
    read = parcel_from(labelled(parcel, Label(1, 1, 0.0)))
    others = {} if given is None or given.subject is None else {"subject": "s", "group_id": "g"}
    assert read.properties == parcel.properties == {"message_id": parcel.message_id, **others}
    assert len(parcel.message_id) == 32


def test_an_envelope_with_sections_of_its_own_is_a_batch():
    """The JavaScript SDK repeats the first message's sections around its batch."""
    one, two = encoded(data=[b"1"]), encoded(data=[b"2"])
    around = {key: value for key, value in _FULL.items() if key != "data"}
    assert len(parcels_from(encoded(**around, data=[one, two]))) == 2


def test_a_batch_is_told_from_a_body():
    """Data sections that are whole messages are a batch; one that is not makes all of it a plain message."""
    one, two = encoded(data=[b"1"]), encoded(properties=Properties(message_id="x"), data=[b"2"])
    assert [parcel.message_id for parcel in parcels_from(encoded(data=[one, two]))] == [None, "x"]
    assert len(parcels_from(encoded(data=[one, two[:-1]]))) == 1
    assert len(parcels_from(encoded(data=[b"\x00S"]))) == 1


@given(st.binary(max_size=80))
def test_no_bytes_break_the_reader(raw):
    """Garbage is refused as garbage or read as a message, never anything else."""
    try:
        parcels_from(raw)
    except UNREADABLE:
        return


@pytest.mark.parametrize("raw", [b"\x01", b"\x00\x53\x79\x40", b"\x00\x53\x75\xa0\x05ab"])
def test_a_cut_or_unknown_section_is_refused(raw):
    """The refusal says where."""
    with pytest.raises(MalformedError, match="byte"):
        parcel_from(raw)
