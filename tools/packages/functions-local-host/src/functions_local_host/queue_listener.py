"""The listener of one storage queue trigger: polls, leases, runs and settles messages as the real host does."""

import asyncio
import logging
import random
from datetime import timedelta

from azure.core.exceptions import AzureError, HttpResponseError, ResourceNotFoundError
from azure.storage.queue import QueueMessage

from functions_local_host.contract import IndexedFunction, Invoke, Outcome
from functions_local_host.host_json import QueueOptions
from functions_local_host.host_storage import HostStorage
from functions_local_host.message_datums import UnreadableBodyError, queue_datums
from functions_local_host.message_encoding import decoded
from functions_local_host.message_lease import LOST, MessageLease
from functions_local_host.queue_backoff import HIGHEST_FACTOR, LOWEST_FACTOR, empty_wait
from functions_local_host.queue_outcome import Admission, PoisonRule, Settlement, poison_queue_of
from functions_local_host.queue_sender import send_creating
from functions_local_host.queue_watcher import WATCHER
from functions_local_host.waiting import is_set_within

#: How long a message stays invisible while its function runs; host.json has no setting for it.
LEASE = timedelta(minutes=10)

_log = logging.getLogger(__name__)


class QueueListener:
    """Runs one function for the messages of one queue. Messages run beside each other, in no order."""

    def __init__(
        self,
        function: IndexedFunction,
        options: QueueOptions,
        storage: HostStorage,
        invoke: Invoke,
        lease: timedelta = LEASE,
    ) -> None:
        self._function, self._options, self._invoke, self._lease = function, options, invoke, lease
        self._name = str(function.trigger.settings["queueName"])
        self._queue = storage.queue(self._name, f"poll {self._name}")
        poison = poison_queue_of(self._name)
        self._poison = None if poison is None else storage.queue(poison, f"poison {self._name}")
        self._rule = PoisonRule(options.max_dequeue_count, poison)
        self._is_known = False
        self._empties = 0
        self._is_stopping = False
        self._wake = asyncio.Event()
        self._running: set[asyncio.Task[None]] = set()

    async def run(self) -> None:
        """Poll until stopped, then wait for the messages that run. Raises when storage refuses this host."""
        loop = asyncio.get_running_loop()
        try:
            with WATCHER.watching(self._name, lambda: loop.call_soon_threadsafe(self._wake.set)):
                while not self._is_stopping:
                    await self._poll()
        finally:
            # Also after a refusal: what was leased has its end awaited, or it would stay hidden for the whole lease.
            await asyncio.gather(*self._running)

    def stop(self) -> None:
        """Receive nothing new. Messages that run may end."""
        self._is_stopping = True
        self._wake.set()

    async def _poll(self) -> None:
        messages = await self._receive()
        if not messages:
            await self._rest()
            return
        self._empties = 0
        if self._is_stopping:
            # They came while the stop did: another instance can have them now, this one may be ending after a timeout.
            await self._give_back(messages)
            return
        for message in messages:
            task = asyncio.create_task(self._process(message))
            self._running.add(task)
            task.add_done_callback(self._running.discard)
        while len(self._running) > self._options.new_batch_threshold and not self._is_stopping:
            await asyncio.wait(self._running, return_when=asyncio.FIRST_COMPLETED)

    async def _give_back(self, messages: list[QueueMessage]) -> None:
        for message in messages:
            try:
                await MessageLease(self._queue, message, self._lease).extend(timedelta(0))
            except AzureError as error:
                _log.warning(
                    "message %s in queue %s was not given back: %s", message.id, self._name, type(error).__name__
                )

    async def _rest(self) -> None:
        factor = random.uniform(LOWEST_FACTOR, HIGHEST_FACTOR)  # noqa: S311  # spreads polls, guards nothing
        wait = empty_wait(self._empties, self._options.max_polling_interval, factor)
        self._empties += 1
        if await is_set_within(self._wake, wait):
            self._wake.clear()

    async def _receive(self) -> list[QueueMessage]:
        """Return a batch, or nothing where the queue is missing, going away or out of reach for now."""
        try:
            if not await self._exists():
                return []
            pages = self._queue.receive_messages(
                messages_per_page=self._options.batch_size, visibility_timeout=int(self._lease.total_seconds())
            ).by_page()
            page = await anext(pages, None)
            return [] if page is None else [message async for message in page]
        except AzureError as error:
            self._is_known = False
            if not _is_passing(error):
                raise
            _log.warning("queue %s cannot be polled now: %s", self._name, type(error).__name__)
            return []

    async def _exists(self) -> bool:
        if not self._is_known:
            try:
                await self._queue.get_queue_properties()
            except ResourceNotFoundError:
                return False
            self._is_known = True
        return True

    async def _process(self, message: QueueMessage) -> None:
        lease = MessageLease(self._queue, message, self._lease)
        try:
            body = decoded(message.content, self._options.message_encoding)
            if body is None:
                _log.warning(
                    "message %s in queue %s is not %s text, see messageEncoding in host.json",
                    message.id,
                    self._name,
                    self._options.message_encoding,
                )
            admission = self._rule.admit(message.dequeue_count or 0, is_decodable=body is not None)
            if admission is Admission.RUN and body is not None:
                async with lease.kept():
                    outcome = await self._run(message, body)
                await self._settle(message, lease, self._rule.settle(message.dequeue_count or 0, is_ok=outcome.ok))
            elif admission is Admission.POISON:
                await self._settle(message, lease, Settlement.POISON)
        except AzureError as error:
            # The message comes back when its lease ends; nothing is lost, it may run twice.
            _log.warning("message %s in queue %s was not settled: %s", message.id, self._name, type(error).__name__)

    async def _run(self, message: QueueMessage, body: bytes) -> Outcome:
        try:
            datum, metadata = queue_datums(message, body, self._function.trigger)
        except UnreadableBodyError as error:
            _log.warning("message %s in queue %s failed: %s", message.id, self._name, error)
            return Outcome(ok=False, error=str(error))
        return await self._invoke(self._function.name, datum, metadata)

    async def _settle(self, message: QueueMessage, lease: MessageLease, settlement: Settlement) -> None:
        if settlement is Settlement.POISON:
            await self._copy_to_poison(message)
        try:
            if settlement in (Settlement.DELETE, Settlement.POISON):
                await self._queue.delete_message(message.id, lease.pop_receipt)
            elif settlement is Settlement.RELEASE:
                await lease.extend(self._options.visibility_timeout)
        except HttpResponseError as error:
            if error.status_code not in LOST:
                raise
            # The function has taken the message over or settled it, or a first reply was lost. The real host takes both
            # as done, and logs at this level: DeleteMessageAsync and ReleaseMessageAsync of its QueueProcessor.cs, in
            # Azure/azure-sdk-for-net.
            _log.debug(
                "message %s in queue %s is no longer held (status %s)", message.id, self._name, error.status_code
            )

    async def _copy_to_poison(self, message: QueueMessage) -> None:
        if self._poison is None:
            return
        _log.warning(
            "Message has reached MaxDequeueCount of %s. Moving message to queue '%s'.",
            self._options.max_dequeue_count,
            self._poison.queue_name,
        )
        await send_creating(self._poison, message.content)
        WATCHER.notify(self._poison.queue_name)


def _is_passing(error: AzureError) -> bool:
    """Return true if polling goes on: the queue is missing or being deleted, or storage is out of order or out of reach."""
    status = error.status_code if isinstance(error, HttpResponseError) else None
    return status is None or status in (404, 409) or status >= 500
