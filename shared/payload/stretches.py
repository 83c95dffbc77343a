"""The stretches of a payload that grows: a blob for each, by its number, and one for the end. They are the log of the job.

Each names the payload's bytes, lists their frames, and says the hash of the blob before. So no other program's stretch is
taken for one of this job. Each is written once.
"""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import msgspec
from azure.core.exceptions import ResourceExistsError, ResourceNotFoundError
from azure.storage.blob import ContainerClient

from shared.azure import expecting_an_answer
from shared.grammar import SHA256, check_blob
from shared.payload.frames import Codec, Frame, FrameIndex, check_index
from shared.payload.payload_store import Limits, StoredBlob
from shared.payload.submission import Declared, DeclaredFields, read_declared
from shared.refusals import Reason, refuse
from shared.versions import decode


class StretchFields(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True, kw_only=True):
    """The blob of a stretch, or of the end."""

    v: int = 1
    #: The hash of the blob before. Empty: the first one.
    previous: str = ""
    blob: str | None = None
    codec: str | None = None
    frames: tuple[Frame, ...] = ()
    #: The hash of its lines, not compressed: two versions of a library may compress them differently.
    text: str = ""
    #: Behind the last stretch: the publisher's own count and sums.
    end: DeclaredFields | None = None

    def encode(self) -> bytes:
        """Return the bytes of the blob."""
        # The version is always there.
        fields = {name: getattr(self, name) for name in self.__struct_fields__}
        return msgspec.json.encode(
            {"v": self.v} | {name: one for name, one in fields.items() if one not in (None, (), "")}
        )


@dataclass(frozen=True, slots=True)
class ReadStretch:
    """A stretch that was read: its place in the chain, and its frames or the declared end."""

    number: int
    previous: str
    #: The hash of its blob.
    sha256: str
    text: str
    codec: Codec = Codec.ZSTD
    blob: str = ""
    index: FrameIndex | None = None
    end: Declared | None = None


def stretch_folder(job: str) -> str:
    """Return the folder of a job's stretches, by the publisher's name of the job."""
    return f"{job}/stretches/"


def stretch_name(job: str, number: int) -> str:
    """Return the name of the blob of a stretch."""
    return f"{stretch_folder(job)}{number:06}"


class StretchStore:
    """Reads and writes the stretches of jobs in one container of payloads."""

    def __init__(
        self, container: ContainerClient, limits: Limits | None = None, check: Callable[[str], str] = check_blob
    ) -> None:
        self._container, self._limits, self._check = container, limits or Limits(), check

    def find(self, job: str, number: int) -> bytes | None:
        """Return the bytes of a stretch's blob, None if it is not there. One request."""
        name, most = stretch_name(job, number), self._limits.index_bytes
        client: Any = self._container.get_blob_client(self._check(name))
        with expecting_an_answer(f"read blob {name!r}"):
            try:
                content: bytes = client.download_blob(0, most, decompress=False).readall()
            except ResourceNotFoundError:
                return None
        return content

    def list_numbers(self, job: str) -> set[int]:
        """Return the numbers of those that are there. One request."""
        folder = stretch_folder(job)
        with expecting_an_answer(f"list {folder!r}"):
            names = self._container.list_blob_names(name_starts_with=folder)
            return {int(name.removeprefix(folder)) for name in names}

    def read(self, job: str, number: int) -> ReadStretch | None:
        """Return a stretch that fits its job, None if its blob is not there, or refuse it."""
        content = self.find(job, number)
        return None if content is None else read_stretch(content, job, number, self._limits)

    def put(self, job: str, number: int, content: bytes) -> bytes:
        """Write a stretch. Return the bytes that are there: another program, or a lost reply, may have been first."""
        name = stretch_name(job, number)
        with expecting_an_answer(f"write blob {name!r}"):
            try:
                self._container.get_blob_client(name).upload_blob(content, overwrite=False)
            except ResourceExistsError:
                return self.find(job, number) or content
        return content


def read_stretch(content: bytes, job: str, number: int, limits: Limits) -> ReadStretch:
    """Return the stretch of a blob, or refuse it."""
    name = stretch_name(job, number)
    try:
        fields = decode(content, StretchFields)
    except (ValueError, RecursionError) as error:
        raise refuse(Reason.BAD_INDEX, f"blob {name!r}: {str(error)[:200]}") from error
    if fields.v != 1:
        raise refuse(Reason.UNSUPPORTED_VERSION, f"blob {name!r} is of version {fields.v}, known is 1")
    made = hashlib.sha256(content).hexdigest()
    if fields.end is not None:
        if number == 0:
            raise refuse(Reason.EMPTY, f"blob {name!r} is an end, and no stretch is before it")
        return ReadStretch(number, fields.previous, made, "", end=read_declared(fields.end))
    codec = _codec(fields.codec)
    blob = check_blob(fields.blob or "")
    if not blob.startswith(f"{job}/"):
        raise refuse(Reason.OTHERS_FOLDER, f"blob {name!r} names {blob!r}, the job is {job!r}")
    if not SHA256.fullmatch(fields.text):
        raise refuse(Reason.WRONG_TYPE, f"text of blob {name!r} is {fields.text[:70]!r}, expected 64 of 0-9 a-f")
    index = check_index(fields.frames, codec, limits)
    return ReadStretch(number, fields.previous, made, fields.text, codec, blob, index)


def check_size(named: StoredBlob, find: Callable[[str], StoredBlob]) -> StoredBlob:
    """Return the blob that a stretch names, or refuse one of another size."""
    blob = find(named.name)
    if blob.size != named.size:
        raise refuse(Reason.LENGTH_MISMATCH, f"{blob.name!r} has {blob.size} bytes, its stretch says {named.size}")
    return blob


def _codec(name: str | None) -> Codec:
    try:
        return Codec(name or Codec.ZSTD)
    except ValueError as error:
        raise refuse(Reason.UNKNOWN_CODEC, f"the codec is {str(name)[:50]!r}") from error
