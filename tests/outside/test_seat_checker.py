"""The checker of seats and money is believed because it is apart, and because it turns red at each word that is wrong."""

import ast
import copy
from pathlib import Path

import pytest

from tests.outside import seat_checker


def stream(home, *events):
    """Return a stream as subscribers are told it, without the fields that nobody adds up."""
    told = [{"kind": kind, "body": body, "version": version} for version, (kind, body) in enumerate(events, 1)]
    return {"home": home, "first": 1, "last": len(told), "events": told}


def placed(number, expires_at):
    """Return the event of an order of two seats at 5.00."""
    body = {"order": f"o-{number}", "number": number, "conference": "c", "seats": {"w": 2}, "prices": {"w": "5.00"}}
    return "order_placed", {**body, "expires_at": expires_at}


def total(seats):
    """Return the event of a total."""
    line = {"seats": seats, "price": "5.00", "amount": f"{5 * seats}.00"}
    return "order_totals_calculated", {"lines": {"w": line}, "total": f"{5 * seats}.00"}


def shown(number, state, version, **fields):
    """Return the answer about an order."""
    nothing = {"reserved": {}, "total": "10.00", "paid": None, "unsettled": [], "reason": None}
    known = {"order": f"o-{number}", "number": number, "conference": "c", "state": state, "requested": {"w": 2}}
    return {**known, **nothing, "version": version, **fields}


#: Three orders for three seats, of which one is sold, one expired and was paid too late, and one came too late.
TRUTH = {
    "sent": [
        *({"kind": "place_order", "order": f"o-{number}"} for number in (1, 2, 3)),
        {"kind": "payment", "outcome": "completed", "id": "p1", "order": "o-1", "amount": "10.00"},
        {"kind": "payment", "outcome": "completed", "id": "p2", "order": "o-2", "amount": "5.00"},
    ],
    "told": [
        {
            "streams": [
                stream(
                    "seats-c",
                    ("conference_set", {"seats": {"w": {"price": "5.00", "quota": 3, "remaining": 3}}}),
                    ("seats_reserved", {"order": "o-1", "granted": {"w": 2}, "remaining": {"w": 1}}),
                    ("seats_reserved", {"order": "o-2", "granted": {"w": 1}, "remaining": {"w": 0}}),
                    ("seats_reserved", {"order": "o-3", "granted": {"w": 0}, "remaining": {"w": 0}}),
                    ("seats_added", {"seats": {"w": 1}, "quota": {"w": 4}, "remaining": {"w": 1}}),
                    ("reservation_confirmed", {"order": "o-1", "confirmed": {"w": 2}, "remaining": {"w": 1}}),
                    ("reservation_cancelled", {"order": "o-2", "released": {"w": 1}, "remaining": {"w": 2}}),
                ),
                stream(
                    "order-o-1",
                    placed(1, "noon"),
                    total(2),
                    ("order_reserved", {"granted": {"w": 2}}),
                    ("payment_received", {"id": "p1", "amount": "10.00"}),
                    ("order_confirmed", {"seats": {"w": 2}, "total": "10.00"}),
                ),
                stream(
                    "order-o-2",
                    placed(2, None),
                    total(2),
                    ("order_started", {}),
                    ("order_partially_reserved", {"granted": {"w": 1}}),
                    total(1),
                    ("order_expired", {}),
                    ("payment_unsettled", {"id": "p2", "amount": "5.00", "reason": "already_expired"}),
                ),
                stream("order-o-3", placed(3, "noon"), total(2), ("order_rejected", {"reason": "sold_out"})),
            ]
        }
    ],
    "answers": {
        "o-1": shown(1, "confirmed", 5, reserved={"w": 2}, paid="10.00"),
        "o-2": shown(
            2, "expired", 7, total="5.00", unsettled=[{"id": "p2", "amount": "5.00", "reason": "already_expired"}]
        ),
        "o-3": shown(3, "rejected", 3, reason="sold_out"),
    },
    "conferences": {"c": {"seats": {"w": {"price": "5.00", "quota": 4, "remaining": 2}}}},
}
#: The end of a range without an event, and the window, which is no state: no seat and no money hangs on them.
SILENT = ("last", "expires_at")


def breaches(known):
    """Return what is wrong."""
    books = seat_checker.Books(known["sent"], known["told"])
    return list(seat_checker.breaches(books, known["answers"], known["conferences"]))


def leaves(value, path=()):
    """Yield the path of each word and number."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else None
    if inner is None:
        yield path
    for key, one in inner or ():
        yield from leaves(one, (*path, key))


def changed(path):
    """Return the truth with another word, number or amount at one place."""
    known = copy.deepcopy(TRUTH)
    *way, last = path
    at = known
    for key in way:
        at = at[key]
    found = at[last]
    amount = isinstance(found, str) and found.replace(".", "").isdigit()
    at[last] = found + 1 if isinstance(found, int) else "77.77" if amount else "other"
    return known


def test_what_is_right_is_right():
    """Copies and another order of the messages are no mistake."""
    assert breaches(TRUTH) == []
    known = copy.deepcopy(TRUTH)
    parts = [{"streams": [one]} for one in known["told"][0]["streams"]]
    assert breaches({**known, "told": [*reversed(parts), *known["told"]]}) == []


@pytest.mark.parametrize("path", [one for one in leaves(TRUTH) if one[-1] not in {*SILENT, "kind"}], ids=str)
def test_each_changed_word_is_told(path):
    """Each of these is what a defect would leave."""
    assert breaches(changed(path)) != []


def test_what_is_missing_is_told():
    """An order, a payment, and the first versions of a stream."""
    for name, more in (("sent", {"kind": "place_order", "order": "o-4"}), ("sent", {**TRUTH["sent"][-1], "id": "p3"})):
        assert breaches({**TRUTH, name: [*TRUTH[name], more]}) != []
    known = copy.deepcopy(TRUTH)
    known["told"][0]["streams"][1]["first"] = 2
    assert "order-o-1: nothing was told of versions 1 to 1" in breaches(known)


def test_the_checker_shares_nothing_with_what_it_checks():
    """It imports no module of the project."""
    tree = ast.parse(Path(seat_checker.__file__).read_text())
    found = [node for node in ast.walk(tree) if isinstance(node, ast.Import | ast.ImportFrom)]
    assert {getattr(node, "module", None) for node in found} == {"collections", "dataclasses", "decimal"}
