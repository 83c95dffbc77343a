"""Payload blobs: written once under the hash of their content, read by ranges, never replaced.

A job's bytes are in its room's container, where its publisher wrote them, or in the app's own. The room is part of the
job's internal id, which its queue decided. So no message and no plan can name a blob of another room.

Bounds on the size, depth and density of submissions: one value, passed to every reader and writer.
"""

import hashlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, fields, replace
from functools import lru_cache, partial
from typing import IO, Any, Final, NoReturn, TypeVar

from azure.core import MatchConditions
from azure.core.exceptions import AzureError, HttpResponseError, ResourceNotFoundError
from azure.storage.blob import BlobBlock, BlobClient, ContainerClient, ContentSettings

from shared.azure import error_code
from shared.errors import ContentionError, PayloadTamperedError, RefusedError, StorageUnavailableError
from shared.grammar import check_blob, check_kept, payload_name, room_of
from shared.refusals import Reason, refuse
from shared.topology import PLANS, payload_container

#: A payload that fits into so many stretches goes whole.
WHOLE: Final = 2
#: How much more a payload may be that goes in stretches.
_GROWS: Final = 10
KIB: Final = 1024
MIB: Final = 1024 * KIB


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """The bounds of a submission. The writer keeps well within the reader's bounds."""

    #: The limit of a storage queue, counted after encoding.
    message_bytes: int = 64 * KIB
    #: Arrays and objects within each other.
    depth: int = 32
    line_bytes: int = 256 * KIB
    #: The shortest line is `{}` and its line feed: an index that claims more transactions is refused.
    line_least: int = 3
    #: The writer ends a frame at the first of these two.
    frame_items: int = 1_000
    #: Smaller chunks share frames of the app, for fewer lines compress badly.
    frame_items_least: int = 100
    frame_bytes: int = 1 * MIB
    #: The reader's limits for one frame, stored and expanded; 4 MiB of the worst JSON are 100 MiB of objects.
    frame_items_most: int = 100_000
    frame_stored_most: int = 4 * MIB
    frame_expanded_most: int = 4 * MIB
    #: Bytes of one ranged read, and its frames, whose rows fill a fifth of a work message at most.
    chunk_stored_most: int = 16 * MIB
    chunk_frames_most: int = 128
    #: About the most chunks of a job: a row each, and a part of the plan.
    chunks_most: int = 100_000
    #: The upper bounds of one part of a chunk, in lines and expanded bytes. A larger frame is a part of its own.
    part_items: int = 10_000
    part_bytes: int = 4 * MIB
    #: The upper bounds of the kept text of a chunk's rejected transactions, and of its whole result.
    rejected_text_most: int = 4 * MIB
    result_most: int = 32 * MIB
    #: Bytes that expand to more than this multiple of their size are a bomb, from `ratio_from` expanded bytes on.
    ratio_most: int = 500
    ratio_from: int = 1 * MIB
    items_most: int = 10_000_000
    frames_most: int = 100_000
    #: Lines of a file, blank ones included, and its compressed members: skipping them costs time too.
    lines_most: int = 20_000_000
    members_most: int = 20_000
    stored_most: int = 2 * 1024 * MIB
    expanded_most: int = 16 * 1024 * MIB
    #: Bytes of text of a stretch, counted in its lines as framed. A payload that fits into two of them goes whole. The same
    #: content is to be cut alike by every publisher, so a change is a migration.
    stretch_bytes: int = 64 * MIB
    stretches_most: int = 1_000
    #: The size of one request when a blob is written, or a file without an index is read.
    block_bytes: int = 4 * MIB
    #: The size of an index that is a blob of its own.
    index_bytes: int = 16 * MIB
    #: Above this size a spool is a file. It holds compressed frames, a few dozen bytes per transaction.
    spool_in_memory: int = 1 * MIB

    @property
    def whole_bytes(self) -> int:
        """The most bytes of a file that is framed as a whole."""
        return WHOLE * self.stretch_bytes

    def of_stretches(self) -> "Limits":
        """Return the bounds of a payload that goes in stretches: ten times those of one that goes whole."""
        names = ("items_most", "frames_most", "lines_most", "members_most", "stored_most", "expanded_most")
        return replace(self, **{name: _GROWS * getattr(self, name) for name in names})

    def check_growth(self, number: int, items: int) -> None:
        """Refuse a stretch of this number with which its job would have so many transactions."""
        most = self.of_stretches().items_most
        if number >= self.stretches_most or items > most:
            raise refuse(
                Reason.TOO_MANY_ITEMS,
                f"with stretch {number} it would have {items:,} transactions, the limits are {self.stretches_most:,} "
                f"stretches and {most:,} transactions",
            )

    def __post_init__(self) -> None:
        for one in fields(self):
            if getattr(self, one.name) < 1:
                raise ValueError(f"{one.name} is {getattr(self, one.name)}, expected 1 or more")
        if self.frame_items > self.frame_items_most or self.frame_bytes > self.frame_expanded_most:
            raise ValueError(
                f"frames of {self.frame_items} transactions and {self.frame_bytes} bytes are larger than the reader's limits, "
                f"{self.frame_items_most} and {self.frame_expanded_most}"
            )
        if self.line_bytes > self.frame_bytes:
            raise ValueError(f"a line of {self.line_bytes} bytes does not fit a frame of {self.frame_bytes}")


_Answer = TypeVar("_Answer")
#: As an ETag: any version of the blob.
ANY_VERSION: Final = "*"
#: Attempts at a write. A sweep may delete the blob before it is touched; more often than once, another program does.
_ATTEMPTS: Final = 5
#: Refusals because the name was written first, perhaps by our own write whose reply was lost. The last two come when
#: another write of the name, which may be deleted again, discarded our staged blocks.
_WRITTEN_BEFORE: Final = frozenset({"BlobAlreadyExists", "ConditionNotMet", "InvalidBlockList", "InvalidBlobOrBlock"})
#: Refusals because the container was deleted. The second lasts for about half a minute.
_NO_CONTAINER: Final = frozenset({"ContainerNotFound", "ContainerBeingDeleted"})


@dataclass(frozen=True, slots=True)
class StoredBlob:
    """A version of a blob: a read with its ETag returns these bytes or is refused."""

    name: str
    etag: str
    size: int
    #: The hash of its content, where its writer or storage noted one, and a file is cut by ranges.
    md5: str = field(default="", compare=False)


class PayloadStore:
    """Reads and writes one container of payloads. `check` is the grammar of its names.

    `gone` is for a container that its owner may delete. It is called when the container does not exist: its blobs are
    then missing, and not waited for.
    """

    def __init__(
        self,
        container: ContainerClient,
        limits: Limits | None = None,
        check: Callable[[str], str] = check_blob,
        gone: Callable[[], object] | None = None,
    ) -> None:
        self._container, self._limits, self._check, self._gone = container, limits or Limits(), check, gone

    def put(self, job: str, content: IO[bytes], size: int, sha256: str) -> StoredBlob:
        """Write the content under its hash, or touch the existing blob, so that a sweep that saw it before cannot delete it."""
        name = payload_name(job, sha256)
        blob = self._blob(name)
        return self._answer("write", name, lambda: self._put(blob, content, size, sha256))

    def find(self, name: str) -> StoredBlob:
        """Return the blob, or refuse the payload if it does not exist."""
        blob = self._blob(name)
        properties = self._answer("find", name, blob.get_blob_properties)
        md5 = bytes(properties.content_settings.content_md5 or b"").hex()
        return StoredBlob(name, str(properties.etag), properties.size, md5)

    def read(self, blob: StoredBlob, offset: int, length: int) -> bytes:
        """Return a range of the blob by one request. Refuse it if the blob changed since it was found."""
        return self._read(blob, offset, length, {"etag": blob.etag, "match_condition": MatchConditions.IfNotModified})

    def read_touched(self, blob: StoredBlob, offset: int, length: int) -> bytes:
        """Return a range of any version: a publisher that repeats its payload changes the ETag only. Verify the hash."""
        try:
            return self.read(blob, offset, length)
        except RefusedError as refused:
            if refused.reason != Reason.PAYLOAD_REPLACED:
                raise
        return self._read(self.find(blob.name), offset, length, {})

    def stream(self, blob: StoredBlob) -> Iterator[bytes]:
        """Yield the whole blob, one block per request."""
        for offset in range(0, blob.size, self._limits.block_bytes):
            yield self.read(blob, offset, min(self._limits.block_bytes, blob.size - offset))

    def _blob(self, name: str) -> BlobClient:
        return self._container.get_blob_client(self._check(name))

    def _read(self, blob: StoredBlob, offset: int, length: int, condition: dict[str, Any]) -> bytes:
        if offset + length > blob.size:
            raise refuse(
                Reason.LENGTH_MISMATCH, f"{blob.name!r} has {blob.size} bytes, its index ends at {offset + length}"
            )
        client: Any = self._blob(blob.name)
        # The bytes as they are stored: the index and the hash are of these.
        request = partial(client.download_blob, offset, length, decompress=False, **condition)
        content: bytes = self._answer("read", blob.name, lambda: request().readall())
        if len(content) != length:
            raise refuse(
                Reason.LENGTH_MISMATCH,
                f"{blob.name!r} has {len(content)} bytes from {offset} on, its index says {length}",
            )
        return content

    def _put(self, blob: BlobClient, content: IO[bytes], size: int, sha256: str) -> StoredBlob:
        # Staging a large payload that exists already would cost requests in vain.
        is_first = size <= self._limits.block_bytes
        for _ in range(_ATTEMPTS):
            if is_first and (etag := self._create(blob, content, size, sha256)):
                return StoredBlob(blob.blob_name, etag, size)
            if _touch(blob, sha256) and (found := self._verify(blob.blob_name, sha256)):
                return found
            is_first = True
        raise ContentionError(
            f"could not write blob {blob.blob_name!r}: in {_ATTEMPTS} attempts it existed and was deleted again; "
            "find the program that deletes payloads, stop it, then try again"
        )

    def _create(self, blob: BlobClient, content: IO[bytes], size: int, sha256: str) -> str | None:
        """Return the ETag of the new blob, or None if the name is taken."""
        content.seek(0)
        kept: Any = {
            "metadata": {"sha256": sha256},
            "content_settings": ContentSettings(content_type="application/octet-stream"),
        }
        try:
            if size <= self._limits.block_bytes:
                written = blob.upload_blob(content.read(size), overwrite=False, **kept)
            else:
                written = blob.commit_block_list(
                    list(self._stage(blob, content, size)), match_condition=MatchConditions.IfMissing, **kept
                )
        except HttpResponseError as refusal:
            if error_code(refusal) in _WRITTEN_BEFORE:
                return None
            raise
        return str(written["etag"])

    def _stage(self, blob: BlobClient, content: IO[bytes], size: int) -> Iterator[BlobBlock]:
        for number in range(-(-size // self._limits.block_bytes)):
            # Every writer stages the same content as the same blocks under the same ids.
            block = f"{number:08}"
            blob.stage_block(block, content.read(self._limits.block_bytes))
            yield BlobBlock(block)

    def _verify(self, name: str, sha256: str) -> StoredBlob | None:
        """Return the blob if it has the right hash, for our own write may have made it and its reply may be lost.

        None: it was deleted again. Other writers may touch it meanwhile, so the hash decides, not the ETag.
        """
        digest = hashlib.sha256()
        try:
            found = self.find(name)
            for offset in range(0, found.size, self._limits.block_bytes):
                digest.update(self._read(found, offset, min(self._limits.block_bytes, found.size - offset), {}))
        except RefusedError as refused:
            if refused.reason == Reason.PAYLOAD_MISSING:
                return None
            raise _tampered_error(name) from refused
        if digest.hexdigest() != sha256:
            raise _tampered_error(name)
        return found

    def _answer(self, attempted: str, name: str, request: Callable[[], _Answer]) -> _Answer:
        try:
            return request()
        except AzureError as error:
            if self._gone is not None and error_code(error) in _NO_CONTAINER:
                self._gone()
                found = f"blob {name!r} does not exist: its container {self._container.container_name!r} was deleted"
                raise refuse(Reason.PAYLOAD_MISSING, found) from error
            _refuse_or_raise(attempted, name, error)


def _touch(blob: BlobClient, sha256: str) -> bool:
    """Give the blob a new ETag. Return False if there is no blob."""
    try:
        blob.set_blob_metadata({"sha256": sha256})
    except ResourceNotFoundError as missing:
        if error_code(missing) != "BlobNotFound":
            raise
        return False
    return True


def _refuse_or_raise(attempted: str, name: str, error: AzureError) -> NoReturn:
    code = error_code(error)
    if code == "BlobNotFound":
        raise refuse(Reason.PAYLOAD_MISSING, f"blob {name!r} does not exist") from error
    if code == "ConditionNotMet":
        raise refuse(Reason.PAYLOAD_REPLACED, f"blob {name!r} was changed since it was found") from error
    if code == "InvalidRange":
        raise refuse(Reason.LENGTH_MISMATCH, f"blob {name!r} is shorter than its index says") from error
    raise StorageUnavailableError(
        f"could not {attempted} blob {name!r}: {code}; check the storage account, then try again"
    ) from error


def _tampered_error(name: str) -> PayloadTamperedError:
    return PayloadTamperedError(
        f"could not write blob {name!r}: it exists and holds other bytes than the hash in its name; "
        "find its writer, delete it, then try again"
    )


#: Clients that are kept ready: more than an installation has rooms.
_READY: Final = 32


class PayloadStores:
    """The payload containers of one installation. Making a client sends no request.

    `gone` is called with the name of a container that publishers may delete, when it does not exist.
    """

    def __init__(
        self,
        container: Callable[[str], ContainerClient],
        limits: Limits | None = None,
        gone: Callable[[str], object] = lambda _name: None,
    ) -> None:
        self._container, self._limits, self._gone = container, limits or Limits(), gone
        # A client takes as long to make as a small chunk takes to read.
        self._store = lru_cache(_READY)(self._make)

    def of_room(self, room: str) -> PayloadStore:
        """Return the store that the publishers of a room write to."""
        return self._store(payload_container(room))

    def container_of(self, room: str) -> ContainerClient:
        """Return the client of the container that the publishers of a room write to."""
        return self._container(payload_container(room))

    def store_of_done(self) -> PayloadStore:
        """Return the store that only the app writes to."""
        return self._store(PLANS)

    def holding(self, job: str, *, is_kept: bool) -> PayloadStore:
        """Return the store with a job's payload, as its plan says. A plan of an older version says nothing: its room."""
        return self.store_of_done() if is_kept else self.of_room(room_of(job))

    def _make(self, name: str) -> PayloadStore:
        if name == PLANS:
            return PayloadStore(self._container(name), self._limits, check_kept)
        return PayloadStore(self._container(name), self._limits, check_blob, partial(self._gone, name))
