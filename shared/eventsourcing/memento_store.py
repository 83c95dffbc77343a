"""Where mementos are stored: in a row of the home, and one that no row holds in a blob.

A memento saves reading, and no truth is only there. If it cannot be read, the events are read instead, and the next
commit writes a new one. Each blob has its own name, so that a commit that loses replaces nothing.
"""

from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Final

import zstandard
from azure.core.exceptions import AzureError, ResourceNotFoundError
from azure.storage.blob import ContainerClient

from shared.azure import Entity
from shared.eventsourcing.home_rows import MEMENTO, join_columns
from shared.eventsourcing.homes import Memento

#: Bytes of one column, and of all columns. A column takes 64 KiB and a row 1 MiB, which Azurite counts in Base64.
_WIDTH: Final = 60 * 1024
_MOST_IN_A_ROW: Final = 700 * 1024


class MementoStore:
    """Mementos as rows of homes, with a container for large ones."""

    def __init__(self, container: ContainerClient, most_in_a_row: int = _MOST_IN_A_ROW) -> None:
        self._container, self._most_in_a_row = container, most_in_a_row

    def put(self, home: str, memento: Memento | None, nonce: str) -> Entity | None:
        """Return the row of a memento. A large one is in its blob before this returns."""
        if memento is None:
            return None
        row = {"PartitionKey": home, "RowKey": MEMENTO, "version": memento.version, "format": memento.format}
        packed = zstandard.ZstdCompressor(level=1).compress(memento.packed)
        if len(packed) > self._most_in_a_row:
            name = f"{home}/{memento.version:010}-{nonce}"
            self._container.upload_blob(name, packed, overwrite=True)
            return row | {"blob": name}
        pieces = (packed[first : first + _WIDTH] for first in range(0, len(packed), _WIDTH))
        return row | {f"packed{number or ''}": piece for number, piece in enumerate(pieces)}

    def memento_of(self, row: Mapping[str, Any]) -> Memento | None:
        """Return the memento of a row, or None if it cannot be read."""
        try:
            name = row.get("blob")
            packed = b"".join(join_columns(row, "packed")) if name is None else self._read(name)
            return Memento(row["version"], row["format"], zstandard.ZstdDecompressor().decompress(packed))
        except (zstandard.ZstdError, ResourceNotFoundError, KeyError, TypeError):
            return None

    def remove_earlier(self, row: Entity | None) -> None:
        """Remove the blobs that this row has replaced. What stays is removed after the next large memento."""
        if row is None or "blob" not in row:
            return
        home = row["PartitionKey"]
        # The row that leads to it is written. A failure here must not turn that success into an error.
        with suppress(AzureError):
            for name in list(self._container.list_blob_names(name_starts_with=f"{home}/")):
                # Another one of this version is of a commit that has lost.
                if name != row["blob"] and name.rpartition("-")[0] <= row["blob"].rpartition("-")[0]:
                    self._container.delete_blob(name)

    def _read(self, name: str) -> bytes:
        return self._container.download_blob(name).readall()
