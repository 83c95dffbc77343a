"""Dispatch of sessions: as many at once as host.json allows, one message or batch at a time inside each."""

import asyncio
import logging

from azure.servicebus import NEXT_AVAILABLE_SESSION
from azure.servicebus.aio import ServiceBusClient, ServiceBusReceiver
from azure.servicebus.exceptions import OperationTimeoutError, ServiceBusError, SessionLockLostError

from functions_local_host.bus_batches import fill
from functions_local_host.bus_lock import renewed, session_lock
from functions_local_host.bus_reconnect import keep_serving
from functions_local_host.bus_run import BusRun

_log = logging.getLogger(__name__)


class SessionDispatch:
    """Accepts the next session that has messages, empties it, and lets it go when it stays idle."""

    def __init__(self, run: BusRun) -> None:
        self._run = run
        self._closing: set[asyncio.Task[None]] = set()

    async def serve(self, client: ServiceBusClient) -> None:
        """Serve sessions until stopped: batches come from one session at a time."""
        slots = 1 if self._run.trigger.is_batch else self._run.options.max_concurrent_sessions
        # Each slot has a connection of its own, and its loss is no matter of the others.
        await asyncio.gather(*(keep_serving(self._run, lambda: self._serve_slot(client)) for _ in range(slots)))
        await asyncio.gather(*self._closing)

    async def _serve_slot(self, client: ServiceBusClient) -> None:
        while not self._run.stopping.is_set():
            receiver = await self._accept(client)
            if receiver is not None:
                try:
                    await self._serve_session(receiver)
                except SessionLockLostError:
                    _log.warning("the lock of session %r is lost", receiver.session.session_id)
                finally:
                    self._close(receiver)

    def _close(self, receiver: ServiceBusReceiver) -> None:
        """Let the session go. The SDK takes about a second more to end its connection, which the slot need not wait."""
        task = asyncio.create_task(_closed(receiver))
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)

    async def _accept(self, client: ServiceBusClient) -> ServiceBusReceiver | None:
        """Return a receiver of the next session, or None when none came in time or the host stops."""
        options = self._run.options
        receiver = self._run.trigger.source.receiver(
            client,
            session_id=NEXT_AVAILABLE_SESSION,
            max_wait_time=options.try_timeout.total_seconds(),
            prefetch_count=0 if self._run.trigger.is_batch else options.prefetch_count,
        )
        opening = asyncio.create_task(receiver.__aenter__())
        stopped = asyncio.create_task(self._run.stopping.wait())
        try:
            await asyncio.wait({opening, stopped}, return_when=asyncio.FIRST_COMPLETED)
            if opening.done():
                return await opening
        except OperationTimeoutError:
            pass
        finally:
            stopped.cancel()
            if not opening.done() or opening.exception() is not None:
                opening.cancel()
                await asyncio.wait({opening})
                self._close(receiver)
        return None

    async def _serve_session(self, receiver: ServiceBusReceiver) -> None:
        if self._run.trigger.is_batch:
            # The real host renews no lock for batches.
            while batch := await fill(self._run, receiver, self._run.options.session_idle_timeout):
                await self._run.batch(receiver, batch)
            return
        async with renewed(session_lock(receiver), self._run.options.max_auto_lock_renewal_duration):
            while messages := await self._run.receive(receiver, 1, self._run.options.session_idle_timeout):
                for message in messages:
                    await self._run.one(receiver, message)


async def _closed(receiver: ServiceBusReceiver) -> None:
    try:
        await receiver.close()
    except ServiceBusError as error:
        _log.debug("closing a session receiver failed: %s", type(error).__name__)
