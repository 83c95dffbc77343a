"""The one place that builds clients of storage and of the bus, from the settings that name them.

Every client gives up within seconds, because a queue, a timer or a person behind the caller retries. The libraries' own
defaults wait for minutes.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, Final, Self, TypeAlias, TypeVar

from azure.core.credentials import TokenCredential
from azure.core.pipeline.policies import RetryPolicy
from azure.core.pipeline.transport import HttpTransport
from azure.data.tables import TableServiceClient
from azure.servicebus import ServiceBusClient
from azure.storage import blob

from shared.azure.bus_post import BusPost, post_by_key, post_by_login
from shared.azure.connection_settings import (
    BUS_CONNECTION,
    BUS_SETTING,
    STORAGE_CONNECTION,
    STORAGE_SETTING,
    ByLogin,
    Login,
    find_connection,
    missing,
)
from shared.azure.meter import Meter
from shared.azure.pushback import Pushback, RetryWaits
from shared.azure.transport import PlainTransport, WholeReplies
from shared.clock import Closing, SystemClock
from shared.errors import SettingsError
from shared.telemetry import SILENT, Telemetry

if TYPE_CHECKING:
    # A command that opens a gate uses no queue, and the library takes a tenth of its time.
    from azure.servicebus.management import ServiceBusAdministrationClient
    from azure.storage import queue

#: In a connection string of the official emulator or of the local broker: neither speaks TLS.
LOCAL_MARK: Final = "usedevelopmentemulator=true"
#: Builds the transport of one client. It is below the retry policy, so each request and each retry passes it.
TransportFactory: TypeAlias = Callable[[], HttpTransport[Any, Any]]
#: Retries of one storage request, and the seconds before the first at most.
RETRIES: Final = 3
PAUSE: Final = 0.2
#: Seconds for a connection and for an answer.
PATIENCE: Final = 10
_Client = TypeVar("_Client", blob.BlobServiceClient, "queue.QueueServiceClient", TableServiceClient)


class Connections(Closing):
    """The clients of one installation, each built at its first use. Close them when done."""

    def __init__(
        self,
        storage: str | ByLogin,
        bus: str | ByLogin | None = None,
        *,
        transport: TransportFactory | None = None,
        retries: int = RETRIES,
        telemetry: Telemetry = SILENT,
    ) -> None:
        self._storage, self._bus, self._transport, self._retries = storage, bus, transport, retries
        #: Counts every request, unless the caller's own `transport` replaces it.
        self.meter = Meter(_namespace(bus))
        #: Is notified of every reply by which a service pushes back.
        self.pushback = Pushback(SystemClock())
        #: The waits between the tries of a storage request.
        self.waits = RetryWaits(PAUSE)
        #: Receives the spans and metrics of the stages that use these connections.
        self.telemetry = telemetry
        self._opened: list[Callable[[], None]] = []
        self._credentials: dict[Login, TokenCredential] = {}

    @classmethod
    def parse(
        cls,
        settings: Mapping[str, str],
        *,
        transport: TransportFactory | None = None,
        is_person: bool = False,
        retries: int = RETRIES,
        telemetry: Telemetry = SILENT,
    ) -> Self:
        """Build the connections that the settings name. With `is_person`, the user logs in, not the app."""
        storage, bus = (
            find_connection(name, settings, is_person=is_person) for name in (STORAGE_CONNECTION, BUS_CONNECTION)
        )
        if problems := (*storage.problems, *bus.problems):
            raise SettingsError("; ".join(problems))
        if storage.connection is None:
            raise SettingsError(missing(STORAGE_SETTING))
        return cls(storage.connection, bus.connection, transport=transport, retries=retries, telemetry=telemetry)

    @property
    def has_bus(self) -> bool:
        """True if there is a bus. Without one, polling finds everything."""
        return self._bus is not None

    @cached_property
    def blobs(self) -> blob.BlobServiceClient:
        """The blob service."""
        policy = self.waits.apply(blob.ExponentialRetry(retry_total=self._retries))
        return self._open(blob.BlobServiceClient, "blob", retry_policy=policy)

    @cached_property
    def queues(self) -> "queue.QueueServiceClient":
        """The queue service. Messages pass unchanged, without an encoding."""
        from azure.storage import queue  # noqa: PLC0415

        policy = self.waits.apply(queue.ExponentialRetry(retry_total=self._retries))
        return self._open(queue.QueueServiceClient, "queue", retry_policy=policy)

    @cached_property
    def tables(self) -> TableServiceClient:
        """The table service."""
        client = self._open(TableServiceClient, "table", retry_total=self._retries)
        # This library takes no policy of others, and makes its own.
        for policy in client._policies:  # noqa: SLF001
            if isinstance(policy, RetryPolicy):
                self.waits.apply(policy)
        return client

    def bus_client(self) -> ServiceBusClient:
        """Open a new client of the bus. The caller closes it, because a broken client must not be shared."""
        if self._bus is None:
            raise SettingsError(missing(BUS_SETTING))
        if isinstance(self._bus, str):
            with _refusing(BUS_CONNECTION):
                return ServiceBusClient.from_connection_string(self._bus, retry_total=1, retry_backoff_factor=PAUSE)
        credential = self._credential(self._bus.login)
        return ServiceBusClient(self._bus.addresses["bus"], credential, retry_total=1, retry_backoff_factor=PAUSE)

    def bus_post(self, queue: str) -> BusPost:
        """Build a sender to a queue of the bus by HTTP. The caller closes it."""
        if self._bus is None:
            raise SettingsError(missing(BUS_SETTING))
        if isinstance(self._bus, str):
            with _refusing(BUS_CONNECTION):
                return post_by_key(self._bus, queue, is_local=LOCAL_MARK in self._bus.lower())
        return post_by_login(self._bus.addresses["bus"], self._credential(self._bus.login), queue)

    def bus_administration(self) -> "ServiceBusAdministrationClient":
        """Open a new client that makes and removes entities of the bus. The caller closes it."""
        # Only one command needs it, and it loads slowly.
        from azure.core.pipeline.transport import RequestsTransport  # noqa: PLC0415
        from azure.servicebus.management import ServiceBusAdministrationClient  # noqa: PLC0415

        if self._bus is None:
            raise SettingsError(missing(BUS_SETTING))
        options: Any = {"connection_timeout": PATIENCE, "read_timeout": PATIENCE, "retry_total": 0}
        if isinstance(self._bus, str):
            if LOCAL_MARK in self._bus.lower():
                options["transport"] = PlainTransport(RequestsTransport(**options))
            with _refusing(BUS_CONNECTION):
                return ServiceBusAdministrationClient.from_connection_string(self._bus, **options)
        return ServiceBusAdministrationClient(self._bus.addresses["bus"], self._credential(self._bus.login), **options)

    def at_close(self, close: Callable[[], None]) -> None:
        """Have `close` called before the clients are closed: it closes what keeps a connection of its own."""
        self._opened.append(close)

    def close(self) -> None:
        """Close every client that was built."""
        while self._opened:
            self._opened.pop()()

    def _open(self, kind: type[_Client], service: str, **retries: Any) -> _Client:
        patience = {"connection_timeout": PATIENCE, "read_timeout": PATIENCE}
        counted = self._transport or partial(self.meter.transport, service, **patience)
        # Of all replies of the three services, only a blob may be larger than a process should hold.
        whole = WholeReplies(counted(), self.pushback.on_reply, in_pieces=service == "blob")
        options = {**patience, **retries, "transport": whole}
        if isinstance(self._storage, str):
            with _refusing(STORAGE_CONNECTION):
                client = kind.from_connection_string(self._storage, **options)
        else:
            credential = self._credential(self._storage.login)
            client = kind(self._storage.addresses[service], credential=credential, **options)
        self._opened.append(client.close)
        return client

    def _credential(self, login: Login) -> TokenCredential:
        """Return the one credential of this login, which keeps its tokens for storage and for the bus."""
        if login not in self._credentials:
            from shared.azure.credentials import credential_of  # noqa: PLC0415 - a connection string does not need it

            credential = credential_of(login, retry_total=self._retries, retry_backoff_factor=PAUSE)
            self._opened.append(credential.close)
            self._credentials[login] = credential
        return self._credentials[login]


@contextmanager
def _refusing(name: str) -> Iterator[None]:
    """Turn the library's error about a connection string into one that names the setting and hides the key."""
    try:
        yield
    except ValueError:
        raise SettingsError(
            f"{name} is not a connection string: copy all of it; it begins with a name, an equals sign and a value"
        ) from None


def _namespace(bus: str | ByLogin | None) -> str:
    if isinstance(bus, ByLogin):
        return bus.addresses["bus"].partition(".")[0]
    host = (bus or "").partition("://")[2].partition(";")[0]
    return host.partition(".")[0].partition(":")[0].rstrip("/")
