"""How the rooms share the work: plain data, which an operator's rules may hold."""

from collections.abc import Mapping
from dataclasses import dataclass, field

#: A room without a share of its own, and the part that urgent jobs may take ahead if the rules do not say.
WEIGHT, URGENT_AHEAD = 1, 0.25


@dataclass(frozen=True, slots=True)
class RoomShare:
    """The share of one room."""

    #: A room of weight 3 gets three times the seconds of work of one that weighs 1.
    weight: int = WEIGHT
    #: It never has more chunks than this on the queues. None: as many as the window gives it.
    most: int | None = None


@dataclass(frozen=True, slots=True)
class Shares:
    """The shares of all rooms. One that is not named has the usual share."""

    #: The part of a room's own share that its urgent jobs may take ahead.
    urgent: float = URGENT_AHEAD
    rooms: Mapping[str, RoomShare] = field(default_factory=dict)

    def of(self, room: str) -> RoomShare:
        """Return the share of a room."""
        return self.rooms.get(room, RoomShare())
