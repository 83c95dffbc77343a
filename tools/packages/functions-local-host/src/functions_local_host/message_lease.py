"""Keeps a storage queue message invisible while its function runs, and follows the pop receipt that each renewal gives."""

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta

from azure.core.exceptions import AzureError, HttpResponseError
from azure.storage.queue import QueueMessage
from azure.storage.queue.aio import QueueClient

from functions_local_host.waiting import is_set_within

_log = logging.getLogger(__name__)

#: The shortest wait between renewals that keep failing; short leases, which only tests have, get a share of theirs.
_SHORTEST_WAIT, _SHORTEST_SHARE = timedelta(minutes=1), 8
#: Status codes that say: the message or its queue is gone, or another receiver has the message now.
LOST = frozenset({400, 404, 409})


def renewal_wait(lease: timedelta, failures: int) -> timedelta:
    """Return the wait before the next renewal after so many failures in a row: half the lease, halved by each."""
    shortest = min(_SHORTEST_WAIT, lease / _SHORTEST_SHARE)
    wait = lease / 2
    for _ in range(failures):
        wait = max(wait / 2, shortest)
    return wait


class MessageLease:
    """The hold on one received message. `pop_receipt` is the one that storage takes now."""

    def __init__(self, queue: QueueClient, message: QueueMessage, length: timedelta) -> None:
        self._queue, self._message, self._length = queue, message, length
        self.pop_receipt = str(message.pop_receipt)

    @asynccontextmanager
    async def kept(self) -> AsyncIterator[None]:
        """Renew until the context ends. A renewal under way is awaited: its reply holds the receipt to settle with."""
        ended = asyncio.Event()
        renewing = asyncio.create_task(self._renew_until(ended))
        try:
            yield
        finally:
            ended.set()
            await renewing

    async def extend(self, visibility: timedelta) -> None:
        """Make the message visible again after this long, counted from now."""
        updated = await self._queue.update_message(
            self._message.id, pop_receipt=self.pop_receipt, visibility_timeout=int(visibility.total_seconds())
        )
        self.pop_receipt = str(updated.pop_receipt)

    async def _renew_until(self, ended: asyncio.Event) -> None:
        failures: int | None = 0
        while failures is not None and not await is_set_within(ended, renewal_wait(self._length, failures)):
            failures = await self._renew(failures)

    async def _renew(self, failures: int) -> int | None:
        """Return how many renewals in a row have failed, or None when the message is no longer held."""
        try:
            await self.extend(self._length)
        except AzureError as error:
            if isinstance(error, HttpResponseError) and error.status_code in LOST:
                # The real host is silent as well: whoever has it now settles it (UpdateQueueMessageVisibilityCommand.cs).
                _log.debug(
                    "the lease of message %s in queue %s is lost (status %s); it may run a second time",
                    self._message.id,
                    self._queue.queue_name,
                    error.status_code,
                )
                return None
            _log.warning(
                "renewing the lease of message %s in queue %s failed: %s",
                self._message.id,
                self._queue.queue_name,
                type(error).__name__,
            )
            return failures + 1
        return 0
