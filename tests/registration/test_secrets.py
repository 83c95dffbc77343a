"""What a new order over HTTP tells, and to whom: codes, ids and time."""

import asyncio
import base64
import hashlib
import json
import uuid

import pytest

from capabilities.registration.access_codes import read_idempotency_key
from capabilities.registration.desk import REFUSED_AFTER
from shared.errors import RefusedError

OWN = "a-code-of-mine"
KEY = str(uuid.UUID(int=0x1234567890ABCDEF1234567890ABCDEF))
OTHER_KEY = str(uuid.UUID(int=0xFEDCBA0987654321FEDCBA0987654321))


@pytest.fixture
def held(world):
    """The seconds for which answers were held back, one by one."""
    seconds = []

    async def sleep(pause):
        seconds.append(pause)

    world.part.desk._sleep = sleep
    return seconds


@pytest.fixture
def wrong(world):
    """A note for each wrong code."""
    found = []
    world.part.desk._note_wrong = lambda: found.append(1)
    return found


@pytest.fixture
def sale(world):
    """A conference of three seats, and of many of another type."""
    seats = {"a": {"price": "500.00", "quota": 3}, "b": {"price": "1.00", "quota": 100}}
    world.take("conference", id="k1", conference="c1", seats=seats)
    world.pump()
    return world


def post(world, order="order-1", seats=1, key=None, **fields):
    """Place an order over HTTP, and return its status, its body and all of its bytes."""
    body = {"order": order, "conference": "c1", "seats": {"a": seats}, **fields}
    answer = asyncio.run(world.part.desk.place(json.dumps(body).encode(), key))
    return answer.status, json.loads(answer.body), (answer.status, answer.body, dict(answer.headers))


def test_a_made_code_is_told_again_for_its_key_alone(sale, held, wrong):
    """By every process, before and after the order is in its view."""
    status, first, _ = post(sale, key=KEY)
    assert status == 202
    sale.pump()
    assert post(sale, key=KEY)[1] == first
    sale.restart()
    assert post(sale, key=KEY)[1] == first
    assert post(sale, key=f'"{KEY}"')[1] == first


def test_no_other_request_is_told_a_made_code(sale, held, wrong):
    """However much of the order it repeats: each gets one answer, late, and is counted."""
    _, first, _ = post(sale, key=KEY)
    sale.pump()
    answers = [
        post(sale),
        post(sale, key=OTHER_KEY),
        post(sale, access_code=OWN),
        post(sale, seats=2),
        post(sale, seats=2, key=KEY),
        post(sale, seats=2, access_code=first["access_code"]),
    ]
    assert {whole[0] for _, _, whole in answers} == {409}
    assert len({(whole[1], tuple(sorted(whole[2].items()))) for _, _, whole in answers}) == 1
    assert first["access_code"] not in repr(answers)
    assert (len(wrong), held) == (6, [pytest.approx(REFUSED_AFTER.total_seconds())] * 6)


def test_a_code_without_a_key_is_told_once(sale, held, wrong):
    """It is drawn by chance: two orders alike have two codes."""
    codes = {post(sale, order=f"order-{n}")[1]["access_code"] for n in range(3)}
    assert len(codes) == 3
    assert post(sale, order="order-1")[0] == 409


def test_the_code_itself_is_as_good_as_the_key(sale, held, wrong):
    """A customer who has it repeats the order with it."""
    _, first, _ = post(sale, key=KEY)
    assert post(sale, access_code=first["access_code"])[1] == first


def test_where_no_seat_is_left_a_stored_order_is_like_none(sale, held, wrong):
    """In its answer and its time; whoever has the code gets the answer of before. A guess is counted."""
    _, first, _ = post(sale, seats=3, key=KEY)
    sale.pump()
    stored, none = post(sale, seats=3, access_code=OWN), post(sale, order="order-2", seats=3, access_code=OWN)
    assert (stored[0], stored[1]["reason"]) == (409, "sold_out")
    assert stored[2] == none[2]
    assert held[0] == held[1] == pytest.approx(REFUSED_AFTER.total_seconds())
    assert len(wrong) == 1
    assert post(sale, seats=3, key=KEY)[1] == first


def test_a_refusal_for_another_reason_does_not_say_whether_the_id_is_taken(sale, held, wrong):
    """A caller would find ids without storing an order, and for as long as the conference lives."""
    post(sale, key=KEY)
    sale.pump()

    def refused(order, seats):
        body = json.dumps({"order": order, "conference": "c1", "seats": seats}).encode()
        answer = asyncio.run(sale.part.desk.place(body))
        return json.loads(answer.body)["reason"], answer

    for seats, reason in (({"none": 1}, "unknown_seat_type"), ({"b": 21}, "too_many_seats"), ({}, "bad_seats")):
        stored, none = refused("order-1", seats), refused("order-2", seats)
        assert stored == none
        assert stored[0] == reason


@pytest.mark.parametrize(
    "key",
    [
        KEY,
        f'"{KEY}"',
        KEY.upper(),
        KEY.replace("-", ""),
        base64.urlsafe_b64encode(hashlib.sha256(b"").digest()[:16]).decode().rstrip("="),
        base64.b64encode(hashlib.sha256(b"").digest()[:16]).decode(),
        "318273645509182736455463728190123456789",
        "x7k2m9q4w1z8b5n3v6c0p2r4ty",
    ],
)
def test_a_key_with_128_bits_is_taken(key):
    """A UUID, 16 bytes in either Base64, hexadecimal or decimal digits, letters of one case. Quotes are the header's."""
    assert read_idempotency_key(key) == key.strip('"').encode()


@pytest.mark.parametrize(
    "key",
    [
        "",
        '"',
        "short",
        "x" * 22,
        "abcdefg" * 4,
        "x" * 129,
        KEY * 4,
        "ü" * 30,
        KEY + " " + KEY,
        KEY.replace("-", "")[:31],
        "31827364550918273645546372819012345678",
        "2026-11-26T12-45-00-0001",
        "order-000000000000000000000017",
        "x7k2m9q4w1z8b5n3v6c0p2r4",
        "Zm9vLWJhci1iYXotcXV4L",
    ],
)
def test_a_key_that_can_be_guessed_is_refused(key):
    """By its form: a number in sequence, a time, too few digits. It would give the code away. It is in no answer."""
    with pytest.raises(RefusedError) as refused:
        read_idempotency_key(key)
    assert refused.value.reason == "bad_idempotency_key"
    assert len(key) < 2 or key not in str(refused.value)


def test_a_request_with_a_key_that_can_be_guessed_stores_nothing(sale, held, wrong):
    """Its next one with a good key is the first."""
    assert post(sale, key="short")[1]["reason"] == "bad_idempotency_key"
    assert post(sale, key=KEY)[0] == 202


def test_the_key_is_stored_nowhere(sale, held, wrong):
    """Neither it nor the code is in a row, a blob or a message."""
    _, first, _ = post(sale, key=KEY)
    sale.pump()
    rows = [
        json.dumps(dict(row), default=str)
        for table in sale.connections.tables.list_tables()
        for row in sale.connections.tables.get_table_client(table.name).list_entities()
    ]
    assert rows
    for secret in (KEY, first["access_code"]):
        assert not any(secret in row for row in rows)
