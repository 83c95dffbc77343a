"""The broker's changes to a sender's message: an id where it has none, a note of its fate, its source."""

from collections.abc import Mapping
from dataclasses import replace
from uuid import uuid4

from servicebus_local import wire
from servicebus_local.parcel import Parcel

_SOURCE_KEY = wire.symbol("x-opt-deadletter-source")


def forwarded(parcel: Parcel, source: str) -> Parcel:
    """Return a copy that names the entity where it became a dead letter."""
    return replace(
        parcel,
        annotations=parcel.annotations + _SOURCE_KEY + wire.string(source),
        annotation_elements=parcel.annotation_elements + 2,
    )


def identified(parcel: Parcel) -> Parcel:
    """Return the message with an id: one of the broker's where its sender gave none, as the service does."""
    if parcel.message_id is not None:
        return parcel
    message_id = uuid4().hex
    rest, values = parcel.bare, [wire.string(message_id)]
    for descriptor, _, value, end in wire.sections(parcel.bare):
        if descriptor == wire.PROPERTIES:
            values += [parcel.bare[start:stop] for start, stop in wire.elements(parcel.bare, value)[1:]]
            rest = parcel.bare[end:]
        break
    section = wire.section(wire.PROPERTIES, 0xD0, len(values), b"".join(values))
    return replace(parcel, bare=section + rest, properties={**parcel.properties, "message_id": message_id})


def with_properties(parcel: Parcel, added: Mapping[str, bytes]) -> Parcel:
    """Return a copy whose application properties hold `added`, encoded values, in place of any of the same name."""
    before, pairs, after = b"", [], b""
    for descriptor, start, value, end in wire.sections(parcel.bare):
        if descriptor == wire.PROPERTIES:
            before = parcel.bare[start:end]
        elif descriptor == wire.APPLICATION_PROPERTIES:
            spans = wire.elements(parcel.bare, value)
            for (key_start, _), (_, pair_end) in zip(spans[::2], spans[1::2], strict=True):
                if wire.read(parcel.bare, key_start)[0] not in added:
                    pairs.append(parcel.bare[key_start:pair_end])
        else:
            after = parcel.bare[start:]
            break
    pairs += [wire.string(key) + encoded for key, encoded in added.items()]
    section = wire.section(wire.APPLICATION_PROPERTIES, 0xD1, 2 * len(pairs), b"".join(pairs))
    return replace(parcel, bare=before + section + after, _application=None)
