"""The ladder: how long an answer may be kept, by the scarcest type that is not sold out."""

from dataclasses import dataclass
from datetime import timedelta

import pytest

from capabilities.registration.conference_views import SEATS_LADDER
from shared.readmodels import KeptAnswers
from tests.gate.conftest import ManualClock

MINUTE = timedelta(minutes=1)


@pytest.mark.parametrize(
    ("remaining", "keep"),
    [
        ([5000], 5 * MINUTE),
        ([201], 5 * MINUTE),
        ([200], MINUTE),
        ([100], MINUTE),
        ([99], MINUTE / 3),
        ([30], MINUTE / 3),
        ([29], timedelta()),
        ([1], timedelta()),
        ([5000, 99], MINUTE / 3),
        ([5000, 0], 5 * MINUTE),
        ([0, 29], timedelta()),
        # Nobody waits longer than this for a seat that is given back.
        ([0], MINUTE / 3),
        ([], MINUTE / 3),
    ],
)
def test_the_scarcest_type_that_is_not_sold_out_decides(remaining, keep):
    """The steps of the source, with their borders."""
    assert SEATS_LADDER.keep(remaining) == keep


@dataclass(frozen=True)
class Value:
    """An answer that may be kept for a time."""

    number: int
    keep: timedelta


def test_an_answer_is_kept_as_long_as_it_says_and_the_asker_allows():
    """The shorter of both times counts, from the moment before the read."""
    clock, reads = ManualClock(), []

    def read():
        reads.append(1)
        clock.advance(seconds=1)
        return Value(len(reads), MINUTE)

    answers = KeptAnswers(clock)
    assert answers.get("a", MINUTE, read) == (Value(1, MINUTE), False, MINUTE)
    clock.advance(seconds=58)
    assert answers.get("a", 5 * MINUTE, read).is_kept
    assert answers.get("a", timedelta(seconds=59), read).value.number == 2
    clock.advance(seconds=59)
    assert not answers.get("a", 5 * MINUTE, read).is_kept


def test_what_is_not_there_is_not_kept():
    """A conference is readable as soon as it exists."""
    answers = KeptAnswers(ManualClock())
    assert answers.get("a", MINUTE, lambda: None).value is None
    assert answers.get("a", MINUTE, lambda: Value(1, MINUTE)).value == Value(1, MINUTE)
