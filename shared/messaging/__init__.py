"""Messages between streams: commands and events on the bus, in bundles, in order inside a stream.

Reading order: `commands` and `event_messages` (the formats), `parcels` (bundles), `publisher`, `rests` (who is slowed).
"""

from shared.messaging.commands import MOST_COMMANDS, Command, command_id, decode_commands
from shared.messaging.event_messages import SHARDS, EventRange, decode_events, shard_of
from shared.messaging.parcels import (
    Parcel,
    ReceiverLanes,
    bundle_parcel,
    command_parcel,
    event_parcels,
    message_of,
    plain_parcel,
)
from shared.messaging.publisher import BusPublisher
from shared.messaging.rests import Pace, PaceLane

__all__ = [
    "MOST_COMMANDS",
    "SHARDS",
    "BusPublisher",
    "Command",
    "EventRange",
    "Pace",
    "PaceLane",
    "Parcel",
    "ReceiverLanes",
    "bundle_parcel",
    "command_id",
    "command_parcel",
    "decode_commands",
    "decode_events",
    "event_parcels",
    "message_of",
    "plain_parcel",
    "shard_of",
]
