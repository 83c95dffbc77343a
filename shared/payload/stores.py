"""Which container the bytes of a job are in: its room's, where its publisher wrote them, or the app's own.

The room is in the job's id inside, which its queue decided; so no message and no plan can name another room's blob.
"""

from collections.abc import Callable
from functools import lru_cache, partial
from typing import Final

from azure.storage.blob import ContainerClient

from shared.payload.limits import Limits
from shared.payload.names import check_blob, check_kept, room_of
from shared.payload.store import PayloadStore
from shared.topology import PLANS, payload_container

#: Clients that are kept ready: more than an installation has rooms.
_READY: Final = 32


class PayloadStores:
    """The containers of payloads of one installation; making one asks nothing of storage.

    `gone` is told the name of a container that publishers may delete, when it is not there.
    """

    def __init__(
        self,
        container: Callable[[str], ContainerClient],
        limits: Limits | None = None,
        gone: Callable[[str], object] = lambda _name: None,
    ) -> None:
        self._container, self._limits, self._gone = container, limits or Limits(), gone
        # A client takes as long to make as a small chunk takes to read.
        self._store = lru_cache(_READY)(self._made)

    def of_room(self, room: str) -> PayloadStore:
        """Return what the publishers of a room write into."""
        return self._store(payload_container(room))

    def kept(self) -> PayloadStore:
        """Return what the app alone writes into."""
        return self._store(PLANS)

    def holding(self, job: str, *, is_kept: bool) -> PayloadStore:
        """Return what holds the payload of a job, as its plan says; a plan of before says nothing, and means its room."""
        return self.kept() if is_kept else self.of_room(room_of(job))

    def _made(self, name: str) -> PayloadStore:
        if name == PLANS:
            return PayloadStore(self._container(name), self._limits, check_kept)
        return PayloadStore(self._container(name), self._limits, check_blob, partial(self._gone, name))
