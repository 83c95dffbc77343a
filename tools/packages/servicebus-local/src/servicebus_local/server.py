"""The broker as a server: connections, their turns, and the clock."""

import asyncio
import socket
import ssl
import time
from collections.abc import Coroutine
from typing import Any

from servicebus_local.administration import Administration
from servicebus_local.attach import Hall
from servicebus_local.broker import Broker
from servicebus_local.http import Answer, Request
from servicebus_local.peer import Endpoint, Peer
from servicebus_local.reception import Reception
from servicebus_local.tokens import Gatekeeper

#: How often locks, lives, schedules and waits are looked at, in seconds: the error of everything that time brings.
_TICK = 0.05
#: Heartbeats are due every few seconds at most.
_BEAT_TICKS = 20
#: The first byte of a connection that speaks TLS.
_HANDSHAKE = b"\x16"


async def _first_byte(taken: socket.socket) -> bytes:
    """Wait for the first byte of a connection, and leave it there."""
    loop, ready = asyncio.get_running_loop(), asyncio.Event()
    loop.add_reader(taken, ready.set)
    try:
        await ready.wait()
    finally:
        loop.remove_reader(taken)
    return taken.recv(1, socket.MSG_PEEK)


class Server:
    """Listens on the loopback interface and runs a broker."""

    def __init__(
        self, broker: Broker, *, tls: ssl.SSLContext | None = None, gatekeeper: Gatekeeper | None = None
    ) -> None:
        self._broker = broker
        self._tls = tls
        self._hall = Hall(broker, gatekeeper)
        self._administration = Administration(broker, gatekeeper)
        self._peers: set[Peer] = set()
        self._touched: set[Peer] = set()
        self._listener: socket.socket | None = None
        #: The one that takes connections, and those that wait for a first byte.
        self._tasks: set[asyncio.Task[None]] = set()
        self._ticks = 0

    async def start(self, port: int) -> int:
        """Listen, and return the port."""
        self._listener = socket.create_server(("127.0.0.1", port), backlog=100)
        self._listener.setblocking(False)  # noqa: FBT003 - the library has no name for it
        self._begin(self._take(self._listener))
        asyncio.get_running_loop().call_later(_TICK, self._tick)
        return int(self._listener.getsockname()[1])

    async def stop(self) -> None:
        """Close every connection and the port."""
        for task in self._tasks:
            task.cancel()
        if self._listener is not None:
            self._listener.close()
        for peer in list(self._peers):
            peer.close()
        # One pass of the loop lets the sockets send their close frames.
        await asyncio.sleep(0)

    def _begin(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _take(self, listener: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        while True:
            taken, _ = await loop.sock_accept(listener)
            self._begin(self._welcome(taken))

    async def _welcome(self, taken: socket.socket) -> None:
        """Go on with TLS or without it, by the first byte: clients of the administration speak nothing else."""
        loop = asyncio.get_running_loop()
        try:
            is_secure = self._tls is not None and await _first_byte(taken) == _HANDSHAKE
            await loop.connect_accepted_socket(self._receive, taken, ssl=self._tls if is_secure else None)
        except OSError:
            # The client is gone, or is not content with the certificate.
            taken.close()
        except asyncio.CancelledError:
            taken.close()
            raise

    def _receive(self) -> Reception:
        return Reception(lambda: Peer(self), self._answer)

    def _answer(self, request: Request) -> Answer:
        answer = self._administration(request)
        # A message that came so goes out at once, as those of AMQP do.
        self.turn()
        return answer

    def attach(self, peer: Peer, link: Any) -> Endpoint | None:
        """Answer a new link."""
        return self._hall.attach(peer, link)

    def joined(self, peer: Peer) -> None:
        """Note a new connection."""
        self._peers.add(peer)

    def left(self, peer: Peer) -> None:
        """Forget a connection."""
        self._peers.discard(peer)

    def touched(self, peer: Peer) -> None:
        """Note that a connection has something to send."""
        self._touched.add(peer)

    def turn(self) -> None:
        """Hand out what has become available, then send. Only entities with an event are visited."""
        now = time.time()
        stirred = self._broker.stirred
        while stirred:
            self._hall.serve(stirred.pop(), now)
        while self._touched:
            self._touched.pop().flush()

    def _tick(self) -> None:
        now = time.time()
        self._hall.advance(now)
        self.turn()
        self._ticks += 1
        if self._ticks % _BEAT_TICKS == 0:
            for peer in list(self._peers):
                peer.beat(now)
        asyncio.get_running_loop().call_later(_TICK, self._tick)
