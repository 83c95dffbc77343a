"""Where push and polling, and messages and blobs, cost the same: by hand and by properties."""

from datetime import UTC, datetime, timedelta

from hypothesis import given, strategies as st

from shared.usage.bill import load
from tools.planning.comparison import INLINE_BYTES, InlineOrBlob, PushOrPoll, Work, wakes

PRICES = load()
NOON = datetime(2026, 11, 20, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)


def test_awakenings_are_counted_where_there_was_no_work_before():
    """Work that overlaps is one awakening; what never ended hides all that follows."""
    one = Work(NOON, NOON + HOUR)
    assert wakes([]) == 0
    assert wakes([one, Work(NOON + HOUR / 2, NOON + 2 * HOUR), Work(NOON + 3 * HOUR, NOON + 4 * HOUR)]) == 2
    assert wakes([Work(NOON, NOON + HOUR), Work(NOON + HOUR, NOON + 2 * HOUR)]) == 1
    assert wakes([Work(NOON, None), Work(NOON + HOUR, None)]) == 1


@given(st.floats(0.1, 3600), st.integers(1, 100), st.integers(1, 16))
def test_push_is_cheaper_on_one_side_of_its_crossing_and_not_on_the_other(interval, permits, tasks):
    """The crossing point is where the two prices meet."""
    choice = PushOrPoll(interval, permits, tasks, PRICES)
    assert choice.crossing * choice.an_awakening <= choice.polling
    assert (choice.crossing + 1) * choice.an_awakening > choice.polling


@given(st.integers(1, 100 * INLINE_BYTES))
def test_a_blob_is_cheaper_from_its_crossing_on(stored):
    """Above the crossing always, at or below it never."""
    choice = InlineOrBlob(PRICES)
    assert (choice.blob() < choice.inline(stored)) == (stored > choice.crossing)
