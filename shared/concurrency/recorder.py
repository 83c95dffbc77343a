"""Writes the trace: one appended line a tick with something to tell, in a blob a day."""

from datetime import datetime
from typing import Final

from azure.core.exceptions import ResourceExistsError, ResourceNotFoundError
from azure.storage.blob import ContainerClient

from shared.answers import expecting_an_answer
from shared.concurrency.trace import Header, Stretch, line

#: In the container `settings`.
FOLDER: Final = "traces"


def name_of(day: datetime) -> str:
    """Return the name of a day's trace."""
    return f"{FOLDER}/{day:%Y-%m-%d}.ndjson"


class Recorder:
    """The traces of one installation."""

    def __init__(self, container: ContainerClient) -> None:
        self._container = container

    def record(self, stretch: Stretch) -> None:
        """Append a stretch to the trace of its day; one request, three for the first of a day."""
        blob = self._container.get_blob_client(name_of(stretch.at))
        with expecting_an_answer("append to the trace of the day"):
            try:
                blob.append_block(line(stretch))
            except ResourceNotFoundError:
                # Another tick may begin the day's trace between the two requests: its header is as good as ours.
                self._begin(name_of(stretch.at))
                blob.append_block(line(stretch))

    def _begin(self, name: str) -> None:
        blob = self._container.get_blob_client(name)
        try:
            blob.create_append_blob(if_none_match="*")
        except ResourceExistsError:
            return
        blob.append_block(line(Header()))

    def read(self, day: datetime) -> bytes | None:
        """Return a day's trace as it is stored, or None."""
        with expecting_an_answer(f"read the trace of {day:%Y-%m-%d}"):
            try:
                return self._container.get_blob_client(name_of(day)).download_blob().readall()
            except ResourceNotFoundError:
                return None
