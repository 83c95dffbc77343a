"""Documents with something wrong in a field, in their spelling or in the bytes around them, most of the rest right."""

import base64
import json

MOST_ACTS = 3
NUMBERS = (0, 1, -1, 2, 255, 2**15, 2**31 - 1, 2**31, 2**32, 2**53 + 1, 2**63 - 1, 2**63, 2**64, 10**30, -(2**31) - 1)
#: Written as they stand where a value belongs.
TOKENS = (
    "NaN",
    "Infinity",
    "-Infinity",
    "-0",
    "01",
    "+1",
    ".5",
    "5.",
    "1.0",
    "1e3",
    "1E+2",
    "1e400000",
    "1e-400000",
    "9" * 400,
    "0." + "7" * 400,
    "9" * 4_400,
    "0x10",
    "True",
    "undefined",
    "",
    "[" * 40 + "]" * 40,
    '{"a":' * 33 + "1" + "}" * 33,
    '{"a":1,"a":2}',
    r'"\ud800"',
    r'"\udc00\ud800"',
    r'"\ud83d\ude00"',
    r'"\u0000"',
    '"\x01"',
    r'"\x41"',
    "'a'",
    "// a",
)
TEXTS = (
    "",
    " ",
    "a",
    "A",
    "1",
    "1_000",
    " 1",
    "1 ",
    "+1",
    ".5",
    "5.",
    "1e3",
    "-0",
    "-0.00",
    "٣",
    "\uff11\uff12",
    "²",
    "9" * 20,
    "9" * 21,
    "9" * 38,
    "9" * 44,
    "0" * 40 + "1",
    "0." + "1" * 18,
    "0." + "1" * 19,
    "NaN",
    "Infinity",
    "null",
    "../x",
    "a/../b",
    "~none",
    "~door",
    "~attempts",
    "a~b",
    "victim",
    "a" * 100,
    "a" * 101,
    "x" * 3_000,
    "a\n",
    "a\x00b",
    "ä",
    "\u202e",
    "\U0001f600",
    "\ufeff",
    "\ud800",
    "\ufffe",
    "' or '1'='1",
    "<a>&amp;</a>",
    "2026-11-21T06:00:00Z",
    "0001-01-01T00:00:00+23:59",
    "9999-12-31T23:59:59-23:59",
    "submission",
    "dispatch",
    "chunk",
    "result",
    "finish",
    "zstd",
    "gzip",
    "plain",
)


class Raw(str):
    """Stands in the document exactly as it is."""

    __slots__ = ()


class Pairs(list):
    """An object whose keys may come twice."""


def tree(value):
    """Return a document in which every field can be changed by itself."""
    if isinstance(value, dict):
        return Pairs([key, tree(inner)] for key, inner in value.items())
    return [tree(inner) for inner in value] if isinstance(value, list | tuple) else value


def plain(value):
    """Return the document as a reader has it who keeps the last of two keys."""
    if isinstance(value, Pairs):
        return {key: plain(inner) for key, inner in value}
    return [plain(inner) for inner in value] if isinstance(value, list) else value


def mutated(value, rng, chance=0.75):
    """Return the document with a few of its fields changed, or none."""
    made = tree(value)
    if rng.random() < chance:
        for _ in range(rng.randint(1, MOST_ACTS)):
            places = list(_places(made))
            if places:
                rng.choice(_ACTS)(*rng.choice(places), rng)
    return made


def _places(value):
    """Yield (list, index) of every value, those of objects by their pair."""
    for number, one in enumerate(value):
        yield value, number
        inner = one[1] if isinstance(value, Pairs) else one
        if isinstance(inner, list):
            yield from _places(inner)


def _change(parent, at, rng):
    if isinstance(parent, Pairs):
        parent[at][1] = odd(parent[at][1], rng)
    else:
        parent[at] = odd(parent[at], rng)


def _drop(parent, at, _rng):
    del parent[at]


def _repeat(parent, at, rng):
    """Give a key or an entry twice, with the same value or with another one."""
    if isinstance(parent, Pairs):
        key, value = parent[at]
        parent.insert(rng.randint(0, len(parent)), [key, value if rng.random() < 0.3 else odd(value, rng)])
    else:
        parent.insert(at, parent[at])


def _rename(parent, at, rng):
    if isinstance(parent, Pairs):
        key = str(parent[at][0])
        parent[at][0] = rng.choice([key.upper(), key + "s", key[:-1], rng.choice(TEXTS), "v", "kind", "job", "chunk"])


def _add(parent, _at, rng):
    if isinstance(parent, Pairs):
        parent.append([rng.choice(["note", "v", "kind", "job", "trace", rng.choice(TEXTS)]), odd(1, rng)])


def _nest(parent, at, rng):
    value = parent[at][1] if isinstance(parent, Pairs) else parent[at]
    for _ in range(rng.choice([1, 2, 29, 30, 31, 32, 33, 60])):
        value = [value] if rng.random() < 0.5 else Pairs([["a", value]])
    if isinstance(parent, Pairs):
        parent[at][1] = value
    else:
        parent[at] = value


def _exchange(parent, at, rng):
    other = rng.randrange(len(parent))
    parent[at], parent[other] = parent[other], parent[at]


#: The first is what most mistakes are; each further one stands for a share of its own.
_ACTS = (_change, _change, _change, _change, _drop, _repeat, _rename, _add, _nest, _exchange)


def odd(value, rng):
    """Return something that is nearly the value, or of another kind."""
    if rng.random() < 0.7:
        if isinstance(value, bool):
            return not value
        if isinstance(value, int):
            return rng.choice([value + 1, value - 1, -value, rng.choice(NUMBERS), float(value % 2**53), str(value)])
        if isinstance(value, str):
            return _near(value, rng)
    return rng.choice([None, True, [], Pairs(), rng.choice(NUMBERS), 0.5, rng.choice(TEXTS), Raw(rng.choice(TOKENS))])


def _near(text, rng):
    at = rng.randint(0, len(text))
    changes = (
        lambda: text[:at],
        lambda: text[:at] + rng.choice(TEXTS)[:40] + text[at:],
        text.upper,
        lambda: text * 2,
        lambda: rng.choice(TEXTS),
        lambda: rng.choice(TEXTS),
        lambda: rng.choice(NUMBERS),
    )
    return rng.choice(changes)()


def spelt(value, rng):
    """Return the text of a document as one of the many writers of JSON makes it."""
    style = rng.choice([(",", ":"), (",", ":"), (",", ":"), (", ", ": "), (" ,\t", " :\r "), (",\n  ", ":\n")])
    return _written(value, style, rng)


def _written(value, style, rng):
    if isinstance(value, Raw):
        return value
    if isinstance(value, str):
        return _text(value, rng)
    comma, colon = style
    if isinstance(value, Pairs):
        return "{" + comma.join(_text(key, rng) + colon + _written(one, style, rng) for key, one in value) + "}"
    if isinstance(value, list):
        return "[" + comma.join(_written(one, style, rng) for one in value) + "]"
    return json.dumps(value)


def _text(text, rng):
    if text and rng.random() < 0.02:
        # One letter as its escape: another spelling of the same key.
        at = rng.randrange(len(text))
        return json.dumps(text[:at])[:-1] + _escape(text[at]) + json.dumps(text[at + 1 :])[1:]
    return json.dumps(text, ensure_ascii=rng.random() < 0.5)


def _escape(letter):
    return "".join(f"\\u{unit:04x}" for unit in _units(letter))


def _units(letter):
    raw = letter.encode("utf-16-be", "surrogatepass")
    return [int.from_bytes(raw[at : at + 2]) for at in range(0, len(raw), 2)]


def encoded(text, rng, chance=0.2):
    """Return the bytes of a document, now and then as something else than plain UTF-8."""
    body = text.encode("utf-8", "surrogatepass")
    return rng.choice(_WRAPPINGS)(body, rng) if rng.random() < chance else body


def damaged(body, rng):
    """Return bytes with something lost, changed or added."""
    at = rng.randint(0, len(body))
    return rng.choice(
        [
            body[:at],
            body[at:],
            body[:at] + bytes([rng.randrange(256)]) + body[at + 1 :],
            body[:at] + rng.randbytes(rng.randint(1, 4)) + body[at:],
            body + rng.choice([b"\x00", b"x", b"\n", b"{}", body]),
            body[:at] + body[at + rng.randint(1, 9) :],
        ]
    )


def _in_lines(body, _rng):
    return base64.encodebytes(body)


_WRAPPINGS = (
    lambda body, _rng: base64.b64encode(body),
    lambda body, _rng: base64.b64encode(body),
    lambda body, _rng: b" \n" + base64.b64encode(body) + b"\r\n",
    _in_lines,
    lambda body, _rng: base64.b64encode(body).rstrip(b"="),
    lambda body, _rng: base64.urlsafe_b64encode(body),
    lambda body, _rng: b"\xef\xbb\xbf" + body,
    lambda body, _rng: b"\r\n\t " + body + b"  \n",
    lambda body, _rng: body.decode("utf-8", "replace").encode("utf-16"),
    lambda body, rng: base64.b64encode(damaged(body, rng)),
    damaged,
    damaged,
)
