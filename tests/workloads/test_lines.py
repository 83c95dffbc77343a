"""Lines of a workload: encoded many at a time, each a JSON object, and the transaction of a wrong one is known."""

from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal

import msgspec
import pytest

from shared.errors import WorkloadsRefusedError
from shared.messages import PortionMessage
from shared.workloads import Line, Rejected, Workloads, by_key, run_lines, shard_of, split
from shared.workloads.lines import _AT_ONCE, LINE_MOST

FIRST = 100


class Reading(msgspec.Struct):
    """One transaction."""

    name: str


class Plain:
    """Makes one line of each transaction, and nothing else."""

    name, transaction, sums = "plain", Reading, ()

    def map(self, reading, number):
        """Reject by name."""
        return Rejected("bad") if reading.name == "bad" else reading.name * 2

    def lines(self, reading, number, value):
        """Yield a line of all three."""
        yield Line({"name": reading.name, "number": number, "value": value})


def run(workload, *names):
    """Return the outcome of these transactions, and what was emitted."""
    emitted = []
    found = Workloads([workload]).find("plain")
    ran = run_lines(
        found, [msgspec.json.encode({"name": name}) for name in names], FIRST, lambda *one: emitted.append(one)
    )
    return ran, emitted


def content_of(emitted):
    """Return the lines that were emitted, after comparing their number."""
    for text, items in emitted:
        assert text.endswith(b"\n")
        assert text.count(b"\n") == items
    return [msgspec.json.decode(line) for text, _ in emitted for line in text.splitlines()]


def test_only_accepted_transactions_make_lines_in_their_order():
    """With and without a rejected one between them, and one that cannot be read."""
    ran, emitted = run(Plain(), "a", "b")
    assert content_of(emitted) == [
        {"name": "a", "number": FIRST, "value": "aa"},
        {"name": "b", "number": FIRST + 1, "value": "bb"},
    ]
    assert (ran.accepted.items, ran.partial) == (2, None)
    ran, emitted = run(Plain(), "a", "bad", 7, "c")
    assert [line["number"] for line in content_of(emitted)] == [FIRST, FIRST + 3]
    assert (ran.accepted.items, ran.rejected.items) == (2, 2)


def test_many_lines_are_emitted_in_few_calls():
    """A call for each would cost as much as encoding it."""
    _, emitted = run(Plain(), *["a"] * (2 * _AT_ONCE + 1))
    assert [items for _, items in emitted] == [_AT_ONCE, _AT_ONCE, 1]
    assert len(content_of(emitted)) == 2 * _AT_ONCE + 1


def test_a_job_without_lines_does_not_call_for_them():
    """Its row says so, whatever the code has by now."""
    found = Workloads([Plain()]).find("plain")
    found.lines = None
    assert run_lines(found, [b'{"name":"a"}'], FIRST).accepted == PortionMessage(items=1)


def test_a_job_with_lines_whose_workload_has_none_here_is_told():
    """A part of its chunks would have none, silently."""

    class Without(Plain):
        lines = None
        partial = int
        combine = merge = finish = staticmethod(lambda *_: 0)

    with pytest.raises(WorkloadsRefusedError, match="its lines is not a function"):
        Workloads([Without()])
    bare = Workloads([Plain()]).find("plain")
    del bare.lines
    with pytest.raises(ValueError, match="makes none here: deploy the one that does"):
        run_lines(bare, [b'{"name":"a"}'], FIRST, print)


WRONG = {
    "no Line": (lambda number: {"number": number}, "lines yielded a dict, expected Line"),
    "a list": (lambda number: Line([number]), r"no JSON object: \[102\]"),
    "a text": (lambda _: Line("{}"), 'no JSON object: "{}"'),
    "nothing": (lambda _: Line(None), "no JSON object: null"),
    "too long": (lambda _: Line({"text": "x" * LINE_MOST}), f"the limit is {LINE_MOST}"),
    "not JSON": (lambda _: Line({"a": object()}), "Encoding objects of type object is unsupported"),
}


@pytest.mark.parametrize(("make", "found"), WRONG.values(), ids=WRONG)
def test_a_wrong_line_fails_with_its_transaction(make, found):
    """The others of its batch are right; the error keeps the number for the entry."""

    class Wrong(Plain):
        def lines(self, reading, number, value):
            yield Line({"name": reading.name})
            yield make(number) if reading.name == "wrong" else Line({"number": number})

    with pytest.raises((TypeError, ValueError), match=found) as failed:
        run(Wrong(), "a", "b", "wrong", "c")
    assert failed.value.__dict__["_sluice_item"] == FIRST + 2


@pytest.mark.parametrize("error", [KeyError("x"), SystemExit(3)])
def test_an_exception_in_lines_is_about_its_transaction(error):
    """Like one in `map`, whatever its kind."""

    class Raising(Plain):
        def lines(self, reading, number, value):
            if reading.name == "wrong":
                raise error
            return ()

    # In a thread, as in the app: in the main one SystemExit is what a signal raised.
    with ThreadPoolExecutor(1) as thread:
        failed = thread.submit(run, Raising(), "a", "wrong", "b").exception()
    assert isinstance(failed, Exception)
    assert failed.__dict__["_sluice_item"] == FIRST + 1


def test_raw_json_with_line_feeds_is_one_line():
    """A blank takes the place of each, as in the head of a result."""

    class Raw(Plain):
        def lines(self, reading, number, value):
            yield Line(msgspec.Raw(b'{"a":\n1}'))
            yield Line(msgspec.Raw(b'{"a":\n{"b":2}}'))

    assert content_of(run(Raw(), "a")[1]) == [{"a": 1}, {"a": {"b": 2}}]


def test_the_longest_line_is_emitted():
    """One byte more is refused, above."""
    empty = len(msgspec.json.encode({"text": ""})) + 1

    class Long(Plain):
        def lines(self, reading, number, value):
            yield Line({"text": "x" * (LINE_MOST - empty)})

    ((text, items),) = run(Long(), "a")[1]
    assert (len(text), items) == (LINE_MOST, 1)


def test_lines_come_after_combine():
    """A value that `combine` refuses leaves no line behind."""
    called = []

    class Ordered(Plain):
        partial, merge, finish = int, staticmethod(max), staticmethod(lambda _: ())

        def combine(self, mapped):
            called.append("combine")
            return len(mapped)

        def lines(self, reading, number, value):
            called.append("lines")
            return ()

    run(Ordered(), "a", "b")
    assert called == ["combine", "lines", "lines"]


@pytest.mark.parametrize("part", ["partial", "combine", "merge", "finish"])
def test_a_workload_may_leave_out_all_four_parts_but_not_three(part):
    """Half of them is a mistake, and the start says so."""
    half = type("Half", (Plain,), {part: int})
    with pytest.raises(WorkloadsRefusedError, match="Half cannot be used"):
        Workloads([half()])
    with pytest.raises(WorkloadsRefusedError, match="it has no combine, merge, finish"):
        Workloads([type("NoLines", (), {key: getattr(Plain, key) for key in ("name", "transaction", "sums", "map")})()])


def test_wrong_forms_stop_the_start():
    """An async generator, and a split with nothing to split."""

    async def waiting(self, reading, number, value):
        yield Line({})

    for wrong, found in (
        ({"lines": waiting}, "only map may be async"),
        ({"lines": 3}, "its lines is not a function"),
        ({"split": by_key}, "no partial that could be split"),
    ):
        with pytest.raises(WorkloadsRefusedError, match=found):
            Workloads([type("Wrong", (Plain,), wrong)()])


def test_another_process_loads_the_same_by_its_class():
    """And not by the stand-in for the four parts."""
    assert Workloads([Plain()]).loaded.setting == "tests.workloads.test_lines:Plain"


def test_by_key_splits_a_dict_by_account():
    """The cuts are the whole, and each account is where `shard_of` says."""
    whole = {f"a-{n}": Decimal(n) for n in range(50)}

    class Keyed:
        name = "keyed"
        split = by_key

    cuts = split(Keyed(), whole, 4)
    assert {account: value for one in cuts for account, value in one.items()} == whole
    assert all(shard_of(account, 4) == n for n, one in enumerate(cuts) for account in one)
