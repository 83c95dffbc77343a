"""The beginning of a connection (SASL): clients that show a token later may say so by a mechanism of Service Bus's own.

The clients for .NET and C choose that mechanism, and go without a connection where it is not offered. The engine knows it
not, and both mean the same: who the client is, its token says. So it is offered beside the engine's, and handed on as that.
"""

from collections.abc import Callable

_HEADER = b"AMQP\x03\x01\x00\x00"
_FRAME_HEAD = b"\x02\x01\x00\x00"
#: A symbol, short or long, as the name of a mechanism stands in a client's choice.
_TOKEN_LATER = (b"\xa3\x07MSSBCBS", b"\xb3\x00\x00\x00\x07MSSBCBS")


def _frame(body: bytes) -> bytes:
    return (len(body) + 8).to_bytes(4) + _FRAME_HEAD + body


#: The mechanisms that are offered, and the choice of the engine's: described lists of one field.
_OFFER = _frame(b"\x00\x53\x40\xc0\x17\x01\xe0\x14\x02\xa3\x09ANONYMOUS\x07MSSBCBS")
_CHOICE = _frame(b"\x00\x53\x41\xc0\x0c\x01\xa3\x09ANONYMOUS")


class Greeting:
    """One direction of a connection's beginning: its first frame may be another one than was said."""

    def __init__(self, replaced: Callable[[bytes], bytes]) -> None:
        self._replaced = replaced
        self._kept = b""
        self._has_header = self._is_over = False

    def passed(self, data: bytes) -> bytes:
        """Return what is to be handed on by now: the header as it comes, the first frame once it is whole."""
        if self._is_over:
            return data
        self._kept += data
        return self._header() + self._frame()

    def _header(self) -> bytes:
        if self._has_header or len(self._kept) < len(_HEADER):
            return b""
        header, self._kept = self._kept[: len(_HEADER)], self._kept[len(_HEADER) :]
        self._has_header = True
        # What does not begin so has no mechanisms, and goes on as it is.
        self._is_over = header != _HEADER
        return header

    def _frame(self) -> bytes:
        size = int.from_bytes(self._kept[:4]) if len(self._kept) >= 4 else None
        if not self._has_header or (not self._is_over and (size is None or len(self._kept) < size)):
            return b""
        rest, self._kept = self._kept, b""
        if self._is_over or size is None:
            return rest
        self._is_over = True
        return self._replaced(rest[:size]) + rest[size:]


def of_client() -> Greeting:
    """Return the client's direction, in which its choice becomes the engine's own."""
    return Greeting(lambda frame: _CHOICE if any(name in frame for name in _TOKEN_LATER) else frame)


def of_engine() -> Greeting:
    """Return the engine's direction, in which the offer has one mechanism more."""
    return Greeting(lambda _: _OFFER)
