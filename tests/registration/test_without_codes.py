"""The copy of a refused message that is stored: no access code is in it, and a replay of it gives nobody a code."""

import base64
import json

import pytest

from capabilities.registration.access_codes import hash_own
from capabilities.registration.parked_orders import remove_codes
from capabilities.registration.public_messages import content_hash, read_order_message
from shared.errors import RefusedError
from shared.payload import Limits

CODE = "canary-code-77"
CHANGE = {"kind": "update_order", "id": "u", "order": "o-1", "version": 3, "seats": {"a": 1}}
ORDER = {"v": 1, "kind": "place_order", "order": "o-1", "conference": "c1", "seats": {"a": 1}}


def wrapped(fields):
    """Return the bytes of a message."""
    return json.dumps({"sluice": fields}).encode()


def with_code(**more):
    """Return an order with the sender's own code."""
    return wrapped({**ORDER, "access_code": CODE, **more})


def test_an_order_that_can_be_read_keeps_the_hash_of_its_code():
    """By it, a replay places the order under the code that the sender knows."""
    kept = remove_codes(with_code(gate="sale"))
    message = read_order_message(kept, Limits())
    assert (message.order, message.seats, message.gate) == ("o-1", {"a": 1}, "sale")
    assert message.access_code == hash_own("o-1", content_hash(message), CODE)


def test_a_change_keeps_all_but_its_code():
    """Its effect can be found by what is left, and nothing can be tried against what is left."""
    kept = remove_codes(wrapped({**CHANGE, "access_code": CODE}))
    assert json.loads(kept) == {"sluice": CHANGE}
    assert remove_codes(kept) == kept
    assert read_order_message(kept, Limits()).access_code is None


@pytest.mark.parametrize(
    "body",
    [
        wrapped(ORDER),
        wrapped({"kind": "payment", "id": "p", "order": "o-1", "outcome": "completed", "amount": "1.00"}),
        wrapped({"kind": "payment", "id": "p", "amout": "1.00"}),
        wrapped({"kind": "conference", "id": "k", "conference": "c1", "seats": {"a": {"price": "x", "quota": 1}}}),
        wrapped({**ORDER, "seats": {"a": 0}}),
        b'{"sluice": {"kind": "place_order", "seats": {"a": 1, "a": 2}}}',
        b"no document",
        b"",
        b'{"order": "o-1"}',
        b"[1]",
        b"\xff\xfe",
    ],
)
def test_what_has_no_code_is_stored_as_it_was_sent(body):
    """Byte for byte, whatever else is wrong with it."""
    assert remove_codes(body) == body


HOSTILE = [
    with_code(),
    base64.b64encode(with_code()),
    with_code(unknown=1),
    with_code(seats={"a": "x"}),
    with_code(access_code=[CODE]),
    with_code(access_code={"x": CODE}),
    with_code(access_code=CODE + " with a blank"),
    wrapped({**CHANGE, "access_code": CODE, "unknown": 1}),
    wrapped({**CHANGE, "access_code": CODE + " with a blank"}),
    wrapped({**CHANGE, "acess": CODE}),
    with_code(kind="payment"),
    with_code(kind=["place_order"]),
    with_code(v=9),
    with_code(acess=CODE),
    wrapped({**ORDER, "acess": CODE}),
    wrapped({**ORDER, "seats": {"a": CODE}}),
    wrapped({**ORDER, "seats": {"a": {"x": CODE}}}),
    json.dumps({"sluice": ORDER, "access_code": CODE}).encode(),
    json.dumps({**ORDER, "access_code": CODE}).encode(),
    with_code()[:-9],
    with_code() + b"}",
    base64.b64encode(b"order=o-1&access_code=" + CODE.encode()),
    b"order=o-1&accessCode=" + CODE.encode(),
    b'{"sluice": {"kind": "place_order", "seats": {"access_code": "'
    + CODE.encode()
    + b'", "a": 1}, "seats": {"a": 1}}}',
    b'{"sluice": {"kind": "place_order", "access_code": "' + CODE.encode() + b'", "access_code": null}}',
    b'{"access_code": "' + CODE.encode() + b'", "x": ' + b"[" * 3000 + b"]" * 3000 + b"}",
    b'{"access_code": "' + CODE.encode() + b'", "order": "\\ud800"}',
    b'{"access_code": "' + CODE.encode() + b'", "order": NaN}',
]


@pytest.mark.parametrize("body", HOSTILE)
def test_no_code_is_in_the_copy(body):
    """Neither as text nor as Base64. The copy of the copy is the same, so that a replay that fails finds its entry."""
    kept = remove_codes(body)
    assert CODE.encode() not in kept
    assert base64.b64encode(CODE.encode())[2:-4] not in kept
    for at in range(3):
        part = base64.b64encode(b" " * at + CODE.encode())[4:-4]
        assert part not in kept
    assert remove_codes(kept) == kept


@pytest.mark.parametrize("body", HOSTILE[2:])
def test_the_copy_of_what_could_not_be_read_is_never_an_order(body):
    """What was taken out may have been all that was wrong with it: a replay must not place another order than was sent."""
    with pytest.raises(RefusedError):
        read_order_message(remove_codes(body), Limits())


def test_two_codes_are_two_messages():
    """And one code, sent twice, is one entry."""
    first, second = remove_codes(with_code()), remove_codes(with_code(access_code="another-code"))
    assert first != second
    assert remove_codes(with_code()) == first


@pytest.mark.parametrize(
    "fields",
    [{"access_code": CODE, "access_code_hash": "0" * 64}, {"access_code_hash": "x" * 64}, {"access_code_hash": ""}],
)
def test_a_hash_that_sluice_did_not_make_is_refused(fields):
    """So is a hash beside a code."""
    with pytest.raises(RefusedError) as refused:
        read_order_message(wrapped({**ORDER, **fields}), Limits())
    assert refused.value.reason == "bad_access_code"
    assert CODE not in str(refused.value)
