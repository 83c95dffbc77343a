"""The one reader of lines: the same answer for the same line at every door, whatever the lines around it are."""

import io
import json
import random
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings, strategies as st

from shared.errors import RefusedError
from shared.grammar import EXACT
from shared.payload import Limits, open_envelope, read_submission, transactions
from shared.payload.frames import Framing, write_frames
from shared.payload.transactions import Reader
from shared.workloads.billing import Billing
from shared.workloads.registry import run_lines
from tests.payload import odd_lines
from tests.payload.hostile import MESSAGE_ID
from tests.payload.odd_lines import FRAMES_EACH, KINDS, Program, difference, frame

LIMITS = Limits()
EVERY = 1_000_000
GOOD = b'{"account":"a-1","plan":"premium","quantity":"2.50","note":"x"}'
WITHIN = b'{"account":"a-1","plan":"premium","quantity":"2.50","note":%b}'
#: Every rule of docs/formats.md about a line, with one line each that breaks it in a field that billing ignores.
RULES = {
    "not_utf8": WITHIN % b'"\xff"',
    "not_utf8, where billing looks": GOOD.replace(b"a-1", b"\xff"),
    "not_json": GOOD[:-1],
    "duplicate_key": b'{"account":"a-1","plan":"premium","quantity":"1","quantity":"3000.00"}',
    "duplicate_key, with an escape": rb'{"account":"a-1","plan":"premium","quantity":"1","quantit\u0079":"3000.00"}',
    "not_a_number": WITHIN % b"NaN",
    "number_out_of_range": WITHIN % b"1e400000",
    "number_out_of_range, by its digits": WITHIN % (b"7" * 10_000),
    "too_deep": WITHIN % (b"[" * 32 + b"]" * 32),
    "line_too_long": WITHIN % (b'"' + b"x" * 262_144 + b'"'),
    "lone_surrogate": WITHIN % rb'"\ud800"',
    "not_an_object": b"[" + GOOD + b"]",
    "does_not_fit": b'{"account":"a-1","plan":"premium"}',
    "bad_amount": b'{"account":"a-1","plan":"premium","quantity":"1_000"}',
}
#: Spelt as they stand in a line.
NO_AMOUNTS = [
    *(f'"{text}"' for text in ("+1", ".5", "5.", "1e3", "1_000", " 1", "1 ", "\u0661\u0662", "0" * 44, "9" * 21, "")),
    *('"NaN"', '"Infinity"', '"--1"', '"1,5"', '"0.' + "0" * 18 + '1"', r'"1\n"', r'"\u0661"', "true", "[]", "{}"),
    *("9" * 21, "1e20", "0." + "0" * 18 + "1", "1e-19", "0e99"),
]
AMOUNTS = {
    '"1"': "1",
    '"-12.30"': "-12.30",
    '"007.10"': "7.10",
    f'"{"9" * 20}.{"9" * 18}"': f"{'9' * 20}.{'9' * 18}",
    "1.50": "1.50",
    "12e2": "1200",
    "1e-18": "0." + "0" * 17 + "1",
    r'"\u0031"': "1",
}


class Counted(Billing):
    """Billing that says what it was given, whatever it would charge."""

    def map_many(self, usages, _numbers):
        """Return the transactions."""
        return usages

    def combine(self, usages):
        """Return them."""
        return list(usages)


def frame_around(line, count=600):
    """Return a chunk's lines with this one in the middle, so many that their layout is learned."""
    return [*[GOOD] * count, line, *[GOOD] * count]


@pytest.mark.parametrize("rule", RULES)
def test_a_line_that_breaks_a_rule_is_rejected_alone(rule):
    """By the worker's own way, with the reason of the catalogue, and its neighbours are billed."""
    processed = run_lines(Billing(), frame_around(RULES[rule]), 1000)
    ((number, reason),) = [(one.number, one.reason) for one in processed.rejections]
    assert (number, reason) == (1600, rule.partition(",")[0])
    assert processed.accepted.items == 1200
    assert processed.accepted.sums == {"quantity": "3000.00"}
    assert processed.rejected.items == 1


@pytest.mark.parametrize("rule", RULES)
def test_a_line_alone_gets_the_same_answer(rule):
    """What was learned from other lines changes nothing."""
    (among,) = run_lines(Billing(), frame_around(RULES[rule]), 0).rejections
    (alone,) = run_lines(Billing(), [RULES[rule]], 600).rejections
    assert alone == among


@pytest.mark.parametrize("rule", [rule for rule in RULES if not rule.startswith(("does_not_fit", "not_an", "bad_am"))])
def test_a_rule_of_json_is_kept_at_every_door(rule):
    """The message is refused, `sluice submit` refuses the line by its number, the worker rejects it: by one reason."""
    line, reason = RULES[rule], rule.partition(",")[0]
    if len(line) < LIMITS.message_bytes:
        assert door_of_messages(line) == (reason, ())
    with pytest.raises(RefusedError, match=r"^(line_too_long: line 7|[a-z_0-9]+: line 7: )") as refused:
        write_frames([(6, GOOD), (7, line)], io.BytesIO(), Framing(limits=LIMITS, checked=EVERY))
    assert refused.value.reason == reason


@pytest.mark.parametrize("rule", ["duplicate_key", "duplicate_key, with an escape"])
def test_a_key_given_twice_proves_no_amount(rule):
    """Its last value is nobody's word: the rejected sum is not known."""
    processed = run_lines(Billing(), [GOOD, RULES[rule]], 0)
    assert processed.rejected.sums is None
    assert processed.accepted.sums == {"quantity": "2.50"}


def test_what_a_line_says_that_does_not_fit_is_summed():
    """It was read strictly, so what it says in a control field is known; nothing and null count 0."""
    lines = [b'{"quantity":"1.25"}', b'{"account":"a"}', b'{"quantity":null}', b'{"account":7,"quantity":2}']
    assert run_lines(Billing(), lines, 0).rejected.sums == {"quantity": "3.25"}


@pytest.mark.parametrize("spelt", NO_AMOUNTS)
@pytest.mark.parametrize("count", [0, 600])
def test_what_is_no_number_of_the_grammar_is_no_amount(spelt, count):
    """At the worker, whether it looks closely or not, and at `sluice submit`."""
    line = b'{"account":"a-1","plan":"premium","quantity":%b,"note":"x"}' % spelt.encode()
    processed = run_lines(Billing(), frame_around(line, count), 0)
    assert [one.reason for one in processed.rejections] == ["bad_amount"]
    assert processed.rejected.sums is None
    with pytest.raises(RefusedError) as refused:
        write_frames(enumerate(frame_around(line, count)), io.BytesIO(), Framing(sums=("quantity",), checked=EVERY))
    assert refused.value.reason == "bad_amount"


@pytest.mark.parametrize("spelt", AMOUNTS)
@pytest.mark.parametrize("count", [0, 600])
def test_a_number_of_the_grammar_is_an_amount(spelt, count):
    """As text or as a number of JSON, to the last digit."""
    line = b'{"account":"a-1","plan":"premium","quantity":%b,"note":"x"}' % spelt.encode()
    wanted = EXACT.add(Decimal(AMOUNTS[spelt]), 2 * count * Decimal("2.50"))
    assert Decimal(run_lines(Counted(), frame_around(line, count), 0).accepted.sums["quantity"]) == wanted
    framing = Framing(sums=("quantity",), checked=EVERY)
    assert write_frames(enumerate(frame_around(line, count)), io.BytesIO(), framing).sums == {"quantity": wanted}


@pytest.mark.parametrize("around", [0, 600])
def test_an_object_over_two_lines_and_two_on_one_are_three_bad_lines(around):
    """As many values as lines prove nothing: each line is read by itself."""
    lines = [b'{"account":"a","plan":"basic",', b'"quantity":"1"}', GOOD + GOOD]
    processed = run_lines(Billing(), [*[GOOD] * around, *lines, *[GOOD] * around], 0)
    assert processed.accepted.items == 2 * around
    assert [one.reason for one in processed.rejections] == ["not_json"] * 3
    with pytest.raises(RefusedError, match="line 1: "):
        write_frames(enumerate(lines, 1), io.BytesIO(), Framing(sums=("quantity",), checked=EVERY))


def test_a_line_feed_within_a_line_is_refused_by_its_number():
    """It would make two lines of one, and the frame another number of transactions than its index."""
    with pytest.raises(RefusedError, match="line 8 "):
        write_frames([(7, GOOD), (8, b'{\n"a":1}')], io.BytesIO(), Framing(checked=EVERY))


def door_of_messages(line):
    """Return why a message with this among its items is refused, or the lines of its items."""
    try:
        envelope = open_envelope(b'{"sluice":{"items":[' + line + b"]}}", LIMITS)
        return None, read_submission(envelope, MESSAGE_ID, LIMITS).content.lines
    except RefusedError as refused:
        return str(refused.reason), ()


@settings(max_examples=3 * settings.default.max_examples)
@given(st.integers(0, 10**12))
def test_no_door_takes_what_another_refuses(seed):
    """In a message, to `sluice submit` and to the worker the same line is the same, byte for byte."""
    lines = frame(random.Random(seed))
    rejections = {one.number: one.reason for one in run_lines(Counted(), lines, 0).rejections}
    for place, line in enumerate(lines):
        found = rejections.get(place, "accepted")
        refused, items = door_of_messages(line)
        if found == "not_json":
            # In a message it may be two items, or the end of them; it never is this one.
            assert line not in items
        elif found in ("accepted", "not_an_object", "does_not_fit", "bad_amount"):
            assert refused is None
            assert [item.strip() for item in items] == [line.replace(b"\r", b" ").strip()]
        else:
            assert refused == found
        assert checked(line) == (None if found in ("accepted", "does_not_fit") else found)


def checked(line):
    """Return why `sluice submit` refuses a line."""
    try:
        write_frames([(1, line)], io.BytesIO(), Framing(sums=("quantity",), checked=EVERY))
    except RefusedError as refused:
        return str(refused.reason)
    return None


@pytest.fixture
def learns_from_few(monkeypatch):
    """Readers learn from frames of a few lines."""
    for name, value in odd_lines.SOON.items():
        monkeypatch.setattr(transactions, name, value)


@pytest.mark.parametrize("place", range(len(KINDS)))
@pytest.mark.usefixtures("learns_from_few")
def test_random_frames_are_read_as_an_oracle_reads_each_line(place):
    """A slice of `python -m tests.payload.odd_lines`: any type of transaction, and what was learned stays learned."""
    kind, sums = KINDS[place]
    reader, chance, at_once = Reader(kind, sums), random.Random(place), 0
    for number in range(200):
        if number % FRAMES_EACH == 0:
            program = Program.any(chance)
        lines = frame(chance, program)
        assert difference(lines, reader, kind, sums) is None
        at_once += reader.read(lines).closely == 0
    # Or it would say nothing about what is learned.
    assert at_once > 10


@dataclass
class Seen:
    """A transaction that is a dataclass."""

    account: str
    quantity: Decimal


@pytest.mark.parametrize("kind", [Seen, dict, dict[str, Any], msgspec.Raw, list[int] | dict[str, str]])
def test_any_type_of_transaction_needs_no_close_look(kind):
    """The layout is the lines', not the type's."""
    reader = Reader(kind, ())
    assert [reader.read([GOOD] * 1000).closely for _ in range(2)] == [transactions.BLOCK, 0]


LAYOUTS = {
    "compact": lambda n: f'{{"quantity":"{n}","text":"käse"}}',
    "with blanks": lambda n: f'{{"quantity": "{n}", "text": "a"}}',
    "with escapes": lambda n: json.dumps({"quantity": str(n), "text": 'ä "quoted"\n'}),
    "nested": lambda n: f'{{"quantity":{n}.5,"inner":{{"a":[1,null,"x"],"quantity":true}}}}',
    "taking turns": lambda n: f'{{"quantity":"{n}"}}' if n % 2 else f'{{"quantity":"{n}","more":{n}}}',
    "null now and then": lambda n: f'{{"quantity":"{n}","note":{"null" if n % 3 else chr(34) * 2}}}',
}


@pytest.mark.parametrize("name", LAYOUTS)
def test_lines_of_one_program_need_no_close_look(name):
    """However it writes them, as long as it does so all the time."""
    lines = [LAYOUTS[name](n).encode() for n in range(1000)]
    reader = Reader(odd_lines.Loose, ("quantity",))
    learned, read = reader.read(lines), reader.read(lines)
    assert (learned.closely, read.closely) == (transactions.BLOCK, 0)
    assert (learned.transactions, read.refused) == (read.transactions, [])
    assert len(read.transactions) == 1000


def test_a_bad_line_costs_its_neighbours_no_close_look():
    """Only the few lines around it are read one by one."""
    reader = Reader(odd_lines.Usage, ("quantity",))
    read = [reader.read(frame_around(b"{", 5000)) for _ in range(2)][1]
    assert 0 < read.closely <= 2 * transactions.FEW


def test_layouts_of_other_jobs_are_kept():
    """A worker runs chunks of several jobs, each written by another program."""
    reader = Reader(odd_lines.Loose, ("quantity",))
    chunks = [[(b'{"quantity":"1","k%d":%d}' % (job, n)) for n in range(1500)] for job in range(8)]
    for chunk in chunks:
        reader.read(chunk)
    # Too few to learn from, so what is read at once was learned before.
    assert [reader.read(chunk[:20]).closely for chunk in chunks] == [0] * 8


@pytest.mark.parametrize("line", [b'{"quantity":[1]}', b'{"quantity":{"a":"1"}}', rb'{"quantit\u0079":"1_000"}'])
def test_a_layout_hides_no_amount(line):
    """Neither behind a bracket nor behind a key that is spelt another way, though all lines look like that."""
    read = Reader(dict, ("quantity",)).read([line] * 600)
    assert {one.reason for one in read.refused} == {"bad_amount"}
    assert read.transactions == []


def test_a_text_over_two_lines_is_two_bad_lines():
    """Though both together look like all the others."""
    at = GOOD.index(b"premium") + 3
    lines = [*[GOOD] * 300, GOOD[:at], GOOD[at:], *[GOOD] * 300]
    for kind in (odd_lines.Usage, dict, msgspec.Raw):
        read = Reader(kind, ()).read(lines)
        assert [(one.place, one.reason) for one in read.refused] == [(300, "not_json"), (301, "not_json")]
        assert len(read.transactions) == 600


def test_layouts_that_take_long_to_compile_are_not_learned():
    """Whoever sends ever new large ones would keep the worker busy with compiling; reading closely is cheaper."""
    lines = [b"{%b}" % b",".join(b'"k%d-%d":1' % (kind, n) for n in range(100)) for kind in range(3)] * 200
    reader = Reader(dict, ())
    read = [reader.read(lines) for _ in range(2)][1]
    assert (read.closely, len(read.transactions)) == (600, 600)
    # One of them alone is learned.
    assert [reader.read(lines[::3] * 3).closely for _ in range(2)][1] == 0
