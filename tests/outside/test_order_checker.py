"""The checker of secrets is believed because it is apart, and because it turns red at each thing that is wrong."""

import ast
import base64
import copy
from pathlib import Path

import pytest

from tests.outside import order_checker

CODE, KEY = "canary-code", "canary-key-of-22-chars"


def asked(order, **more):
    """Return a request that is answered as it must be."""
    return {
        "name": f"again: {order}",
        "sent": f"POST {order}",
        "status": 409,
        "headers": {"Content-Type": "application/problem+json", "Date": f"now, for {order}"},
        "body": b'{"reason": "order_differs", "detail": "the order ' + order.encode() + b' is stored"}',
        "seconds": 0.3,
        "wanted": ((409, "order_differs"),),
        "alike": "taken",
        "order": order,
        "is_slow": True,
        **more,
    }


def stream(home):
    """Return a stream as subscribers are told it."""
    return {"home": home, "events": [{"kind": "order_placed", "body": {"order": home}}]}


TRUTH = {
    "secrets": {CODE: "the code of v-1", KEY: "the key of v-1"},
    "asked": [asked("v-1"), asked("v-2"), asked("x-1", alike="", is_slow=False, seconds=0.01)],
    "kept": {"v-1": ({"version": 3}, {"version": 3})},
    "shown": {"the log": b"nothing of interest"},
    "dropped": {"again": "order_differs", "the same": ""},
    "parked": [("again", "order_differs")],
    "told": [{"streams": [stream("order-v-1"), stream("seats-c")]}],
    "born": ["v-1"],
}


def told_after(change):
    """Return what the checker says of the truth after a change of it."""
    record = copy.deepcopy(TRUTH)
    change(record)
    return list(order_checker.breaches(record))


def test_what_is_right_is_right():
    """Dates, and the order's own name, are no difference. Who sent a secret learns nothing by its echo."""
    assert list(order_checker.breaches(TRUTH)) == []
    echoed = asked("x-2", alike="", sent=f"POST {CODE}", body=b'{"reason": "order_differs", "echo": "canary-code"}')
    assert told_after(lambda record: record["asked"].append(echoed)) == []


FIRST = TRUTH["asked"][0]
FORMS = (CODE, KEY.encode().hex(), base64.b64encode(KEY.encode()).decode())
WRONG = {
    "another status": ("asked", [asked("v-1", status=202)]),
    "another reason": ("asked", [asked("v-1", body=b'{"reason": "sold_out"}')]),
    "too soon": ("asked", [asked("v-1", seconds=0.2)]),
    "another text": ("asked", [FIRST, asked("v-2", body=b'{"reason": "order_differs", "detail": "wrong code"}')]),
    "another header": ("asked", [FIRST, asked("v-2", headers={"Content-Type": "application/problem+json", "X": "1"})]),
    "a change": ("kept", {"v-1": ({"version": 3}, {"version": 4})}),
    "another park": ("parked", [("again", "wrong_queue")]),
    "two reasons": ("parked", [("again", "order_differs"), ("again", "wrong_queue")]),
    "no park": ("parked", []),
    "a park of what is right": ("parked", [*TRUTH["parked"], ("the same", "order_differs")]),
    "a park of nobody's": ("parked", [*TRUTH["parked"], ("who", "order_differs")]),
    "an order of nobody": ("told", [{"streams": [stream("order-v-1"), stream("order-s-1")]}]),
    "an order that is gone": ("told", [{"streams": [stream("seats-c")]}]),
    **{f"{form} in an answer": ("asked", [asked("v-1", body=form.encode())]) for form in FORMS},
    **{f"{form} in a header": ("asked", [asked("v-1", headers={"Location": form})]) for form in FORMS},
    **{f"{form} in a log": ("shown", {"the log": f"said {form}.".encode()}) for form in FORMS},
    **{
        f"{form} in an event": ("told", [{"streams": [stream("order-v-1"), stream(f"seats-{form}")]}]) for form in FORMS
    },
}


@pytest.mark.parametrize("wrong", WRONG)
def test_each_thing_that_is_wrong_is_told(wrong):
    """Each of these is what a defect would leave."""
    name, found = WRONG[wrong]
    assert told_after(lambda record: record.update({name: found})) != []


def test_the_checker_shares_nothing_with_what_it_checks():
    """It imports no module of the project."""
    tree = ast.parse(Path(order_checker.__file__).read_text())
    names = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names} | {
        node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)
    }
    assert names == {"base64", "json", "collections"}
