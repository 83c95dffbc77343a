"""AMQP inside of a WebSocket (RFC 6455): frames are taken off on the way in and put on on the way out."""

import asyncio
import hashlib
from base64 import b64encode

from servicebus_local.http import Request
from servicebus_local.peer import Peer

_PROTOCOL = "AMQPWSB10"
#: RFC 6455 has every server add it to the client's key.
_GUID = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
_BINARY, _CLOSE, _PING, _PONG = 0x2, 0x8, 0x9, 0xA
_LAST, _MASKED = 0x80, 0x80


class Tunnel(asyncio.Protocol):
    """A WebSocket between a socket and the engine of a connection. The engine takes it for its socket."""

    def __init__(self, peer: Peer) -> None:
        self._peer = peer
        self._socket: asyncio.Transport | None = None
        self._received = b""

    @staticmethod
    def welcome(request: Request) -> bytes:
        """Return the reply that opens a WebSocket."""
        # The protocol asks for SHA-1, which protects nothing here.
        digest = hashlib.sha1((request.headers["sec-websocket-key"] + _GUID).encode(), usedforsecurity=False).digest()
        offered = request.headers.get("sec-websocket-protocol", "")
        chosen = f"Sec-WebSocket-Protocol: {_PROTOCOL}\r\n" if _PROTOCOL in offered else ""
        return (
            "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
            f"Sec-WebSocket-Accept: {b64encode(digest).decode()}\r\n{chosen}\r\n"
        ).encode()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Start the engine."""
        if isinstance(transport, asyncio.Transport):
            self._socket = transport
            self._peer.connected(self)

    def data_received(self, data: bytes) -> None:
        """Pass on what whole frames hold."""
        self._received += data
        while (found := _frame(self._received)) is not None:
            kind, content, self._received = found
            if kind == _CLOSE:
                self._send(_CLOSE, content[:2])
                self.close()
            elif kind == _PING:
                self._send(_PONG, content)
            elif kind != _PONG:
                # Text never comes, and a continued frame continues the stream of bytes.
                self._peer.data_received(content)

    def connection_lost(self, exc: Exception | None) -> None:
        """End the engine's connection too."""
        self._socket = None
        self._peer.connection_lost(exc)

    def write(self, data: bytes) -> None:
        """Send bytes of the engine."""
        self._send(_BINARY, data)

    def close(self) -> None:
        """Close the socket once everything is sent."""
        if self._socket is not None:
            self._socket.close()

    def _send(self, kind: int, content: bytes) -> None:
        if self._socket is not None:
            self._socket.write(bytes((_LAST | kind,)) + _length(len(content)) + content)


def _length(size: int) -> bytes:
    if size < 126:
        return bytes((size,))
    return b"\x7e" + size.to_bytes(2) if size < 65_536 else b"\x7f" + size.to_bytes(8)


def _frame(received: bytes) -> tuple[int, bytes, bytes] | None:
    """Return the kind and content of the first whole frame and what follows it."""
    if len(received) < 2:
        return None
    masked, size, at = received[1] & _MASKED, received[1] & 0x7F, 2
    if size >= 126:
        width = 2 if size == 126 else 8
        size, at = int.from_bytes(received[2 : 2 + width]), 2 + width
    mask = received[at : at + 4] if masked else b""
    at += 4 if masked else 0
    end = at + size
    if len(received) < end:
        return None
    return received[0] & 0x0F, _unmasked(received[at:end], mask), received[end:]


def _unmasked(content: bytes, mask: bytes) -> bytes:
    if not mask or not content:
        return content
    # As one large number: byte by byte would take longer than all else that is done for a message.
    repeated = (mask * (len(content) // 4 + 1))[: len(content)]
    return (int.from_bytes(content) ^ int.from_bytes(repeated)).to_bytes(len(content))
