"""Repairs the rooms: makes containers that publishers deleted again, and reports queues that no function reads.

A publisher's role lets it delete the container of its room. A reader that finds it gone leaves a pointer. Publishers
that only write leave none, so all containers are also checked once a day. A room taken off the list leaves its queue, and
so does a smaller `SLUICE_WORK_QUEUES`.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from azure.core.exceptions import HttpResponseError
from azure.storage.blob import BlobServiceClient
from azure.storage.queue import QueueServiceClient

from shared.azure import expecting_an_answer
from shared.clock import Clock
from shared.pending import AT_ONCE, ROOM_POINTER, PendingTable, Pointer
from shared.telemetry import events, tell
from shared.topology import (
    MOST_WORK_QUEUES,
    POISON_SUFFIX,
    payload_container,
    rooms,
    submission_queue,
    topology,
    work_queue_names,
)

#: Hour of the day, in UTC, at which all rooms are checked.
LOOK_HOUR: Final = 2
#: The work queues that an installation may have had.
_WORK_QUEUES: Final = frozenset(work_queue_names(MOST_WORK_QUEUES))
#: Storage's codes for a container that it does not make.
_THERE, _GOING = "ContainerAlreadyExists", "ContainerBeingDeleted"


def point_at(pending: PendingTable) -> Callable[[str], object]:
    """Return a function that leaves a pointer to a missing container. Repeated calls leave one row."""
    return lambda container: pending.add(Pointer(ROOM_POINTER, AT_ONCE, container))


class Unread(NamedTuple):
    """A queue that no function reads, and how many messages it has."""

    queue: str
    messages: int


def list_unread(queues: QueueServiceClient, work_queues: int, names: Sequence[str]) -> list[Unread]:
    """Return the queues of rooms that are on the list no more, and the work queues above this number that have messages.

    It takes one request, and one for each such queue.
    """
    known = set(topology(work_queues, [rooms(names)]).queues)
    found = []
    for name in (one.name for one in queues.list_queues()):
        is_of_work = name.removesuffix(POISON_SUFFIX) in _WORK_QUEUES
        if name not in known and (is_of_work or name.startswith(f"{submission_queue()}-")):
            messages = queues.get_queue_client(name).get_queue_properties().approximate_message_count or 0
            if messages or not is_of_work:
                found.append(Unread(name, messages))
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class Rooms:
    """Repairs the rooms of an installation. One per process."""

    rooms: tuple[str, ...]
    work_queues: int
    blobs: BlobServiceClient
    queues: QueueServiceClient
    pending: PendingTable
    clock: Clock

    def follow(self, pointer: Pointer) -> None:
        """Make the container of a pointer, unless its room was taken off the list."""
        if pointer.id not in self._containers or self._is_made(pointer.id):
            self.pending.remove(pointer)

    def _is_time(self) -> bool:
        now = self.clock.now()
        # By the clock, like the sweep of payloads: two requests per day, however many rooms there are.
        return (now.hour, now.minute) == (LOOK_HOUR, 0)

    @property
    def _containers(self) -> list[str]:
        return [payload_container(room) for room in ("", *self.rooms)]

    def look_for_containers(self) -> None:
        """Make the missing containers, at the hour of the check."""
        if not self._is_time():
            return
        with expecting_an_answer("list the containers of payloads"):
            there = {one.name for one in self.blobs.list_containers(name_starts_with=payload_container())}
        for name in self._containers:
            if name not in there and not self._is_made(name):
                self.pending.add(Pointer(ROOM_POINTER, AT_ONCE, name))

    def _is_made(self, container: str) -> bool:
        """Make the container. False: storage is still deleting the old one, which takes at least half a minute."""
        with expecting_an_answer(f"make container {container!r}"):
            try:
                self.blobs.create_container(container)
            except HttpResponseError as refusal:
                code = str(getattr(refusal, "error_code", ""))
                if code not in {_THERE, _GOING}:
                    raise
                return code == _THERE
        tell(events.ROOM_REMADE, container=container)
        return True

    def look_for_queues(self) -> None:
        """Log the queues that an earlier setting left behind, at the hour of the check."""
        if not self._is_time():
            return
        with expecting_an_answer("find the queues that no function reads"):
            unread = list_unread(self.queues, self.work_queues, self.rooms)
        for one in unread:
            tell(events.QUEUE_UNREAD, queue=one.queue, messages=one.messages)
