"""A message as its sender handed it over: read once, kept as bytes, wrapped anew for each delivery."""

from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from servicebus_local import wire

#: Annotations that only the broker may set; a sender's own, as on a message that is sent on, are dropped.
_OWN_ANNOTATIONS = frozenset(
    {
        "x-opt-enqueued-time",
        "x-opt-sequence-number",
        "x-opt-enqueue-sequence-number",
        "x-opt-locked-until",
        "x-opt-message-state",
        "x-opt-deadletter-source",
    }
)
_SCHEDULED_FOR = "x-opt-scheduled-enqueue-time"
#: Positions in the properties section.
_PROPERTY_NAMES = (
    "message_id",
    "user_id",
    "to",
    "subject",
    "reply_to",
    "correlation_id",
    "content_type",
    "content_encoding",
    "absolute_expiry_time",
    "creation_time",
    "group_id",
    "group_sequence",
    "reply_to_group_id",
)
_SEQUENCE_KEY = wire.symbol("x-opt-sequence-number")
_ORIGIN_KEY = wire.symbol("x-opt-enqueue-sequence-number")
_ENQUEUED_KEY = wire.symbol("x-opt-enqueued-time")
_LOCKED_KEY = wire.symbol("x-opt-locked-until")
_STATE_KEY = wire.symbol("x-opt-message-state")
_TOKEN_KEY = wire.symbol("x-opt-lock-token")


@dataclass(slots=True)
class Parcel:
    """One message: what the broker decides by, and the bytes that it passes on."""

    #: From the properties section to the end.
    bare: bytes
    #: The sender's annotations, encoded, without those that belong to the broker; and how many elements they are.
    annotations: bytes = b""
    annotation_elements: int = 0
    durable: bytes = wire.NULL
    priority: bytes = wire.NULL
    #: Seconds; None where the sender set none.
    time_to_live: float | None = None
    #: Seconds since the epoch; 0 where the message is for now.
    scheduled_for: float = 0.0
    properties: dict[str, Any] = field(default_factory=dict)
    _application: dict[str, Any] | None = None

    @property
    def session_id(self) -> str | None:
        """The session that the message belongs to."""
        return self.properties.get("group_id")

    @property
    def message_id(self) -> str | None:
        """The id that duplicate detection goes by."""
        identity = self.properties.get("message_id")
        return None if identity is None else str(identity)

    @property
    def application_properties(self) -> dict[str, Any]:
        """The user's properties, read on first use: queues never need them."""
        if self._application is None:
            self._application = _read_application_properties(self.bare)
        return self._application


def _read_application_properties(bare: bytes) -> dict[str, Any]:
    for descriptor, _, value, _ in wire.sections(bare):
        if descriptor == wire.APPLICATION_PROPERTIES:
            return dict(wire.read(bare, value)[0] or {})
    return {}


def _read_header(parcel: Parcel, buffer: bytes, value: int) -> None:
    spans = wire.elements(buffer, value)
    raw = [buffer[start:end] for start, end in spans[:2]]
    parcel.durable, parcel.priority = (*raw, wire.NULL, wire.NULL)[:2]
    if len(spans) > 2:
        milliseconds = wire.read(buffer, spans[2][0])[0]
        parcel.time_to_live = None if milliseconds is None else milliseconds / 1000


def _read_annotations(parcel: Parcel, buffer: bytes, value: int) -> None:
    spans = wire.elements(buffer, value)
    kept = []
    for (key_start, _), (start, end) in zip(spans[::2], spans[1::2], strict=True):
        key = wire.read(buffer, key_start)[0]
        if key in _OWN_ANNOTATIONS:
            continue
        kept.append(buffer[key_start:end])
        if key == _SCHEDULED_FOR:
            parcel.scheduled_for = (wire.read(buffer, start)[0] or 0) / 1000
    parcel.annotations, parcel.annotation_elements = b"".join(kept), 2 * len(kept)


def _read_properties(parcel: Parcel, buffer: bytes, value: int) -> None:
    values = wire.read(buffer, value)[0]
    parcel.properties = {name: value for name, value in zip(_PROPERTY_NAMES, values, strict=False) if value is not None}


def parcel_from(buffer: bytes) -> Parcel:
    """Read one encoded message."""
    parcel = Parcel(b"")
    bare = len(buffer)
    try:
        for descriptor, start, value, _ in wire.sections(buffer):
            if descriptor == wire.HEADER:
                _read_header(parcel, buffer, value)
            elif descriptor == wire.MESSAGE_ANNOTATIONS:
                _read_annotations(parcel, buffer, value)
            elif descriptor >= wire.PROPERTIES:
                bare = min(bare, start)
                if descriptor > wire.PROPERTIES:
                    break
                _read_properties(parcel, buffer, value)
    except wire.UNREADABLE as error:
        raise wire.MalformedError(f"a message of {len(buffer)} bytes cannot be read: {error}") from error
    parcel.bare = buffer[bare:]
    return parcel


def _messages_inside(buffer: bytes) -> list[bytes]:
    inside = []
    for descriptor, _, value, _ in wire.sections(buffer):
        if descriptor == wire.DATA:
            content = wire.read(buffer, value)[0]
            # An encoded message starts with a described section; nearly every other body fails this first check.
            if content[:2] not in {b"\x00\x53", b"\x00\x80"}:
                return []
            inside.append(content)
        elif descriptor in {wire.SEQUENCE, wire.VALUE}:
            return []
    return inside


def parcels_from(buffer: bytes) -> list[Parcel]:
    """Read a transfer: one message, or a batch, whose data sections are themselves encoded messages.

    The transfer's message format, 0x80013700, would tell them apart, but proton's Python layer does not pass it on.
    Around a batch may stand anything but other data: the JavaScript SDK repeats the first message's sections there.
    """
    inside = _messages_inside(buffer)
    if inside:
        try:
            for content in inside:
                for _ in wire.sections(content):
                    pass
            return [parcel_from(content) for content in inside]
        except wire.UNREADABLE:
            return [parcel_from(buffer)]
    return [parcel_from(buffer)]


@dataclass(frozen=True, slots=True)
class Label:
    """The annotations that the broker writes on a message when it hands it out."""

    sequence: int
    #: The message's number in the topic that it was sent to; None for one that was sent to a queue.
    origin: int | None
    enqueued: float
    failures: int = 0
    #: Seconds since the epoch; None for a message that is only looked at.
    locked_until: float | None = None
    #: Seconds, the smaller of the sender's and the entity's.
    time_to_live: float | None = None
    #: 0 active, 1 deferred, 2 scheduled.
    state: int = 0
    #: None for a message that is not locked.
    token: str | None = None


def lock_token(token: str) -> UUID:
    """Return a lock's token as clients know it; its bytes are the delivery's tag."""
    return UUID(bytes_le=token.encode())


def _delivery_annotations(token: str | None) -> bytes:
    if token is None:
        return wire.section(wire.DELIVERY_ANNOTATIONS, 0xD1, 0, b"")
    pair = _TOKEN_KEY + wire.uuid(lock_token(token))
    return wire.section(wire.DELIVERY_ANNOTATIONS, 0xD1, 2, pair)


def labelled(parcel: Parcel, label: Label) -> bytes:
    """Return the message with its label, ready for a receiver."""
    life = wire.NULL if label.time_to_live is None else wire.uint(min(int(label.time_to_live * 1000), 0xFFFFFFFF))
    header = parcel.durable + parcel.priority + life + wire.NULL + wire.uint(label.failures)
    annotations = [
        parcel.annotations,
        _SEQUENCE_KEY,
        wire.long(label.sequence),
        _ENQUEUED_KEY,
        wire.timestamp(label.enqueued),
    ]
    if label.origin is not None:
        annotations += (_ORIGIN_KEY, wire.long(label.origin))
    if label.locked_until is not None:
        annotations += (_LOCKED_KEY, wire.timestamp(label.locked_until))
    if label.state:
        annotations += (_STATE_KEY, wire.long(label.state))
    count = parcel.annotation_elements + len(annotations) - 1
    return (
        wire.section(wire.HEADER, 0xD0, 5, header)
        + _delivery_annotations(label.token)
        + wire.section(wire.MESSAGE_ANNOTATIONS, 0xD1, count, b"".join(annotations))
        + parcel.bare
    )
