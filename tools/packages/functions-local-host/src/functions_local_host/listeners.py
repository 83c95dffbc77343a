"""One listener per function, by trigger type."""

import hashlib
import uuid
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta

from azure.servicebus import parse_connection_string

from functions_local_host.bus_listener import BusListener
from functions_local_host.contract import IndexedFunction, Invoke, Listener
from functions_local_host.host_json import HostOptions
from functions_local_host.host_storage import HostStorage
from functions_local_host.indexing import AppFunction
from functions_local_host.leases import CONTAINER, PrimaryLease
from functions_local_host.local_settings import HOST_STORAGE, connection_string, lookup
from functions_local_host.meter import Meter
from functions_local_host.plan import InstanceArguments, group_of
from functions_local_host.queue_listener import QueueListener
from functions_local_host.signature import AppRefusedError
from functions_local_host.timer_listener import TimerListener, TimerOptions

#: No function's name, which holds no spaces.
_PRIMARY = "primary host lease"


def host_id(settings: Mapping[str, str], app: str) -> str:
    """Return the name under which the host keeps leases and timers: set, or one per machine and folder."""
    given = lookup("AzureFunctionsWebHost__hostid", settings)
    return given.lower() or hashlib.sha256(f"{uuid.getnode()}:{app}".encode()).hexdigest()[:32]


def _malformed(setting: str, error: ValueError) -> str:
    # Neither SDK quotes the connection string in its error: it holds a key.
    return f"connection {setting or HOST_STORAGE!r} is no connection string: {error}"


@dataclass(slots=True)
class Listeners:
    """Makes listeners and owns the storage clients that they use."""

    arguments: InstanceArguments
    options: HostOptions
    settings: Mapping[str, str]
    meter: Meter
    _storages: dict[str, HostStorage] = field(default_factory=dict)

    def make(self, functions: Iterable[AppFunction], invoke: Invoke) -> dict[str, Listener]:
        """Return the listeners of this process, by name: the group's functions that are not disabled, and the primary lease."""
        makers: dict[str, Callable[[IndexedFunction, Invoke], Listener]] = {
            "queueTrigger": self._queue,
            "serviceBusTrigger": self._bus,
            "timerTrigger": self._timer,
        }
        mine = [f.indexed for f in functions if not f.is_disabled and self._is_mine(f.indexed)]
        listeners = {f.name: makers[f.trigger.type](f, invoke) for f in mine if f.trigger.type in makers}
        if lookup(HOST_STORAGE, self.settings):
            listeners[_PRIMARY] = self._primary()
        return listeners

    async def close(self) -> None:
        """Close every client."""
        for storage in self._storages.values():
            await storage.close()

    def connect(self, setting: str) -> str:
        """Return the connection string that a binding names."""
        return connection_string(setting, self.settings)

    def _is_mine(self, function: IndexedFunction) -> bool:
        arguments = self.arguments
        return group_of(function.name, function.trigger.type, is_flex=arguments.host.is_flex) == arguments.group

    def _storage(self, setting: str) -> HostStorage:
        connection = self.connect(setting)
        storage = self._storages.setdefault(connection, HostStorage(connection, self.meter))
        try:
            # Reads the connection string; a client opens nothing before its first request.
            storage.queue("probe", "start")
        except ValueError as error:
            raise AppRefusedError(_malformed(setting, error)) from error
        return storage

    def _queue(self, function: IndexedFunction, invoke: Invoke) -> Listener:
        storage = self._storage(str(function.trigger.settings.get("connection", "")))
        lease = timedelta(seconds=self.arguments.host.message_lease)
        return QueueListener(function, self.options.queues, storage, invoke, lease)

    def _bus(self, function: IndexedFunction, invoke: Invoke) -> Listener:
        setting = str(function.trigger.settings.get("connection", ""))
        connection = self.connect(setting)
        try:
            parse_connection_string(connection)
        except ValueError as error:
            raise AppRefusedError(_malformed(setting, error)) from error
        return BusListener(function, self.options.bus, connection, invoke)

    def _timer(self, function: IndexedFunction, invoke: Invoke) -> Listener:
        host, singleton = self.arguments.host, self.options.singleton
        options = TimerOptions(
            host_id(self.settings, host.app),
            lease=timedelta(seconds=host.timer_lease) if host.timer_lease else singleton.listener_lock_period,
            retry=timedelta(seconds=host.timer_retry)
            if host.timer_retry
            else singleton.listener_lock_recovery_polling_interval,
        )
        container = self._storage("").container(CONTAINER, f"timer {function.name}")
        return TimerListener(function, options, container, invoke)

    def _primary(self) -> Listener:
        container = self._storage("").container(CONTAINER, _PRIMARY)
        return PrimaryLease(container, host_id(self.settings, self.arguments.host.app), self.arguments.name)
