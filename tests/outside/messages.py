"""Hostile messages: what is refused before any payload is looked at."""

import base64
import gzip
import json

from tests.outside.case import JOB, USAGE, Case, Ends, Parked, with_items, wrap

GOOD = with_items()
ITEMS = json.dumps([USAGE])


def cases():
    """Yield every case."""
    yield from _texts()
    yield from _encodings()
    yield from _versions_and_kinds()
    yield from _fields()
    yield from _declared()
    yield from _names()
    yield from _moments()
    yield from _payload_fields()


def _family(family, reasons):
    """Yield a case for each text that must be parked under a reason."""
    for reason, texts in reasons.items():
        for number, text in enumerate(texts):
            yield Case(family, f"{family}-{reason}-{number}", text, Parked(reason))


def _texts():
    deep = json.dumps({"a": 1})
    for _ in range(40):
        deep = f'{{"a": {deep}}}'
    yield from _family(
        "JSON",
        {
            "not_json": [
                f"/* a comment */ {GOOD}",
                GOOD.replace("}]}}", "},]}}"),
                f"{GOOD}\n{GOOD}",
                f"\ufeff{GOOD}",
                f"\u00a0{GOOD}",
                "sluice:\n  items:\n    - account: a\n",
                '{"sluice": {"v": 01, "items": [{}]}}',
                '{"sluice": {"v": 0x1, "items": [{}]}}',
                '{"sluice": {"items": [{"a": "line\nfeed"}]}}',
                '{"sluice": {"items": [{"a": "\\x41"}]}}',
                '{"sluice": {"items": [{"a": undefined}]}}',
                "&lt;QueueMessage&gt;",
                "{" * 20,
            ],
            "no_envelope": [
                json.dumps(GOOD),
                "17",
                "null",
                "true",
                '"sluice"',
                '{"Sluice": {"items": [{}]}}',
                '{"\u0455luice": {"items": [{}]}}',
                '{"sluice ": {"items": [{}]}}',
                '{"sluice": null}',
                '{"sluice": "{}"}',
                '{"sluice": 1e2}',
            ],
            "duplicate_key": [
                f'{{"sluice": {{"items": {ITEMS}}}, "\\u0073luice": {{"items": {ITEMS}}}}}',
                f'{{"sluice": {{"job": "a-twice", "items": {ITEMS}, "job": "b-twice"}}}}',
                f'{{"sluice": {{"declared": {{"items": 1, "items": 1}}, "items": {ITEMS}}}}}',
                '{"sluice": {"payload": {"blob": "a", "blob": "b"}}}',
            ],
            "number_out_of_range": [
                f'{{"sluice": {{"items": {ITEMS}, "v": 1e309}}}}',
                f'{{"sluice": {{"items": {ITEMS}, "v": 1e-400}}}}',
                f'{{"sluice": {{"items": {ITEMS}, "v": {"9" * 4301}}}}}',
                f'{{"sluice": {{"items": {ITEMS}, "declared": {{"items": -1E+99999}}}}}}',
            ],
            "not_a_number": [
                f'{{"sluice": {{"items": {ITEMS}, "declared": {{"items": NaN}}}}}}',
                f'{{"sluice": {{"items": {ITEMS}, "v": -Infinity}}}}',
            ],
            "lone_surrogate": [
                f'{{"sluice": {{"gate": "\\udc00\\ud800", "items": {ITEMS}}}}}',
                f'{{"sluice": {{"\\ud83d": 1, "items": {ITEMS}}}}}',
            ],
            "too_deep": [
                f'{{"sluice": {{"items": [{deep}]}}}}',
                '{"sluice": {"declared": ' + "[" * 9_000 + "]" * 9_000 + "}}",
            ],
        },
    )
    yield Case("JSON", "escaped-wrapper", f'{{"\\u0073luice": {{"job": "{JOB}", "items": {ITEMS}}}}}', Ends(1))
    yield Case("JSON", "blanks-around", f"\r\n\t {GOOD} \n", Ends(1))
    yield Case("JSON", "pair-of-surrogates", with_items(items=[{**USAGE, "x": "\\ud83d\\ude00"}]), Ends(1))
    room = 65_536 - len(with_items(items=[{**USAGE, "x": ""}]))
    # The id that takes the place of @job is longer.
    yield Case("JSON", "as-large-as-may-be", with_items(items=[{**USAGE, "x": "x" * (room - 60)}]), Ends(1))


def _encodings():
    coded = base64.b64encode(GOOD.encode()).decode()
    odd = base64.b64encode(json.dumps({"sluice": {"items": [{**USAGE, "a": "???>>>"}]}}).encode()).decode()
    yield from _family(
        "encodings",
        {
            "not_json": [
                base64.b64encode(coded.encode()).decode(),
                f"{coded[:60]}\n{coded[60:]}",
                odd.translate(str.maketrans("+/", "-_")) if set("+/") & set(odd) else f"{odd[:-4]}-_==",
                coded.rstrip("=")[:-1],
                base64.b64encode(GOOD.encode("utf-16")).decode(),
                base64.b64encode(gzip.compress(GOOD.encode())).decode(),
                base64.b64encode(b"\xef\xbb\xbf" + GOOD.encode()).decode(),
                base64.b32encode(GOOD.encode()).decode(),
                GOOD.encode().hex(),
                "data:application/json;base64," + coded,
            ],
            "not_utf8": [base64.b64encode(b'{"sluice": {"gate": "\xff", "items": [{}]}}').decode()],
            "unknown_kind": [base64.b64encode(wrap(kind="chunk", job="x").encode()).decode()],
        },
    )


def _versions_and_kinds():
    yield from _family(
        "versions and kinds",
        {
            "wrong_type": [with_items(v=value) for value in ("1", 1.0, None, [1], {"v": 1}, False)]
            + [with_items(kind=value) for value in (None, 1, ["submission"], {"submission": 1})],
            "unsupported_version": [with_items(v=value) for value in (-1, 0, 2, 2**31, 2**64)],
            "unknown_kind": [
                with_items(kind=value)
                for value in ("", "Submission", "submission ", "submissi\u043en", "../submission", "x" * 30_000)
            ],
        },
    )


def _fields():
    names = ("Job", "room", "gates", "__proto__", "constructor", "$schema", "priority", "job\u200b", "", "j" * 20_000)
    yield from _family(
        "fields",
        {
            "unknown_field": [with_items(**{name: 1}) for name in names]
            + [
                json.dumps({"sluice": {"items": [USAGE]}, "room": "other"}),
                with_items(declared={"count": 1}),
                wrap(payload={"blob": "a", "container": "plans"}),
            ],
            "wrong_type": [
                with_items(**{name: value})
                for name in ("job", "workload", "gate", "deadline")
                for value in (1, ["a"], {"$ne": ""}, True)
            ]
            + [with_items(items=value) for value in ("[{}]", {"0": {}}, 1, True)]
            + [with_items(declared=value) for value in ([], "1", 1)],
            "payload_form": [wrap(job=JOB), wrap(items=None, payload=None), with_items(payload={"inline": "e30K"})],
            "empty": [wrap(items=[], gate="x"), wrap(job="a", payload={"inline": "", "codec": "gzip"})],
        },
    )
    yield Case(
        "fields", "nothing-said-in-each", with_items(gate=None, deadline=None, trace=None, payload=None), Ends(1)
    )
    yield Case("fields", "strange-trace", with_items(trace="00-<script>-\u202e-zz"), Ends(1))


def _declared():
    words = (
        "+1", ".5", "5.", "1e3", "1_000", " 1", "1 ", "1\n", "\u0661", "", "-", "--1", "1,000", "NaN", "Infinity", "0x1",
        "1.2.3", "\u22121", "1" * 61, "0." + "1" * 61,
    )  # fmt: skip
    yield from _family(
        "declared",
        {
            "bad_sum": [with_items(declared={"sums": {"quantity": word}}) for word in words],
            "wrong_type": [
                with_items(declared={"sums": value})
                for value in ([], "1", {"quantity": 1}, {"quantity": None}, {"quantity": {}})
            ]
            + [with_items(declared={"items": value}) for value in ("1", [1], True, 1.5)],
            "unknown_sum": [
                with_items(declared={"sums": {name: "2.50"}})
                for name in ("amount", "Quantity", "quantity ", "", "account")
            ],
            "count_mismatch": [with_items(declared={"items": value}) for value in (0, 2, -1, 2**31, 2**62)],
        },
    )
    for number, wrong in enumerate(("2.51", "2.500000000000000001", "-2.50", "0", "9" * 20)):
        message = with_items(declared={"sums": {"quantity": wrong}})
        yield Case("declared", f"lying-sum-{number}", message, Ends(1, state="unbalanced"))
    right = with_items(declared={"items": 1, "sums": {"quantity": "2.500000000000000000"}})
    yield Case("declared", "sum-with-all-its-zeros", right, Ends(1))


#: What is no name of anything.
NO_NAMES = (
    "", " ", "a b", "a/b", "a\\b", "../a", "..", ".", "-a", "_a", "A", "a\u0000", "a\n", "a~b", "~", "a" * 101,
    "\uff41", "\u212a", "a\u0301", "\u202ea", "%61", "a?b", "a#b", "' or 1 eq 1 or '", "{{7*7}}", "${job}", "a:b", "@a",
)  # fmt: skip


def _names():
    yield from _family(
        "names",
        {
            "bad_job": [wrap(job=name, items=[USAGE]) for name in NO_NAMES],
            "bad_name": [with_items(gate=name) for name in NO_NAMES]
            + [with_items(workload=name) for name in ("", "Billing", "os:system", "__import__", "billing/", "a~b")],
            "unknown_workload": [with_items(workload=name) for name in ("bill", "shared.workloads.billing", "0")],
        },
    )


def _moments():
    moments = (
        "", "now", "0", "2026-11-21", "2026-11-21T06:00:00", "2026-11-21 06:00:00Z", "2026-11-21T06:00:00z",
        "2026-13-01T00:00:00Z", "2026-11-31T00:00:00Z", "2026-11-21T24:00:00Z", "2026-11-21T06:00:60Z",
        "2026-11-21T06:00:00+25:00", "9999-12-31T23:59:59-23:59", "0000-01-01T00:00:00Z", "20261121T060000Z",
        "+002026-11-21T06:00:00Z", "\u0662\u0660\u0662\u0666-11-21T06:00:00Z", "2026-11-21T06:00:00Z\n", "2026-W47-6",
        "2026-11-21T06:00:00.0000000000000001Z",
    )  # fmt: skip
    yield from _family("deadlines", {"bad_deadline": [with_items(deadline=text) for text in moments]})
    yield Case("deadlines", "long-over", with_items(deadline="1999-12-31T23:59:59Z"), Ends(1))


def _payload_fields():
    blobs = (
        "", "/", "a/", "/a", "a//b", "a/../b", "a/./b", ".a", "a.", "a/b.", "a\\b", "a b", "a%2fb", "a%00", "a\u0000",
        "a?sig=x", "a#b", "caf\u00e9", "~door/x", "room~job/x", "$logs/x", "https://x.blob.core.windows.net/payloads/a",
        "file:///etc/passwd", "\\\\host\\share", "a/" * 16 + "a", "a" * 513, "a:b", "*", "a\nb", "\u202egpj.a",
    )  # fmt: skip
    yield from _family(
        "payload fields",
        {
            "bad_blob_name": [wrap(job=JOB, payload={"blob": name}) for name in blobs],
            "wrong_type": [
                wrap(job=JOB, payload=value)
                for value in (
                    [],
                    "a",
                    {"blob": 1},
                    {"blob": ["a"]},
                    {"inline": 1},
                    {"blob": "a", "codec": 1},
                    {"blob": "a", "frames": {}},
                    {"blob": "a", "frames": [[0, 1, 1]]},
                    {"blob": "a", "frames": [["0", "1", "1", "a" * 64]]},
                    {"blob": "a", "frames": [{"offset": 0}]},
                    {"blob": f"{JOB}/a", "index": "A" * 64},
                    {"blob": f"{JOB}/a", "index": ""},
                )
            ],
            "unknown_codec": [
                wrap(job=JOB, payload={"blob": "a", "codec": name})
                for name in ("", "ZSTD", "gzip ", "br", "deflate", "zstd\u0000", "identity")
            ],
            "bad_base64": [
                wrap(job=JOB, payload={"inline": text}) for text in ("e30", "e30K\n", "e3 0K", "e30_", "=", "\u00e9")
            ],
        },
    )
