"""A job's outputs: parts of newline-delimited JSON, compressed, written once each, and a manifest that names them all.

A name is written once and the first content stays, so that a finisher that was stopped and one that follows it, or two
at once, leave the same set. Only what the manifest names is the output; docs/ledger.md describes both.
"""

import hashlib
from collections.abc import Iterator, Mapping
from io import BytesIO
from typing import Any, Final

import msgspec
import zstandard
from azure.core.exceptions import HttpResponseError
from azure.storage.blob import ContainerClient, ContentSettings
from msgspec import Struct

from shared.answers import expecting_an_answer

#: Uncompressed bytes of a part: what a finisher holds of it compressed is a small share of that.
PART_BYTES: Final = 32 * 1024 * 1024
MANIFEST: Final = "manifest.json"
_WRITTEN_BEFORE: Final = frozenset({409, 412})
_NDJSON: Final = ContentSettings(content_type="application/x-ndjson", content_encoding="zstd")
_JSON: Final = ContentSettings(content_type="application/json")


class Part(Struct, frozen=True):
    """One blob of the output, as the manifest names it."""

    name: str
    items: int
    bytes: int
    sha256: str


class Outputs:
    """The outputs of one revision of a job."""

    def __init__(self, container: ContainerClient, job: str, revision: int) -> None:
        self._container, self._folder = container, f"{job}/{revision}"

    def put_part(self, name: str, content: bytes, items: int) -> None:
        """Write a part, unless it is there."""
        digest = hashlib.sha256(content).hexdigest()
        self._put(f"{name}.ndjson.zst", content, _NDJSON, {"items": str(items), "sha256": digest})

    def parts(self) -> Iterator[Part]:
        """Yield what was written, by name; of each part, what is stored counts and not what was computed again."""
        with expecting_an_answer(f"list the outputs in {self._folder!r}"):
            for blob in self._container.list_blobs(name_starts_with=f"{self._folder}/", include=["metadata"]):
                if blob.metadata and "sha256" in blob.metadata:
                    name = blob.name.removeprefix(f"{self._folder}/")
                    yield Part(name, int(blob.metadata["items"]), blob.size, blob.metadata["sha256"])

    def put_manifest(self, manifest: Struct) -> None:
        """Write the manifest, unless it is there."""
        content = msgspec.json.format(msgspec.json.encode(manifest), indent=2)
        self._put(MANIFEST, content, _JSON, {})

    def _put(self, name: str, content: bytes, settings: ContentSettings, metadata: Mapping[str, str]) -> None:
        path = f"{self._folder}/{name}"
        with expecting_an_answer(f"write output {path!r}"):
            try:
                # Without `overwrite` the request says If-None-Match: *.
                self._container.upload_blob(path, content, content_settings=settings, metadata=dict(metadata))
            except HttpResponseError as refusal:
                # Another finisher of this revision, or this very request with its reply lost.
                if refusal.status_code not in _WRITTEN_BEFORE:
                    raise


class PartWriter:
    """Writes lines as numbered parts of bounded size; the same lines always make the same parts."""

    def __init__(self, outputs: Outputs, name: str, part_bytes: int = PART_BYTES) -> None:
        self._outputs, self._name, self._limit = outputs, name, part_bytes
        self._number = 0
        self._begin()

    def write(self, content: Any) -> None:
        """Add one line."""
        self.write_line(msgspec.json.encode(content) + b"\n")

    def write_line(self, line: bytes) -> None:
        """Add one line as it is, with its line feed."""
        if self._items and self._size + len(line) > self._limit:
            self.close()
        self._compressed.write(self._packer.compress(line))
        self._items += 1
        self._size += len(line)

    def close(self) -> None:
        """Write what was not written yet; a name of which there are no lines has no parts."""
        if not self._items:
            return
        self._compressed.write(self._packer.flush())
        self._outputs.put_part(f"{self._name}-{self._number:06}", self._compressed.getvalue(), self._items)
        self._number += 1
        self._begin()

    def _begin(self) -> None:
        self._packer = zstandard.ZstdCompressor(level=3, write_checksum=True).compressobj()
        # What it holds is handed over without a copy.
        self._compressed = BytesIO()
        self._items = self._size = 0
