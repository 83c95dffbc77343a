"""The one place that builds clients of storage and of the bus, from the settings that name them.

Every client gives up within seconds: whoever calls has a queue, a timer or a person behind it that tries again, and
the libraries' own defaults wait for minutes.
"""

from collections.abc import Callable, Mapping
from functools import cached_property, partial
from types import TracebackType
from typing import Any, Final, Protocol, Self, TypeAlias, TypeVar

from azure.core.pipeline.transport import HttpTransport
from azure.data.tables import TableServiceClient
from azure.servicebus import ServiceBusClient
from azure.storage import blob, queue

from shared.answers import WholeReplies
from shared.clock import SystemClock
from shared.concurrency.pushback import Pushback
from shared.settings import BUS, STORAGE, SettingsError
from shared.usage.meter import Meter

#: Makes the transport of one client, below its retry policy: each request and each repetition passes it.
TransportFactory: TypeAlias = Callable[[], HttpTransport[Any, Any]]

#: Repetitions of one storage request, and the seconds before the first.
RETRIES: Final = 3
PAUSE: Final = 0.2
#: Seconds for a connection and for an answer.
PATIENCE: Final = 10


class _Closable(Protocol):
    def close(self) -> None: ...


_Client = TypeVar("_Client", bound=_Closable)


class Connections:
    """Clients of one installation, each made at its first use; close them when done."""

    def __init__(self, storage: str, bus: str | None = None, *, transport: TransportFactory | None = None) -> None:
        self._storage, self._bus, self._transport = storage, bus, transport
        #: Counts every request, unless a transport of the caller's own takes its place.
        self.meter = Meter(_namespace(bus))
        #: Hears of every reply by which a service says that it has enough.
        self.pushback = Pushback(SystemClock())
        self._opened: list[Callable[[], None]] = []

    @classmethod
    def parse(cls, settings: Mapping[str, str], *, transport: TransportFactory | None = None) -> Self:
        """Return the connections that the settings name."""
        storage = settings.get(STORAGE)
        if not storage:
            raise SettingsError(f"{STORAGE} is missing: set it to a connection string of the app's storage account")
        return cls(storage, settings.get(BUS) or None, transport=transport)

    @property
    def has_bus(self) -> bool:
        """Whether there is a bus at all; without one everything is found by polling."""
        return self._bus is not None

    @cached_property
    def blobs(self) -> blob.BlobServiceClient:
        """The blob service."""
        policy = _quick(blob.LinearRetry)
        return self._keep(blob.BlobServiceClient.from_connection_string(self._storage, **self._options("blob", policy)))

    @cached_property
    def queues(self) -> queue.QueueServiceClient:
        """The queue service; messages pass as they are, nothing is encoded."""
        policy = _quick(queue.LinearRetry)
        return self._keep(
            queue.QueueServiceClient.from_connection_string(self._storage, **self._options("queue", policy))
        )

    @cached_property
    def tables(self) -> TableServiceClient:
        """The table service."""
        options = self._options("table", None)
        return self._keep(
            TableServiceClient.from_connection_string(
                self._storage, retry_total=RETRIES, retry_backoff_factor=PAUSE, **options
            )
        )

    def bus_client(self) -> ServiceBusClient:
        """Return a new client of the bus; whoever asked closes it, since a broken one is of no use to others."""
        if self._bus is None:
            raise SettingsError(f"{BUS} is missing: set it to a connection string of the Service Bus namespace")
        return ServiceBusClient.from_connection_string(self._bus, retry_total=1, retry_backoff_factor=PAUSE)

    def close(self) -> None:
        """Close every client that was made."""
        while self._opened:
            self._opened.pop()()

    def _options(self, service: str, policy: object | None) -> dict[str, Any]:
        patience = {"connection_timeout": PATIENCE, "read_timeout": PATIENCE}
        counted = self._transport or partial(self.meter.transport, service, **patience)
        return {
            **patience,
            "transport": WholeReplies(counted(), self.pushback.on_reply),
            **({} if policy is None else {"retry_policy": policy}),
        }

    def _keep(self, client: _Client) -> _Client:
        self._opened.append(client.close)
        return client

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _namespace(bus: str | None) -> str:
    host = (bus or "").partition("://")[2].partition(";")[0]
    return host.partition(".")[0].partition(":")[0].rstrip("/")


def _quick(policy: Callable[..., Any]) -> Any:
    # The annotations of both policies say int where seconds are meant; fractions work.
    return policy(backoff=PAUSE, retry_total=RETRIES, random_jitter_range=PAUSE / 2)
