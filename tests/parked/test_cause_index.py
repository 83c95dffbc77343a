"""The index of causes: each open entry is counted once, whatever is repeated, killed or written by an older release."""

import itertools
import threading
from dataclasses import replace
from datetime import timedelta

import pytest
from azure.core.exceptions import HttpResponseError

from shared.azure.connections import Connections
from shared.parked.cause_check import CauseCheck
from shared.parked.cause_index import MOST_TOGETHER, CauseIndex, Member
from shared.parked.causes import count_closed, count_nothing, count_parked, join, join_by_cause
from shared.parked.entry import Entry, EntryState
from shared.parked.parked_table import ParkedTable
from tests.faults.plan import Plan
from tests.gate.conftest import ManualClock
from tests.process.world import NOON

_numbers = itertools.count(1)


def make_entry(key="chunk-000000000-1", *, fingerprint="f" * 16, job="nightly", at=NOON, **changes):
    """Return an entry as a process parks it."""
    known = {
        "stage": "process",
        "queue": "work-00",
        "reason": "ZeroDivisionError",
        "found": "by zero",
        "instead": "correct it",
        "attempts": 5,
        "message_id": "m1",
        "sha256": "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
        "size": 0,
        "scheme": 2,
        "place": "own.sales.map",
    }
    return Entry(job=job, key=key, fingerprint=fingerprint, first_at=at, last_at=at, **(known | changes))


class Shelf:
    """An index and entries of a test's own, in tables of their own, and processes over them."""

    def __init__(self, azurite):
        self.azurite, self.mark = azurite, f"idx{next(_numbers)}"
        self.clock = ManualClock(NOON)
        self.opened = []
        tables = self.connect().tables
        for name in ("causes", "parked"):
            tables.create_table(f"{name}{self.mark}")
        self.opened[0].blobs.create_container(f"parked-{self.mark}")
        self.table = self.index().table

    def connect(self, plan=None):
        """Return connections of a process."""
        connections = Connections(self.azurite.connection_string, transport=(plan or Plan()).transport)
        self.opened.append(connections)
        return connections

    def index(self, plan=None, *, is_of_before=False):
        """Return what a process has: its index, and its entries. One of before does not count."""
        return _Process(self, self.connect(plan), is_of_before=is_of_before)

    def numbers(self):
        """Return the number of each cause, as a page shows it. It must be the number of its members."""
        index = self.index().causes
        shown = {one.fingerprint: one.open for one in index.read().causes}
        members = {}
        for member in index.read_all().members:
            members[member.fingerprint] = members.get(member.fingerprint, 0) + 1
        assert shown == members
        return shown


class _Silent:
    def record(self, _gone, _come):
        return 0


class _Process:
    def __init__(self, shelf, connections, *, is_of_before):
        tables = connections.tables
        self.causes = CauseIndex(tables.get_table_client(f"causes{shelf.mark}"), f"p{next(_numbers)}")
        self.table = ParkedTable(
            tables.get_table_client(f"parked{shelf.mark}"),
            connections.blobs.get_container_client(f"parked-{shelf.mark}"),
            _Silent() if is_of_before else self.causes,
        )
        self.check = CauseCheck(self.table, self.causes, shelf.clock)
        self.meter = connections.meter


@pytest.fixture
def shelf(azurite):
    """Entries and an index."""
    found = Shelf(azurite)
    yield found
    for connections in found.opened:
        connections.close()


def park(process, *entries):
    """Park these as a process does, and return them as they are stored."""
    return [process.table.park(entry, b"") for entry in entries]


def close(process, entry):
    """Discard an entry."""
    return process.table.change(entry, replace(entry, state=EntryState.DISCARDED))


def test_the_sums_of_all_processes_are_the_number_of_a_cause():
    """Two park three, a third one closes one: two are open, and the texts are those of the newest."""
    mine = count_parked(count_parked(count_nothing("f"), make_entry(job="a")), make_entry(job="b"))
    other = count_parked(count_nothing("f"), make_entry(job="c", at=NOON + timedelta(hours=1), found="newest"))
    (cause,) = join_by_cause([mine, other, count_closed(count_nothing("f"))])
    assert (cause.open, cause.found, cause.jobs[0]) == (2, "newest", "c")
    assert (cause.first_at, cause.last_at) == (NOON, NOON + timedelta(hours=1))
    assert cause.trend(NOON + timedelta(hours=1))[-2:] == [2, 1]
    assert not join_by_cause([cause, replace(cause, parked=0, closed=cause.open)])


def test_a_cause_keeps_a_day_of_hours_and_five_jobs():
    """A row stays small, however many are counted."""
    sums = count_nothing("f")
    for number in range(50):
        sums = count_parked(sums, make_entry(job=f"j{number}", at=NOON + timedelta(hours=number)))
    assert (len(sums.hours), sums.jobs) == (24, ("j49", "j48", "j47", "j46", "j45"))
    assert join([sums]) == sums


def test_parking_and_closing_cost_one_request_more(shelf):
    """The index takes one request each, and none is read before."""
    process = shelf.index()
    before = process.meter.tally()
    (entry,) = park(process, make_entry())
    parked = process.meter.tally() - before
    before = process.meter.tally()
    close(process, entry)
    closed = process.meter.tally() - before
    assert (sum(parked.values()), sum(closed.values())) == (3, 2)
    assert shelf.numbers() == {}


def test_an_entry_is_counted_once_however_often_it_is_parked(shelf):
    """Deliveries that come again, in this process or in another one, count nothing."""
    for process in (shelf.index(), shelf.index()):
        park(process, make_entry(), make_entry(), make_entry("chunk-000000001-1"))
    assert shelf.numbers() == {"f" * 16: 2}


def test_an_entry_that_comes_back_for_another_cause_moves(shelf):
    """It is counted under the new cause, and no more under the former."""
    process = shelf.index()
    (entry,) = park(process, make_entry())
    process.table.change(entry, replace(entry, state=EntryState.REPLAYED))
    assert shelf.numbers() == {"f" * 16: 1}
    park(shelf.index(), make_entry(fingerprint="e" * 16))
    assert shelf.numbers() == {"e" * 16: 1}


def test_an_entry_that_was_closed_and_fails_again_is_counted_again(shelf):
    """It is open, so it has a member."""
    process = shelf.index()
    (entry,) = park(process, make_entry())
    close(process, entry)
    park(process, make_entry())
    assert shelf.numbers() == {"f" * 16: 1}


def test_threads_of_processes_that_park_and_close_at_once_lose_no_count(shelf):
    """Eight threads of two processes, and half of what they park is closed."""
    processes = shelf.index(), shelf.index()

    def work(lane):
        for number in range(6):
            (entry,) = park(processes[lane % 2], make_entry(f"chunk-{lane * 10 + number:09}-1"))
            if number % 2:
                close(processes[(lane + 1) % 2], entry)

    threads = [threading.Thread(target=work, args=(lane,)) for lane in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert shelf.numbers() == {"f" * 16: 24}


def test_what_an_instance_of_before_parks_and_closes_is_corrected_by_the_comparison(shelf):
    """It writes entries alone. The comparison counts each once, in groups, and takes away what is closed."""
    new, before = shelf.index(), shelf.index(is_of_before=True)
    (closed,) = park(new, make_entry("chunk-000000900-1"))
    park(before, *(make_entry(f"chunk-{number:09}-1") for number in range(2 * MOST_TOGETHER)))
    close(before, closed)
    assert shelf.numbers() == {"f" * 16: 1}
    assert new.causes.read().checked_at is None
    requests = new.meter.tally()
    new.check.run(20)
    assert shelf.numbers() == {"f" * 16: 2 * MOST_TOGETHER}
    # It changed something, so it is repeated before it is noted.
    assert new.causes.read().checked_at is None
    assert sum((new.meter.tally() - requests).values()) < 12
    new.check.run(20)
    assert new.causes.read().checked_at == NOON


def test_the_comparison_runs_at_the_first_tick_and_once_a_day(shelf):
    """A process asks once whether it is overdue. After that it makes no request until the minute of the day."""
    process = shelf.index()
    process.check.run(20)
    before = process.meter.tally()
    shelf.clock.advance(60)
    process.check.run(20)
    assert process.meter.tally() == before
    other = shelf.index()
    other.check.run(20)
    assert sum(other.meter.tally().values()) == 1
    shelf.clock.at = NOON.replace(hour=4, minute=5) + timedelta(days=1)
    other.check.run(20)
    assert other.causes.checked_at() == shelf.clock.at


def test_rows_of_processes_that_are_gone_are_joined(shelf):
    """Their sum stays. One that was written since stays apart, and begins at zero after it was joined."""
    gone, alive = shelf.index(), shelf.index()
    (first,) = park(gone, make_entry())
    park(alive, make_entry("chunk-000000001-1"))
    close(shelf.index(), first)
    park(gone, make_entry("chunk-000000002-1"))
    shelf.clock.at = NOON + timedelta(days=9000)
    alive.check.run(20)
    assert [row.process for row in alive.causes.read_all().rows] == ["-"]
    assert shelf.numbers() == {"f" * 16: 2}
    park(alive, make_entry("chunk-000000003-1"))
    assert shelf.numbers() == {"f" * 16: 3}
    for entry in list(alive.table.entries()):
        close(alive, entry)
    shelf.clock.advance(60)
    other = shelf.index()
    shelf.clock.at += timedelta(days=2)
    other.check.run(20)
    assert (other.causes.read_all().rows, shelf.numbers()) == ([], {})


def test_a_refusal_that_repeats_ends(shelf):
    """A row that storage refuses for good is no endless loop."""
    process = shelf.index()
    member = make_entry("x" * 2000)
    with pytest.raises((HttpResponseError, Exception)):
        process.causes.record([], [member])
    assert process.causes.record([Member.of(make_entry())], []) == 0
