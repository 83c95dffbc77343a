"""A sender of the bus on a connection that is kept: opening one takes longer than sending."""

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from threading import Lock
from typing import Final

from azure.servicebus import ServiceBusClient, ServiceBusMessage, ServiceBusSender
from azure.servicebus.exceptions import ServiceBusError

from shared.connections import Connections
from shared.usage.meter import BusOperation, Cause, because

#: What the library raises when it could not send; ValueError for a sender that it has closed by itself.
FAILURES: Final = (ServiceBusError, OSError, ValueError)
#: Once on the connection that is there, which may have been idle for too long, and once on a new one.
_ATTEMPTS: Final = 2


class KeptSender:
    """Sends to one queue or topic, from one thread at a time; close it when done."""

    def __init__(
        self, connections: Connections, entity: str, opened: Callable[[ServiceBusClient], ServiceBusSender]
    ) -> None:
        self._connections, self._entity, self._opened = connections, entity, opened
        self._open: tuple[ServiceBusClient, ServiceBusSender] | None = None
        # The library's senders are not safe to share between threads.
        self._lock = Lock()

    def send(self, messages: Sequence[ServiceBusMessage]) -> None:
        """Send them in one transfer, on a new connection where the one that is there is broken; raises FAILURES."""
        with self._lock:
            for left in reversed(range(_ATTEMPTS)):
                try:
                    self._send_once(messages, is_again=left < _ATTEMPTS - 1)
                except FAILURES as error:
                    self._connections.pushback.on_bus_error(error)
                    self._forget()
                    if not left:
                        raise
                else:
                    return

    def close(self) -> None:
        """Close the connection; the next message opens another."""
        with self._lock:
            self._forget()

    def _send_once(self, messages: Sequence[ServiceBusMessage], *, is_again: bool) -> None:
        if self._open is None:
            client = self._connections.bus_client()
            self._open = client, self._opened(client)
        with because(Cause.RETRY) if is_again else nullcontext():
            self._connections.meter.count_bus(BusOperation.SEND, self._entity, len(messages))
        self._open[1].send_messages(list(messages))

    def _forget(self) -> None:
        opened, self._open = self._open, None
        if opened is not None:
            opened[1].close()
            opened[0].close()
