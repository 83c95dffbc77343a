"""What sites, banks and shops drop on their queues, and on those of others, that must change nothing."""

from dataclasses import dataclass
from itertools import product

from tests.outside.order_cases import CONFERENCE, FREE, GUESS, OTHER_KEY, VICTIMS

#: Who may send to each queue, and the queue of each kind of message.
SENDERS = {"orders": "site", "payments": "bank", "conferences": "shop"}
QUEUES = {
    "place_order": "orders",
    "update_order": "orders",
    "payment": "payments",
    "conference": "conferences",
    "add_seats": "conferences",
    "remove_seats": "conferences",
    "close_conference": "conferences",
}


@dataclass(frozen=True)
class Drop:
    """A message on a queue, and the reason under which it is parked; none: it changes nothing."""

    name: str
    queue: str
    message: dict
    reason: str

    @property
    def who(self):
        """Who may send to this queue."""
        return SENDERS[self.queue]


def drops():
    """Return every message."""
    return [*_orders_of_others(), *_on_other_queues(), *_by_banks(), *_by_shops()]


def message(kind, **fields):
    """Return a message."""
    return {"sluice": {"kind": kind, **fields}}


def _orders_of_others():
    """A site's messages about orders that it did not place."""
    for victim in VICTIMS:
        fields, name = victim.fields, victim.name
        # Without a code it is the same as an order that came without one.
        is_same = victim.is_message and not victim.by
        yield Drop(f"again: {name}", "orders", message("place_order", **fields), "" if is_same else "order_differs")
        for how, changed in (
            ("a guess", {"access_code": GUESS}),
            ("a hash", {"access_code_hash": "a1" * 32}),
            ("other seats", {"seats": {"free": 3}}),
        ):
            dropped = message("place_order", **{**fields, **changed})
            yield Drop(f"again, {how}: {name}", "orders", dropped, "order_differs")
        change = {"order": name, "version": 2, "seats": {"half": 1}}
        for number, (how, given, reason) in enumerate(
            (
                ("no code", {}, "missing_field"),
                ("a guess", {"access_code": GUESS}, "unknown_order"),
                ("the code of another order", {"access_code": "{own code}"}, "unknown_order"),
                ("a hash", {"access_code_hash": "a1" * 32}, "unknown_field"),
                ("a key", {"idempotency_key": OTHER_KEY}, "unknown_field"),
            )
        ):
            dropped = message("update_order", id=f"u-{number}", **change, **given)
            yield Drop(f"change, {how}: {name}", "orders", dropped, reason)


def _on_other_queues():
    """Each kind on each queue of others, right in all else."""
    sold, code = {"conference": CONFERENCE, "seats": {"whole": 5}}, {"access_code": "{code of v-own}"}
    wishes = {
        "place_order": {"order": "w-1", "conference": CONFERENCE, "seats": {"whole": 1}, "access_code": GUESS},
        "update_order": {"id": "w-2", "order": "v-own", "version": 3, "seats": {"half": 1}, **code},
        "payment": {"id": "w-3", "order": "v-own", "outcome": "completed", "amount": "1000.00"},
        "conference": {"id": "w-4", **sold, "seats": {"whole": {"price": "0.00", "quota": 500}}},
        "add_seats": {"id": "w-5", **sold},
        "remove_seats": {"id": "w-6", **sold},
        "close_conference": {"id": "w-7", "conference": CONFERENCE},
    }
    for (kind, right), queue in product(QUEUES.items(), SENDERS):
        if queue != right:
            yield Drop(f"{kind} on {queue}", queue, message(kind, **wishes[kind]), "wrong_queue")


def _by_banks():
    """What a bank may send, but not so."""
    paid = {"id": "p-v-paid", "order": "v-paid", "outcome": "completed", "amount": "500.00"}
    for name, changed, reason in (
        ("the same again", {}, ""),
        ("the same id, another amount", {"amount": "1.00"}, "id_differs"),
        ("an unknown order", {"order": FREE}, "unknown_order"),
        ("a number for an id", {"order": "12345"}, "bad_order"),
        ("a wrong amount", {"amount": "500"}, "bad_price"),
        ("a wrong outcome", {"outcome": "confirmed"}, "bad_outcome"),
        ("a code", {"access_code": GUESS}, "unknown_field"),
        ("a state", {"state": "confirmed"}, "unknown_field"),
    ):
        yield Drop(f"payment, {name}", "payments", message("payment", **{**paid, **changed}), reason)
    yield Drop("refund", "payments", message("refund", id="r-1", order="v-paid"), "unknown_kind")


def _by_shops():
    """What a shop may send, but not so."""
    one = {"whole": {"price": "1.00", "quota": 500}}
    for name, kind, fields, reason in (
        (
            "another quota",
            "conference",
            {"id": "s-1", "seats": {"whole": {**one["whole"], "quota": 1}}},
            "quota_differs",
        ),
        ("seats of an order", "remove_seats", {"id": "s-2", "seats": {"rare": 1}}, "seats_taken"),
        ("no conference", "add_seats", {"id": "s-3", "conference": "nocon", "seats": {"a": 1}}, "unknown_conference"),
        ("its first id again", "conference", {"id": "c-1", "seats": one}, "id_differs"),
        ("an order in it", "close_conference", {"id": "s-4", "order": "v-own"}, "unknown_field"),
    ):
        yield Drop(f"shop, {name}", "conferences", message(kind, **{"conference": CONFERENCE, **fields}), reason)
