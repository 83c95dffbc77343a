"""The index of causes: each open entry is counted once, whatever is repeated, killed or written by an older release."""

import itertools
import threading
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta
from functools import partial

import pytest

from shared.azure.connections import Connections
from shared.errors import SluiceError
from shared.parked.cause_check import CauseCheck
from shared.parked.cause_index import MOST_TOGETHER, CauseIndex, Member
from shared.parked.causes import count_closed, count_nothing, count_parked, join, join_by_cause
from shared.parked.entry import Entry, EntryState
from shared.parked.overflow import Overflow
from shared.parked.parked_table import ParkedTable
from tests.faults.memory.storage import MemoryStorage
from tests.faults.plan import MODES, KilledError, Plan
from tests.gate.conftest import ManualClock
from tests.process.world import NOON

_numbers = itertools.count(1)
RETENTION = timedelta(days=30)


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

    def __init__(self, storage):
        self.storage, self.mark = storage, f"idx{next(_numbers)}"
        self.clock = ManualClock(NOON)
        self.opened = []
        tables = self.connect().tables
        for name in ("causes", "parked"):
            tables.create_table(f"{name}{self.mark}")
        self.opened[0].blobs.create_container(f"parked-{self.mark}")
        self.table = self.index().table

    def close(self):
        """Close what was opened."""
        for connections in self.opened:
            connections.close()

    def connect(self, plan=None):
        """Return connections of a process."""
        connections = Connections(self.storage.connection_string, transport=(plan or Plan()).transport)
        self.opened.append(connections)
        return connections

    def index(self, plan=None, *, is_of_before=False):
        """Return what a process has: its index, and its entries. One of before does not count."""
        return _Process(self, plan or Plan(), is_of_before=is_of_before)

    def numbers(self):
        """Return the number of each cause, as a page shows it. It must be the number of its members."""
        index = self.index().causes
        shown = {one.fingerprint: one.open for one in index.read().causes}
        members = {}
        for member in index.read_all().members:
            members[member.fingerprint] = members.get(member.fingerprint, 0) + 1
        assert shown == members
        return shown


class MemoryShelf(Shelf):
    """One on a storage in memory."""

    def connect(self, plan=None):
        """Return connections of a process."""
        transport = partial(self.storage.transport, plan or Plan())
        self.opened.append(Connections(self.storage.connection_string, transport=transport))
        return self.opened[-1]


class _Silent:
    def record(self, _gone, _come):
        return 0


class _Process:
    def __init__(self, shelf, plan, *, is_of_before):
        connections = shelf.connect(plan)
        tables = connections.tables
        self.causes = CauseIndex(tables.get_table_client(f"causes{shelf.mark}"), f"p{next(_numbers)}")
        container = connections.blobs.get_container_client(f"parked-{shelf.mark}")
        self.overflow = Overflow(container, self.causes, shelf.clock)
        index = _Silent() if is_of_before else self.causes
        self.table = ParkedTable(tables.get_table_client(f"parked{shelf.mark}"), container, index, self.overflow)
        self.check = CauseCheck(self.table, self.causes, self.overflow, shelf.clock)
        self.plan = plan


@pytest.fixture
def shelf(azurite):
    """Entries and an index."""
    found = Shelf(azurite)
    yield found
    found.close()


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
    (cause,) = join_by_cause([mine, other, count_closed(count_nothing("f"), None)])
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
    (entry,) = park(process, make_entry())
    parked = process.plan.count
    close(process, entry)
    assert (parked, process.plan.count - parked) == (3, 2)
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
    requests = new.plan.count
    new.check.run(20, RETENTION)
    assert shelf.numbers() == {"f" * 16: 2 * MOST_TOGETHER}
    # It changed something, so it is repeated before it is noted.
    assert new.causes.read().checked_at is None
    assert new.plan.count - requests == 1 + 2 + 2 + 1 + 1 + 1
    new.check.run(20, RETENTION)
    assert new.causes.read().checked_at == NOON


def test_the_comparison_runs_at_the_first_tick_and_once_a_day(shelf):
    """A process asks once whether it is overdue. After that it makes no request until the minute of the day."""
    process = shelf.index()
    process.check.run(20, RETENTION)
    before = process.plan.count
    shelf.clock.advance(minutes=1)
    process.check.run(20, RETENTION)
    assert process.plan.count == before
    other = shelf.index()
    other.check.run(20, RETENTION)
    assert other.plan.count == 1
    shelf.clock.advance(days=1, hours=4 - NOON.hour, minutes=5 - NOON.minute - 1)
    other.check.run(20, RETENTION)
    assert other.causes.read_checked_at() == shelf.clock.now()


def test_rows_of_processes_that_are_gone_are_joined(shelf):
    """Their sum stays. One that was written since stays apart, and begins at zero after it was joined."""
    gone, alive = shelf.index(), shelf.index()
    (first,) = park(gone, make_entry())
    park(alive, make_entry("chunk-000000001-1"))
    close(shelf.index(), first)
    park(gone, make_entry("chunk-000000002-1"))
    shelf.clock.advance(days=9000)
    alive.check.run(20, RETENTION)
    assert [row.process for row in alive.causes.read_all().rows] == ["-"]
    assert shelf.numbers() == {"f" * 16: 2}
    park(alive, make_entry("chunk-000000003-1"))
    assert shelf.numbers() == {"f" * 16: 3}
    for entry in list(alive.table.entries()):
        close(alive, entry)
    shelf.clock.advance(minutes=1)
    other = shelf.index()
    shelf.clock.advance(days=2)
    other.check.run(20, RETENTION)
    assert (other.causes.read_all().rows, shelf.numbers()) == ([], {})


def _park_one(process):
    park(process, make_entry())


def _come_back(process):
    park(process, make_entry(fingerprint="e" * 16))


def _close_one(process):
    for entry in process.table.entries():
        close(process, entry)


def _compare(process):
    process.check.run(20, RETENTION)


#: Each act, and what is there before it. Its message is delivered again, but nothing closes again what was closed.
ACTS = {
    "park": ([], _park_one, True),
    "park again": ([_park_one], _park_one, True),
    "come back": ([_park_one], _come_back, True),
    "close": ([_park_one], _close_one, False),
    "compare": ([_park_one], _compare, False),
}


def _prepare(act):
    shelf = MemoryShelf(MemoryStorage())
    for step in ACTS[act][0]:
        step(shelf.index())
    if act == "compare":
        park(shelf.index(is_of_before=True), make_entry("chunk-000000007-1"))
    if act == "come back":
        process = shelf.index()
        (entry,) = process.table.entries()
        process.table.change(entry, replace(entry, state=EntryState.REPLAYED))
    return shelf


def _try_broken(shelf, act, plan):
    """Do the act under this plan, then deliver its message again if it has one. The sums are the members throughout."""
    _, do, comes_again = ACTS[act]
    with suppress(KilledError, SluiceError):
        do(shelf.index(plan))
    shelf.numbers()
    if comes_again:
        do(shelf.index())
        shelf.numbers()


@pytest.mark.parametrize("act", ACTS)
@pytest.mark.parametrize("mode", MODES)
def test_an_act_that_is_killed_or_refused_anywhere_counts_once(act, mode):
    """Every request is broken in every way. The sums are the members at once, and the entries after the comparison."""
    for at in itertools.count(1):
        shelf, plan = _prepare(act), Plan.of(at, mode)
        _try_broken(shelf, act, plan)
        checker = shelf.index()
        for _ in range(3):
            checker.check.run(20, RETENTION)
        assert checker.causes.read_checked_at() is not None, at
        entries = {Member.of(entry) for entry in checker.table.entries()}
        assert set(checker.causes.read_all().members) == entries, at
        shelf.close()
        if plan.count < at:
            break
    assert at > 1


def _discard_all(process):
    return sum(process.table.discard(entries, "ann: x") for entries in process.table.read_members("f" * 16))


def test_a_cause_is_discarded_by_its_members_some_at_a_time():
    """Two requests for each group of one job and the index, and one for a thousand members. Others stay open."""
    shelf = MemoryShelf(MemoryStorage())
    process = shelf.index()
    many = 2 * MOST_TOGETHER + 10
    park(process, *(make_entry(f"chunk-{number:09}-1") for number in range(many)))
    others = park(process, *(make_entry(f"chunk-{number:09}-2", fingerprint="e" * 16) for number in range(3)))
    process.table.change(others[0], replace(others[0], state=EntryState.REPLAYED))
    before = process.plan.count
    groups = [process.table.discard(entries, "ann: x") for entries in process.table.read_members("f" * 16)]
    assert groups == [MOST_TOGETHER, MOST_TOGETHER, 10]
    assert process.plan.count - before == 1 + 3 * (1 + 1 + 1)
    assert shelf.numbers() == {"e" * 16: 3}
    (note,) = {entry.note for entry in process.table.entries(closed=True) if not entry.is_open}
    assert note == "ann: x"
    shelf.close()


@pytest.mark.parametrize("mode", MODES)
def test_a_discard_that_is_killed_or_refused_anywhere_is_repeated(mode):
    """Every request is broken in every way. The next one closes what is left, and no comparison is needed."""
    for at in itertools.count(1):
        shelf, plan = MemoryShelf(MemoryStorage()), Plan.of(at, mode)
        park(shelf.index(), *(make_entry(f"chunk-{number:09}-1", job=job) for job in "ab" for number in range(2)))
        with suppress(KilledError, SluiceError):
            _discard_all(shelf.index(plan))
        shelf.numbers()
        _discard_all(shelf.index())
        assert (shelf.numbers(), list(shelf.index().table.entries())) == ({}, []), at
        shelf.close()
        if plan.count < at:
            break
    assert at > 1


def test_of_entries_that_are_discarded_one_that_others_changed_stays():
    """Each is as it was read, or it is left alone."""
    shelf = MemoryShelf(MemoryStorage())
    process = shelf.index()
    park(process, *(make_entry(f"chunk-{number:09}-1") for number in range(3)))
    (read,) = process.table.read_members("f" * 16)
    process.table.change(read[1], replace(read[1], state=EntryState.REPLAYED))
    assert process.table.discard(read, "ann: x") == 2
    assert [entry.key for entry in process.table.entries()] == [read[1].key]
    assert shelf.numbers() == {"f" * 16: 1}
    shelf.close()
