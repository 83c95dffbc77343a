"""Orders on the running stack, by messages and by HTTP: the way of an order, keys, codes, and what no log and no row has."""

import json
import os
import subprocess
import sys
from itertools import count
from pathlib import Path
from urllib.parse import quote

import pytest
from azure.servicebus import ServiceBusMessage

from shared.azure.connections import Connections
from tests.outside.customer import Customer
from tests.waiting import until
from tools.local.stack import StackOptions, running

#: No other word of the run has these.
CODE, PLACED_CODE, PARKED_CODE = "canary-code-5c0ffee", "canary-code-by-message-5c0ffee", "canary-parked-5c0ffee"
KEY, OTHER_KEY = "canary-Key-5c0ffee-9xQ2", "another-Key-5c0ffee-9xQ"
NUMBERS = count(1)
SLUICE = Path(sys.executable).parent / "sluice"


@pytest.fixture(scope="module")
def stack(worker, tmp_path_factory):
    """A stack with registration, whose host requires function keys."""
    keys = tmp_path_factory.mktemp("keys") / "keys.json"
    settings = {
        "SLUICE_CAPABILITIES": "registration",
        "AzureFunctionsJobHost__extensions__queues__maxPollingInterval": "00:00:00.5",
    }
    words = ("--auth", "--keys", str(keys))
    with running(StackOptions(worker=worker, instances=1, settings=settings, words=words)) as started:
        yield started, json.loads(keys.read_text())["host"]


@pytest.fixture(scope="module")
def connections(stack):
    """The operator's view of it."""
    with Connections.parse(stack[0].settings) as opened:
        yield opened


@pytest.fixture(scope="module")
def drop(connections):
    """A function that drops a message into the queue of its kind."""
    queue = connections.queues.get_queue_client("orders")
    of_bus = {"payment": "payments", "conference": "conferences"}
    with connections.bus_client() as bus:

        def send(kind, **fields):
            text = json.dumps({"sluice": {"kind": kind, **fields}})
            if kind in of_bus:
                with bus.get_queue_sender(of_bus[kind]) as sender:
                    sender.send_messages(ServiceBusMessage(text))
            else:
                queue.send_message(text)

        yield send


@pytest.fixture(scope="module")
def customer(stack, drop):
    """A customer of a conference with many seats of one type, few of another, and free ones."""
    asking = Customer(stack[0].host.base_url, stack[1])
    seats = {
        "whole": {"price": "500.00", "quota": 1000},
        "rare": {"price": "9.90", "quota": 2},
        "free": {"price": "0.00", "quota": 100},
    }
    drop("conference", id="c-1", conference="pycon", seats=seats)
    until(lambda: asking.ask("GET", "/api/conferences/pycon").status == 200)
    return asking


def fresh():
    """Return an id that no other test uses."""
    return f"o-{next(NUMBERS)}"


def test_an_order_is_placed_reserved_paid_and_confirmed(customer, drop):
    """The whole way: stored before the answer, reserved while the customer waits, confirmed by the exact payment."""
    order = fresh()
    placed = customer.place(order, {"whole": 3}, access_code=CODE)
    assert placed.status == 202, placed.body
    assert placed.body == {
        "order": order,
        "number": placed.body["number"],
        "access_code": CODE,
        "total": "1500.00",
        "status": f"/api/orders/{order}",
    }
    at_once = customer.show(order, CODE)
    assert (at_once.status, at_once.body["total"]) == (200, "1500.00")
    reserved = customer.show(order, CODE, wait=30)
    assert (reserved.body["state"], reserved.body["reserved"]) == ("reserved", {"whole": 3})
    assert reserved.headers["ETag"] == f'"{reserved.body["version"]}"'
    drop("payment", id=f"p-{order}", order=order, outcome="completed", amount="1500.00")
    confirmed = customer.show(order, CODE, wait=30, after=reserved.body["version"])
    assert (confirmed.body["state"], confirmed.body["paid"]) == ("confirmed", "1500.00")
    assert confirmed.body["unsettled"] == []
    late = customer.ask(
        "PATCH",
        f"/api/orders/{order}",
        {"seats": {"whole": 1}},
        X_Access_Code=CODE,
        If_Match=confirmed.headers["ETag"],
    )
    assert (late.status, late.body["reason"]) == (409, "order_paid")


def test_an_order_by_message_is_the_same_order(customer, drop):
    """A made-up code would open nothing; its own does, also by the number."""
    order = fresh()
    drop("place_order", order=order, conference="pycon", seats={"whole": 1}, access_code=PLACED_CODE)
    found = until(lambda: (answer := customer.show(order, PLACED_CODE, wait=5)).status == 200 and answer)
    assert found.body["total"] == "500.00"
    by_number = until(lambda: (one := customer.show(found.body["number"], PLACED_CODE)).status == 200 and one)
    assert by_number.body["order"] == order


def test_the_same_request_gets_the_same_answer(customer):
    """Its code too, which nobody stored, for its key alone. All else under its id is another order."""
    body = {"order": fresh(), "conference": "pycon", "seats": {"whole": 2}}

    def place(key=None, **fields):
        return customer.ask("POST", "/api/orders", body | fields, **({"Idempotency_Key": key} if key else {}))

    first, second = place(KEY), place(KEY)
    assert (first.status, second.status) == (202, 202)
    assert first.body == second.body
    assert len(first.body["access_code"]) == 10
    for other in (place(), place(OTHER_KEY), place(KEY, seats={"whole": 3}), place(access_code=CODE)):
        assert (other.status, other.body["reason"]) == (409, "order_differs")


def test_a_change_is_made_once_and_on_the_version_that_was_seen(customer):
    """The same request again is the same change; an older version is refused, and so is none."""
    order = fresh()
    customer.place(order, {"whole": 3}, access_code=CODE)
    before = customer.show(order, CODE, wait=30)

    def change(if_match, seats=2):
        headers = {"X_Access_Code": CODE, **({"If_Match": if_match} if if_match else {})}
        return customer.ask("PATCH", f"/api/orders/{order}", {"seats": {"whole": seats}}, **headers)

    first, second = (change(before.headers["ETag"]) for _ in range(2))
    assert (first.status, second.status) == (202, 202)
    assert first.body == second.body
    after = customer.show(order, CODE, wait=30, after=first.body["version"])
    assert (after.body["state"], after.body["reserved"], after.body["total"]) == ("reserved", {"whole": 2}, "1000.00")
    assert change(before.headers["ETag"], 1).status == 412
    assert change(None).status == 428


def test_a_free_order_needs_no_payment(customer):
    """It is confirmed when its seats are reserved."""
    order = fresh()
    customer.place(order, {"free": 2}, access_code=CODE)
    found = until(lambda: (one := customer.show(order, CODE, wait=5)).body["state"] == "confirmed" and one)
    assert found.body["total"] == "0.00"


def test_seats_that_cannot_be_had_are_refused_with_what_is_left(customer):
    """Before an order exists. One that is stored already gets its answer again, although it took the last seats."""
    order = fresh()
    last = customer.place(order, {"rare": 2}, access_code=CODE)
    assert last.status == 202
    customer.show(order, CODE, wait=30)

    def refused():
        answer = customer.place(fresh(), {"rare": 1})
        return answer if answer.status == 409 else None

    answer = until(refused)
    assert (answer.body["reason"], answer.body["free"]) == ("sold_out", {"rare": 0})
    assert customer.place(order, {"rare": 2}, access_code=CODE).body == last.body


def test_a_conference_says_how_long_it_may_be_kept(customer):
    """By its scarcest type that is not sold out, and not at all when few are left."""
    found = customer.ask("GET", "/api/conferences/pycon")
    assert set(found.body) == {"conference", "seats", "version"}
    assert found.body["seats"]["whole"]["quota"] == 1000
    again = customer.ask("GET", "/api/conferences/pycon", If_None_Match=found.headers["ETag"])
    assert again.status in {200, 304}
    assert found.headers["Cache-Control"] == "no-cache" or "max-age" in found.headers["Cache-Control"]


@pytest.mark.parametrize("path", ["/api/orders/o-1", "/api/conferences/pycon"])
def test_no_route_answers_without_a_function_key(customer, path):
    """Neither with a wrong one. The parameter `code` does as well as the header."""
    assert customer.ask("GET", path, key=None).status == 401
    assert customer.ask("GET", f"{path}?code=wrong", key=None).status == 401
    assert customer.ask("GET", f"{path}?code={customer.key}", key=None).status in {200, 404}
    assert customer.ask("POST", "/api/orders", {}, key=None).status == 401


def test_a_wrong_code_and_an_unknown_order_look_alike(customer):
    """The same text, the same status, and neither before its time: else a caller learns which orders exist."""
    order = fresh()
    number = customer.place(order, {"whole": 1}, access_code=CODE).body["number"]
    customer.show(order, CODE, wait=30)
    tries = [(name, code) for name in (order, number, "unknown", 999_999_999) for code in ("wrong-code", "", CODE[:-1])]
    answers = [customer.show(name, code) for name, code in tries]
    changes = [
        customer.ask("PATCH", f"/api/orders/{name}", {"seats": {"whole": 1}}, X_Access_Code="wrong", If_Match='"1"')
        for name in (order, "unknown")
    ]
    assert {answer.status for answer in answers + changes} == {404}
    assert len({json.dumps(answer.body) for answer in answers + changes}) == 1
    assert len({answer.headers["Cache-Control"] for answer in answers}) == 1
    assert min(answer.seconds for answer in answers + changes) >= 0.25


PLACE = {"order": "h-1", "conference": "pycon", "seats": {"whole": 1}}
HOSTILE = [
    (b"", 400, "not_json"),
    (b"{", 400, "not_json"),
    (b"[]", 400, "wrong_type"),
    (b"null", 400, "wrong_type"),
    (b"\xff\xfe", 400, "not_utf8"),
    (b'{"order": "h-1", "order": "h-2", "conference": "pycon", "seats": {"whole": 1}}', 400, "duplicate_key"),
    (b'{"order": "h-1", "conference": "pycon", "seats": {"whole": 1, "whole": 2}}', 400, "duplicate_key"),
    (b'{"order": "h-1", "conference": "pycon", "seats": {"whole": NaN}}', 400, "not_a_number"),
    (b'{"order": "\\ud800", "conference": "pycon", "seats": {"whole": 1}}', 400, "lone_surrogate"),
    (b"[" * 100 + b"]" * 100, 400, "too_deep"),
    (b'{"order": "' + b"x" * 70_000 + b'"}', 413, "message_too_large"),
    ({**PLACE, "sluice": {}}, 400, "unknown_field"),
    ({**PLACE, "state": "confirmed"}, 400, "unknown_field"),
    ({**PLACE, "total": "0.00"}, 400, "unknown_field"),
    ({"order": "h-1", "conference": "pycon"}, 400, "missing_field"),
    ({**PLACE, "order": 1}, 400, "wrong_type"),
    ({**PLACE, "order": ""}, 400, "bad_order"),
    ({**PLACE, "order": "12345"}, 400, "bad_order"),
    ({**PLACE, "order": "../x"}, 400, "bad_order"),
    ({**PLACE, "order": "A"}, 400, "bad_order"),
    ({**PLACE, "order": "x" * 101}, 400, "bad_order"),
    ({**PLACE, "order": "a' or RowKey ne '"}, 400, "bad_order"),
    ({**PLACE, "conference": "no/such"}, 400, "bad_name"),
    ({**PLACE, "conference": "unknown"}, 409, "unknown_conference"),
    ({**PLACE, "gate": "Bad Gate"}, 400, "bad_name"),
    ({**PLACE, "seats": {}}, 400, "bad_seats"),
    ({**PLACE, "seats": {"whole": 0}}, 400, "bad_seats"),
    ({**PLACE, "seats": {"whole": -1}}, 400, "bad_seats"),
    ({**PLACE, "seats": {"whole": 1.5}}, 400, "wrong_type"),
    ({**PLACE, "seats": {"whole": "1"}}, 400, "wrong_type"),
    ({**PLACE, "seats": {"whole": True}}, 400, "wrong_type"),
    ({**PLACE, "seats": {"whole": 10**30}}, 400, "bad_seats"),
    ({**PLACE, "seats": {"whole": 21}}, 400, "too_many_seats"),
    ({**PLACE, "seats": {"none": 1}}, 409, "unknown_seat_type"),
    ({**PLACE, "seats": {f"t{n}": 1 for n in range(51)}}, 400, "too_many_types"),
    ({**PLACE, "access_code": "short"}, 400, "bad_access_code"),
    ({**PLACE, "access_code": "x" * 65}, 400, "bad_access_code"),
    ({**PLACE, "access_code": "with a blank"}, 400, "bad_access_code"),
    ({**PLACE, "access_code": "käsekuchen"}, 400, "bad_access_code"),
    ({**PLACE, "access_code": "line\nbreak"}, 400, "bad_access_code"),
    ({**PLACE, "access_code": 12345678}, 400, "wrong_type"),
]


@pytest.mark.parametrize(("body", "status", "reason"), HOSTILE)
def test_a_hostile_order_is_refused_with_its_reason(customer, body, status, reason):
    """Nothing of it is stored, and the answer holds no code."""
    answer = customer.ask("POST", "/api/orders", body)
    assert (answer.status, answer.body["reason"]) == (status, reason), answer.body
    if isinstance(body, dict) and isinstance(body.get("access_code"), str):
        assert body["access_code"] not in json.dumps(answer.body)
    assert customer.show("h-1", "anything").status == 404


@pytest.mark.parametrize(
    ("line", "body", "headers", "status"),
    [
        ("GET /api/orders/o-1?wait=31", None, {}, 400),
        ("GET /api/orders/o-1?wiat=1", None, {}, 400),
        ("GET /api/orders/..%2f..%2fx", None, {}, 404),
        ("GET /api/orders/%00", None, {}, 404),
        ("GET /api/orders/" + "9" * 200, None, {}, 404),
        ("GET /api/orders/" + "٣" * 5, None, {}, 404),
        ("GET /api/conferences/no%2Fsuch", None, {}, 404),
        ("GET /api/conferences/Unknown", None, {}, 404),
        ("PATCH /api/orders/12345", {"seats": {"whole": 1}}, {"If_Match": '"1"'}, 404),
        ("PATCH /api/orders/o-1", {"seats": {"whole": 1}}, {"If_Match": "*"}, 428),
        ("PATCH /api/orders/o-1", {"seats": {"whole": 1}, "version": 1}, {"If_Match": '"1"'}, 400),
        ("PUT /api/orders/o-1", {}, {}, 404),
        ("DELETE /api/orders/o-1", None, {}, 404),
    ],
)
def test_a_strange_request_is_refused(customer, line, body, headers, status):
    """And the next one is answered."""
    method, path = line.split(" ", 1)
    safe = quote(path, safe="/%?=&") if not path.isascii() else path
    assert customer.ask(method, safe, body, X_Access_Code="wrong-code", **headers).status == status
    assert customer.ask("GET", "/api/conferences/pycon").status == 200


def sluice(stack, *words):
    """Type a command of an operator, and return its status and its document."""
    done = subprocess.run(
        [str(SLUICE), *words, "--json"],
        env={**os.environ, **stack[0].settings},
        capture_output=True,
        text=True,
        check=False,
    )
    return done.returncode, json.loads(done.stdout) if done.stdout else done.stderr


def test_the_doctor_looks_into_the_lanes_of_seats_too(stack):
    """They have sessions, and nobody may look into them without one."""
    status, report = sluice(stack, "doctor")
    assert (status, [one for one in report["findings"] if one["problem"]]) == (0, [])
    lanes = {one["name"] for one in report["findings"] if one["name"].startswith("seat-commands-")}
    assert len(lanes) == 4


def test_an_operator_sees_orders_processes_and_seats(stack, customer, drop):
    """The order as its customer reads it, why it is where it is, and that no seat is missing."""
    order = fresh()
    number = customer.place(order, {"whole": 2}, access_code=CODE).body["number"]
    reserved = customer.show(order, CODE, wait=30)
    assert sluice(stack, "orders", "show", order) == sluice(stack, "orders", "show", str(number)) == (0, reserved.body)
    # The list reads the view, which follows a moment later.
    until(
        lambda: order in {one["order"] for one in sluice(stack, "orders", "list", "--state", "reserved")[1]["orders"]}
    )
    running_now = sluice(stack, "processes", "list")[1]["processes"]
    assert order in {one["order"] for one in running_now}
    assert sluice(stack, "processes", "list", "--stuck") == (0, {"processes": []})
    status, story = sluice(stack, "processes", "show", order)
    assert (status, story["stage"], story["generation"], story["stuck"]) == (0, "reservation_confirmed", 1, False)
    assert [one["kind"] for one in story["events"]][:3] == ["order_placed", "order_totals_calculated", "order_reserved"]
    drop("payment", id=f"late-{order}", order=order, outcome="completed", amount="1.00")
    unsettled = customer.show(order, CODE, wait=30, after=reserved.body["version"]).body["unsettled"]
    assert [one["reason"] for one in unsettled] == ["amount_differs"]
    until(lambda: order in {one["order"] for one in sluice(stack, "orders", "list", "--unsettled")[1]["orders"]})
    status, balance = sluice(stack, "seats", "show", "pycon")
    assert (status, balance["uneven"], balance["overdue"]) == (0, [], [])
    for one in balance["types"].values():
        assert one["available"] + one["reserved"] + one["confirmed"] == one["quota"]
    assert balance["types"]["whole"]["reserved"] >= 2
    assert sluice(stack, "orders", "show", "unknown")[0] == 1
    assert sluice(stack, "seats", "show", "unknown")[0] == 1


def test_no_access_code_is_stored_or_logged(stack, connections, customer, drop):
    """Last: the codes went through every path of the tests above. None is in a row, a blob, a message or a log.

    Nor are those of orders that are refused, and parked: one that can be read, and one that cannot.
    """
    made = customer.place(fresh(), {"whole": 1}).body["access_code"]
    order = {"order": fresh(), "seats": {"whole": 1}, "access_code": PARKED_CODE}
    drop("place_order", **order, conference="unknown")
    drop("place_order", **order, confrence="pycon")
    parked = connections.tables.get_table_client("parked")
    until(lambda: {"unknown_conference", "unknown_field"} <= {row.get("reason") for row in parked.list_entities()})
    canaries = [code.encode() for code in (CODE, PLACED_CODE, PARKED_CODE, made, KEY)]
    parts = [*_rows(connections), *_blobs(connections), *_messages(connections), stack[0].host.log.read_bytes()]
    assert len(parts) > 20
    for canary in canaries:
        for form in (canary, canary.hex().encode()):
            assert not [part[:200] for part in parts if form in part]


def _rows(connections):
    for table in connections.tables.list_tables():
        for row in connections.tables.get_table_client(table.name).list_entities():
            yield json.dumps(
                dict(row), default=lambda value: value.decode("latin-1") if isinstance(value, bytes) else str(value)
            ).encode()


def _blobs(connections):
    for container in connections.blobs.list_containers():
        client = connections.blobs.get_container_client(container.name)
        for blob in client.list_blobs():
            yield client.download_blob(blob.name).readall()


def _messages(connections):
    for queue in connections.queues.list_queues():
        for message in connections.queues.get_queue_client(queue.name).peek_messages(32):
            yield message.content.encode()
