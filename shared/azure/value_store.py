"""The store in Azure Blob Storage: one small block blob a value.

What the ids need of storage: one small value, changed only by whoever saw its latest version.
"""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Any, Final, Protocol, TypeVar

from azure.core import MatchConditions
from azure.core.exceptions import AzureError, HttpResponseError, ResourceExistsError, ResourceNotFoundError
from azure.storage.blob import ContainerClient, ContentSettings, LinearRetry

from shared.azure.transport import date_of
from shared.errors import StorageUnavailableError


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A value and the ETag it had when it was read: they travel together, or If-Match would mean nothing."""

    value: bytes
    etag: str
    #: When the storage says it was last written.
    modified: datetime
    #: When the storage made the reply that this was read from; None where it does not say.
    told: datetime | None = None


class OptimisticStore(Protocol):
    """One value under optimistic concurrency.

    Both methods raise StorageUnavailableError when there is no usable answer. A write that raised, and also one that
    was refused, may have taken effect: the client library repeats a request whose reply was lost, and its repetition
    is refused by its own first success. Only the value read back can tell.
    """

    @property
    def name(self) -> str:
        """What error messages call this value."""
        ...

    def read(self) -> Snapshot | None:
        """Return the value with its ETag, or None when there is none."""
        ...

    def try_write(self, value: bytes, etag: str | None) -> str | None:
        """Write if the ETag still holds, or if there is no value yet when it is None.

        Return the new ETag, or None when refused, so that the answer also reads as yes or no.
        """
        ...

    def beside(self, name: str) -> "OptimisticStore":
        """Return the store of another value that belongs to this one."""
        ...


#: The two refusals that mean "somebody wrote first". Any other 409 or 412 (a lease on the blob, a container that is
#: being deleted) would be refused again however often it is tried.
_WRITTEN_BEFORE: Final = frozenset({"ConditionNotMet", "BlobAlreadyExists"})
_JSON: Final = ContentSettings(content_type="application/json")
_Answer = TypeVar("_Answer")


def connect(connection_string: str, container: str = "ids", **options: Any) -> ContainerClient:
    """Return a client that gives up within seconds; close it when the generators are closed.

    The library's own defaults wait 15 seconds before the first repetition and a minute for an answer, which is longer
    than any caller of `next_id` waits.
    """
    quick = LinearRetry(
        backoff=0.1,  # type: ignore[arg-type]  # seconds; a float works, the annotation says int
        retry_total=2,
        random_jitter_range=0.05,  # type: ignore[arg-type]  # same reason
    )
    settings: dict[str, Any] = {"retry_policy": quick, "connection_timeout": 5, "read_timeout": 5, **options}
    return ContainerClient.from_connection_string(connection_string, container, **settings)


class BlobStore:
    """An OptimisticStore in one blob; the container is made when the first write finds none."""

    def __init__(self, container: ContainerClient, name: str) -> None:
        self._container, self._name = container, name
        self._blob = container.get_blob_client(name)

    @property
    def name(self) -> str:
        """What error messages call this value."""
        return f"{self._container.container_name}/{self._name}"

    def read(self) -> Snapshot | None:
        """Return the value with its ETag, or None when there is none."""
        return self._answer("read", self._read)

    def try_write(self, value: bytes, etag: str | None) -> str | None:
        """Write if the ETag still holds, or if there is no value yet when it is None."""
        return self._answer("write", lambda: self._try_write(value, etag))

    def beside(self, name: str) -> "BlobStore":
        """Return the store of another value that belongs to this one."""
        return BlobStore(self._container, f"{self._name}/{name}")

    def _answer(self, attempted: str, request: Callable[[], _Answer]) -> _Answer:
        try:
            return request()
        except AzureError as error:
            raise StorageUnavailableError(
                f"could not {attempted} blob {self.name!r}: {_code(error)}; check the storage account, then try again"
            ) from error

    def _read(self) -> Snapshot | None:
        replies: list[Any] = []
        try:
            download = self._blob.download_blob(raw_response_hook=replies.append)
            value = download.readall()
        except ResourceNotFoundError:
            return None
        properties = download.properties
        return Snapshot(value, properties.etag, properties.last_modified, date_of(replies[-1]) if replies else None)

    def _try_write(self, value: bytes, etag: str | None) -> str | None:
        try:
            return self._put(value, etag)
        except ResourceNotFoundError as missing:
            if etag is not None or _code(missing) != "ContainerNotFound":
                return None
            self._make_container()
            return self._put(value, None)

    def _put(self, value: bytes, etag: str | None) -> str | None:
        upload = partial(self._blob.upload_blob, value, content_settings=_JSON)
        try:
            if etag is None:
                # Without `overwrite` the request says If-None-Match: *.
                written = upload()
            else:
                written = upload(overwrite=True, etag=etag, match_condition=MatchConditions.IfNotModified)
        except HttpResponseError as refusal:
            if _code(refusal) in _WRITTEN_BEFORE:
                return None
            raise
        new_etag: str = written["etag"]
        return new_etag

    def _make_container(self) -> None:
        try:
            self._container.create_container()
        except ResourceExistsError as refusal:
            if _code(refusal) != "ContainerAlreadyExists":
                raise


def _code(error: AzureError) -> str:
    # Set by the storage library on the errors it raises, not declared on their class: an enum where it knows the code.
    code = getattr(error, "error_code", None) or type(error).__name__
    return str(getattr(code, "value", code))
