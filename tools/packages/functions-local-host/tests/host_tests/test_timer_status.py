"""What a timer's stored past means."""

from datetime import UTC, datetime, timedelta

from functions_local_host.schedule import parse_schedule
from functions_local_host.timer_status import TimerStatus, first_status, is_changed, is_past_due, status_after

HOURLY = parse_schedule("0 0 * * * *")
NOON = datetime(2026, 11, 20, 12, 0, tzinfo=UTC)
HOUR = timedelta(hours=1)


def test_a_first_start_is_never_past_due():
    """It writes the next due time and waits for it."""
    status = first_status(HOURLY, NOON)
    assert status == TimerStatus(None, NOON + HOUR, NOON)
    assert not is_past_due(HOURLY, status, NOON + HOUR / 2)


def test_however_many_runs_were_missed_it_is_past_due():
    """A day later the timer is past due, once: the run moves the status on."""
    status = first_status(HOURLY, NOON)
    later = NOON + timedelta(days=1, minutes=1)
    assert is_past_due(HOURLY, status, later)
    assert not is_past_due(HOURLY, status_after(HOURLY, status, later, was_due=False), later)


def test_another_schedule_has_missed_nothing():
    """After the schedule changed, the old due time says nothing."""
    status = first_status(HOURLY, NOON)
    daily = parse_schedule("0 0 0 * * *")
    assert is_changed(daily, status)
    assert not is_past_due(daily, status, NOON + timedelta(days=3))


def test_a_run_that_fires_early_does_not_come_up_twice():
    """A clock that is a little fast must not leave the same due time as next."""
    status = first_status(HOURLY, NOON)
    early = NOON + HOUR - timedelta(milliseconds=20)
    assert status_after(HOURLY, status, early, was_due=True).next == NOON + 2 * HOUR


def test_a_run_by_start_up_keeps_its_own_time():
    """Only a due run is moved to its due time."""
    status = first_status(HOURLY, NOON)
    assert status_after(HOURLY, status, NOON + HOUR / 2, was_due=False).last == NOON + HOUR / 2


def test_ticks_missed_during_a_long_run_are_one_run_at_once():
    """The next occurrence counts from the start of the run; when that is past, it fires immediately, once."""
    after = status_after(HOURLY, first_status(HOURLY, NOON), NOON + HOUR, was_due=True)
    assert after.next == NOON + 2 * HOUR


def test_the_status_survives_its_blob():
    """What is written is what is read, a first start included."""
    for status in (first_status(HOURLY, NOON), TimerStatus(NOON, NOON + HOUR, NOON)):
        assert TimerStatus.from_json(status.to_json()) == status


def test_a_status_that_cannot_be_read_counts_as_a_first_start():
    """A broken blob must not keep the timer from running."""
    assert TimerStatus.from_json("{") is None
    assert TimerStatus.from_json('{"Last": "yesterday", "Next": "", "LastUpdated": ""}') is None


def test_the_form_of_the_real_host_is_read():
    """A status that the real host wrote, in local time of seven digits or in UTC, is understood."""
    text = (
        '{"Last":"2026-11-20T11:00:00.0064+00:00","Next":"2026-11-20T12:00:00Z","LastUpdated":"2026-11-20T11:00:00Z"}'
    )
    status = TimerStatus.from_json(text)
    assert status is not None
    assert status.next == NOON
