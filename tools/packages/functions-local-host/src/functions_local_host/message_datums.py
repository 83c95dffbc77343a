"""A queue or Service Bus message as the host sends it to a Python worker: one trigger value and its metadata.

Pure: what the listeners received goes in, what `azure.functions` decodes comes out.
"""

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from azure.functions.meta import Datum
from azure.servicebus import ServiceBusReceivedMessage
from azure.storage.queue import QueueMessage

from functions_local_host.contract import Binding
from functions_local_host.datum_values import BytesCollection, IntegerCollection, StringCollection, datum_of, iso
from functions_local_host.json_text import cast_to_text, compact, looks_like_json

#: What .NET gives for a message that never expires.
_NEVER = datetime.max.replace(tzinfo=UTC)
#: Batch columns that are no arrays of strings.
_NOT_STRINGS = frozenset(
    {
        "DeliveryCount",
        "ExpiresAtUtc",
        "ExpiresAt",
        "EnqueuedTimeUtc",
        "EnqueuedTime",
        "ApplicationProperties",
        "UserProperties",
    }
)

Metadata = dict[str, Datum]


class UnreadableBodyError(ValueError):
    """Raised when a body is not what the trigger's data type needs. The run counts as failed."""


def queue_datums(message: QueueMessage, body: bytes, binding: Binding) -> tuple[Datum, Metadata]:
    """Return the trigger value and metadata of one storage queue message, its body already decoded."""
    values = {
        "QueueTrigger": _text_or_none(body),
        "DequeueCount": message.dequeue_count,
        "ExpirationTime": message.expires_on,
        "Id": message.id,
        "InsertionTime": message.inserted_on,
        "NextVisibleTime": message.next_visible_on,
        "PopReceipt": message.pop_receipt,
    }
    return _single(body, binding, values)


def bus_datums(message: ServiceBusReceivedMessage, binding: Binding) -> tuple[Datum, Metadata]:
    """Return the trigger value and metadata of one Service Bus message."""
    return _single(bus_body(message), binding, _bus_values(message))


def bus_batch_datums(messages: Sequence[ServiceBusReceivedMessage], binding: Binding) -> tuple[Datum, Metadata]:
    """Return the trigger value and metadata of a batch, one array per property."""
    rows = [_bus_values(message) for message in messages]
    # The real host fills this array from the partition keys; a function that reads it sees the same here.
    columns = {key: [row[key] for row in rows] for key in rows[0]} | {
        "TransactionPartitionKey": [row["PartitionKey"] for row in rows]
    }
    metadata = {f"{key}Array": _array(key, column) for key, column in columns.items()}
    return _bodies([bus_body(message) for message in messages], _data_type(binding)), metadata


def bus_body(message: ServiceBusReceivedMessage) -> bytes:
    """Return the body of a message made of data sections, the only form that the trigger reads."""
    if message.body_type.value != "data":
        raise UnreadableBodyError(
            f"message {message.message_id!r} has a body of AMQP type {message.body_type.value!r}, the trigger reads"
            " only 'data': send bytes or text"
        )
    return b"".join(message.body)


def merged(metadata: Mapping[str, Datum], body: str) -> Metadata:
    """Return the metadata after the top-level properties of a JSON body have overwritten what they name.

    Names are compared without case and the first spelling stays, so that a body's `id` replaces the message's `Id`.
    """
    merged_data = dict(metadata)
    spelling = {key.lower(): key for key in merged_data}
    for key, value in _properties(body).items():
        datum = _property(value)
        if datum is not None:
            merged_data[spelling.setdefault(key.lower(), key)] = datum
    return merged_data


def _single(body: bytes, binding: Binding, values: Mapping[str, Any]) -> tuple[Datum, Metadata]:
    metadata = {key: datum for key, value in values.items() if (datum := datum_of(value)) is not None}
    if _data_type(binding) == "BINARY":
        return Datum(body, "bytes"), metadata
    text = _text(body)
    return Datum(text, "string"), merged(metadata, text)


def _bodies(bodies: list[bytes], data_type: str) -> Datum:
    if data_type == "BINARY":
        return Datum(BytesCollection(tuple(bodies)), "collection_bytes")
    texts = [_text(body) for body in bodies]
    if data_type == "STRING":
        return Datum(StringCollection(tuple(text for text in texts if text)), "collection_string")
    # Without a data type the host has an array of objects: each body is read as JSON and written anew.
    return Datum(compact([_parsed(text) for text in texts]), "json")


def _bus_values(message: ServiceBusReceivedMessage) -> dict[str, Any]:
    expires, properties = _expiry(message), _application_properties(message)
    return {
        # The AMQP header counts earlier deliveries; .NET counts this one too.
        "DeliveryCount": (message.delivery_count or 0) + 1,
        "DeadLetterSource": message.dead_letter_source,
        "LockToken": str(UUID(str(message.lock_token))) if message.lock_token else None,
        "ExpiresAtUtc": _naive(expires),
        "ExpiresAt": expires,
        "EnqueuedTimeUtc": _naive(message.enqueued_time_utc),
        "EnqueuedTime": message.enqueued_time_utc,
        "MessageId": message.message_id,
        "ContentType": message.content_type,
        "ReplyTo": message.reply_to,
        "SequenceNumber": message.sequence_number,
        "To": message.to,
        "Subject": message.subject,
        "Label": message.subject,
        "CorrelationId": message.correlation_id,
        "ApplicationProperties": properties,
        "UserProperties": properties,
        "SessionId": message.session_id,
        "ReplyToSessionId": message.reply_to_session_id,
        "PartitionKey": message.partition_key,
    }


def _expiry(message: ServiceBusReceivedMessage) -> datetime:
    try:
        return message.expires_at_utc or _NEVER
    except OverflowError:
        # An endless time to live is the longest .NET duration, which passes the end of the calendar.
        return _NEVER


def _naive(moment: datetime | None) -> datetime | None:
    """Return the moment as a .NET DateTime of no kind: UTC, but nothing says so."""
    return None if moment is None else moment.replace(tzinfo=None)


def _application_properties(message: ServiceBusReceivedMessage) -> dict[str, Any]:
    pairs = (message.application_properties or {}).items()
    return {_plain(key): _plain(value) for key, value in pairs}


def _plain(value: Any) -> Any:
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    if isinstance(value, datetime):
        return iso(value.astimezone(UTC).replace(tzinfo=None)) + "Z"
    return value if isinstance(value, str | int | float | bool) or value is None else str(value)


def _property(value: Any) -> Datum | None:
    if isinstance(value, dict):
        return Datum(compact(value), "json")
    return None if isinstance(value, list) else datum_of(cast_to_text(value))


def _properties(body: str) -> dict[str, Any]:
    """Return the top-level properties of a body that is one JSON object. Arrays and broken JSON have none."""
    parsed = _parsed(body)
    return parsed if isinstance(parsed, dict) else {}


def _parsed(text: str) -> Any:
    if not looks_like_json(text):
        return text
    try:
        return json.loads(text)
    except ValueError:
        return text


def _array(key: str, column: list[Any]) -> Datum:
    """Return one column of a batch. Empty strings fall out of an array of strings, which then no longer lines up."""
    if key == "SequenceNumber":
        return Datum(IntegerCollection(tuple(column)), "collection_sint64")
    if key in _NOT_STRINGS:
        values = [iso(item) if isinstance(item, datetime) else item for item in column]
        return Datum(json.dumps(values, separators=(",", ":"), ensure_ascii=False), "json")
    return Datum(StringCollection(tuple(item for item in column if item)), "collection_string")


def _data_type(binding: Binding) -> str:
    return str(binding.settings.get("dataType") or "").upper()


def _text(body: bytes) -> str:
    try:
        return body.decode("utf-8")
    except UnicodeDecodeError as error:
        raise UnreadableBodyError(
            f"the body is not UTF-8 text at byte {error.start}: send text, or give the trigger data_type='binary'"
        ) from error


def _text_or_none(body: bytes) -> str | None:
    try:
        return _text(body)
    except UnreadableBodyError:
        return None
