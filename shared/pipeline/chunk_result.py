"""The result of a chunk as it is stored: written once under its chunk's name, the first one wins."""

import hashlib
from dataclasses import dataclass
from typing import Any, Final

import msgspec
from azure.core.exceptions import HttpResponseError, ResourceNotFoundError
from azure.storage.blob import ContainerClient, ContentSettings
from msgspec import Raw, Struct

from shared.answers import expecting_an_answer
from shared.errors import ResultRefusedError
from shared.pipeline.messages import VERSION, Chunk, Outcome
from shared.workloads.run import Processed, Rejection

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
    rejections: list[Rejection]
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


def result_of(chunk: Chunk, processed: Processed) -> ChunkResult:
    """Return the result of a chunk that was run."""
    return ChunkResult(
        job=chunk.job,
        chunk=chunk.chunk,
        revision=chunk.revision,
        workload=chunk.workload,
        accepted=processed.accepted,
        rejected=processed.rejected,
        partial=Raw(msgspec.json.encode(processed.partial)),
        rejections=processed.rejections,
    )


def read_result(content: bytes) -> ChunkResult:
    """Return a result as it was stored."""
    try:
        return msgspec.json.decode(content, type=ChunkResult)
    except msgspec.DecodeError as error:
        raise ResultRefusedError(
            f"a stored result cannot be read: {error}; look who else writes {CONTAINER}"
        ) from error


def read_partial(result: ChunkResult, partial: type[Any]) -> Any:
    """Return the partial as the type of its workload."""
    try:
        return msgspec.json.decode(result.partial, type=partial)
    except msgspec.DecodeError as error:
        raise ResultRefusedError(
            f"the partial of chunk {result.chunk} of job {result.job!r} is no {partial.__name__}: {error}; "
            f"was the type of workload {result.workload!r} changed while the job ran?"
        ) from error


class ResultStore:
    """The container of results."""

    def __init__(self, container: ContainerClient) -> None:
        self._container = container

    def find(self, chunk: Chunk) -> StoredResult | None:
        """Return the stored result of a chunk, or None."""
        name = name_of(chunk)
        with expecting_an_answer(f"read result {name!r}"):
            try:
                content: bytes = self._container.download_blob(name).readall()
            except ResourceNotFoundError:
                return None
        return _stored(name, content)

    def put(self, chunk: Chunk, result: ChunkResult) -> StoredResult:
        """Store the result and return what is stored: this one, or the one of whoever was first."""
        name, content = name_of(chunk), msgspec.json.encode(result)
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
    return StoredResult(name, hashlib.sha256(content).hexdigest(), read_result(content))
