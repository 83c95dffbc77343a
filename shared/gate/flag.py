"""What a waiting process looks at: a gate's blob, or a blob whose mere presence is the flag."""

from contextlib import suppress
from datetime import datetime
from typing import NamedTuple, Protocol

from azure.core.exceptions import ResourceExistsError, ResourceNotFoundError
from azure.storage.blob import ContainerClient

from shared.answers import expecting_an_answer
from shared.gate.gates import Gates
from shared.gate.state import Reading, checked_name


class Look(NamedTuple):
    """What one look at a flag found, and when it was last opened."""

    reading: Reading
    at: datetime | None


class Flag(Protocol):
    """Something that tells whether to go on."""

    @property
    def name(self) -> str:
        """What logs, receipts and errors call it."""
        ...

    def look(self) -> Look:
        """Return what the flag says now."""
        ...


class GateFlag:
    """A gate as a flag: with epochs, so that a pulse between two looks is not missed."""

    def __init__(self, gates: Gates, name: str) -> None:
        self._gates, self._name = gates, checked_name(name)

    @property
    def name(self) -> str:
        """The gate's name."""
        return self._name

    def look(self) -> Look:
        """Return what the gate says now."""
        state = self._gates.read(self._name)
        return Look(state.reading, state.at)


class BlobGlobalFlag:
    """A flag that is set while its blob is there, whatever the blob holds.

    It has no epochs: who looks between two settings sees neither the reset nor that there were two. A gate does.
    """

    def __init__(self, container: ContainerClient, name: str) -> None:
        self._container, self._name = container, checked_name(name, "flag")
        self._blob = container.get_blob_client(name)

    @property
    def name(self) -> str:
        """The blob's name."""
        return self._name

    def set_flag(self, status: bool) -> None:  # noqa: FBT001 - Twist's signature (docs/origins.md), one flag and nothing else
        """Set or reset the flag; setting a set flag and resetting a reset one change nothing."""
        with expecting_an_answer(f"{'set' if status else 'reset'} flag {self._name!r}"):
            if status:
                self._set()
            else:
                self._reset()

    def get_flag(self) -> bool:
        """Whether the flag is set."""
        return self.look().reading.is_open

    def look(self) -> Look:
        """Return what the flag says now; its epoch is always 0."""
        with expecting_an_answer(f"read flag {self._name!r}"):
            try:
                found = self._blob.get_blob_properties()
            except ResourceNotFoundError:
                return Look(Reading(0, is_open=False), None)
            return Look(Reading(0, is_open=True), found.last_modified)

    def _set(self) -> None:
        try:
            self._blob.upload_blob(b"Set", overwrite=True)
        except ResourceNotFoundError:
            # Another process may make it between the two requests.
            with suppress(ResourceExistsError):
                self._container.create_container()
            self._blob.upload_blob(b"Set", overwrite=True)

    def _reset(self) -> None:
        try:
            self._blob.delete_blob()
        except ResourceNotFoundError:
            return
