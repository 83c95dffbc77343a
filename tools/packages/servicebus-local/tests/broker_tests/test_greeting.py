"""The beginning of a connection: which mechanisms are offered and taken."""

import socket

import pytest
from servicebus_local import greeting

HEADER = b"AMQP\x03\x01\x00\x00"
#: The outcome `ok`, as a described list.
TAKEN = b"\x00\x53\x44\xc0\x03\x01\x50\x00"


def choice(name):
    """Return a client's choice of a mechanism, with an answer to it."""
    body = b"\xa3" + bytes([len(name)]) + name + b"\xa0\x00"
    frame = b"\x02\x01\x00\x00\x00\x53\x41\xc0" + bytes([len(body) + 1, 2]) + body
    return (len(frame) + 4).to_bytes(4) + frame


def read_until(connection, wanted):
    """Read until those bytes have come, and return all."""
    read = b""
    while wanted not in read:
        more = connection.recv(4096)
        assert more, f"closed after {read!r}"
        read += more
    return read


@pytest.mark.parametrize("name", [b"ANONYMOUS", b"MSSBCBS"])
@pytest.mark.parametrize("step", [1, 7, 1000])
def test_both_mechanisms_are_offered_and_taken(broker, name, step):
    """As the service has it; the bytes may come one by one."""
    with socket.create_connection(("127.0.0.1", broker.port), timeout=600) as connection:
        said = HEADER + choice(name)
        for begin in range(0, len(said), step):
            connection.sendall(said[begin : begin + step])
        read = read_until(connection, TAKEN)
    assert b"ANONYMOUS" in read
    assert b"MSSBCBS" in read


def test_another_mechanism_is_not_taken(broker):
    """The engine ends the connection."""
    with socket.create_connection(("127.0.0.1", broker.port), timeout=600) as connection:
        connection.sendall(HEADER + choice(b"PLAIN"))
        read = b""
        while more := connection.recv(4096):
            read += more
    assert TAKEN not in read


def test_a_connection_without_a_greeting_passes_unchanged():
    """Bytes of AMQP itself go on at once."""
    assert greeting.of_client().passed(b"AMQP\x00\x01\x00\x00rest") == b"AMQP\x00\x01\x00\x00rest"


def test_a_client_that_waits_for_the_offer_gets_it(broker):
    """The header alone is answered: the client for C sends no more before."""
    with socket.create_connection(("127.0.0.1", broker.port), timeout=600) as connection:
        connection.sendall(HEADER)
        assert HEADER in read_until(connection, b"MSSBCBS")
        connection.sendall(choice(b"MSSBCBS"))
        read_until(connection, TAKEN)
