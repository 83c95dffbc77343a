"""The account's own keeping of removed blobs: soft delete, versions, and containers from which nothing can be removed."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from azure.core.exceptions import AzureError
from azure.storage.blob import BlobServiceClient, ContainerProperties

from shared.azure import error_code


@dataclass(frozen=True, slots=True)
class Keeping:
    """Settings of the account that stand against erasing. None: storage does not say it, or not to this login."""

    #: Days that a removed blob can be restored. 0: it cannot.
    soft_delete_days: int | None
    #: Whether an earlier version of each blob stays.
    has_versions: bool | None
    #: The immutable containers, each with the reason.
    immutable: Sequence[str] = ()

    def words(self, now: datetime) -> Iterator[str]:
        """Yield what stands against erasing at this moment, and what is not known."""
        if self.soft_delete_days:
            until = now + timedelta(days=self.soft_delete_days)
            yield f"soft delete: what is removed now can be restored for {self.soft_delete_days} days, until {until:%Y-%m-%d}"
        if self.has_versions:
            yield "versions: the account keeps a version of each removed blob until a rule or a person removes it"
        yield from (f"immutable: {one}" for one in self.immutable)
        unknown = {"soft delete": self.soft_delete_days, "versions": self.has_versions}
        if names := [name for name, found in unknown.items() if found is None]:
            yield f"not known, for storage does not say: {' and '.join(names)}"


def read_keeping(blobs: BlobServiceClient, containers: Sequence[str] = ()) -> Keeping:
    """Ask the account, by two requests, and by one for each of these containers."""
    immutable: list[str] = []
    for name in containers:
        try:
            immutable += find_immutable(blobs.get_container_client(name).get_container_properties())
        except AzureError as error:
            # The container of a room may be gone.
            immutable += [] if error_code(error) == "ContainerNotFound" else [f"{name} is not known"]
    return Keeping(_read_days(blobs), _read_versions(blobs), immutable)


def find_immutable(container: ContainerProperties) -> Iterator[str]:
    """Yield what keeps the blobs of a container from being removed."""
    if container.has_immutability_policy:
        yield f"container {container.name} has a policy of retention"
    if container.has_legal_hold:
        yield f"container {container.name} has a legal hold"


def _read_days(blobs: BlobServiceClient) -> int | None:
    try:
        policy = blobs.get_service_properties().get("delete_retention_policy")
    except AzureError:
        return None
    if policy is None or policy.enabled is None:
        return None
    return int(policy.days or 0) if policy.enabled else 0


def _read_versions(blobs: BlobServiceClient) -> bool | None:
    """Return whether blobs have versions, by a blob that every installation has. None: there is no blob yet."""
    try:
        pages: Any = blobs.get_container_client("ids").list_blobs(include=["versions"], results_per_page=1).by_page()
        first = next(iter(next(pages, ())), None)
    except AzureError:
        return None
    return None if first is None else first.version_id is not None
