"""The first bytes of a connection: AMQP goes to the engine at once, HTTP to the administration or into a tunnel."""

import asyncio
from collections.abc import Callable

from servicebus_local.http import Answer, Request, answered, request_from
from servicebus_local.peer import Peer
from servicebus_local.websocket import Tunnel

#: The beginnings of HTTP requests. Everything else is the engine's, which says what is wrong with it.
_METHODS = (b"GET ", b"PUT ", b"POST", b"DELE", b"HEAD", b"PATC", b"OPTI")
_LONGEST_REQUEST = 1_048_576


class Reception(asyncio.Protocol):
    """A connection that has not said yet what it speaks."""

    def __init__(self, peer: Callable[[], Peer], administer: Callable[[Request], Answer]) -> None:
        self._make_peer = peer
        self._administer = administer
        self._transport: asyncio.Transport | None = None
        self._received = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Wait for the first bytes."""
        if isinstance(transport, asyncio.Transport):
            self._transport = transport

    def data_received(self, data: bytes) -> None:
        """Decide by the first four bytes."""
        self._received += data
        if self._transport is None or len(self._received) < 4:
            return
        if self._received.startswith(_METHODS):
            self._converse(self._transport)
        else:
            self._hand_over(self._transport, self._make_peer(), self._received)

    def _hand_over(self, transport: asyncio.Transport, protocol: asyncio.Protocol, rest: bytes) -> None:
        transport.set_protocol(protocol)
        protocol.connection_made(transport)
        if rest:
            protocol.data_received(rest)

    def _converse(self, transport: asyncio.Transport) -> None:
        while (found := request_from(self._received)) is not None:
            request, self._received = found
            if request.is_upgrade:
                transport.write(Tunnel.welcome(request))
                self._hand_over(transport, Tunnel(self._make_peer()), self._received)
                return
            transport.write(answered(self._administer(request)))
        if len(self._received) > _LONGEST_REQUEST:
            transport.close()
