"""What is sent in bundles: a part is made into bytes once, and several parts of one receiver become one message."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final
from zlib import crc32

import msgspec
from azure.servicebus import ServiceBusMessage

from shared.azure import Destination
from shared.grammar import bus_name
from shared.messaging.commands import MOST_COMMANDS, Command, bundle_id
from shared.messaging.event_messages import EventRange, split_range

#: Bytes of the parts of one message, and of one transfer. The bus's cheapest tier takes 256 KB with all properties.
MOST_BYTES: Final = 200_000
#: Streams in one message.
MOST_STREAMS: Final = 100
#: Events of one stream in one part: some hundred bytes each.
_MOST_EVENTS: Final = 100
_COMMANDS: Final = b'{"sluice":{"kind":"commands","v":1,"commands":['
#: How each form of bundle begins and ends, and its largest number of parts.
_FORMS: Final = {
    "events": (b'{"sluice":{"kind":"events","v":1,"streams":[', b"]}}", MOST_STREAMS),
    "commands": (_COMMANDS, b"]}}", MOST_COMMANDS),
    # One part is all commands of the message: whoever sent them knows which ones came together.
    "bundle": (_COMMANDS, b"]}}", 1),
    # A whole message, as its sender wrote it.
    "plain": (b"", b"", 1),
}
_encoder: Final = msgspec.json.Encoder()


@dataclass(frozen=True, slots=True, kw_only=True)
class Parcel:
    """One part of a message. Parcels of one destination and session are sent in the order in which they were given."""

    to: Destination
    #: Empty: the message has none.
    session: str
    form: str
    id: str
    content: bytes
    #: Names of properties that are true on the message, by which subscriptions filter.
    marks: frozenset[str] = frozenset()


def event_parcels(topic: Destination, session: str, events: EventRange) -> Iterator[Parcel]:
    """Yield the parcels of a range of events."""
    for part in split_range(events, _MOST_EVENTS):
        yield Parcel(
            to=topic,
            session=session,
            form="events",
            id=f"{part.home} {part.first} {part.last}",
            content=_encoder.encode(part),
            marks=frozenset(event.kind for event in part.events),
        )


def command_parcel(queue: Destination, command: Command) -> Parcel:
    """Return the parcel of a command. Its session is its receiver."""
    name = command.id if command.attempt == 1 else f"{command.id}~{command.attempt}"
    return Parcel(to=queue, session=command.to, form="commands", id=name, content=_encoder.encode(command))


def bundle_parcel(queue: Destination, commands: Sequence[Command]) -> Parcel:
    """Return the parcel of commands that are one message, whatever goes along with it, on a queue without sessions."""
    content = b",".join(map(_encoder.encode, commands))
    return Parcel(to=queue, session="", form="bundle", id=bundle_id([each.id for each in commands]), content=content)


def plain_parcel(queue: Destination, id_: str, message: bytes) -> Parcel:
    """Return the parcel of a whole message, on a queue without sessions."""
    return Parcel(to=queue, session="", form="plain", id=id_, content=message)


@dataclass(frozen=True, slots=True)
class ReceiverLanes:
    """The queues with sessions of one kind of receiver: each receiver has its lane, by its name."""

    queues: Sequence[str]

    def of(self, receiver: str) -> Destination:
        """Return the queue of a receiver."""
        return Destination("bus", self.queues[crc32(receiver.encode()) % len(self.queues)])


def bundles(parcels: Iterable[Parcel]) -> Iterator[list[Parcel]]:
    """Yield the parcels of one destination, session and form by message."""
    some: list[Parcel] = []
    size = 0
    for parcel in parcels:
        most = _FORMS[parcel.form][2]
        is_other = bool(some) and (some[0].session, some[0].form) != (parcel.session, parcel.form)
        if some and (is_other or len(some) == most or size + len(parcel.content) > MOST_BYTES):
            yield some
            some, size = [], 0
        some.append(parcel)
        size += len(parcel.content)
    if some:
        yield some


def message_of(bundle: Sequence[Parcel]) -> ServiceBusMessage:
    """Return the message of a bundle. Its id depends on every part: the bus drops a second message of one id."""
    first = bundle[0]
    begin, end, _ = _FORMS[first.form]
    marks: dict[str | bytes, Any] = dict.fromkeys(sorted(frozenset().union(*(each.marks for each in bundle))), True)
    return ServiceBusMessage(
        b"".join((begin, b",".join(each.content for each in bundle), end)),
        session_id=bus_name(first.session) or None,
        message_id=bus_name(bundle_id([each.id for each in bundle])),
        application_properties=marks,
        content_type="application/json",
    )
