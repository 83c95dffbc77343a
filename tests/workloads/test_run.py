"""Running a workload over lines: what is rejected, what is summed, and that nothing depends on the way there."""

import asyncio
import json
import sys
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal

import msgspec
import pytest
from hypothesis import given, strategies as st

from shared.errors import NotCalledError
from shared.parked.poison_policy import cause_of, reason_of
from shared.telemetry import describe_error
from shared.workloads import Rejected
from shared.workloads.isolate import MOST_IN_A_ROW, MOST_TRACED
from shared.workloads.registry import CONCURRENCY, isolate_lines, run_lines, sums_of, with_amounts


class Amount(msgspec.Struct):
    """A transaction of these tests."""

    amount: Decimal
    units: int = 0


class Adding:
    """Adds amounts up, and rejects negative ones."""

    name, transaction, partial, sums = "adding", Amount, str, ("amount", "units")

    def map(self, one, number):
        """Return the amount with its number."""
        return Rejected("negative") if one.amount < 0 else (number, one.amount)

    def combine(self, mapped):
        """Return everything, so that a test sees it."""
        return list(mapped)


class Waiting(Adding):
    """The same, after a wait; it counts how many wait at a time."""

    concurrency = 5

    def __init__(self):
        self.now = self.most = 0

    async def map(self, one, number):
        """Wait until others had a turn."""
        self.now += 1
        self.most = max(self.most, self.now)
        await asyncio.sleep(0)
        self.now -= 1
        return super().map(one, number)


amounts = st.decimals(allow_nan=False, allow_infinity=False, min_value=-(10**18), max_value=10**18, places=4)
good = st.builds(lambda amount, units: {"amount": f"{amount:f}", "units": units}, amounts, st.integers(-(10**9), 10**9))
bad = st.sampled_from([{}, {"amount": "x"}, {"amount": "NaN"}, {"amount": "1", "units": "no"}, [], 7, None])


@given(st.lists(good | bad, max_size=20), st.integers(0, 10**9))
def test_every_line_is_accepted_or_rejected_once(documents, first):
    """Items and numbers add up, whatever the lines are, and each accepted amount is in the sum."""
    lines = [json.dumps(one).encode() for one in documents]
    processed = run_lines(Adding(), lines, first)
    numbers = [number for number, _ in processed.partial] + [one.number for one in processed.rejections]
    assert sorted(numbers) == list(range(first, first + len(lines)))
    assert processed.accepted.items + processed.rejected.items == len(lines)
    assert Decimal(processed.accepted.sums["amount"]) == sum((amount for _, amount in processed.partial), Decimal())


@given(st.lists(good, max_size=20))
def test_accepted_and_rejected_sums_add_up_to_what_was_sent(documents):
    """Of lines that can be read, no amount is lost between accepted and rejected."""
    processed = run_lines(Adding(), [json.dumps(one).encode() for one in documents], 0)
    accepted, rejected = processed.accepted.sums, processed.rejected.sums or {"amount": "0", "units": "0"}
    both = {name: Decimal(accepted[name]) + Decimal(rejected[name]) for name in Adding.sums}
    assert both["amount"] == sum(Decimal(one["amount"]) for one in documents)
    assert both["units"] == sum(one["units"] for one in documents)


@given(st.lists(good | bad, max_size=20))
def test_waiting_gives_what_calling_gives(documents):
    """An async map has the same result, in the same order, and never more waiting than allowed."""
    lines, waiting = [json.dumps(one).encode() for one in documents], Waiting()
    assert run_lines(waiting, lines, 5) == run_lines(Adding(), lines, 5)
    assert waiting.most <= Waiting.concurrency


def test_waiting_overlaps():
    """As many calls wait at a time as the workload says."""
    waiting = Waiting()
    run_lines(waiting, [b'{"amount":"1"}'] * 50, 0)
    assert waiting.most == Waiting.concurrency


def test_the_error_of_a_waiting_map_comes_out_as_it_is():
    """Whether it passes or parks the chunk is decided by its type."""

    class Refusing(Waiting):
        async def map(self, _one, _number):
            raise ConnectionRefusedError

    with pytest.raises(ConnectionRefusedError):
        run_lines(Refusing(), [b'{"amount":"1"}'] * 3, 0)


def test_a_map_many_that_forgets_a_transaction_is_an_error():
    """A value too few would be counted to the wrong transaction."""

    class Forgetful(Adding):
        def map_many(self, transactions, numbers):
            return [self.map(*one) for one in zip(transactions, numbers, strict=True)][1:]

    with pytest.raises(ValueError, match="returned 1 values for 2"):
        run_lines(Forgetful(), [b'{"amount":"1"}'] * 2, 0)


@pytest.mark.parametrize("text", ["NaN", "sNaN", "Infinity", "1e400", "1e-400", "1e21", "0.0000000000000000001"])
def test_an_amount_that_no_sum_can_carry_is_rejected(text):
    """It is never rounded, and never makes a sum of a million digits."""
    processed = run_lines(Adding(), [b'{"amount":"1.5"}', json.dumps({"amount": text}).encode()], 0)
    assert processed.accepted.sums == {"amount": "1.5", "units": "0"}
    assert processed.rejected.sums is None


def test_the_number_of_a_line_that_cannot_be_read_is_not_used_again():
    """A transaction keeps its number whatever becomes of its neighbours."""
    processed = run_lines(Adding(), [b"{", b'{"amount":"2"}'], 7)
    assert processed.partial == [(8, Decimal(2))]


def test_sums_are_exact_far_beyond_a_float():
    """A cent is not lost beside a trillion."""
    transactions = [Amount(Decimal(10**17)), Amount(Decimal("0.01"))]
    assert sums_of(transactions, ("amount",)) == {"amount": "100000000000000000.01"}
    assert with_amounts({"amount": "0.01"}, [{"amount": Decimal(10**17)}]) == {"amount": "100000000000000000.01"}


def test_an_amount_that_is_not_known_makes_the_sum_unknown():
    """Whatever the others say."""
    assert with_amounts({"amount": "1"}, [{"amount": Decimal(1)}, None]) is None


def test_a_default_that_no_message_can_carry_is_the_workloads_fault():
    """It is no transaction's fault, so none is rejected: the chunk is parked with the error."""

    class Wrong(msgspec.Struct):
        amount: Decimal = Decimal("NaN")
        units: int = 0

    class Adds(Adding):
        transaction = Wrong

        def map(self, one, number):
            """Take anything."""
            return number, one.amount

    with pytest.raises(ValueError, match="not a decimal number"):
        run_lines(Adds(), [b"{}"], 0)


EXITS = [
    SystemExit("no more of that"),
    KeyboardInterrupt(),
    asyncio.CancelledError(),
    GeneratorExit(),
    BaseExceptionGroup("two", [SystemExit(1)]),
]


def leave_by(exit_, parts=Adding):
    """Return a workload whose third transaction leaves by an exception that is no Exception."""

    class Leaving(Adding):
        def map(self, one, number):
            if number % 100 == 2:
                raise exit_
            return super().map(one, number)

    class LeavingLater(Leaving):
        async def map(self, one, number):
            await asyncio.sleep(0)
            return super().map(one, number)

    return Leaving() if parts is Adding else LeavingLater()


class Combining(Adding):
    """Leaves after its last transaction."""

    def combine(self, mapped):
        """Leave."""
        raise SystemExit


def run_in_thread(workload, count=5):
    """Run lines as a worker does, in a thread that no signal reaches. Return what it raised."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(run_lines, workload, [b'{"amount":"1"}'] * count, 100).exception()


@pytest.mark.parametrize("parts", [Adding, Waiting])
@pytest.mark.parametrize("exit_", EXITS, ids=lambda exit_: type(exit_).__name__)
def test_what_is_no_exception_fails_the_chunk_with_its_place_and_its_transaction(exit_, parts):
    """Whoever handles failures gets an Exception that tells of it, whether `map` is async or not."""
    error = run_in_thread(leave_by(exit_, parts))
    assert isinstance(error, Exception)
    cause = cause_of(error, "process", "correct it")
    assert (cause.reason, cause.failed_item) == (f"failed:{type(exit_).__name__}", 102)
    assert cause.found == f"{type(exit_).__name__}: {exit_}; 1 of 5 transactions failed"
    assert cause.place.startswith("test_run.py:")
    assert describe_error(error) == type(exit_).__name__


def test_a_call_that_is_cancelled_because_memory_is_short_does_not_speak_for_it():
    """The failure of the one counts, and not the ends of those that waited beside it."""

    class Slow(Waiting):
        async def map(self, _one, number):
            if number == 103:
                raise MemoryError
            await asyncio.Event().wait()

    assert isinstance(run_in_thread(Slow()), MemoryError)


class Counting(Adding):
    """Fails for transactions whose units are 1, in the call that `fails` names; keeps the numbers of all its calls of `map`."""

    def __init__(self, error=LookupError):
        self.error, self.numbers = error, []

    def map(self, one, number):
        """Fail for some."""
        self.numbers.append(number)
        if one.units == 1:
            raise self.error(number)
        return super().map(one, number)


class CountingWaiting(Counting):
    """The same, after a wait."""

    async def map(self, one, number):
        """Wait, then fail for some."""
        await asyncio.sleep(0)
        return super().map(one, number)


class CountingMany(Counting):
    """The same, by one call for many."""

    def map_many(self, transactions, numbers):
        """Fail if one of them does."""
        return [self.map(*one) for one in zip(transactions, numbers, strict=True)]


class CountingCombine(Counting):
    """Fails when it combines."""

    def map(self, one, number):
        """Let every one pass."""
        self.numbers.append(number)
        return Rejected("negative") if one.amount < 0 else (number, one.amount, one.units)

    def combine(self, mapped):
        """Fail if one of them does."""
        if any(units == 1 for _, _, units in mapped):
            raise self.error
        return [(number, amount) for number, amount, _ in mapped]


KINDS = [Counting, CountingWaiting, CountingMany, CountingCombine]
sent = st.builds(lambda amount, units: {"amount": f"{amount:f}", "units": units}, amounts, st.sampled_from([0, 0, 1]))


@pytest.mark.parametrize("kind", KINDS)
@given(st.lists(sent | bad, max_size=20), st.integers(0, 10**9))
def test_what_fails_is_left_and_changes_nothing_else(kind, documents, first):
    """Portions, partial and rejections of the others are those of a chunk without it."""
    lines = [json.dumps(one).encode() for one in documents]
    guilty = {n for n, one in enumerate(documents) if isinstance(one, dict) and one.get("units") == 1}
    if kind is CountingCombine:
        # A rejected transaction is not combined.
        guilty -= {n for n in guilty if Decimal(documents[n]["amount"]) < 0}
    found = isolate_lines(kind(), lines, range(first, first + len(lines)))
    assert [one.number - first for one in found.left] == sorted(guilty)
    quiet = [line for n, line in enumerate(lines) if n not in guilty]
    others = run_lines(Adding(), quiet, first)
    assert [amount for _, amount in found.partial] == [amount for _, amount in others.partial]
    assert (found.accepted, found.rejected) == (others.accepted, others.rejected)
    numbers = [number for number, _ in found.partial] + [one.number for one in found.rejections]
    assert sorted([*numbers, *(one.number for one in found.left)]) == list(range(first, first + len(lines)))


@pytest.mark.parametrize(
    ("kind", "calls"), [(Counting, 64), (CountingWaiting, 64), (CountingMany, 190), (CountingCombine, 64)]
)
@pytest.mark.parametrize("guilty", [0, 31, 63])
def test_one_that_fails_costs_few_calls_more(kind, calls, guilty):
    """By `map` no call more. By `map_many` at most three times as many: each half is called again until one is alone."""
    workload = kind()
    lines = [json.dumps({"amount": "1", "units": int(n == guilty)}).encode() for n in range(64)]
    found = isolate_lines(workload, lines, range(64))
    assert [one.number for one in found.left] == [guilty]
    assert set(workload.numbers) == set(range(64))
    assert len(workload.numbers) <= calls


@pytest.mark.parametrize("kind", KINDS)
def test_a_lack_of_memory_is_no_transactions_own(kind):
    """It fails the chunk as a whole."""
    with pytest.raises(MemoryError):
        isolate_lines(kind(MemoryError), [b'{"amount":"1"}', b'{"amount":"1","units":1}'] * 4, range(8))


@pytest.mark.parametrize("error", [ConnectionResetError, TimeoutError])
def test_an_outage_in_a_call_for_many_fails_the_chunk(error):
    """Nobody knows whom the service would have answered."""
    for kind in (CountingMany, CountingCombine):
        with pytest.raises(error):
            isolate_lines(kind(error), [b'{"amount":"1"}', b'{"amount":"1","units":1}'] * 4, range(8))


@pytest.mark.parametrize("kind", [Counting, CountingWaiting])
def test_a_service_that_does_not_answer_for_one_leaves_that_one(kind):
    """The others are called, and none is called twice."""
    workload = kind(TimeoutError)
    found = isolate_lines(workload, [b'{"amount":"1"}', b'{"amount":"1","units":1}'] * 4, range(8))
    assert [(one.number, type(one.error)) for one in found.left] == [(number, TimeoutError) for number in (1, 3, 5, 7)]
    assert (workload.numbers, found.accepted.items) == ([*range(8)], 4)


@pytest.mark.parametrize("kind", [Counting, CountingWaiting])
def test_after_twenty_failures_in_a_row_map_calls_no_more(kind):
    """A service that is down is not called for each of the others."""
    workload = kind(ConnectionResetError)
    found = isolate_lines(workload, [b'{"amount":"1","units":1}'] * 500, range(500))
    assert len(workload.numbers) <= MOST_IN_A_ROW + CONCURRENCY
    assert len(found.left) == 500
    assert {type(one.error) for one in found.left[len(workload.numbers) :]} == {NotCalledError}


def test_one_error_object_stands_for_every_transaction_that_raised_it():
    """A library may raise the same object again. The number is each one's own."""
    error = LookupError("none")
    found = isolate_lines(Counting(lambda _number: error), [b'{"amount":"1","units":1}'] * 3, range(7, 10))
    assert [one.number for one in found.left] == [7, 8, 9]


def test_a_combine_of_which_no_value_is_guilty_fails_the_chunk():
    """Each half of them can be combined, and the whole cannot: it is no transaction's fault."""

    class Small(Adding):
        def combine(self, mapped):
            if len(mapped) > 2:
                raise OverflowError
            return list(mapped)

    with pytest.raises(OverflowError):
        isolate_lines(Small(), [b'{"amount":"1"}'] * 4, range(4))


def test_a_combine_of_nothing_that_fails_fails_the_chunk():
    """There is no transaction to blame."""
    with pytest.raises(SystemExit):
        isolate_lines(Combining(), [], range(0))


def test_thousands_of_failures_keep_the_tracebacks_of_the_first():
    """To describe each of them would cost more than the chunk."""
    count = MOST_TRACED + 5
    found = isolate_lines(Counting(), [b'{"amount":"1","units":1}'] * count, range(count))
    assert [one.error.__traceback__ is None for one in found.left] == [False] * MOST_TRACED + [True] * 5


def test_a_task_of_the_workloads_own_that_leaves_fails_the_chunk():
    """It ends the loop, and not the thread."""

    class Apart(Waiting):
        async def map(self, _one, _number):
            asyncio.get_running_loop().call_soon(sys.exit, 3)
            await asyncio.Event().wait()

    assert reason_of(run_in_thread(Apart(), 1)) == "failed:SystemExit"


def test_a_combine_that_leaves_fails_the_chunk():
    """It is about no transaction."""
    cause = cause_of(run_in_thread(Combining()), "process", "correct it")
    assert (cause.reason, cause.failed_item) == ("failed:SystemExit", None)


def test_a_signal_still_ends_its_process():
    """Its handler runs in the main thread, in the midst of whatever runs there: nothing holds it up."""
    with pytest.raises(KeyboardInterrupt):
        run_lines(leave_by(KeyboardInterrupt()), [b'{"amount":"1"}'] * 5, 0)
