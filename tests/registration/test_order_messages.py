"""The messages of customers, shops and banks: read as they should be, and refused for the right reason."""

import base64
import json
from decimal import Decimal

import pytest

from capabilities.registration.order_messages import (
    AddSeats,
    CloseConference,
    PaymentOutcome,
    RemoveSeats,
    SeatType,
    SetConference,
)
from capabilities.registration.public_messages import (
    MOST_QUOTA,
    MOST_TYPES,
    Payment,
    PlaceOrder,
    UpdateOrder,
    content_hash,
    read_change,
    read_order_message,
    read_place_order,
)
from capabilities.registration.reasons import OrderReason
from shared.errors import RefusedError
from shared.payload import Limits
from shared.refusals import Reason

LIMITS = Limits()
SECRET = "canary-0f3c~code"
CONFERENCE = {
    "kind": "conference",
    "id": "c1",
    "conference": "conf",
    "seats": {"full": {"price": "500.00", "quota": 20}},
}
ADD = {"kind": "add_seats", "id": "a1", "conference": "conf", "seats": {"full": 5}}
REMOVE = {**ADD, "kind": "remove_seats"}
CLOSE = {"kind": "close_conference", "id": "x1", "conference": "conf"}
PLACE = {"kind": "place_order", "order": "order-1", "conference": "conf", "seats": {"full": 2}}
UPDATE = {"kind": "update_order", "id": "u1", "order": "order-1", "version": 4, "seats": {"full": 1}}
PAY = {"kind": "payment", "id": "p1", "order": "order-1", "outcome": "completed", "amount": "1000.00"}


def body(fields, **changes):
    """Return the message with fields changed; None leaves a field out."""
    merged = {name: value for name, value in {**fields, **changes}.items() if value is not None}
    return json.dumps({"sluice": merged}).encode()


READ = [
    (CONFERENCE, SetConference(id="c1", conference="conf", seats={"full": SeatType(Decimal("500.00"), 20)})),
    (ADD, AddSeats(id="a1", conference="conf", seats={"full": 5})),
    (REMOVE, RemoveSeats(id="a1", conference="conf", seats={"full": 5})),
    (PLACE, PlaceOrder(order="order-1", conference="conf", seats={"full": 2})),
    (
        {**PLACE, "v": 1, "access_code": SECRET, "gate": "sale"},
        PlaceOrder(order="order-1", conference="conf", seats={"full": 2}, access_code=SECRET, gate="sale"),
    ),
    (UPDATE, UpdateOrder(id="u1", order="order-1", version=4, seats={"full": 1})),
    (
        {**UPDATE, "access_code": SECRET},
        UpdateOrder(id="u1", order="order-1", version=4, seats={"full": 1}, access_code=SECRET),
    ),
    (CLOSE, CloseConference(id="x1", conference="conf")),
    (PAY, Payment(id="p1", order="order-1", outcome=PaymentOutcome.COMPLETED, amount=Decimal("1000.00"))),
]

#: What is refused, and why.
HOSTILE = {
    "nothing": (b"", Reason.NOT_JSON),
    "no json": (b"order", Reason.NOT_JSON),
    "cut short": (body(PLACE)[:-1], Reason.NOT_JSON),
    "two documents": (body(PLACE) + b"{}", Reason.NOT_JSON),
    "not utf-8": (body(PLACE).replace(b"conf", b"con\xff"), Reason.NOT_UTF8),
    "half a character": (body(PLACE).replace(b"conf", b"\\ud800"), Reason.LONE_SURROGATE),
    "nan": (body(PLACE).replace(b"2", b"NaN"), Reason.NOT_A_NUMBER),
    "a number of a mile": (body(PLACE).replace(b"2", b"1e9999"), Reason.NUMBER_OUT_OF_RANGE),
    "a key twice": (body(PLACE).replace(b'"full"', b'"full": 1, "full"'), Reason.DUPLICATE_KEY),
    "too deep": (b'{"sluice":' * 40 + b"1" + b"}" * 40, Reason.TOO_DEEP),
    "too large": (body(PLACE, gate="g" * 70_000), Reason.MESSAGE_TOO_LARGE),
    "no envelope": (json.dumps(PLACE).encode(), Reason.NO_ENVELOPE),
    "a list": (b"[1]", Reason.NO_ENVELOPE),
    "another version": (body(PLACE, v=2), Reason.UNSUPPORTED_VERSION),
    "a version in words": (body(PLACE, v="1"), Reason.WRONG_TYPE),
    "no kind": (json.dumps({"sluice": {"order": "order-1"}}).encode(), Reason.UNKNOWN_KIND),
    "a submission": (body({"kind": "submission", "items": [{}]}), Reason.UNKNOWN_KIND),
    "a command of Sluice": (body(PLACE, kind="reserve_seats"), Reason.UNKNOWN_KIND),
    "a kind in capitals": (body(PLACE, kind="PLACE_ORDER"), Reason.UNKNOWN_KIND),
    "a kind that is a number": (body(PLACE, kind=1), Reason.WRONG_TYPE),
    "an unknown field": (body(PLACE, price="1.00"), Reason.UNKNOWN_FIELD),
    "a field beside the envelope": (body(PLACE)[:-1] + b',"x":1}', Reason.UNKNOWN_FIELD),
    "an unknown field of a type": (
        body(CONFERENCE, seats={"f": {"price": "1.00", "quota": 1, "x": 1}}),
        Reason.UNKNOWN_FIELD,
    ),
    "a field of another kind": (body(ADD, order="order-1"), Reason.UNKNOWN_FIELD),
    "no order": (body(PLACE, order=None), Reason.MISSING_FIELD),
    "no seats": (body(PLACE, seats=None), Reason.MISSING_FIELD),
    "no id": (body(ADD, id=None), Reason.MISSING_FIELD),
    "no amount": (body(PAY, amount=None), Reason.MISSING_FIELD),
    "no quota": (body(CONFERENCE, seats={"full": {"price": "1.00"}}), Reason.MISSING_FIELD),
    "null for seats": (body(PLACE).replace(b'{"full": 2}', b"null"), Reason.WRONG_TYPE),
    "seats as a list": (body(PLACE, seats=["full"]), Reason.WRONG_TYPE),
    "seats as text": (body(PLACE, seats={"full": "2"}), Reason.WRONG_TYPE),
    "seats with a point": (body(PLACE, seats={"full": 2.0}), Reason.WRONG_TYPE),
    "seats as truth": (body(PLACE, seats={"full": True}), Reason.WRONG_TYPE),
    "no seat type": (body(PLACE, seats={}), OrderReason.BAD_SEATS),
    "zero seats": (body(PLACE, seats={"full": 0}), OrderReason.BAD_SEATS),
    "seats below zero": (body(REMOVE, seats={"full": -1}), OrderReason.BAD_SEATS),
    "more seats than any house": (body(ADD, seats={"full": MOST_QUOTA + 1}), OrderReason.BAD_SEATS),
    "a quota below zero": (body(CONFERENCE, seats={"full": {"price": "1.00", "quota": -1}}), OrderReason.BAD_SEATS),
    "seats of 2^64": (body(ADD, seats={"full": 2**64}), OrderReason.BAD_SEATS),
    "too many types": (body(PLACE, seats={f"t{n}": 1 for n in range(MOST_TYPES + 1)}), OrderReason.TOO_MANY_TYPES),
    "a type with a slash": (body(PLACE, seats={"a/b": 1}), Reason.BAD_NAME),
    "an empty type": (body(PLACE, seats={"": 1}), Reason.BAD_NAME),
    "an order of digits": (body(PLACE, order="1234"), OrderReason.BAD_ORDER),
    "an order of digits to pay": (body(PAY, order="0"), OrderReason.BAD_ORDER),
    "an order with a slash": (body(PLACE, order="a/b"), OrderReason.BAD_ORDER),
    "an order of another room": (body(PLACE, order="team~a"), OrderReason.BAD_ORDER),
    "an order that leaves its folder": (body(UPDATE, order="../x"), OrderReason.BAD_ORDER),
    "a long order": (body(PLACE, order="a" * 101), OrderReason.BAD_ORDER),
    "an order in capitals": (body(PLACE, order="Order"), OrderReason.BAD_ORDER),
    "an order with a line feed": (body(PLACE, order="order\n"), OrderReason.BAD_ORDER),
    "digits of another script": (body(PLACE, order="\u0661\u0662\u0663"), OrderReason.BAD_ORDER),
    "an empty conference": (body(PLACE, conference=""), Reason.BAD_NAME),
    "a conference of another room": (body(ADD, conference="team~c"), Reason.BAD_NAME),
    "a hidden gate": (body(PLACE, gate="../gate"), Reason.BAD_NAME),
    "an id with a bar": (body(UPDATE, id="u|1"), Reason.BAD_NAME),
    "a price without digits": (body(CONFERENCE, seats={"f": {"price": "500", "quota": 1}}), OrderReason.BAD_PRICE),
    "a price as a number": (body(CONFERENCE, seats={"f": {"price": 500.0, "quota": 1}}), Reason.WRONG_TYPE),
    "a price with three digits": (body(CONFERENCE, seats={"f": {"price": "5.000", "quota": 1}}), OrderReason.BAD_PRICE),
    "a price below zero": (body(CONFERENCE, seats={"f": {"price": "-5.00", "quota": 1}}), OrderReason.BAD_PRICE),
    "a price with a zero ahead": (body(CONFERENCE, seats={"f": {"price": "05.00", "quota": 1}}), OrderReason.BAD_PRICE),
    "an amount with an exponent": (body(PAY, amount="1e2"), OrderReason.BAD_PRICE),
    "an amount with a comma": (body(PAY, amount="1,00"), OrderReason.BAD_PRICE),
    "an amount of a billion": (body(PAY, amount="1000000000.00"), OrderReason.BAD_PRICE),
    "an amount of nan": (body(PAY, amount="NaN"), OrderReason.BAD_PRICE),
    "an amount with blanks": (body(PAY, amount=" 1.00"), OrderReason.BAD_PRICE),
    "an amount in other digits": (body(PAY, amount="\u0661.\u0660\u0660"), OrderReason.BAD_PRICE),
    "another outcome": (body(PAY, outcome="refunded"), OrderReason.BAD_OUTCOME),
    "an outcome in capitals": (body(PAY, outcome="Completed"), OrderReason.BAD_OUTCOME),
    "a change with a code of two words": (body(UPDATE, access_code="correct horse"), OrderReason.BAD_ACCESS_CODE),
    "a change with a hash of a code": (body(UPDATE, access_code_hash="0" * 64), Reason.UNKNOWN_FIELD),
    "a conference that is closed in part": (body(CLOSE, seats={"full": 1}), Reason.UNKNOWN_FIELD),
    "version zero": (body(UPDATE, version=0), Reason.WRONG_TYPE),
    "a version of 2^31": (body(UPDATE, version=2**31), Reason.WRONG_TYPE),
    "a short code": (body(PLACE, access_code="1234567"), OrderReason.BAD_ACCESS_CODE),
    "a long code": (body(PLACE, access_code="x" * 65), OrderReason.BAD_ACCESS_CODE),
    "a code with a line feed": (body(PLACE, access_code="12345678\n"), OrderReason.BAD_ACCESS_CODE),
    "a code with a blank": (body(PLACE, access_code="1234 5678"), OrderReason.BAD_ACCESS_CODE),
    "a code that no header carries": (body(PLACE, access_code="pässwörter"), OrderReason.BAD_ACCESS_CODE),
}


@pytest.mark.parametrize(("fields", "message"), READ, ids=lambda value: getattr(value, "kind", None))
def test_a_message_is_read(fields, message):
    """Plain, and in Base64 as portals send it."""
    assert read_order_message(body(fields), LIMITS) == message
    assert read_order_message(base64.b64encode(body(fields)), LIMITS) == message


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_message_is_refused_for_its_reason(name):
    """With a remedy, and without a code in the text."""
    text, reason = HOSTILE[name]
    with pytest.raises(RefusedError) as refused:
        read_order_message(text, LIMITS)
    assert (refused.value.reason, refused.value.instead) == (reason.value, reason.instead)
    assert len(str(refused.value)) < 500


def test_no_message_of_an_error_tells_an_access_code():
    """Not where the code is wrong, nor where another field is."""
    for changes in (
        {"access_code": SECRET + " "},
        {"access_code": SECRET, "gate": "/"},
        {"access_code": SECRET, "x": 1},
    ):
        with pytest.raises(RefusedError) as refused:
            read_order_message(body(PLACE, **changes), LIMITS)
        assert SECRET not in str(refused.value)


def test_prices_and_numbers_at_their_bounds_are_read():
    """The largest price, a price of nothing, an empty quota, and the most seats."""
    seats = {"dear": {"price": "999999999.99", "quota": MOST_QUOTA}, "free": {"price": "0.00", "quota": 0}}
    read = read_order_message(body(CONFERENCE, seats=seats), LIMITS)
    assert read.seats == {"dear": SeatType(Decimal("999999999.99"), MOST_QUOTA), "free": SeatType(Decimal("0.00"), 0)}


def test_the_hash_is_of_the_content_and_not_of_the_code():
    """The order of fields, blanks and escapes mean nothing; each field but the access code does."""
    first = content_hash(read_order_message(body({**PLACE, "seats": {"a": 1, "b": 2}}, access_code=SECRET), LIMITS))
    again = {**dict(reversed(PLACE.items())), "seats": {"b": 2, "a": 1}}
    spread = json.dumps({"sluice": again}, indent=3).replace("conf", "\\u0063onf").encode()
    assert content_hash(read_order_message(spread, LIMITS)) == first
    for changes in ({"seats": {"a": 1}}, {"conference": "other"}, {"gate": "sale"}, {"order": "order-2"}):
        assert content_hash(read_order_message(body({**PLACE, "seats": {"a": 1, "b": 2}, **changes}), LIMITS)) != first


def test_a_request_has_the_same_fields_without_the_envelope():
    """As strict as the message; a header's field is no field of a request."""
    fields = {name: value for name, value in PLACE.items() if name != "kind"}
    assert read_place_order(json.dumps(fields).encode(), LIMITS) == read_order_message(body(PLACE), LIMITS)
    assert read_change(b'{"seats": {"full": 3}}', LIMITS) == {"full": 3}
    for text, reason in (
        (json.dumps(PLACE).encode(), Reason.UNKNOWN_FIELD),
        (body(PLACE), Reason.UNKNOWN_FIELD),
        (b'{"seats": {"full": 3}, "v": 1}', Reason.UNKNOWN_FIELD),
        (b'{"seats": {"full": 3}, "seats": {"full": 4}}', Reason.DUPLICATE_KEY),
        (b"[]", Reason.WRONG_TYPE),
        (b'{"seats": ' + b" " * 70_000 + b"{}}", Reason.MESSAGE_TOO_LARGE),
    ):
        read = read_change if text.startswith(b'{"seats"') else read_place_order
        with pytest.raises(RefusedError) as refused:
            read(text, LIMITS)
        assert refused.value.reason == reason.value
