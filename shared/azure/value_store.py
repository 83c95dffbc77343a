"""One small stored value, changed by compare-and-set: the contract, and the store with one block blob per value.

Leases on empty blobs: one process at a time holds the slot or the task that a blob stands for.
"""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Any, Final, Protocol, TypeVar

from azure.core import MatchConditions
from azure.core.exceptions import AzureError, HttpResponseError, ResourceExistsError, ResourceNotFoundError
from azure.storage.blob import BlobClient, BlobLeaseClient, ContainerClient, ContentSettings, LinearRetry

from shared.azure.transport import date_of, error_code
from shared.errors import StorageUnavailableError


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A value with the ETag of the same read. They stay together, because If-Match compares that ETag."""

    value: bytes
    etag: str
    #: The time of the last write, by the clock of the storage.
    modified: datetime
    #: The time of the reply to this read, by the clock of the storage. None: the reply has no date.
    told: datetime | None = None


class OptimisticStore(Protocol):
    """One value under optimistic concurrency.

    Both methods raise StorageUnavailableError if there is no usable answer. A write that raised or was refused may have
    taken effect. The client library repeats a request whose reply was lost, and its own first success then refuses the
    repetition. Only reading the value back shows which.
    """

    @property
    def name(self) -> str:
        """The value's name in error messages."""
        ...

    def read(self) -> Snapshot | None:
        """Return the value with its ETag, or None if it does not exist."""
        ...

    def try_write(self, value: bytes, etag: str | None) -> str | None:
        """Write if the value still has the ETag. None as the ETag: write if there is no value yet.

        Return the new ETag, or None if the write was refused.
        """
        ...

    def beside(self, name: str) -> "OptimisticStore":
        """Return the store of another value that belongs to this one."""
        ...


#: The two refusals that mean "another writer was first". Any other 409 or 412 (a lease on the blob, a container that
#: is being deleted) would be refused again at every retry.
_WRITTEN_BEFORE: Final = frozenset({"ConditionNotMet", "BlobAlreadyExists"})
_JSON: Final = ContentSettings(content_type="application/json")
_Answer = TypeVar("_Answer")


def connect(connection_string: str, container: str = "ids", **options: Any) -> ContainerClient:
    """Build a client that gives up within seconds. Close it after the generators.

    The library's own defaults wait 15 seconds before the first retry and a minute for an answer. That is longer than
    any caller of `next_id` waits.
    """
    quick = LinearRetry(
        backoff=0.1,  # type: ignore[arg-type]  # annotated as int, but it takes seconds as a float
        retry_total=2,
        random_jitter_range=0.05,  # type: ignore[arg-type]  # same reason
    )
    settings: dict[str, Any] = {"retry_policy": quick, "connection_timeout": 5, "read_timeout": 5, **options}
    return ContainerClient.from_connection_string(connection_string, container, **settings)


class BlobStore:
    """An OptimisticStore in one blob. A first write that finds no container creates it."""

    def __init__(self, container: ContainerClient, name: str) -> None:
        self._container, self._name = container, name
        self._blob = container.get_blob_client(name)

    @property
    def name(self) -> str:
        """The value's name in error messages."""
        return f"{self._container.container_name}/{self._name}"

    def read(self) -> Snapshot | None:
        """Return the value with its ETag, or None if it does not exist."""
        return self._answer("read", self._read)

    def try_write(self, value: bytes, etag: str | None) -> str | None:
        """Write if the value still has the ETag, or, with None, if there is no value yet."""
        return self._answer("write", lambda: self._try_write(value, etag))

    def beside(self, name: str) -> "BlobStore":
        """Return the store of another value that belongs to this one."""
        return BlobStore(self._container, f"{self._name}/{name}")

    def _answer(self, attempted: str, request: Callable[[], _Answer]) -> _Answer:
        try:
            return request()
        except AzureError as error:
            raise StorageUnavailableError(
                f"could not {attempted} blob {self.name!r}: {error_code(error)}; check the storage account, then try again"
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
            if etag is not None or error_code(missing) != "ContainerNotFound":
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
            if error_code(refusal) in _WRITTEN_BEFORE:
                return None
            raise
        new_etag: str = written["etag"]
        return new_etag

    def _make_container(self) -> None:
        try:
            self._container.create_container()
        except ResourceExistsError as refusal:
            if error_code(refusal) != "ContainerAlreadyExists":
                raise


#: The longest lease that ends by itself: a killed process blocks the others for no longer than this.
LEASE_SECONDS: Final = 60


class BlobLease:
    """A leased blob. Renew it in time, and release it at the end."""

    def __init__(self, blob: BlobClient, lease: BlobLeaseClient) -> None:
        self._blob, self._lease = blob, lease

    def renew(self) -> bool:
        """Renew the lease, and say whether this process still holds it for certain."""
        try:
            self._lease.renew()
        except AzureError:
            return False
        return True

    def remove(self) -> None:
        """Free the lease at once and delete its blob. If storage does not answer, the lease ends by itself."""
        with suppress(AzureError):
            self._blob.delete_blob(lease=self._lease)

    def release(self) -> None:
        """Free the lease at once. If storage does not answer, it ends by itself."""
        try:
            self._lease.release()
        except AzureError:
            return


def try_lease(container: ContainerClient, name: str, seconds: int = LEASE_SECONDS) -> BlobLease | None:
    """Lease the blob, which its first use creates, or return None while another process holds it."""
    blob = container.get_blob_client(name)
    try:
        return _acquire(blob, seconds)
    except ResourceNotFoundError:
        try:
            blob.upload_blob(b"", overwrite=False)
        except HttpResponseError as refusal:
            # Another process created it, and may have leased it already.
            if refusal.status_code not in {409, 412}:
                raise
        return _acquire(blob, seconds)


def _acquire(blob: BlobClient, seconds: int) -> BlobLease | None:
    try:
        return BlobLease(blob, blob.acquire_lease(seconds))
    except ResourceExistsError:
        return None
