"""What a site's customers try with orders of others: placing them again, reading them, changing them."""

from dataclasses import dataclass
from itertools import product

CONFERENCE, GATE = "pycon", "later"
SEATS = {
    "whole": {"price": "500.00", "quota": 500},
    "half": {"price": "249.99", "quota": 500},
    "free": {"price": "0.00", "quota": 500},
    "rare": {"price": "9.90", "quota": 2},
}
#: A key that looks like a good one and is that of no order, and a code that opens none.
OTHER_KEY, GUESS = "3f0c1d5e-7a9b-4c2d-8e6f-102938475665", "guessed-code-77"
#: Answers to who may not, as status and reason.
UNKNOWN, TAKEN, SOLD_OUT = (404, "unknown_order"), (409, "order_differs"), (409, "sold_out")


@dataclass(frozen=True)
class Victim:
    """An order of somebody else. Its id, number, conference and seats are public, what opens it is not."""

    name: str
    seats: dict
    #: What its sender gave: `access_code`, `key`, or nothing.
    by: str = ""
    gate: str | None = None
    is_message: bool = False
    is_paid: bool = False

    @property
    def fields(self):
        """The content of the order, which events tell."""
        gate = {"gate": self.gate} if self.gate else {}
        return {"order": self.name, "conference": CONFERENCE, "seats": self.seats, **gate}


VICTIMS = (
    Victim("v-keyed", {"whole": 2}, "key"),
    Victim("v-own", {"whole": 2}, "access_code"),
    Victim("v-once", {"half": 1}),
    Victim("v-message", {"half": 1}, is_message=True),
    Victim("v-coded-message", {"half": 2}, "access_code", is_message=True),
    Victim("v-held", {"whole": 1}, "key", gate=GATE),
    Victim("v-paid", {"whole": 1}, "access_code", is_paid=True),
    Victim("v-free", {"free": 1}, "key"),
    Victim("v-last", {"rare": 2}, "key"),
)
#: The attacker's own order, and an id that nobody has.
OWN, FREE = "m-own", "x-free"


@dataclass(frozen=True)
class Ask:
    """A request, and the answers that are right. A {name} in it stands for what its sender knows."""

    who: str
    name: str
    line: str
    wanted: tuple
    body: object = None
    headers: tuple = ()
    #: All requests of one group get the same answer, but for the order's name in it.
    alike: str = ""
    order: str = ""
    is_slow: bool = False

    @property
    def has_key(self):
        """Whether the function key is sent: a site has it."""
        return self.who == "customer"


def asks():
    """Return every request."""
    return [*_repeated(), *_read(), *_changed()]


def _post(name, fields, wanted, alike, key="", *, is_slow=True):
    headers, order = (("Idempotency-Key", key),) if key else (), fields["order"]
    line = "POST /api/orders"
    return Ask("customer", f"{name}: {order}", line, (wanted,), fields, headers, alike, order, is_slow=is_slow)


def _repeated():
    """The order of another, placed again by who knows its content: nothing proves that it is the same one."""
    for victim in VICTIMS:
        fields = victim.fields
        # While no seat is left, its id is not said to be taken either.
        wanted, alike = (SOLD_OUT, "sold out") if "rare" in victim.seats else (TAKEN, "taken")
        yield _post("again", fields, wanted, alike)
        yield _post("again, another key", fields, wanted, alike, OTHER_KEY)
        yield _post("again, a quoted key", fields, wanted, alike, f'"{OTHER_KEY}"')
        yield _post("again, a guess", {**fields, "access_code": GUESS}, wanted, alike)
        yield _post("again, the code of another order", {**fields, "access_code": "{own code}"}, wanted, alike)
        yield _post("other seats", {**fields, "seats": {"half": 3}}, TAKEN, "taken")
        yield _post("other seats and a key", {**fields, "seats": {"free": 1, "half": 1}}, TAKEN, "taken", OTHER_KEY)
        yield _post("behind another gate", {**fields, "gate": "another"}, TAKEN, "taken")
    for order in (FREE, *(victim.name for victim in VICTIMS)):
        yield from _refused_for_another_reason(order)


def _refused_for_another_reason(order):
    """What no id would be taken for: the answer says nothing of the id."""
    fields = {"order": order, "conference": CONFERENCE, "seats": {"whole": 1}}
    rare = {**fields, "seats": {"rare": 1}}
    yield _post("sold out", rare, SOLD_OUT, "one of none")
    yield _post("sold out and a guess", {**rare, "access_code": GUESS}, SOLD_OUT, "one of none")
    yield _post("sold out and a key", rare, SOLD_OUT, "one of none", OTHER_KEY)
    for name, changed, wanted in (
        ("unknown type", {"seats": {"none": 1}}, (409, "unknown_seat_type")),
        ("too many", {"seats": {"whole": 21}}, (400, "too_many_seats")),
        ("no seat", {"seats": {}}, (400, "bad_seats")),
        ("unknown conference", {"conference": "nocon"}, (409, "unknown_conference")),
        ("a short code", {"access_code": "short"}, (400, "bad_access_code")),
        ("a hash in place of a code", {"access_code_hash": "a1" * 32}, (400, "unknown_field")),
        ("an unknown field", {"number": 1}, (400, "unknown_field")),
    ):
        yield _post(name, {**fields, **changed}, wanted, name, is_slow=False)
    for key in ("short", "2026-11-26T12-45-00-0001", "order-000000000000000000000017"):
        yield _post(f"key {key}", fields, (400, "bad_idempotency_key"), f"key {key}", key, is_slow=False)


def _read():
    """Looks at an order without its code, by its id and by its number, which follow each other."""
    numbers, names = [f"{{{victim.name}}}" for victim in VICTIMS], [victim.name for victim in VICTIMS]
    hows = (
        ("no code", "", ()),
        ("a guess", "", (("X-Access-Code", GUESS),)),
        ("the code of another order", "", (("X-Access-Code", "{own code}"),)),
        ("a key", "", (("X-Access-Code", OTHER_KEY), ("Idempotency-Key", OTHER_KEY))),
        ("a wait", "?wait=0.2", (("X-Access-Code", GUESS),)),
        ("every ETag", "", (("X-Access-Code", GUESS), ("If-None-Match", "*"))),
    )
    for order, (name, query, headers) in product((*names, *numbers, FREE, "999999", "0"), hows):
        line = f"GET /api/orders/{order}{query}"
        yield Ask("customer", f"read {order}, {name}", line, (UNKNOWN,), None, headers, "closed", is_slow=True)


def _changed():
    """Changes an order without its code."""
    names, hows = [victim.name for victim in VICTIMS], (("no code", ""), ("a guess", GUESS), ("its own", "{own code}"))
    for order, (name, code) in product((*names, FREE), hows):
        headers = (("If-Match", '"2"'), *((("X-Access-Code", code),) if code else ()))
        line, body = f"PATCH /api/orders/{order}", {"seats": {"half": 1}}
        yield Ask("customer", f"change {order}, {name}", line, (UNKNOWN,), body, headers, "closed", is_slow=True)
