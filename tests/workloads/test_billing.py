"""Billing against an independent reckoning in fractions, and what it refuses."""

import json
from decimal import Decimal
from fractions import Fraction
from functools import reduce

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.workloads import Line, Total, shard_of
from shared.workloads.billing import PLANS, UNITS, Billing, Invoices, Tariff
from shared.workloads.registry import run_lines
from tests.workloads import oracle

BILLING = Billing()
quantities = st.decimals(min_value="0.000001", max_value=10**9, places=6, allow_nan=False)


def line(account="a-1", plan="basic", quantity="1"):
    """Return a transaction as a publisher writes it, with fields that billing does not know."""
    return json.dumps({"id": "t-1", "account": account, "plan": plan, "quantity": quantity, "meter": "calls"}).encode()


def partial_of(lines):
    """Return the chunk's partial after a way through its stored form."""
    partial = run_lines(BILLING, lines, 0).partial
    return msgspec.json.decode(msgspec.json.encode(partial), type=Invoices)


def owed(partial):
    """Return a partial as the oracle does."""
    return {
        (account, currency): (one.items, Fraction(one.quantity), int(one.amount / UNITS[currency]))
        for currency, accounts in partial.by_currency.items()
        for account, one in accounts.items()
    }


def test_a_file_costs_what_it_costs_in_fractions():
    """20,000 transactions in chunks, over every plan, tier end and rounding half: the same to the smallest unit."""
    transactions = oracle.usage(20_000)
    lines = [line(*one) for one in transactions]
    partials = [partial_of(lines[start : start + 1000]) for start in range(0, len(lines), 1000)]
    assert owed(reduce(BILLING.merge, partials, BILLING.combine([]))) == oracle.invoices(transactions)


@given(st.sampled_from(sorted(oracle.CONTRACTS)), quantities)
def test_any_quantity_costs_what_it_costs_in_fractions(plan, quantity):
    """No quantity of any plan is off by the smallest unit."""
    processed = run_lines(BILLING, [line(plan=plan, quantity=f"{quantity:f}")], 0)
    ((_, _, amount),) = owed(processed.partial).values()
    assert amount == oracle.price(plan, quantity)


@pytest.mark.parametrize(("plan", "quantity", "amount"), [("basic", "0.5", "0.02"), ("basic", "0.7", "0.04")])
def test_a_half_is_rounded_to_even(plan, quantity, amount):
    """0.025 becomes 0.02 and 0.035 becomes 0.04: halves do not add up to the seller's favour."""
    (invoice,) = run_lines(BILLING, [line(plan=plan, quantity=quantity)], 0).partial.by_currency["EUR"].values()
    assert str(invoice.amount) == amount


@given(st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from(sorted(PLANS)), quantities), max_size=12), st.data())
def test_merging_is_associative_and_nothing_merges_to_the_same(transactions, data):
    """However a job is cut and in whatever order its partials are joined, the invoices are the same."""
    lines = [line(account, plan, f"{quantity:f}") for account, plan, quantity in transactions]
    first, second = sorted(data.draw(st.tuples(*[st.integers(0, len(lines))] * 2)))
    a, b, c = lines[:first], lines[first:second], lines[second:]

    def merged(*partials):
        return owed(reduce(BILLING.merge, partials))

    right_first = BILLING.merge(partial_of(b), partial_of(c))
    assert merged(partial_of(a), partial_of(b), partial_of(c)) == merged(partial_of(a), right_first)
    assert merged(BILLING.combine([]), partial_of(lines)) == merged(partial_of(lines), BILLING.combine([]))
    assert merged(partial_of(a), partial_of(b), partial_of(c)) == owed(partial_of(lines))


@given(st.lists(st.tuples(st.sampled_from("abcdefgh"), st.sampled_from(sorted(PLANS)), quantities), max_size=12))
def test_slices_yield_what_the_whole_yields(transactions):
    """Each account with all its currencies is in its own shard, and nowhere else."""
    whole = partial_of([line(account, plan, f"{quantity:f}") for account, plan, quantity in transactions])
    expected = list(BILLING.finish(whole))
    found = [list(BILLING.finish(one)) for one in BILLING.split(whole, 16)]
    for number, items in enumerate(found):
        assert {shard_of(item.account, 16) for item in items if isinstance(item, Total)} <= {number}
    everything = [item for items in found for item in items]
    assert sorted(map(msgspec.json.encode, everything)) == sorted(map(msgspec.json.encode, expected))


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"plan": "gratis"}, "unknown_plan"),
        ({"quantity": "0"}, "bad_quantity"),
        ({"quantity": "-1"}, "bad_quantity"),
        ({"quantity": "1000000000.1"}, "bad_quantity"),
        ({"quantity": "NaN"}, "bad_amount"),
        ({"quantity": "sNaN"}, "bad_amount"),
        ({"quantity": "Infinity"}, "bad_amount"),
        ({"quantity": "1e999999"}, "bad_amount"),
        ({"quantity": "1e-999999"}, "bad_amount"),
        ({"quantity": "0.0000000000000000001"}, "bad_amount"),
        ({"quantity": "lots"}, "bad_amount"),
        ({"quantity": None}, "does_not_fit"),
        ({"account": ""}, "bad_account"),
        ({"account": "a" * 201}, "bad_account"),
        ({"account": 7}, "does_not_fit"),
    ],
    ids=str,
)
def test_a_bad_transaction_is_rejected_alone(change, reason):
    """It counts for nothing and has its reason; its neighbours are billed."""
    processed = run_lines(BILLING, [line(), line(**change), line()], 10)
    assert [(one.number, one.reason) for one in processed.rejections] == [(11, reason)]
    assert processed.accepted.items == 2
    assert processed.accepted.sums == {"quantity": "2"}
    assert processed.partial.by_currency["EUR"]["a-1"].amount == Decimal("0.10")


def test_one_by_one_costs_the_same_as_a_chunk():
    """`map` and `map_many` are the same price list."""
    usages = [BILLING.transaction("a", "gulf", Decimal(n) / 7) for n in range(1, 400)]
    assert [BILLING.map(one, 0) for one in usages] == BILLING.map_many(usages, range(len(usages)))


def test_an_account_has_one_row_and_a_line_for_each_currency():
    """What two plans in two currencies cost is never added up."""
    partial = partial_of([line("b", "nippon", "10"), line("a", "basic", "10"), line("a", "gulf", "2")])
    yielded = list(BILLING.finish(partial))
    rows = {one.account: one.properties for one in yielded if isinstance(one, Total)}
    lines = [one.content for one in yielded if isinstance(one, Line)]
    assert rows == {
        "a": {"items": 2, "amount_EUR": "0.50", "amount_KWD": "0.025"},
        "b": {"items": 1, "amount_JPY": "72"},
    }
    assert [(one["account"], one["currency"]) for one in lines] == [("a", "EUR"), ("a", "KWD"), ("b", "JPY")]
    assert lines[0] == {"account": "a", "currency": "EUR", "items": 1, "quantity": "10", "amount": "0.50"}


@pytest.mark.parametrize("tiers", [[("10", "1")], [(None, "1"), (None, "2")], [("10", "1"), ("5", "2"), (None, "1")]])
def test_a_price_list_that_leaves_a_quantity_without_price_is_refused(tiers):
    """A plan without an end, or with tiers that fall, is a mistake of whoever wrote it."""
    with pytest.raises(ValueError, match="tier limits must increase"):
        Tariff("EUR", *tiers)
