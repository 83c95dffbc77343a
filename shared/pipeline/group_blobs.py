"""The blob of the results that one table transaction credits.

A settler writes it before the rows that name it. It is the packed results, one after the other, by the numbers of their
chunks; `zstd -d` reads it. Its name is the hash of its bytes. So it is written once, and a settler that finds it there
finds what it was about to write. A blob that no row names in the end goes with the bytes of its job.
"""

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Final

from azure.core.exceptions import HttpResponseError
from azure.storage.blob import ContainerClient

from shared.azure import expecting_an_answer
from shared.ledger import ChunkRow

_WRITTEN_BEFORE: Final = frozenset({409, 412})


@dataclass(frozen=True, slots=True)
class GroupBlob:
    """Packed results side by side, and where each lies."""

    name: str
    content: bytes
    #: Offset and length, by the chunk and the hash of its result: of a chunk that ran twice, never the other run.
    places: Mapping[tuple[int, str | None], tuple[int, int]]

    def holds(self, rows: Iterable[ChunkRow]) -> bool:
        """Check whether the results of all these rows are in it."""
        return all((row.chunk, row.hash) in self.places for row in rows)

    def place(self, row: ChunkRow) -> ChunkRow:
        """Return the row with the place of its result, if it is in here."""
        found = self.places.get((row.chunk, row.hash))
        return row if found is None else replace(row, blob=self.name, offset=found[0], length=found[1])


def assemble(job: str, results: Iterable[tuple[ChunkRow, bytes]]) -> GroupBlob:
    """Return the blob of these rows and their packed results."""
    ordered = sorted(results, key=lambda one: one[0].chunk)
    places, offset = {}, 0
    for row, packed in ordered:
        places[row.chunk, row.hash] = offset, len(packed)
        offset += len(packed)
    content = b"".join(packed for _, packed in ordered)
    return GroupBlob(f"{job}/groups/{hashlib.sha256(content).hexdigest()}", content, places)


class GroupBlobs:
    """The container of results, as settlers write to it."""

    def __init__(self, container: ContainerClient) -> None:
        self._container = container

    def put(self, blob: GroupBlob) -> None:
        """Write the blob, unless it is there."""
        with expecting_an_answer(f"write results {blob.name!r}"):
            try:
                # Without `overwrite` the request says If-None-Match: *.
                self._container.upload_blob(blob.name, blob.content)
            except HttpResponseError as refusal:
                # Its name says what is in it.
                if refusal.status_code not in _WRITTEN_BEFORE:
                    raise
