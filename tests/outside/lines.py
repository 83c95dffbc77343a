"""Hostile transactions: each is rejected alone, under its reason, among good ones."""

import gzip
import json
from collections import defaultdict

from tests.outside.case import JOB, LINE, USAGE, Case, Ends, Parked, wrap

START = b'{"account": "a-1", "plan": "basic", "quantity": '


def cases():
    """Yield every case: one job for all lines of a reason, so that they are many and their jobs few."""
    for reason, bad in _by_reason(_lines()).items():
        lines = [LINE.strip(), *bad, LINE.strip()]
        yield _file(f"line-{reason}", lines, Ends(2, dict.fromkeys(range(1, len(bad) + 1), reason)))
    for reason, bad in _by_reason(_items()).items():
        items = ", ".join([json.dumps(USAGE), *bad])
        message = f'{{"sluice": {{"job": "{JOB}", "items": [{items}]}}}}'
        yield Case("items", f"items-{reason}", message, Ends(1, dict.fromkeys(range(1, len(bad) + 1), reason)))
    for number, (reason, item) in enumerate(_parting()):
        message = f'{{"sluice": {{"job": "{JOB}", "items": [{json.dumps(USAGE)}, {item}]}}}}'
        yield Case("items", f"item-{reason}-{number}-parks", message, Parked(reason))
    amounts = ("1e3", '"0.000000000000000001"', "1E-18", '"00000000000000000001"', "2.50", "7")
    yield _file("good-amounts", [START + one.encode() + b"}" for one in amounts], Ends(len(amounts)))
    # One object over two lines and two on one line: as many objects as lines, and no line is one.
    split = [b'{"account": "a-1", "plan": "basic",', b'"quantity": "1"}', LINE.strip() * 2]
    yield _file("an-object-over-two-lines", split, Ends(0, dict.fromkeys(range(3), "not_json")))


def _by_reason(found):
    by_reason = defaultdict(list)
    for reason, text in found:
        by_reason[reason].append(text)
    return by_reason


def _file(name, lines, end):
    blob = f"lines/{JOB}"
    return Case("lines", name, wrap(job=JOB, payload={"blob": blob}), end, {blob: gzip.compress(b"\n".join(lines), 1)})


def _lines():
    yield from ((reason, item.encode()) for reason, item in _parting())
    for text in (
        b"hello",
        b"{",
        b'{"a": 1}{"a": 2}',
        b"{'a': 1}",
        b'{"a": 1,}',
        b"\x00",
        b'{"a": "\x01"}',
        b"{}//",
        b'{"a": 01}',
    ):
        yield "not_json", text
    for text in (
        b'{"account": "\xff"}',
        b'{"x": "\xed\xa0\x80"}',
        b'{"x": "\xc0\xaf"}',
        b"\xfe\xff\x00{",
        b'{"\xe4": 1}',
    ):
        yield "not_utf8", text
    yield "too_deep", b'{"x":' * 200_00 + b"1" + b"}" * 200_00
    yield "number_out_of_range", b'{"x": ' + b"8" * 10_000 + b"}"
    yield from ((reason, item.encode()) for reason, item in _items())


def _parting():
    """What parks a whole message when it lies in `items`."""
    usage = START.decode()
    yield "duplicate_key", usage + '"1", "quantity": "1000000"}'
    yield "duplicate_key", usage + '"1", "quantit\\u0079": "1000000"}'
    yield "duplicate_key", '{"account": "a-1", "account": "a-2", "plan": "basic", "quantity": "1"}'
    yield "duplicate_key", usage + '"1", "x": {"y": [{"z": 1, "z": 1}]}}'
    yield "duplicate_key", usage + '"1", "": 1, "": 1}'
    yield "number_out_of_range", usage + '"1", "x": 1e400}'
    yield "number_out_of_range", usage + '"1", "x": [-1e-400]}'
    yield "not_a_number", usage + '"1", "x": NaN}'
    yield "not_a_number", usage + "Infinity}"
    yield "lone_surrogate", usage + '"1", "x": "\\ud800"}'
    yield "lone_surrogate", usage + '"1", "\\udfff": 1}'
    yield "too_deep", usage + '"1", "x": ' + "[" * 40 + "]" * 40 + "}"


def _items():
    """What is rejected alone wherever it lies."""
    for text in ("[]", "17", "null", "true", '"{}"', "[{}]"):
        yield "not_an_object", text
    usage = START.decode()
    amounts = (
        '"1_000"', '" 1"', '"1 "', '"\u0661"', '"\uff11"', f'"{"0" * 44}"', f'"{"1" * 21}"', f'"0.{"1" * 19}"', '"+1"',
        '".5"', '"5."', '"1e3"', '"NaN"', '"Infinity"', '"sNaN"', '""', '"-"', '"--1"', '"0x10"', '"1,5"', '"1\\n"', "true",
        "[1]", '{"quantity": 1}', "1e30", "1e-19", "1" * 39, "0.1234567890123456789",
    )  # fmt: skip
    for amount in amounts:
        yield "bad_amount", usage + amount + "}"
    for amount in ('"0"', '"-1"', '"1000000000.01"', "0", "-0.5", '"-0"'):
        yield "bad_quantity", usage + amount + "}"
    for text in (
        "{}",
        '{"account": "a-1", "plan": "basic"}',
        '{"account": 1, "plan": "basic", "quantity": "1"}',
        '{"account": null, "plan": "basic", "quantity": "1"}',
        '{"account": "a-1", "plan": ["basic"], "quantity": "1"}',
        '{"account": "a-1", "plan": "basic", "quantity": null}',
        '{"Account": "a-1", "plan": "basic", "quantity": "1"}',
    ):
        yield "does_not_fit", text
    for plan in ("", "Basic", "basic ", "none", "\u0000", "x" * 5_000):
        yield "unknown_plan", json.dumps({**USAGE, "plan": plan})
    for account in ("", "x" * 201):
        yield "bad_account", json.dumps({**USAGE, "account": account})
