"""Rooms: publishers that do not trust each other, each with a queue and a container of its own."""

from collections.abc import Callable
from typing import Final

from shared.payload.names import LONGEST_ROOM, is_room

#: Each room is a function that scales by itself; an installation is not made for more.
MOST_ROOMS: Final = 20


def read_rooms(name: str, text: str, report: Callable[[str], None]) -> tuple[str, ...]:
    """Return the rooms that a setting of this name lists, and report what is wrong with them."""
    rooms = tuple(room.strip() for room in text.split(",")) if text.strip() else ()
    for room in rooms:
        if not is_room(room):
            report(
                f"{name} names the room {room[:100]!r}, expected at most {LONGEST_ROOM} small letters, digits and single "
                "hyphens, not `poison` and not ending in `-poison`, such as team-a"
            )
    if len(set(rooms)) < len(rooms):
        report(f"{name} is {text[:200]!r}: name each room once")
    if len(rooms) > MOST_ROOMS:
        report(f"{name} names {len(rooms)} rooms, expected at most {MOST_ROOMS}: each is a function of its own")
    return rooms
