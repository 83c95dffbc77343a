"""The result of a chunk as it is stored: written once under its chunk's name, the first one wins.

Its first line is one JSON document; each line behind it is a rejected transaction, as it goes into the output. So whoever
merges a thousand results decodes no rejections, which may be as many as the transactions.
"""

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from io import BytesIO
from typing import Any, Final

import msgspec
from azure.core.exceptions import HttpResponseError, ResourceNotFoundError
from azure.storage.blob import ContainerClient, ContentSettings
from msgspec import Raw, Struct

from shared.answers import expecting_an_answer
from shared.errors import ResultRefusedError
from shared.payload.limits import Limits
from shared.payload.reasons import Reason, refuse
from shared.pipeline.messages import VERSION, Chunk, Outcome
from shared.pipeline.parts import Ran

CONTAINER: Final = "results"
_JSON: Final = ContentSettings(content_type="application/json")
_WRITTEN_BEFORE: Final = frozenset({409, 412})


class ChunkResult(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a chunk came to; nothing in it depends on when, where or how often it was run."""

    job: str
    chunk: int
    revision: int
    workload: str
    accepted: Outcome
    rejected: Outcome
    #: Of the workload's own type.
    partial: Raw
    #: Where a version before wrote them.
    rejections: list[Raw] = []
    v: int = VERSION


@dataclass(frozen=True, slots=True)
class StoredResult:
    """A result with the name and the hash of its blob."""

    name: str
    hash: str
    result: ChunkResult


def name_of(chunk: Chunk) -> str:
    """Return the name of the blob that a chunk's result has."""
    return f"{chunk.job}/{chunk.revision}/{chunk.chunk}"


def result_of(chunk: Chunk, ran: Ran) -> ChunkResult:
    """Return the result of a chunk that was run."""
    return ChunkResult(
        job=chunk.job,
        chunk=chunk.chunk,
        revision=chunk.revision,
        workload=chunk.workload,
        accepted=ran.accepted,
        rejected=ran.rejected,
        partial=Raw(msgspec.json.encode(ran.partial)),
    )


def write_result(result: ChunkResult, rejections: bytes, limits: Limits) -> bytes:
    """Return a result as it is stored."""
    # A line feed in valid JSON is never inside a string; a workload's own raw text may have one.
    head = msgspec.json.encode(result).replace(b"\n", b" ")
    size = len(head) + 1 + len(rejections)
    if size > limits.result_most:
        raise refuse(Reason.RESULT_TOO_LARGE, f"it has {size} bytes, {limits.result_most} may be")
    return b"".join((head, b"\n", rejections))


def read_result(content: bytes) -> tuple[ChunkResult, Iterator[bytes]]:
    """Return a result as it was stored, and the lines of its rejections, each with its line feed."""
    stream = BytesIO(content)
    try:
        result = msgspec.json.decode(stream.readline(), type=ChunkResult)
    except (ValueError, RecursionError) as error:
        raise ResultRefusedError(
            f"a stored result cannot be read: {error}; look who else writes {CONTAINER}"
        ) from error
    return result, (bytes(one) + b"\n" for one in result.rejections) if result.rejections else stream


def read_partial(result: ChunkResult, partial: type[Any]) -> Any:
    """Return the partial as the type of its workload."""
    try:
        return msgspec.json.decode(result.partial, type=partial)
    except (ValueError, RecursionError) as error:
        raise ResultRefusedError(
            f"the partial of chunk {result.chunk} of job {result.job!r} is no {partial.__name__}: {error}; "
            f"was the type of workload {result.workload!r} changed while the job ran?"
        ) from error


class ResultStore:
    """The container of results."""

    def __init__(self, container: ContainerClient, limits: Limits | None = None) -> None:
        self._container, self._limits = container, limits or Limits()

    def find(self, chunk: Chunk) -> StoredResult | None:
        """Return the stored result of a chunk, or None."""
        name = name_of(chunk)
        with expecting_an_answer(f"read result {name!r}"):
            try:
                content: bytes = self._container.download_blob(name).readall()
            except ResourceNotFoundError:
                return None
        return _stored(name, content)

    def put(self, chunk: Chunk, ran: Ran) -> StoredResult:
        """Store the result and return what is stored: this one, or the one of whoever was first."""
        name, result = name_of(chunk), result_of(chunk, ran)
        content = write_result(result, ran.rejections, self._limits)
        with expecting_an_answer(f"write result {name!r}"):
            if self._insert(name, content):
                return StoredResult(name, hashlib.sha256(content).hexdigest(), result)
            # Another delivery of the same chunk was first, or this very write was, and its reply was lost. Either way
            # what is stored is the result: a message about any other would be about nothing.
            return _stored(name, self._container.download_blob(name).readall())

    def _insert(self, name: str, content: bytes) -> bool:
        try:
            # Without `overwrite` the request says If-None-Match: *.
            self._container.upload_blob(name, content, content_settings=_JSON)
        except HttpResponseError as refusal:
            if refusal.status_code not in _WRITTEN_BEFORE:
                raise
            return False
        return True


def _stored(name: str, content: bytes) -> StoredResult:
    return StoredResult(name, hashlib.sha256(content).hexdigest(), read_result(content)[0])
