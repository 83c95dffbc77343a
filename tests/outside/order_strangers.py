"""What those try with orders who have no function key: strangers and Readers. And what is no request of an order at all."""

import json
from itertools import product

from tests.console.principals import describe
from tests.outside.order_cases import CONFERENCE, GUESS, UNKNOWN, VICTIMS, Ask

NO_KEY, NO_ROUTE, NO_METHOD = (401, ""), (404, ""), (405, "")
SHOWN, NOT_LET_IN, TO_THE_LOGIN = (200, ""), (403, ""), (302, "")
PRINCIPAL = "X-MS-CLIENT-PRINCIPAL"
PAGES = (
    *("/", "/jobs", "/gates", "/gate/later", "/parked", "/replays", "/rules", "/cost", "/audit", "/ids"),
    *("/processes", "/orders", "/orders?state=reserved", "/seats", f"/seats/{CONFERENCE}", "/migrations"),
    *(f"/order/{victim.name}" for victim in VICTIMS),
)
ACTS = (
    *("/gate/later/open", "/gate/later/close", "/gate/later/plan", "/job/j/resume", "/parked/f/discard"),
    *("/parked/f/replay", "/rules/put", "/replay/r/stop", "/migration/orders/switch", "/migration/orders/rollback"),
)


def asks():
    """Return every request."""
    return [*_without_a_key(), *_of_the_host(), *_odd(), *_by_readers()]


def _without_a_key():
    """Whoever has no function key, even with the code of an order."""
    opened = (("X-Access-Code", "{code of v-own}"), ("If-Match", '"2"'))
    new = {"order": "s-1", "conference": CONFERENCE, "seats": {"whole": 1}}
    again = {**new, "order": "v-own", "access_code": "{code of v-own}"}
    lines = (
        ("read", "GET /api/orders/v-own", None),
        ("read by its number", "GET /api/orders/{v-own}", None),
        ("change", "PATCH /api/orders/v-own", {"seats": {"whole": 1}}),
        ("place", "POST /api/orders", new),
        ("place again", "POST /api/orders", again),
        ("look", f"GET /api/conferences/{CONFERENCE}", None),
    )
    hows = (
        ("nothing", "", ()),
        ("a wrong key", "", (("x-functions-key", "wrong"),)),
        ("a wrong parameter", "?code=wrong", ()),
        ("the code as key", "?code={code of v-own}", (("x-functions-key", "{code of v-own}"),)),
        ("the key elsewhere", "", (("Authorization", "Bearer {function key}"), ("Cookie", "code={function key}"))),
    )
    for (what, line, body), (how, query, headers) in product(lines, hows):
        yield Ask("stranger", f"{what}, {how}", line + query, (NO_KEY,), body, (*opened, *headers))


def _of_the_host():
    """What only the host's own key opens."""
    fields = {"kind": "payment", "id": "a", "order": "v-own", "outcome": "completed", "amount": "1000.00"}
    run = {"input": json.dumps({"sluice": fields})}
    lines = (
        *((f"GET /admin/{path}", None) for path in ("host/status", "functions", "host/requests")),
        *((f"POST /admin/functions/{name}", run) for name in ("take_orders", "take_payments", "take_conferences")),
    )
    for who, (line, body) in product(("stranger", "customer"), lines):
        yield Ask(who, f"{who}: {line}", line, (NO_KEY,), body)


def _odd():
    """Other methods, and other spellings of a path."""
    headers = (("X-Access-Code", GUESS), ("If-Match", '"2"'), ("X-HTTP-Method-Override", "PATCH"))
    for line in (
        *(f"{method} /api/orders/v-own" for method in ("PUT", "DELETE", "POST", "OPTIONS")),
        *("GET /api/orders", "GET /api/orders?order=v-own", "PATCH /api/orders", "GET /api/orders/v-own/code"),
        *(f"DELETE /api/conferences/{CONFERENCE}", f"POST /api/conferences/{CONFERENCE}"),
    ):
        body = None if line.startswith("GET") else {}
        yield Ask("customer", line, line, (NO_ROUTE, NO_METHOD), body, headers)
    for path in ("v-own%00", "v-own%2f", "V-OWN", "v-*", "..%2forders%2fv-own", "v%2down", "order-v-own", "v-own'"):
        yield Ask("customer", path, f"GET /api/orders/{path}", (UNKNOWN, NO_ROUTE), None, headers)
    for query in (f"access_code={GUESS}", "wait=31", "after=-1", "format=full", "$filter=true"):
        line = f"GET /api/orders/v-own?{query}"
        yield Ask("customer", line, line, ((400, "bad_query"),), None, headers)


def _by_readers():
    """The console with the role Reader: it shows orders, opens none, acts on nothing, and is no key to the other doors."""
    reader, nobody = (PRINCIPAL, describe("Reader")), (PRINCIPAL, describe())
    form = (("Origin", "{base}"), ("Content-Type", "application/x-www-form-urlencoded"))
    for path in PAGES:
        yield Ask("Reader", f"page {path}", f"GET /api/console{path}", (SHOWN,), None, (reader,))
    for path in ACTS:
        yield Ask("Reader", f"act {path}", f"POST /api/console{path}", (NOT_LET_IN,), b"why=x", (reader, *form))
    for line, body in (("GET /api/orders/v-own", None), ("PATCH /api/orders/v-own", {}), ("POST /api/orders", {})):
        yield Ask("Reader", f"Reader: {line}", line, (NO_KEY,), body, (reader,))
    for path in ("/orders", "/order/v-own", f"/seats/{CONFERENCE}"):
        line, right = f"GET /api/console{path}", (TO_THE_LOGIN, NOT_LET_IN)
        yield Ask("stranger", f"stranger: page {path}", line, right)
        yield Ask("person without a role", f"no role: page {path}", line, right, None, (nobody,))
