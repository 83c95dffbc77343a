"""Bodies to stored events and back: the kinds, the format, and which are part of the causal story only."""

import re
from collections.abc import Mapping
from datetime import datetime
from typing import Final, get_args

import msgspec

from shared.decoding import convert
from shared.errors import LaterFormatError
from shared.eventsourcing import Event
from shared.registration.bodies import Body, GenerationKept, PaymentRejected, ReplySkipped

FORMAT: Final = 1
#: The causal story only.
_PRIVATE: Final = (GenerationKept, PaymentRejected, ReplySkipped)
#: By its kind, which is the class's name with underscores.
BODIES: Final[Mapping[str, type[Body]]] = {
    re.sub(r"(?<!^)(?=[A-Z])", "_", body.__name__).lower(): body for body in get_args(Body)
}
#: What subscribers of the topics get.
PUBLIC: Final = tuple(kind for kind, body in BODIES.items() if body not in _PRIVATE)
_KINDS: Final = {body: kind for kind, body in BODIES.items()}


def event_of(body: Body, at: datetime, *, command: str = "", generation: int = 0) -> Event:
    """Return the event to store."""
    return Event(
        kind=_KINDS[type(body)],
        body=msgspec.to_builtins(body),
        at=at,
        command=command,
        generation=generation,
        format=FORMAT,
        is_public=not isinstance(body, _PRIVATE),
    )


def body_of(event: Event) -> Body:
    """Return the body of a stored event, or raise LaterFormatError for one that a newer app wrote."""
    return convert(event.body, check_format(event))


def check_format(event: Event) -> type[Body]:
    """Return the type of an event's body, or raise LaterFormatError for one that a newer app wrote."""
    kind = BODIES.get(event.kind)
    if kind is None or event.format > FORMAT:
        raise LaterFormatError(
            f"could not read event {event.version} of kind {event.kind!r} in format {event.format}: this program knows "
            f"format {FORMAT} of {len(BODIES)} kinds; update the app. The home is unchanged"
        )
    return kind
