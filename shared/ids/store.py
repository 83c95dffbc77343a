"""What the ids need of storage: one small value, changed only by whoever saw its latest version."""

from dataclasses import dataclass
from datetime import datetime
from typing import Protocol


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
