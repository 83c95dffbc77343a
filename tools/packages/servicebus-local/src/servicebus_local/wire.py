"""AMQP 1.0 values as bytes: just enough to read a message's sections and to write the few that a broker adds.

Proton encodes frames. Messages pass through here because most of their bytes go from sender to receiver untouched.
To decode them into objects twice per delivery would make the broker the slowest part of a test.
"""

import struct
from collections.abc import Callable, Iterator
from typing import Any
from uuid import UUID

#: Section descriptors of a message, AMQP 1.0 part 3.2.
HEADER, DELIVERY_ANNOTATIONS, MESSAGE_ANNOTATIONS, PROPERTIES, APPLICATION_PROPERTIES = range(0x70, 0x75)
DATA, SEQUENCE, VALUE, FOOTER = range(0x75, 0x79)

NULL = b"\x40"
#: .NET ticks (100 ns since year 1) at the Unix epoch; session lock ends travel in ticks.
_TICKS_AT_EPOCH = 621_355_968_000_000_000
#: The width of a value by the high half of its constructor byte.
_FIXED_WIDTH = {0x4: 0, 0x5: 1, 0x6: 2, 0x7: 4, 0x8: 8, 0x9: 16}
_U32 = struct.Struct(">I")
_I64 = struct.Struct(">q")
_PAIR32 = struct.Struct(">II")

_FIXED: dict[int, struct.Struct] = {
    0x50: struct.Struct(">B"),
    0x51: struct.Struct(">b"),
    0x52: struct.Struct(">B"),
    0x53: struct.Struct(">B"),
    0x54: struct.Struct(">b"),
    0x55: struct.Struct(">b"),
    0x56: struct.Struct(">?"),
    0x60: struct.Struct(">H"),
    0x61: struct.Struct(">h"),
    0x70: struct.Struct(">I"),
    0x71: struct.Struct(">i"),
    0x72: struct.Struct(">f"),
    0x80: struct.Struct(">Q"),
    0x81: struct.Struct(">q"),
    0x82: struct.Struct(">d"),
    0x83: struct.Struct(">q"),
}
_CONSTANTS: dict[int, Any] = {0x40: None, 0x41: True, 0x42: False, 0x43: 0, 0x44: 0}


#: What reading bytes that are not the AMQP value expected can raise, MalformedError included.
UNREADABLE = (LookupError, TypeError, ValueError, RecursionError, struct.error)


class MalformedError(ValueError):
    """Raised when bytes are not the AMQP value or message that they should be."""


def ticks(moment: float) -> int:
    """Return seconds since the Unix epoch as .NET ticks."""
    return _TICKS_AT_EPOCH + int(moment * 10_000_000)


def skip(buffer: bytes, at: int) -> int:
    """Return where the value that starts at `at` ends, without reading it."""
    constructor = buffer[at]
    width = _FIXED_WIDTH.get(constructor >> 4)
    if width is not None:
        return at + 1 + width
    if constructor == 0:
        return skip(buffer, skip(buffer, at + 1))
    if constructor >> 4 in {0xA, 0xC, 0xE}:
        return at + 2 + buffer[at + 1]
    if constructor >> 4 in {0xB, 0xD, 0xF}:
        return at + 5 + int(_U32.unpack_from(buffer, at + 1)[0])
    raise MalformedError(f"constructor 0x{constructor:02x} at byte {at} is not an AMQP value")


def read(buffer: bytes, at: int) -> tuple[Any, int]:
    """Return the value that starts at `at` and where it ends. Symbols and strings are both str."""
    constructor = buffer[at]
    fixed = _FIXED.get(constructor)
    if fixed is not None:
        return fixed.unpack_from(buffer, at + 1)[0], at + 1 + fixed.size
    if constructor in _CONSTANTS:
        return _CONSTANTS[constructor], at + 1
    end = skip(buffer, at)
    reader = _VARIABLE.get(constructor)
    if reader is None or end > len(buffer):
        raise MalformedError(f"a value with constructor 0x{constructor:02x} at byte {at} cannot be read")
    return reader(buffer, at, end), end


def elements(buffer: bytes, at: int) -> list[tuple[int, int]]:
    """Return where each element of the list or map at `at` starts and ends."""
    constructor = buffer[at]
    if constructor == 0x45:
        return []
    if constructor in {0xC0, 0xC1}:
        count, at = buffer[at + 2], at + 3
    elif constructor in {0xD0, 0xD1}:
        count, at = _U32.unpack_from(buffer, at + 5)[0], at + 9
    else:
        raise MalformedError(f"constructor 0x{constructor:02x} at byte {at} is not a list or a map")
    spans = []
    for _ in range(count):
        end = skip(buffer, at)
        spans.append((at, end))
        at = end
    return spans


def _read_list(buffer: bytes, at: int, _end: int) -> list[Any]:
    return [read(buffer, start)[0] for start, _ in elements(buffer, at)]


def _read_map(buffer: bytes, at: int, _end: int) -> dict[Any, Any]:
    flat = _read_list(buffer, at, _end)
    return dict(zip(flat[::2], flat[1::2], strict=True))


def _read_described(buffer: bytes, at: int, _end: int) -> Any:
    return read(buffer, skip(buffer, at + 1))[0]


_VARIABLE: dict[int, Callable[[bytes, int, int], Any]] = {
    0x00: _read_described,
    0x45: _read_list,
    0x73: lambda buffer, at, end: buffer[at + 1 : end].decode("utf-32-be"),
    0x98: lambda buffer, at, end: UUID(bytes=bytes(buffer[at + 1 : end])),
    0xA0: lambda buffer, at, end: bytes(buffer[at + 2 : end]),
    0xA1: lambda buffer, at, end: buffer[at + 2 : end].decode(),
    0xA3: lambda buffer, at, end: buffer[at + 2 : end].decode(),
    0xB0: lambda buffer, at, end: bytes(buffer[at + 5 : end]),
    0xB1: lambda buffer, at, end: buffer[at + 5 : end].decode(),
    0xB3: lambda buffer, at, end: buffer[at + 5 : end].decode(),
    0xC0: _read_list,
    0xC1: _read_map,
    0xD0: _read_list,
    0xD1: _read_map,
}


def sections(buffer: bytes) -> Iterator[tuple[int, int, int, int]]:
    """Yield (descriptor, start of the section, start of its value, end) for each section of an encoded message."""
    at, size = 0, len(buffer)
    while at < size:
        if buffer[at] != 0 or at + 3 > size:
            raise MalformedError(f"byte {at} of {size} is not the start of a message section")
        descriptor, value = read(buffer, at + 1)
        end = skip(buffer, value) if value < size else size + 1
        if end > size or not isinstance(descriptor, int) or not HEADER <= descriptor <= FOOTER:
            raise MalformedError(f"the message section at byte {at} of {size} is cut short or unknown")
        yield descriptor, at, value, end
        at = end


def uint(number: int) -> bytes:
    """Return an AMQP uint."""
    if number == 0:
        return b"\x43"
    return bytes((0x52, number)) if number < 256 else b"\x70" + _U32.pack(number)


def long(number: int) -> bytes:
    """Return an AMQP long."""
    return b"\x81" + _I64.pack(number)


def timestamp(moment: float) -> bytes:
    """Return an AMQP timestamp, which counts milliseconds."""
    return b"\x83" + _I64.pack(int(moment * 1000))


def uuid(value: UUID) -> bytes:
    """Return an AMQP uuid."""
    return b"\x98" + value.bytes


def string(text: str) -> bytes:
    """Return an AMQP string."""
    raw = text.encode()
    return bytes((0xA1, len(raw))) + raw if len(raw) < 256 else b"\xb1" + _U32.pack(len(raw)) + raw


def symbol(text: str) -> bytes:
    """Return an AMQP symbol of at most 255 characters."""
    raw = text.encode("ascii")
    return bytes((0xA3, len(raw))) + raw


def section(descriptor: int, constructor: int, count: int, body: bytes) -> bytes:
    """Return a message section that is a list (0xd0) or a map (0xd1) of `count` encoded elements."""
    return bytes((0x00, 0x53, descriptor, constructor)) + _PAIR32.pack(len(body) + 4, count) + body


def data(body: bytes) -> bytes:
    """Return the section that holds a body."""
    return bytes((0x00, 0x53, DATA, 0xB0)) + _U32.pack(len(body)) + body
