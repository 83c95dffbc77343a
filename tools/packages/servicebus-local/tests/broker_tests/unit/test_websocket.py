"""WebSocket frames as they may arrive: cut anywhere, of every length."""

import asyncio

import pytest
from servicebus_local.http import request_from
from servicebus_local.websocket import Tunnel

_MASK = b"\x0f\xf0\x33\xaa"


class _Engine:
    def __init__(self):
        self.got, self.ended = b"", False

    def connected(self, pipe):
        self.pipe = pipe

    def data_received(self, data):
        self.got += data

    def connection_lost(self, exc):
        self.ended = True


class _Socket(asyncio.Transport):
    def __init__(self):
        super().__init__()
        self.sent, self.closed = b"", False

    def write(self, data):
        self.sent += data

    def close(self):
        self.closed = True


def _masked(kind, content):
    size = len(content)
    width = 0 if size < 126 else 2 if size < 65_536 else 8
    length = bytes((0x80 | {0: size, 2: 126, 8: 127}[width],)) + (size.to_bytes(width) if width else b"")
    hidden = bytes(byte ^ _MASK[place % 4] for place, byte in enumerate(content))
    return bytes((0x80 | kind,)) + length + _MASK + hidden


def _opened():
    engine, socket = _Engine(), _Socket()
    tunnel = Tunnel(engine)
    tunnel.connection_made(socket)
    return engine, socket, tunnel


@pytest.mark.parametrize("size", [0, 1, 125, 126, 65_535, 65_536, 100_001])
@pytest.mark.parametrize("cuts", [1, 2, 50])
def test_a_frame_s_content_comes_out_whole(size, cuts):
    """However the network cuts it."""
    content = bytes(place % 251 for place in range(size))
    frame = _masked(2, content) + _masked(2, b"after")
    engine, _, tunnel = _opened()
    step = len(frame) // cuts + 1
    for start in range(0, len(frame), step):
        tunnel.data_received(frame[start : start + step])
    assert engine.got == content + b"after"


@pytest.mark.parametrize(("size", "head"), [(3, b"\x82\x03"), (200, b"\x82\x7e\x00\xc8"), (70_000, b"\x82\x7f")])
def test_what_the_engine_sends_is_one_frame(size, head):
    """Not masked, as a server's frames must be."""
    _, socket, tunnel = _opened()
    tunnel.write(b"x" * size)
    assert socket.sent.startswith(head)
    assert socket.sent.endswith(b"x" * size)


def test_a_ping_is_answered_and_is_no_data():
    """With the same content."""
    engine, socket, tunnel = _opened()
    tunnel.data_received(_masked(9, b"there?"))
    assert (socket.sent, engine.got) == (b"\x8a\x06there?", b"")


def test_a_closing_frame_ends_the_connection():
    """The code goes back."""
    engine, socket, tunnel = _opened()
    tunnel.data_received(_masked(8, b"\x03\xe8bye"))
    assert (socket.sent, socket.closed) == (b"\x88\x02\x03\xe8", True)
    tunnel.connection_lost(None)
    assert engine.ended


def test_the_key_is_answered_as_the_standard_says():
    """The example of RFC 6455, with the protocol that the service's clients name."""
    head = (
        b"GET /$servicebus/websocket HTTP/1.1\r\nHost: h\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Protocol: AMQPWSB10\r\n\r\nrest"
    )
    request, rest = request_from(head)
    assert (request.is_upgrade, rest) == (True, b"rest")
    answer = Tunnel.welcome(request).decode()
    assert "Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=" in answer
    assert "Sec-WebSocket-Protocol: AMQPWSB10" in answer


def test_a_request_waits_for_its_body():
    """And leaves what follows it."""
    whole = b"PUT /a%20b?x=1 HTTP/1.1\r\nContent-Length: 3\r\n\r\nabcGET"
    assert request_from(whole[:-4]) is None
    request, rest = request_from(whole)
    assert (request.method, request.path, dict(request.query), rest) == ("PUT", "/a b", {"x": "1"}, b"GET")
