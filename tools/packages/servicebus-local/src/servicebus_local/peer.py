"""One client connection: bytes in, proton's events to the links they concern, bytes out.

Proton's engine is driven directly, without its Container and without its event objects. An event object wraps
connection, session, link and delivery anew each time. That costs more than all of the broker's work for a message.
"""

import asyncio
import logging
from collections.abc import Callable
from typing import Any, Protocol

from cproton import (
    PN_CONNECTION_REMOTE_CLOSE,
    PN_CONNECTION_REMOTE_OPEN,
    PN_DELIVERY,
    PN_LINK_FLOW,
    PN_LINK_REMOTE_CLOSE,
    PN_LINK_REMOTE_DETACH,
    PN_LINK_REMOTE_OPEN,
    PN_SESSION_REMOTE_CLOSE,
    PN_SESSION_REMOTE_OPEN,
    isnull,
    pn_collector_peek,
    pn_collector_pop,
    pn_connection_close,
    pn_connection_open,
    pn_delivery_link,
    pn_event_connection,
    pn_event_delivery,
    pn_event_link,
    pn_event_session,
    pn_event_type,
    pn_link_close,
    pn_link_name,
    pn_link_session,
    pn_session_close,
    pn_session_open,
    pn_transport_peek,
    pn_transport_pending,
    pn_transport_pop,
    pn_transport_push,
    pn_transport_tick,
)
from proton import Collector, Connection, Link, Transport

from servicebus_local import greeting
from servicebus_local.tokens import Scope

_LOG = logging.getLogger(__name__)
#: The frame size that the real service offers.
_FRAME = 65_536
_wrapped: Callable[[Any], Any] = Link.wrap


class Endpoint(Protocol):
    """The broker's end of a link."""

    def on_flow(self) -> None:
        """Do what new credit allows."""

    def on_delivery(self, delivery: Any) -> None:
        """Take a transfer in, or the outcome of one sent."""

    def on_gone(self) -> None:
        """Let go: the link, its session or its connection has ended."""


class Pipe(Protocol):
    """What the engine's bytes go out by: a socket, or a tunnel in one."""

    def write(self, data: bytes) -> None:
        """Send bytes."""

    def close(self) -> None:
        """Close once everything is sent."""


class House(Protocol):
    """The server's side of a connection."""

    def attach(self, peer: "Peer", link: Any) -> Endpoint | None:
        """Answer a new link. None where it was refused."""

    def joined(self, peer: "Peer") -> None:
        """Note a new connection."""

    def left(self, peer: "Peer") -> None:
        """Note the end of a connection."""

    def touched(self, peer: "Peer") -> None:
        """Note that a connection has something to send."""

    def turn(self) -> None:
        """Hand out what has become available and send what is to be sent."""


class Peer(asyncio.Protocol):
    """A connection's engine and the endpoints of its links."""

    def __init__(self, house: House) -> None:
        self._house = house
        self._socket: Pipe | None = None
        self._engine = Transport(Transport.SERVER)
        self._engine.max_frame_size = _FRAME
        self._engine.sasl().allowed_mechs("ANONYMOUS")
        self._heard, self._said = greeting.of_client(), greeting.of_engine()
        self._collector = Collector()
        self._connection = Connection()
        self._connection.container = "servicebus-local"
        self._connection.collect(self._collector)
        self._engine.bind(self._connection)
        #: By the C pointer of the link: proton's link objects are made anew at each access.
        self.endpoints: dict[Any, Endpoint] = {}
        #: The links for replies, by node; the newest last.
        self.replies: dict[str, list[Any]] = {}
        #: What the client's tokens are good for.
        self.scopes: list[Scope] = []
        self._answers: dict[int, Callable[[Any], None]] = {
            PN_CONNECTION_REMOTE_OPEN: lambda event: pn_connection_open(pn_event_connection(event)),
            PN_CONNECTION_REMOTE_CLOSE: lambda event: pn_connection_close(pn_event_connection(event)),
            PN_SESSION_REMOTE_OPEN: lambda event: pn_session_open(pn_event_session(event)),
            PN_SESSION_REMOTE_CLOSE: self._on_session_close,
            PN_LINK_REMOTE_OPEN: self._on_link_open,
            PN_LINK_REMOTE_CLOSE: self._on_link_close,
            PN_LINK_REMOTE_DETACH: self._on_link_close,
            PN_LINK_FLOW: self._on_flow,
            PN_DELIVERY: self._on_delivery,
        }

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Start with the socket."""
        if isinstance(transport, asyncio.Transport):
            self.connected(transport)

    def connected(self, pipe: Pipe) -> None:
        """Start."""
        self._socket = pipe
        self._house.joined(self)

    def data_received(self, data: bytes) -> None:
        """Feed the engine and answer what comes of it."""
        rest = memoryview(self._heard.passed(data))
        while rest:
            taken = pn_transport_push(self._engine._impl, rest)  # noqa: SLF001 - the C pointer; see the module's reason
            if taken <= 0:
                # The engine reports what is wrong to the client by itself, in the close frame that flush() sends.
                _LOG.warning("a connection sent what is not AMQP and is closed: %s", self._engine.condition)
                break
            rest = rest[taken:]
            self._run_events()
        self._run_events()
        self.touched()
        self._house.turn()

    def connection_lost(self, exc: Exception | None) -> None:
        """Let go of everything that the connection held. How it ended makes no difference."""
        _LOG.debug("connection lost: %s", exc)
        self._socket = None
        for endpoint in list(self.endpoints.values()):
            endpoint.on_gone()
        self.endpoints.clear()
        self._house.left(self)
        self._house.turn()

    def touched(self) -> None:
        """Have the output flushed at the end of this turn."""
        self._house.touched(self)

    def endpoint_named(self, name: Any) -> Endpoint | None:
        """Return the endpoint of the receiving link of that name."""
        return next((end for link, end in self.endpoints.items() if pn_link_name(link) == name), None)

    def flush(self) -> None:
        """Send what the engine has to send."""
        engine = self._engine._impl  # noqa: SLF001 - as above
        while self._socket is not None:
            pending = pn_transport_pending(engine)
            if pending == 0:
                return
            if pending < 0:
                self._socket.close()
                return
            _, data = pn_transport_peek(engine, pending)
            self._socket.write(self._said.passed(data))
            pn_transport_pop(engine, pending)

    def beat(self, now: float) -> None:
        """Send a heartbeat if the client requested them and one is due."""
        pn_transport_tick(self._engine._impl, int(now * 1000))  # noqa: SLF001 - as above
        self.flush()

    def close(self) -> None:
        """Close the connection from this side."""
        self._connection.close()
        self.flush()
        if self._socket is not None:
            self._socket.close()

    def _run_events(self) -> None:
        collector = self._collector._impl  # noqa: SLF001 - as above
        while not isnull(event := pn_collector_peek(collector)):
            answer = self._answers.get(pn_event_type(event))
            if answer is not None:
                answer(event)
            pn_collector_pop(collector)

    def _on_link_open(self, event: Any) -> None:
        link = pn_event_link(event)
        endpoint = self._house.attach(self, _wrapped(link))
        if endpoint is not None:
            self.endpoints[link] = endpoint

    def _on_link_close(self, event: Any) -> None:
        link = pn_event_link(event)
        endpoint = self.endpoints.pop(link, None)
        if endpoint is not None:
            endpoint.on_gone()
        pn_link_close(link)

    def _on_session_close(self, event: Any) -> None:
        session = pn_event_session(event)
        for link in [link for link in self.endpoints if pn_link_session(link) == session]:
            self.endpoints.pop(link).on_gone()
        pn_session_close(session)

    def _on_flow(self, event: Any) -> None:
        endpoint = self.endpoints.get(pn_event_link(event))
        if endpoint is not None:
            endpoint.on_flow()

    def _on_delivery(self, event: Any) -> None:
        delivery = pn_event_delivery(event)
        endpoint = self.endpoints.get(pn_delivery_link(delivery))
        if endpoint is not None:
            endpoint.on_delivery(delivery)
