"""The listener of a timer trigger: one instance of many runs it, one run at a time, a missed run is made up once."""

import asyncio
import json
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from azure.core.exceptions import AzureError, ResourceExistsError, ResourceNotFoundError
from azure.functions.meta import Datum
from azure.storage.blob.aio import ContainerClient

from functions_local_host.contract import IndexedFunction, Invoke
from functions_local_host.leases import BlobLease, renewed
from functions_local_host.logs import HOST_LOG
from functions_local_host.schedule import Schedule, parse_schedule
from functions_local_host.timer_status import TimerStatus, first_status, is_changed, is_past_due, status_after


@dataclass(frozen=True, slots=True)
class TimerOptions:
    """Under which id the host keeps its state, how long a timer's lease lasts, how often the others try to take it."""

    host_id: str
    lease: timedelta = timedelta(seconds=60)
    retry: timedelta = timedelta(seconds=60)


def _utc_now() -> datetime:
    return datetime.now(UTC)


def timer_datum(status: TimerStatus | None, *, past_due: bool) -> Datum:
    """Return the trigger value as the worker sees it."""
    fields = status.fields() if status else None
    info = {"Schedule": {"AdjustForDST": True}, "ScheduleStatus": fields, "IsPastDue": past_due}
    return Datum(json.dumps(info), "json")


class TimerListener:
    """Waits for the lease, then for each due time."""

    def __init__(
        self,
        function: IndexedFunction,
        options: TimerOptions,
        container: ContainerClient,
        invoke: Invoke,
        clock: Callable[[], datetime] = _utc_now,
    ) -> None:
        settings = function.trigger.settings
        self._name, self._invoke, self._clock, self._options = function.name, invoke, clock, options
        self._schedule: Schedule = parse_schedule(str(settings["schedule"]))
        self._runs_on_startup = bool(settings.get("runOnStartup", False))
        self._is_monitored = bool(settings.get("useMonitor", True)) and self._schedule.is_monitored
        self._container = container
        self._blob = f"timers/{options.host_id}/Host.Functions.{function.name}/status"
        lock = f"locks/{options.host_id}/Host.Functions.{function.name}.Listener"
        self._lease = BlobLease(container, lock, options.lease)
        self._stopped = asyncio.Event()
        self._lost = asyncio.Event()
        self._status = TimerStatus(None, None, clock())

    async def run(self) -> None:
        """Run the timer whenever this instance holds the lease, until stopped. A run in flight may end."""
        while not self._stopped.is_set():
            try:
                if await self._lease.acquire():
                    await self._hold()
            except AzureError as error:
                HOST_LOG.error("timer %s cannot use the host's storage: %s", self._name, str(error).splitlines()[0])
            await self._wait(self._options.retry.total_seconds())

    def stop(self) -> None:
        """Run no more. The lease is released when the run in flight has ended."""
        self._stopped.set()

    async def _hold(self) -> None:
        async with renewed(self._lease, self._options.lease / 2, self._lost.set):
            await self._make_up()
            while not self._is_over():
                await self._sleep_until_due()
                if not self._is_over():
                    await self._run(past_due=False, was_due=True)
        self._lost.clear()

    async def _make_up(self) -> None:
        """Read the past. Run once when a run was missed, or when every start is to run it."""
        now = self._clock()
        stored = await self._read() if self._is_monitored else None
        if stored is None or is_changed(self._schedule, stored):
            self._status = first_status(self._schedule, now)
            await self._write()
        else:
            self._status = stored
        if is_past_due(self._schedule, self._status, now):
            await self._run(past_due=True, was_due=False)
        elif self._runs_on_startup:
            await self._run(past_due=False, was_due=False)

    async def _sleep_until_due(self) -> None:
        while not self._is_over():
            due = self._status.next
            # A schedule that never matches waits for the stop only.
            seconds = (due - self._clock()).total_seconds() if due else 3600.0
            if seconds <= 0:
                return
            await self._wait(seconds)

    async def _run(self, *, past_due: bool, was_due: bool) -> None:
        started = self._clock()
        shown = self._status if self._is_monitored else None
        metadata = {"TimerTrigger": Datum(started.isoformat(), "string")}
        await self._invoke(self._name, timer_datum(shown, past_due=past_due), metadata)
        self._status = status_after(self._schedule, self._status, started, was_due=was_due)
        await self._write()

    async def _wait(self, seconds: float) -> None:
        waits = [asyncio.create_task(event.wait()) for event in (self._stopped, self._lost)]
        await asyncio.wait(waits, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        for wait in waits:
            wait.cancel()

    def _is_over(self) -> bool:
        return self._stopped.is_set() or self._lost.is_set()

    async def _read(self) -> TimerStatus | None:
        try:
            download = await self._container.download_blob(self._blob)
        except ResourceNotFoundError:
            return None
        return TimerStatus.from_json((await download.readall()).decode())

    async def _write(self) -> None:
        if not self._is_monitored:
            return
        try:
            await self._container.upload_blob(self._blob, self._status.to_json(), overwrite=True)
        except ResourceNotFoundError:
            with suppress(ResourceExistsError):
                await self._container.create_container()
            await self._container.upload_blob(self._blob, self._status.to_json(), overwrite=True)
