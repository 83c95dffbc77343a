"""The blobs of a container of payloads: written once under the hash of their content, read by ranges, never replaced.

Which container the bytes of a job are in: its room's, where its publisher wrote them, or the app's own.

The room is in the job's id inside, which its queue decided; so no message and no plan can name another room's blob.
"""

import hashlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import IO, Any, Final, NoReturn, TypeVar

from azure.core import MatchConditions
from azure.core.exceptions import AzureError, HttpResponseError, ResourceNotFoundError
from azure.storage.blob import BlobBlock, BlobClient, ContainerClient, ContentSettings

from shared.errors import ContentionError, PayloadTamperedError, RefusedError, StorageUnavailableError
from shared.grammar import check_blob, check_kept, payload_name, room_of
from shared.payload.limits import Limits
from shared.refusals import Reason, refuse
from shared.topology import PLANS, payload_container

_Answer = TypeVar("_Answer")
#: As an ETag: whichever version of the blob there is.
ANY_VERSION: Final = "*"
#: A sweep may delete the blob between finding it and touching it; more often than once is somebody's mistake.
_ATTEMPTS: Final = 5
#: The refusals that say: somebody wrote this name first, perhaps we ourselves, with the reply lost. The last two come
#: when somebody else's write of the name, which may be deleted again, threw our staged blocks away.
_WRITTEN_BEFORE: Final = frozenset({"BlobAlreadyExists", "ConditionNotMet", "InvalidBlockList", "InvalidBlobOrBlock"})
#: The container was deleted, the second for about half a minute.
_NO_CONTAINER: Final = frozenset({"ContainerNotFound", "ContainerBeingDeleted"})


@dataclass(frozen=True, slots=True)
class StoredBlob:
    """A blob as it was found: reads with its ETag see these bytes or nothing."""

    name: str
    etag: str
    size: int


class PayloadStore:
    """Reads and writes one container of payloads; `check` is the grammar of its names.

    `gone` is told when the container itself is not there, where its owner may delete it: what should be in it is then
    missing, and not to be waited for.
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
        """Write the content under its hash, or touch what is there: a sweep that saw it before cannot delete it."""
        name = payload_name(job, sha256)
        blob = self._blob(name)
        return self._answer("write", name, lambda: self._put(blob, content, size, sha256))

    def find(self, name: str) -> StoredBlob:
        """Return the blob, or refuse the payload when it is not there."""
        blob = self._blob(name)
        found = self._answer("look at", name, blob.get_blob_properties)
        return StoredBlob(name, str(found.etag), found.size)

    def read(self, blob: StoredBlob, offset: int, length: int) -> bytes:
        """Return a range of the blob by one request; when it was changed since it was found, that is refused."""
        return self._read(blob, offset, length, {"etag": blob.etag, "match_condition": MatchConditions.IfNotModified})

    def read_touched(self, blob: StoredBlob, offset: int, length: int) -> bytes:
        """Return a range of a blob that others may have touched meanwhile; a hash must say what it is worth.

        A publisher that sends the same payload again gives its blob a new ETag, not new bytes.
        """
        try:
            return self.read(blob, offset, length)
        except RefusedError as refused:
            if refused.reason != Reason.PAYLOAD_REPLACED:
                raise
        return self._read(self.find(blob.name), offset, length, {})

    def stream(self, blob: StoredBlob) -> Iterator[bytes]:
        """Yield the whole blob, a block at a time."""
        for offset in range(0, blob.size, self._limits.block_bytes):
            yield self.read(blob, offset, min(self._limits.block_bytes, blob.size - offset))

    def _blob(self, name: str) -> BlobClient:
        return self._container.get_blob_client(self._check(name))

    def _read(self, blob: StoredBlob, offset: int, length: int, condition: dict[str, Any]) -> bytes:
        if offset + length > blob.size:
            raise refuse(Reason.LENGTH_MISMATCH, f"{blob.name!r} ends at {blob.size}, byte {offset + length} is wanted")
        client: Any = self._blob(blob.name)
        request = partial(client.download_blob, offset, length, **condition)
        content: bytes = self._answer("read", blob.name, lambda: request().readall())
        if len(content) != length:
            raise refuse(Reason.LENGTH_MISMATCH, f"{blob.name!r} gave {len(content)} bytes from {offset}, not {length}")
        return content

    def _put(self, blob: BlobClient, content: IO[bytes], size: int, sha256: str) -> StoredBlob:
        # Staging a large payload that is there already would be paid for nothing.
        is_first = size <= self._limits.block_bytes
        for _ in range(_ATTEMPTS):
            if is_first and (etag := self._create(blob, content, size, sha256)):
                return StoredBlob(blob.blob_name, etag, size)
            if _touch(blob, sha256) and (found := self._verify(blob.blob_name, sha256)):
                return found
            is_first = True
        raise ContentionError(
            f"could not write blob {blob.blob_name!r}: {_ATTEMPTS} times it was there and gone again; "
            "look what deletes payloads, then try again"
        )

    def _create(self, blob: BlobClient, content: IO[bytes], size: int, sha256: str) -> str | None:
        """Return the ETag, or None when the name is taken."""
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
            if _code(refusal) in _WRITTEN_BEFORE:
                return None
            raise
        return str(written["etag"])

    def _stage(self, blob: BlobClient, content: IO[bytes], size: int) -> Iterator[BlobBlock]:
        for number in range(-(-size // self._limits.block_bytes)):
            # The same content has the same blocks under the same ids, whoever stages them.
            block = f"{number:08}"
            blob.stage_block(block, content.read(self._limits.block_bytes))
            yield BlobBlock(block)

    def _verify(self, name: str, sha256: str) -> StoredBlob | None:
        """Return the blob when it is what was to be written, for the reply of our own write may have been lost.

        It is None when it is gone again. Others may touch it meanwhile: the hash decides, not the ETag.
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
            if self._gone is not None and _code(error) in _NO_CONTAINER:
                self._gone()
                found = f"there is no blob {name!r}, for its container {self._container.container_name!r} was deleted"
                raise refuse(Reason.PAYLOAD_MISSING, found) from error
            _refuse_or_raise(attempted, name, error)


def _touch(blob: BlobClient, sha256: str) -> bool:
    """Give the blob a new ETag, and return whether there is a blob."""
    try:
        blob.set_blob_metadata({"sha256": sha256})
    except ResourceNotFoundError as missing:
        if _code(missing) != "BlobNotFound":
            raise
        return False
    return True


def _refuse_or_raise(attempted: str, name: str, error: AzureError) -> NoReturn:
    code = _code(error)
    if code == "BlobNotFound":
        raise refuse(Reason.PAYLOAD_MISSING, f"there is no blob {name!r}") from error
    if code == "ConditionNotMet":
        raise refuse(Reason.PAYLOAD_REPLACED, f"blob {name!r} is not the one that was found") from error
    if code == "InvalidRange":
        raise refuse(Reason.LENGTH_MISMATCH, f"blob {name!r} is shorter than it was") from error
    raise StorageUnavailableError(
        f"could not {attempted} blob {name!r}: {code}; check the storage account, then try again"
    ) from error


def _tampered_error(name: str) -> PayloadTamperedError:
    return PayloadTamperedError(
        f"could not write blob {name!r}: it is there and holds other bytes than its name says; "
        "find out who wrote it, delete it, then try again"
    )


def _code(error: AzureError) -> str:
    # Set by the storage library on the errors it raises, not declared on their class: an enum where it knows the code.
    code = getattr(error, "error_code", None) or type(error).__name__
    return str(getattr(code, "value", code))


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
        self._store = lru_cache(_READY)(self._make)

    def of_room(self, room: str) -> PayloadStore:
        """Return what the publishers of a room write into."""
        return self._store(payload_container(room))

    def store_of_done(self) -> PayloadStore:
        """Return what the app alone writes into."""
        return self._store(PLANS)

    def holding(self, job: str, *, is_kept: bool) -> PayloadStore:
        """Return what holds the payload of a job, as its plan says; a plan of before says nothing, and means its room."""
        return self.store_of_done() if is_kept else self.of_room(room_of(job))

    def _make(self, name: str) -> PayloadStore:
        if name == PLANS:
            return PayloadStore(self._container(name), self._limits, check_kept)
        return PayloadStore(self._container(name), self._limits, check_blob, partial(self._gone, name))
