"""Random frames of lines as programs write them, some of them odd, and what becomes of each by an oracle of its own.

    python -m tests.payload.odd_lines 250000        (prints how many frames were read at once, and that none differs)

The oracle knows nothing of the reader: the standard library's JSON, and the rules of docs/formats.md one by one.
"""

import json
import random
import re
import sys
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import msgspec

from shared.payload import transactions
from shared.payload.transactions import Reader

DEPTH, LONGEST = 32, 256 * 1024
#: Of one program, one after the other: learning takes longer than reading.
FRAMES_EACH = 20
#: With these a reader learns from frames as small as these.
SOON = {"LEARN_AFTER": 12, "FEW": 2}
AMOUNT = re.compile(r"-?[0-9]{1,20}(\.[0-9]{1,18})?", re.ASCII)
SURROGATE = re.compile("[\ud800-\udfff]")


class Usage(msgspec.Struct):
    """As billing has it."""

    account: str
    plan: str
    quantity: Decimal


class Loose(msgspec.Struct):
    """One that takes nearly anything."""

    quantity: Decimal = Decimal(7)
    units: int = 0
    note: str | int | None = None


@dataclass
class Noted:
    """One that is no Struct."""

    account: str
    quantity: Decimal


KINDS: tuple[tuple[Any, tuple[str, ...]], ...] = (
    (Usage, ("quantity",)),
    (Loose, ("quantity", "units")),
    (Noted, ("quantity",)),
    (dict, ("quantity",)),
    (dict[str, Any], ()),
)
NUMBERS = ("0", "-0", "7", "1.50", "-2.25", "1e3", "1E-2", "0.0", "9" * 20, "9" * 21, "9" * 40, "1.5e400", "1e-400", "0e99",
           "0." + "0" * 17 + "1", "0." + "0" * 18 + "1", "1" * 4301, "01", "1.", "+1", ".5", "-", "NaN", "Infinity", "1_0")  # fmt: skip
TEXTS = ("", "a", "12.50", "Käse", "x" * 30, "\U0001f600", "{", "}]", ":", " : ", ",", "null", "basic", "1")
AMOUNTS = ("1", "1.50", "-3.25", "007", "9" * 20, "9" * 20 + "." + "9" * 18, "9" * 21, "0" * 44, "1_000", " 1", "1 ", "+1",
           ".5", "5.", "1e3", "1E+3", "\u0661", "NaN", "sNaN", "-Infinity", "", "-", "0x1", "1,5", "1.5\\n", "--1", "1." + "0" * 19)  # fmt: skip
#: Spelt as they stand in the line, without their quotation marks.
ESCAPES = (r"\"", r"\\", r"\/", r"\n", r"\u00e4", r"\u0041", r"\ud83d\ude00", r"\ud800", r"\udc00x", r"\q", r"\u12", "\x01", "\t", "\x7f",
           r"\",\"quantity\":\"5", r"\":", r"\\\"", r"a\\")  # fmt: skip


def frame(chance: random.Random, program: "Program | None" = None) -> list[bytes]:
    """Return a few lines of one program, some of which somebody touched."""
    shape = program or Program.any(chance)
    lines = [shape.line() for _ in range(chance.randint(1, 14))]
    for _ in range(chance.choice((0, 0, 0, 1, 1, 2))):
        place = chance.randrange(len(lines))
        lines[place] = _touched(chance, lines[place])
    if chance.random() < 0.05:
        # One object over two lines, and two on the next.
        at = lines[0].rfind(b",") + 1
        lines = [lines[0][:at], lines[0][at:], lines[-1] * 2]
    return [line.replace(b"\n", b"") for line in lines]


class Program:
    """How one program writes its lines."""

    def __init__(self, chance: random.Random, keys: list[str]) -> None:
        self.chance, self.keys = chance, keys
        self.comma, self.colon = chance.choice([(",", ":"), (", ", ": "), (" ,", " :"), (",\t", "\t:"), (",", ":")])
        self.odd = chance.choice((0.0, 0.0, 0.02, 0.1))
        self.kinds = {key: chance.choice("tttnwbe") for key in keys}

    @classmethod
    def any(cls, chance: random.Random) -> "Program":
        """Return some program."""
        others = chance.sample(["units", "note", "id", "Straße", "a b"], chance.randint(0, 5))
        keys = ["account", "plan", "quantity", *others]
        return cls(chance, chance.sample(keys, len(keys) if chance.random() < 0.8 else chance.randint(1, len(keys))))

    def line(self) -> bytes:
        """Return the next line."""
        keys = [key for key in self.keys if self.chance.random() > self.odd / 3]
        fields = (f'"{key}"{self.colon}{self.value(key)}' for key in keys)
        text = "{" + self.comma.join(fields) + "}"
        return text.encode("utf-8", "surrogatepass")

    def value(self, key: str) -> str:
        """Return what a field says."""
        chance = self.chance
        if chance.random() < self.odd:
            return chance.choice(
                [*NUMBERS, "true", "null", "[]", "{}", '[{"quantity":"1"}]', f'"{chance.choice(ESCAPES)}"']
            )
        if key == "quantity":
            odd = chance.random() < self.odd
            text = chance.choice(AMOUNTS) if odd else f"{chance.randrange(10**6)}.{chance.randrange(100):02}"
            return text if chance.random() < self.odd else f'"{text}"'
        if key == "units":
            return str(chance.randrange(-5, 10**6))
        return _kept(chance, "t" if key in ("account", "plan") else self.kinds[key])


def _kept(chance: random.Random, kind: str) -> str:
    """Return a value of a field that has values of one kind."""
    text = chance.choice(TEXTS)
    spelt = {
        "t": lambda: json.dumps(text, ensure_ascii=False),
        "e": lambda: json.dumps(text + chance.choice(["", "\n", '"', "ä", "\\"])),
        "n": lambda: chance.choice(NUMBERS[:4]),
        "b": lambda: chance.choice(["true", "false", "null"]),
        "w": lambda: json.dumps({"a": [1, text]}),
    }
    return spelt[kind]()


def _touched(chance: random.Random, line: bytes) -> bytes:
    """Return the line with one thing wrong, or odd."""
    close = line.rfind(b"}")
    whole = line[:close]
    more = chance.choice(
        [
            b',"quantity":"1000000"}',
            b',"quantity" :"1"}',
            b',"quantit\\u0079":"5"}',
            b',"account":"z"}',
            b',"x":{"y":1,"y":2}}',
            b',"x":{"quantity":"1"}}',
            b',"n":"\xff"}',
            b',"n":"\xed\xa0\x80"}',
            b',"n\xff":1}',
            b',"n":1e400000}',
            b',"n":' + b"[" * chance.choice((30, 31, 32, 200)) + b"]" * 31 + b"}",
            b',"n":' + b'{"n":' * 31 + b"1" + b"}" * 32,
            b',"n":"' + chance.choice(ESCAPES).encode() + b'"}',
            b',"n":NaN}',
            b"}}",
            b"} x",
            b"}\r",
            b"} ",
            b",}",
            b'}{"a":1}',
            b"",
        ]
    )
    turned = chance.choice([whole + more, whole + more, whole + more, b"\xef\xbb\xbf" + line, b" " + line, b"[" + line + b"]",
                            b"", b"null", b"17", b'"a"', b"\x00", line[1:], line.replace(b":", b"", 1)])  # fmt: skip
    if chance.random() < 0.2 and turned:
        at = chance.randrange(len(turned))
        turned = turned[:at] + bytes([chance.randrange(256)]) + turned[at + 1 :]
    return turned


def judged(line: bytes, kind: Any, sums: tuple[str, ...]) -> tuple[str, Any]:
    """Return what becomes of a line: `accepted` and its value, or its reason."""
    try:
        document = _document(line)
    except _Broken as broken:
        return str(broken), None
    if not all(_is_amount(document.get(name)) for name in sums):
        return "bad_amount", None
    try:
        return "accepted", msgspec.json.decode(line, type=kind)
    except ValueError:
        return "does_not_fit", None


def _document(line: bytes) -> dict[str, Any]:
    if len(line) > LONGEST:
        raise _Broken("line_too_long")
    if _depth(line) > DEPTH:
        raise _Broken("too_deep")
    try:
        document = json.loads(
            line.decode(), object_pairs_hook=_once, parse_float=_real, parse_int=_whole, parse_constant=_constant
        )
    except UnicodeDecodeError as error:
        raise _Broken("not_utf8") from error
    except ValueError as error:
        raise _Broken("not_json") from error
    if SURROGATE.search(json.dumps(document, ensure_ascii=False, default=str)):
        raise _Broken("lone_surrogate")
    if not isinstance(document, dict):
        raise _Broken("not_an_object")
    return document


class _Broken(Exception):  # noqa: N818 - it says a reason
    """A rule that is broken."""


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if len({key for key, _ in pairs}) < len(pairs):
        raise _Broken("duplicate_key")
    return dict(pairs)


def _real(text: str) -> Decimal:
    if len(text) > 4300 or not -324 <= Decimal(text).adjusted() <= 308:
        raise _Broken("number_out_of_range")
    return Decimal(text)


def _whole(text: str) -> int:
    if len(text) > 4300:
        raise _Broken("number_out_of_range")
    return int(text)


def _constant(_text: str) -> None:
    raise _Broken("not_a_number")


def _is_amount(value: Any) -> bool:
    if value is None:
        return True
    if isinstance(value, str):
        return AMOUNT.fullmatch(value) is not None
    if isinstance(value, bool) or not isinstance(value, int | Decimal):
        return False
    # A number of JSON may have an exponent; what counts is what it says.
    sign, digits, exponent = Decimal(value).as_tuple()
    return exponent >= -18 and len(digits) + exponent <= 20 and sign in (0, 1)


def _depth(line: bytes) -> int:
    depth = deepest = 0
    is_text = is_escaped = False
    for byte in line:
        if is_text:
            is_text = is_escaped or byte != ord('"')
            is_escaped = not is_escaped and byte == ord("\\")
        elif byte == ord('"'):
            is_text = True
        elif byte in b"[{":
            depth += 1
            deepest = max(deepest, depth)
        elif byte in b"]}":
            depth -= 1
    return deepest


def difference(lines: list[bytes], reader: Reader[Any], kind: Any, sums: tuple[str, ...]) -> str | None:
    """Return how the reader and the oracle differ about a frame, or None."""
    read = reader.read(lines)
    refused = {one.place: one.reason for one in read.refused}
    values = iter(read.transactions)
    for place, line in enumerate(lines):
        found = (refused[place], None) if place in refused else ("accepted", next(values))
        wanted = judged(line, kind, sums)
        # repr: the numbers' spelling counts too, and no NaN equals itself.
        if repr(found) != repr(wanted) and not _is_either(line, {found[0], wanted[0]}):
            return f"line {place} of {lines!r} as {kind}: found {found!r}, wanted {wanted!r}"
    return None


def _is_either(line: bytes, reasons: set[str]) -> bool:
    """Whether both are right: how deep brackets lie in what is no JSON depends on where a text is taken to end."""
    return line.count(b"[") + line.count(b"{") > DEPTH and reasons <= {"too_deep", "not_json", "not_utf8"}


def main(arguments: list[str]) -> int:
    """Compare so many frames, and print how many lines needed no close look."""
    count = int(arguments[0])
    seed = arguments[1] if arguments[1:] else "0"
    for name, value in SOON.items():
        setattr(transactions, name, value)
    chance = random.Random(seed)
    readers = [Reader(kind, sums) for kind, sums in KINDS]
    lines, sure, at_once = 0, 0, 0
    for number in range(count):
        if number % FRAMES_EACH == 0:
            program, place = Program.any(chance), chance.randrange(len(KINDS))
        kind, sums = KINDS[place]
        some = frame(chance, program)
        if (wrong := difference(some, readers[place], kind, sums)) is not None:
            print(wrong)  # noqa: T201 - commands print
            return 1
        closely = readers[place].read(some).closely
        lines, sure, at_once = lines + len(some), sure + len(some) - closely, at_once + (closely == 0)
    print(f"{count:,} frames of {lines:,} lines: {at_once:,} frames and {sure:,} lines read at once, 0 differ")  # noqa: T201
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
