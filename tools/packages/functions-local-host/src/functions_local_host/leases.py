"""Blob leases: how one instance of many becomes the one that listens."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from datetime import timedelta

from azure.core.exceptions import AzureError, HttpResponseError, ResourceExistsError, ResourceNotFoundError
from azure.storage.blob.aio import BlobLeaseClient, ContainerClient

from functions_local_host.logs import HOST_LOG

CONTAINER = "azure-webjobs-hosts"
#: The real host renews its primary lease this long before the end, and tries a taken one every five seconds.
_PRIMARY_LEASE, _PRIMARY_RENEWAL = timedelta(seconds=15), timedelta(seconds=12)
_PRIMARY_RETRY = timedelta(seconds=5)
_OWNER_KEY = "functioninstance"


class BlobLease:
    """The lease on one blob, which is made when it is missing."""

    def __init__(self, container: ContainerClient, blob: str, period: timedelta) -> None:
        self.blob, self.period = blob, period
        self._container = container
        self._lease: BlobLeaseClient | None = None

    async def acquire(self) -> bool:
        """Try to take the lease. False when another holder has it."""
        try:
            self._lease = await self._take()
        except ResourceNotFoundError:
            await self._create()
            return await self.acquire()
        except HttpResponseError as error:
            if error.status_code == 409:
                return False
            raise
        return True

    async def renew(self) -> None:
        """Extend the lease. Raises when it was lost."""
        if self._lease:
            await self._lease.renew()

    async def release(self) -> None:
        """Give the lease back, so that another instance need not wait for its end."""
        lease, self._lease = self._lease, None
        if lease:
            # A lease that cannot be given back ends by itself.
            with suppress(AzureError):
                await lease.release()

    async def write_owner(self, owner: str) -> None:
        """Leave the owner's name on the blob, for people who look."""
        if self._lease:
            client = self._container.get_blob_client(self.blob)
            await client.set_blob_metadata({_OWNER_KEY: owner}, lease=self._lease)

    async def _take(self) -> BlobLeaseClient:
        return await self._container.get_blob_client(self.blob).acquire_lease(int(self.period.total_seconds()))

    async def _create(self) -> None:
        with suppress(ResourceExistsError):
            await self._container.create_container()
        # Another instance may have made it, and even leased it, since the 404.
        with suppress(HttpResponseError):
            await self._container.upload_blob(self.blob, b"", overwrite=False)


@asynccontextmanager
async def renewed(lease: BlobLease, every: timedelta, lost: Callable[[], None]) -> AsyncIterator[None]:
    """Renew a held lease while the block runs, then release it. `lost` is called when a renewal fails."""

    async def renew() -> None:
        while True:
            await asyncio.sleep(every.total_seconds())
            try:
                await lease.renew()
            except AzureError as error:
                HOST_LOG.warning("lost the lease on %s: %s", lease.blob, str(error).splitlines()[0])
                return lost()

    renewal = asyncio.create_task(renew())
    try:
        yield
    finally:
        renewal.cancel()
        with suppress(asyncio.CancelledError):
            await renewal
        await lease.release()


class PrimaryLease:
    """Which instance is the primary host. Nothing here depends on it, but the real host pays its requests."""

    def __init__(self, container: ContainerClient, host_id: str, instance: str) -> None:
        self._lease = BlobLease(container, f"locks/{host_id}/host", _PRIMARY_LEASE)
        self._instance = instance
        self._stopped = asyncio.Event()

    async def run(self) -> None:
        """Hold the lease, or keep trying to take it, until stopped."""
        while not self._stopped.is_set():
            try:
                if await self._lease.acquire():
                    await self._lease.write_owner(self._instance)
                    await self._hold()
            except AzureError as error:
                HOST_LOG.warning("the primary host lease failed: %s", str(error).splitlines()[0])
            await self._wait(_PRIMARY_RETRY)

    def stop(self) -> None:
        """Release the lease and end."""
        self._stopped.set()

    async def _hold(self) -> None:
        lost = asyncio.Event()
        async with renewed(self._lease, _PRIMARY_RENEWAL, lost.set):
            ended = [asyncio.create_task(event.wait()) for event in (lost, self._stopped)]
            await asyncio.wait(ended, return_when=asyncio.FIRST_COMPLETED)
            for task in ended:
                task.cancel()

    async def _wait(self, span: timedelta) -> None:
        with suppress(TimeoutError):
            await asyncio.wait_for(self._stopped.wait(), span.total_seconds())
