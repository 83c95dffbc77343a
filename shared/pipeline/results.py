"""The result of a chunk, packed for its message or its blob.

It is one zstd frame. Its first line is one JSON document. Each further line is a rejected transaction in the form of the
output. So a finisher that merges a thousand results decodes no rejections, which may be as many as the transactions.

A small result travels in its message. `ResultStore` keeps those that are too large, and those whose message may not
have arrived: each once, under its chunk's name. The first one stays.
"""

import base64
import binascii
import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from io import BytesIO
from typing import Any, Final

import zstandard
from azure.core.exceptions import HttpResponseError, ResourceNotFoundError
from azure.storage.blob import ContainerClient
from msgspec import Raw, Struct, json

from shared.azure import expecting_an_answer
from shared.decoding import decode
from shared.errors import ResultRefusedError
from shared.ledger import result_blob
from shared.messages import VERSION, ChunkMessage, PortionMessage
from shared.payload import Limits
from shared.pipeline.outputs import Ran
from shared.refusals import Reason, refuse
from shared.telemetry import contain
from shared.versions import decode_document

#: The container of results, and the queue of the bus that they travel on.
CONTAINER: Final = "results"
QUEUE: Final = CONTAINER
#: Upper bound of a packed result that travels in its message, and of the same result unpacked.
CONTENT_MOST: Final = 48 * 1024
EXPANDED_MOST: Final = 4 * 1024 * 1024
_MOST: Final = Limits().result_most
_ELSE: Final = f"find out who else writes to container {CONTAINER!r}"
_WRITTEN_BEFORE: Final = frozenset({409, 412})


class ChunkResult(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The result of a chunk. It does not depend on when, where or how often the chunk was run."""

    job: str
    chunk: int
    revision: int
    workload: str
    accepted: PortionMessage
    rejected: PortionMessage
    #: Of the workload's own type.
    partial: Raw
    #: Only in results of an earlier version; now they are lines of their own.
    rejections: list[Raw] = []
    v: int = VERSION


@dataclass(frozen=True, slots=True)
class StoredResult:
    """A result with its blob's name, hash, and stored bytes."""

    name: str
    hash: str
    length: int
    result: ChunkResult


@dataclass(frozen=True, slots=True)
class PackedResult:
    """A result that was just made, with its bytes, and the blob that it may go to."""

    stored: StoredResult
    content: bytes
    #: Its bytes, unpacked.
    expanded: int

    @property
    def travels(self) -> bool:
        """True if it travels in its message. A settler unpacks no more than this."""
        return len(self.content) <= CONTENT_MOST and self.expanded <= EXPANDED_MOST


def pack_result(chunk: ChunkMessage, ran: Ran, limits: Limits) -> PackedResult:
    """Return the result of a chunk from its run."""
    result = result_of(chunk, ran)
    text = write_result(result, ran.rejections, limits)
    content = zstandard.ZstdCompressor(level=1).compress(text)
    name = result_blob(chunk.job, chunk.revision, chunk.chunk)
    return PackedResult(StoredResult(name, hash_result(text), len(content), result), content, len(text))


def result_of(chunk: ChunkMessage, ran: Ran) -> ChunkResult:
    """Return the result of a chunk from its run."""
    return ChunkResult(
        job=chunk.job,
        chunk=chunk.chunk,
        revision=chunk.revision,
        workload=chunk.workload,
        accepted=ran.accepted,
        rejected=ran.rejected,
        partial=Raw(json.encode(ran.partial)),
    )


def write_result(result: ChunkResult, rejections: bytes, limits: Limits) -> bytes:
    """Return a result in its stored form."""
    # A workload's raw JSON may have line feeds. Valid JSON has none inside a string, so a blank replaces each.
    head = json.encode(result).replace(b"\n", b" ")
    size = len(head) + 1 + len(rejections)
    if size > limits.result_most:
        raise refuse(Reason.RESULT_TOO_LARGE, f"it is {size} bytes, the limit is {limits.result_most}")
    return b"".join((head, b"\n", rejections))


def unpack_result(name: str, stored: bytes, most: int = _MOST) -> bytes:
    """Return the result in the blob of this name. Earlier versions stored it unpacked."""
    if not stored.startswith(zstandard.FRAME_HEADER):
        return stored
    try:
        if (size := zstandard.get_frame_parameters(stored).content_size) > most:
            raise ResultRefusedError(f"result {name!r} claims {size} bytes, the limit is {most}; {_ELSE}")
        return zstandard.ZstdDecompressor().decompress(stored, allow_extra_data=False)
    except zstandard.ZstdError as error:
        raise ResultRefusedError(f"result {name!r} cannot be unpacked: {error}; {_ELSE}") from error


def open_content(name: str, content: str, wanted: str | None) -> bytes:
    """Return the packed result in a message, or raise ResultRefusedError if it has not the hash that it should have."""
    try:
        packed = base64.b64decode(content, validate=True)
    except (binascii.Error, ValueError) as error:
        raise ResultRefusedError(f"the content of result {name!r} is not Base64: {error}; {_ELSE}") from error
    if len(packed) > CONTENT_MOST or not packed.startswith(zstandard.FRAME_HEADER):
        raise ResultRefusedError(
            f"the content of result {name!r} has {len(packed)} bytes, expected one zstd frame of at most {CONTENT_MOST}; "
            f"{_ELSE}"
        )
    found = hash_result(unpack_result(name, packed, EXPANDED_MOST))
    if found != wanted:
        raise ResultRefusedError(f"the content of result {name!r} has hash {found}, its message says {wanted}; {_ELSE}")
    return packed


def hash_result(content: bytes) -> str:
    """Return the hash of a result, unpacked: another version of zstd packs the same otherwise."""
    return hashlib.sha256(content).hexdigest()


def read_result(content: bytes) -> tuple[ChunkResult, Iterator[bytes]]:
    """Return a stored result, and the lines of its rejections, each with its line feed."""
    stream = BytesIO(content)
    try:
        result: ChunkResult = decode_document(stream.readline(), ChunkResult, "chunk result", "a stored result")
    except (ValueError, RecursionError) as error:
        raise ResultRefusedError(f"a stored result cannot be read: {error}; {_ELSE}") from error
    return result, (bytes(one) + b"\n" for one in result.rejections) if result.rejections else stream


@contain()
def read_partial(result: ChunkResult, partial: type[Any]) -> Any:
    """Return the partial as the type of its workload."""
    try:
        return decode(result.partial, partial)
    except (ValueError, RecursionError) as error:
        raise ResultRefusedError(
            f"the partial of chunk {result.chunk} of job {result.job!r} is not a {partial.__name__}: {error}; "
            f"was the type of workload {result.workload!r} changed while the job ran?"
        ) from error


class ResultStore:
    """The container of results."""

    def __init__(self, container: ContainerClient) -> None:
        self._container = container

    def find(self, chunk: ChunkMessage) -> StoredResult | None:
        """Return the stored result of a chunk, or None."""
        name = result_blob(chunk.job, chunk.revision, chunk.chunk)
        with expecting_an_answer(f"read result {name!r}"):
            try:
                stored: bytes = self._container.download_blob(name).readall()
            except ResourceNotFoundError:
                return None
        return _to_stored_result(name, stored)

    def put(self, packed: PackedResult) -> StoredResult:
        """Store the result, unless its chunk has one, and return the stored one."""
        name = packed.stored.name
        with expecting_an_answer(f"write result {name!r}"):
            if self._insert(name, packed.content):
                return packed.stored
            # Another delivery of the chunk was first, or this very write was and its reply was lost. Either way the
            # stored result counts: a message must not name any other.
            return _to_stored_result(name, self._container.download_blob(name).readall())

    def _insert(self, name: str, packed: bytes) -> bool:
        try:
            # Without `overwrite` the request says If-None-Match: *.
            self._container.upload_blob(name, packed)
        except HttpResponseError as refusal:
            if refusal.status_code not in _WRITTEN_BEFORE:
                raise
            return False
        return True


def _to_stored_result(name: str, stored: bytes) -> StoredResult:
    content = unpack_result(name, stored)
    return StoredResult(name, hash_result(content), len(stored), read_result(content)[0])
