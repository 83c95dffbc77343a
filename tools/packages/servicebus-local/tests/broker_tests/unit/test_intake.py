"""Duplicates and schedules, on a clock of the test's own."""

import pytest
from servicebus_local.intake import Intake, SeenIds
from servicebus_local.parcel import Parcel
from servicebus_local.refusal import MESSAGE_NOT_FOUND, Refusal


def test_an_id_is_forgotten_at_the_end_of_its_window():
    """The window runs from the first message; a repeat does not lengthen it."""
    seen = SeenIds(20.0)
    assert [seen.is_repeat("a", now) for now in (0, 19.9, 20.0, 39.9, 40.0)] == [False, True, False, True, False]


def test_scheduled_messages_come_by_time_and_get_new_numbers():
    """The number of the schedule is not the number of the message."""
    delivered = []
    intake = Intake("q", lambda parcel, sequence, now: delivered.append((parcel.bare, sequence, now)))
    late, soon = Parcel(b"late", scheduled_for=20.0), Parcel(b"soon", scheduled_for=10.0)
    assert [intake.accept(parcel, 0.0) for parcel in (late, soon)] == [1, 2]
    for now in (9.9, 10.0, 20.0, 30.0):
        intake.advance(now)
    assert delivered == [(b"soon", 3, 10.0), (b"late", 4, 20.0)]


def test_a_cancelled_message_never_comes_and_cannot_be_cancelled_twice():
    """The second time the number is unknown."""
    delivered = []
    intake = Intake("q", lambda *given: delivered.append(given))
    number = intake.accept(Parcel(b"x", scheduled_for=10.0), 0.0)
    intake.cancel(number)
    intake.advance(11.0)
    with pytest.raises(Refusal) as refused:
        intake.cancel(number)
    assert (delivered, refused.value.condition) == ([], MESSAGE_NOT_FOUND)


def test_a_time_in_the_past_is_now():
    """A late scheduled message is not held back."""
    delivered = []
    intake = Intake("q", lambda *given: delivered.append(given))
    intake.accept(Parcel(b"x", scheduled_for=5.0), 6.0)
    assert len(delivered) == 1
