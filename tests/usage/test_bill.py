"""Prices and bills: pure arithmetic, checked against sums made by hand and against properties that any price has."""

import json
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.azure.meter import Cause, Charge, RequestKind, RequestTally, meter_of, usage_of
from shared.errors import PricesError
from shared.usage.bill import BUILT_IN, load, price, useful

PRICES = load()
OPERATIONS = st.integers(0, 3_000_000_000)


def test_the_prices_that_come_along_say_how_old_they_are_and_how_sure():
    """A figure without a source is called unverified."""
    assert str(PRICES.as_of) in str(PRICES)
    assert "unverified: check before you rely on it" in str(PRICES)


def test_a_bill_is_the_sum_of_its_requests():
    """10,000 requests of a meter cost what its table says, and each cause has its part."""
    usage = {Charge("queue", "useful"): 7_500, Charge("queue", "idle"): 2_500, Charge("blob-write", "useful"): 10_000}
    bill = price(usage, PRICES)
    assert bill.total == PRICES.requests["queue"] + PRICES.requests["blob-write"]
    assert bill.lines[1].amount == PRICES.requests["queue"] / 4
    assert bill.requests == 20_000


def test_what_cannot_be_priced_is_said_and_not_guessed():
    """Rows of before the meters were noted have a cause alone: they are counted, and in no amount."""
    bill = price({Charge.parse("useful"): 12, Charge.parse("table sweep"): 1}, PRICES)
    assert (bill.unpriced, bill.requests) == (12, 13)
    assert bill.total == PRICES.requests["table"] / 10_000


def test_deleting_blobs_is_free_and_taking_them_for_writes_would_be_dear():
    """The operations on blobs differ in price; each is billed as what Azure's own list calls it."""
    named = {
        operation: meter_of(RequestKind("a", "blob", "c", operation))
        for operation in ("PutBlob", "GetBlob", "LeaseBlob")
    }
    assert named == {"PutBlob": "blob-write", "GetBlob": "blob-read", "LeaseBlob": "blob-other"}
    assert price(useful(blob_delete=10_000), PRICES).total == 0


def test_a_tally_becomes_usage_by_what_it_is_billed_as():
    """Two queues are one line of the bill."""
    tally = RequestTally()
    for entity in ("work-00", "work-01"):
        tally.add(RequestKind("a", "queue", entity, "PutMessage"), Cause.USEFUL)
    tally.add(RequestKind("a", "bus", "results", "send"), Cause.RETRY, 3)
    assert usage_of(tally) == {Charge("queue", "useful"): 2, Charge("bus", "retry"): 3}


def test_the_first_operations_of_a_month_are_in_the_fixed_charge():
    """And a job is billed as if they were used up, so that its bill does not depend on the day of the month."""
    assert PRICES.bus.price(13_000_000) == 0
    assert PRICES.bus.price(14_000_000) == Decimal("0.80")
    assert PRICES.bus.price(2_000_000, before=99_000_000) == Decimal("1.30")
    assert price(useful(bus=1_000_000), PRICES).total == Decimal("0.80")


@given(OPERATIONS, OPERATIONS)
def test_what_is_bought_in_two_parts_costs_the_same(first, second):
    """The tiers have no seam through which a million falls."""
    assert PRICES.bus.price(first + second) == PRICES.bus.price(first) + PRICES.bus.price(second, before=first)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"v": 2}, "$.v"),
        ({"requests": {"queue": "cheap"}}, "Decimal"),
        ({"surprise": 1}, "surprise"),
        (None, "truncated"),
    ],
)
def test_a_table_that_makes_no_sense_is_refused_by_its_name(tmp_path, change, said):
    """Who replaces the prices is told which file and what is wrong with it."""
    file = tmp_path / "mine.json"
    file.write_text(json.dumps(json.loads(BUILT_IN.read_text()) | change) if change else "{")
    with pytest.raises(PricesError, match=r"mine\.json") as error:
        load(file)
    assert said.lower() in str(error.value).lower()


def test_other_prices_take_the_place_of_ours(tmp_path):
    """A file with another price makes another bill."""
    file = tmp_path / "mine.json"
    table = json.loads(BUILT_IN.read_text())
    table["requests"]["queue"] = "1"
    file.write_text(json.dumps(table))
    assert price(useful(queue=10_000), load(file)).total == 1
