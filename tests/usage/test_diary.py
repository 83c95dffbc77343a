"""The diary of requests, on a real table; and the budget that is held against it."""

import itertools
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal

import pytest
from azure.core.exceptions import ServiceResponseError

from shared.app import Stores
from shared.azure.connections import Connections
from shared.azure.meter import Cause, CountedRequest, RequestKind, RequestTally
from shared.errors import StorageUnavailableError
from shared.settings import Settings
from shared.usage.bill import load
from shared.usage.diary import (
    AFTER_FAILURE,
    AT_LEAST_EVERY,
    LEAST_TASKS,
    LOOK_EVERY,
    MOST_UNNOTED,
    NOT_SOONER_THAN,
    STRETCH,
    DayBudget,
    Diary,
    keep,
    read_day,
)
from tests.faults.world import ManualClock
from tests.waiting import LIMIT
from tools.local.stack import sample_values

PUT = RequestKind("account", "queue", "work-00", "PutMessage")
WRITE = RequestKind("account", "blob", "results", "PutBlob")
_days = itertools.count(1)
SECOND = timedelta(seconds=1)


@pytest.fixture
def table(provisioned):
    """The table of the diary."""
    with Connections(provisioned.connection_string) as connections:
        yield connections.tables.get_table_client("usage")


@pytest.fixture
def clock():
    """Noon of a day that no other test has."""
    made = ManualClock()
    made.at = datetime(2030, 1, 1, 12, tzinfo=UTC) + timedelta(days=20 * next(_days))
    return made


@pytest.fixture
def tally():
    """The count of one process."""
    return RequestTally()


def test_a_day_is_the_sum_of_what_all_processes_noted(table, clock):
    """Each has a row of its own, which it writes again and again."""
    tallies = [RequestTally(), RequestTally()]
    diaries = [Diary(table, tally, clock) for tally in tallies]
    for tally, diary in zip(tallies, diaries, strict=True):
        tally.add(PUT, Cause.USEFUL, 3)
        diary.note()
    tallies[0].add(WRITE, Cause.RETRY, 2)
    diaries[0].note()
    diaries[0].note()
    assert read_day(table, clock.now().date()) == {
        CountedRequest(PUT, Cause.USEFUL): 6,
        CountedRequest(WRITE, Cause.RETRY): 2,
    }


def test_a_new_day_begins_at_nothing(table, clock, tally):
    """And the day before keeps what it had."""
    diary, first = Diary(table, tally, clock), clock.now().date()
    tally.add(PUT, Cause.USEFUL, 3)
    diary.note()
    clock.advance(days=13)
    tally.add(PUT, Cause.USEFUL, 4)
    diary.note()
    assert [read_day(table, day).total() for day in (first, clock.now().date())] == [3, 4]


def test_a_note_is_rare(table, clock, tally):
    """Many requests are one note, at most one a minute; a few of them are noted after hours, and none never."""
    diary = Diary(table, tally, clock)
    clock.at += AT_LEAST_EVERY
    assert not diary.note_if_due()
    tally.add(PUT, Cause.USEFUL, 2)
    assert diary.note_if_due()
    tally.add(PUT, Cause.USEFUL, MOST_UNNOTED)
    assert not diary.note_if_due()
    clock.at += NOT_SOONER_THAN
    assert diary.note_if_due()
    tally.add(PUT, Cause.USEFUL, MOST_UNNOTED - 1)
    clock.at += AT_LEAST_EVERY - SECOND
    assert not diary.note_if_due()


def test_a_note_is_no_reason_for_another_one(provisioned, clock):
    """An idle process that has noted itself has one request that is not noted: its note."""
    with Connections(provisioned.connection_string) as connections:
        diary = Diary(connections.tables.get_table_client("usage"), connections.meter.tally, clock)
        connections.meter.tally.add(PUT, Cause.USEFUL, 5)
        notes = 0
        for _ in range(10):
            clock.at += AT_LEAST_EVERY
            notes += diary.note_if_due()
    assert notes == 1


def test_what_could_not_be_noted_is_in_the_next_note(clock, tally, table):
    """Storage was away for a while: nothing is lost, nothing is doubled."""
    lost = Failing(table)
    diary = Diary(lost, tally, clock)
    tally.add(PUT, Cause.USEFUL, 7)
    with pytest.raises(StorageUnavailableError):
        diary.note()
    lost.is_failing = False
    diary.note()
    assert read_day(table, clock.now().date()).total() == 7


class Failing:
    """A table whose replies are lost after they were written."""

    def __init__(self, table):
        self._table, self.is_failing = table, True

    def upsert_entity(self, *arguments, **options):
        """Write, and lose the reply."""
        self._table.upsert_entity(*arguments, **options)
        if self.is_failing:
            raise ServiceResponseError("the reply was lost")


class Stopping:
    """Stops after so many pauses, none of which takes any time; keeps how long they should have been."""

    def __init__(self, after):
        self.after, self.pauses = after, []

    def wait(self, seconds):
        """Return whether it is time to stop."""
        self.pauses.append(seconds)
        return len(self.pauses) > self.after


class Refusing:
    """A diary whose second note is refused."""

    looked = 0

    def note_if_due(self):
        """Note, or not."""
        self.looked += 1
        if self.looked == 2:
            raise StorageUnavailableError("away")


def test_a_diary_is_kept_in_the_background_whatever_goes_wrong():
    """A note that is refused is tried again after a long pause, since each attempt is a request; then all is as before."""
    diary, stop = Refusing(), Stopping(after=4)
    keep(diary, stop).join(LIMIT)
    assert diary.looked == 4
    assert stop.pauses == [LOOK_EVERY, LOOK_EVERY, AFTER_FAILURE, LOOK_EVERY, LOOK_EVERY]


NOON = datetime(2026, 11, 20, 12, tzinfo=UTC)


def a_budget(amount, noted):
    """A budget of the day, held against what this says is noted, in writes of blobs."""
    return DayBudget(
        budget=amount, prices=load(), noted_on=lambda day: {CountedRequest(WRITE, Cause.USEFUL): noted.get(day, 0)}
    )


def test_without_a_budget_nothing_is_asked():
    """It would be a request a decision for nothing."""
    asked = DayBudget(budget=None, prices=load(), noted_on=lambda _day: pytest.fail("it was asked"))
    assert asked(NOON, 10) is None


def test_the_budget_stretches_what_is_left_at_the_rate_that_tasks_spend():
    """10 tasks spent 0.0065 in a minute; of a budget of 0.13, what is left lasts a quarter of an hour for so many."""
    today = date(2026, 11, 20)
    noted = {today: 9_000}
    term = a_budget(Decimal("0.13"), noted)
    assert term(NOON, 10) is None, "how much a task spends is not known yet"
    noted[today] = 10_000
    left, each = Decimal("0.065"), Decimal("0.0065") / 600
    assert term(NOON + timedelta(minutes=1), 10) == int(left / (each * Decimal(STRETCH.total_seconds())))
    noted[today] = 20_000
    assert term(NOON + timedelta(minutes=2), 10) == LEAST_TASKS


def test_the_app_holds_its_budget_against_the_diary(provisioned, clock, tally):
    """By its setting, its table and its prices; the term of a decision is what comes of it."""
    settings = Settings.parse({**sample_values(), "SLUICE_BUDGET_PER_DAY": "0.01"})
    with Connections(provisioned.connection_string) as connections:
        term = Stores(connections).day_budget(settings.budget_per_day)
        assert term(clock.now(), 5) is None
        diary = Diary(connections.tables.get_table_client("usage"), tally, clock)
        tally.add(WRITE, Cause.USEFUL, 10_000)
        diary.note()
        assert term(clock.now(), 5) == LEAST_TASKS


def test_a_new_day_has_its_whole_budget():
    """What yesterday spent says nothing about today."""
    noted = {date(2026, 11, 20): 10**9}
    term = a_budget(Decimal(1), noted)
    assert term(NOON, 10) == LEAST_TASKS
    assert term(NOON + timedelta(days=1), 1) is None
