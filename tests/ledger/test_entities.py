"""What a row holds is read back as it was, and what Azure would refuse is refused here, since Azurite takes it."""

from dataclasses import replace
from decimal import Decimal

import pytest

from shared.azure.row_groups import check_limits, utf16_length
from shared.errors import LedgerCorruptError, RowTooLargeError
from shared.ledger import JobState, Portion, Totals
from shared.ledger.entities import job_entity, job_of, row_entity, row_of_entity
from shared.ledger.ledger import MOST_ROWS
from shared.ledger.records import Risk
from tests.ledger.builders import NOON, job, row


def test_sums_wider_than_any_message_are_read_back():
    """The total of many large amounts has more digits than one amount may have."""
    wide = Totals(accepted=Portion(1, {"amount": Decimal("1" * 60 + ".000000000000000001")}))
    assert job_of(job_entity(job(totals=wide)), "").totals == wide


@pytest.mark.parametrize("risk", [None, *Risk])
def test_a_deadline_and_what_was_told_of_it_are_read_back(risk):
    """A row from before there were deadlines has neither; one that was told of is not told of again."""
    kept = job(deadline=NOON, warned=risk)
    assert job_of(job_entity(kept), "") == kept


@pytest.mark.parametrize("state", list(JobState))
def test_every_state_is_read_back(state):
    """A job in any state survives the table."""
    assert job_of(job_entity(job(state=state)), "e") == job(state=state, etag="e")


def test_a_chunk_row_is_read_back():
    """Reason, revision and totals survive the table."""
    kept = row(7, reason="why", revision=3, nonce="n", etag="e")
    assert row_of_entity(row_entity(kept), "e") == kept


@pytest.mark.parametrize(
    "change", [{"state": "odd one"}, {"totals": "{"}, {"accepted_at": "yesterday"}, {"done": None}]
)
def test_a_row_that_sluice_never_wrote_is_named(change):
    """Nothing is decided by a corrupt row, and the error says which one it is."""
    with pytest.raises(LedgerCorruptError, match="row 'job' of 'nightly'"):
        job_of(job_entity(job()) | change, "")


@pytest.mark.parametrize(("text", "length"), [("plain", 5), ("ü", 1), ("🎉", 2), ("\ud800", 1)])
def test_text_is_as_long_as_azure_counts_it(text, length):
    """Characters outside the basic plane count twice."""
    assert utf16_length(text) == length


def test_a_property_that_azure_would_refuse_is_refused():
    """Azurite takes a property of any length, Azure 32 Ki characters."""
    fits = {"PartitionKey": "p", "RowKey": "r", "text": "x" * (32 * 1024 - 1)}
    assert check_limits(fits) == fits
    with pytest.raises(RowTooLargeError, match="'text' has 32768 characters, the limit is 32767"):
        check_limits(fits | {"text": "🎉" * (16 * 1024)})


def test_a_row_that_azure_would_refuse_is_refused():
    """Many properties that each fit can be too much together."""
    with pytest.raises(RowTooLargeError, match="bytes, the limit is 524288"):
        check_limits({"PartitionKey": "p", "RowKey": "r"} | {f"text{n}": "x" * 30_000 for n in range(10)})


def test_a_transaction_that_azure_would_refuse_is_refused(table_ledger):
    """A hundred entities a transaction and its bytes are guarded before anything is sent."""
    stored, _ = table_ledger.insert(job(chunks=200))
    with pytest.raises(RowTooLargeError, match="with 100 rows"):
        table_ledger.commit(stored, [row(n) for n in range(MOST_ROWS + 1)])
    with pytest.raises(RowTooLargeError, match="bytes"):
        table_ledger.commit(stored, [row(n, reason="x" * 30_000) for n in range(60)])
    assert table_ledger.read("nightly") == replace(stored)
