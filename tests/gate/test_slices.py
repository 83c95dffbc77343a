"""Many entries of one gate are released by several instances, each by slices of its own."""

import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta

import pytest

from shared.azure import BlobLease, try_lease
from shared.errors import StorageUnavailableError
from shared.gate.held import SLICES, slice_of
from shared.gate.outflow import Dispatched
from shared.signals import Hint
from shared.topology import GUARD, RENEW_AFTER
from tests.faults.plan import Plan
from tests.gate.conftest import NOON, House, RecordedSignals, held

FEW, MANY = 4, 40


class Recorded:
    """Starts jobs by writing down their names; some fail, and one may take all the time there is."""

    def __init__(self, clock):
        self.clock, self.started, self.batches = clock, [], []
        self.failing, self.last, self.lock = set(), None, threading.Lock()
        self.on_start = lambda name: None

    def is_job(self, entry):
        """Everything is."""
        return True

    @contextmanager
    def begin(self, entries, coming):
        """Write down how many are started at once, and how many are still to come."""
        with self.lock:
            self.batches.append((len(entries), len(coming)))
        yield

    def carry_out(self, entry, gate, until, mark):
        """Start it."""
        self.on_start(entry.id)
        if entry.id in self.failing:
            raise StorageUnavailableError("busy")
        with self.lock:
            self.started.append(entry.id)
        if entry.id == self.last:
            self.clock.advance(minutes=1)
        return True


@pytest.fixture
def jobs(clock):
    """Jobs that are written down."""
    return Recorded(clock)


@pytest.fixture
def busy(connections, clock, signals, jobs, monkeypatch):
    """An instance that shares what is more than a few."""
    monkeypatch.setattr("shared.gate.outflow.MOST_ALONE", FEW)
    return House(connections, jobs, clock=clock, signals=signals, parallel=2)


@pytest.fixture
def fill(busy, gate, connections):
    """A function that holds entries behind the gate, as a keeper writes them or as a version before did."""

    def hold(number, *, is_old=False, **fields):
        names = [f"job-{n:03}" for n in range(number)]
        for name in names:
            entry = held(gate, name, **fields)
            if is_old:
                busy.held.insert(entry)
            else:
                busy.held_work.keep(entry)
        busy.gate_operator.open(gate, by="ann")
        return names

    return hold


def left(house, gate):
    """Return what is still held."""
    return [entry.id for page in house.held.pages(gate) for entry in page]


def lease_blobs(house):
    """Return the blobs of leases on slices."""
    return [name for name in house.container("gates").list_blob_names() if name.startswith("_slice")]


def test_the_slices_share_names_of_any_form_evenly():
    """None has twice its share, whether names count up or are random; a name never changes its slice."""
    for names in (
        [f"billing-2026-11-22-{n}" for n in range(16_000)],
        [f"{n * 2654435761 % 2**32:x}" for n in range(16_000)],
    ):
        counted = Counter(map(slice_of, names))
        assert (len(counted), max(counted.values()) < 2 * 16_000 / SLICES) == (SLICES, True)
    assert [slice_of("nightly"), slice_of("r~x")] == [10, 10]


def test_a_few_entries_make_no_lease_and_send_no_signal(*, busy, jobs, gate, signals, fill, house_under):
    """Up to a page: the requests are those of the rows alone."""
    fill(FEW)
    del signals.sent[:]
    counted = Plan()
    other = house_under(counted, jobs=jobs)
    assert other.releaser.on_signal(Hint(gate)) == Dispatched(put=FEW)
    assert (signals.sent, lease_blobs(busy), jobs.batches) == ([], [], [(1, 4), (3, 3)])
    assert counted.kinds == ["GET gates", "GET held", "DELETE held", "POST $batch", "POST receipts"]


def test_many_are_announced_by_slice_and_done_even_if_no_signal_arrives(busy, jobs, gate, signals, fill):
    """Whoever finds more than a page tells others, takes slices itself, and leaves no blob of a lease."""
    names = fill(MANY)
    del signals.sent[:]
    assert busy.releaser.on_signal(Hint(gate)) == Dispatched(put=MANY)
    assert signals.sent == [Hint(gate, slice=number) for number in range(SLICES)]
    assert (sorted(jobs.started), left(busy, gate), lease_blobs(busy)) == (names, [], [])


def test_a_signal_of_a_slice_releases_that_slice(busy, jobs, gate, fill):
    """And nothing else."""
    names = fill(MANY)
    done = [busy.releaser.on_signal(Hint(gate, slice=number)).put for number in range(SLICES)]
    assert done == [sum(slice_of(name) == number for name in names) for number in range(SLICES)]
    assert (sorted(jobs.started), left(busy, gate)) == (names, [])


@pytest.mark.parametrize("number", [-1, SLICES, 2**40])
def test_a_slice_that_is_none_is_refused(busy, gate, fill, told, number):
    """A forged signal makes no blob and reads nothing."""
    fill(FEW)
    assert busy.releaser.on_signal(Hint(gate, slice=number)) == Dispatched()
    assert lease_blobs(busy) == []


def test_a_slice_that_another_instance_releases_is_left_to_it(busy, jobs, gate, fill):
    """By signal and by tick; and what it left when it was killed is found once its lease has ended."""
    names = fill(MANY)
    taken = slice_of(names[0])
    lease = try_lease(busy.container("gates"), f"_slice-{taken:02}-{gate}")
    assert busy.releaser.on_signal(Hint(gate, slice=taken)) == Dispatched(is_shared=True)
    busy.tick.run()
    assert left(busy, gate) == [name for name in names if slice_of(name) == taken]
    lease.release()
    busy.tick.run()
    assert (sorted(jobs.started), left(busy, gate)) == (names, [])


def test_a_signal_that_comes_again_waits_for_the_slice_of_the_killed(busy, gate, fill, clock, monkeypatch):
    """Its lease ends soon after the signal's lock did. The tick is not needed."""
    names = fill(MANY)
    taken = slice_of(names[0])
    lease = try_lease(busy.container("gates"), f"_slice-{taken:02}-{gate}")

    def pause(seconds):
        clock.advance(seconds=seconds)
        busy.pauses.append(seconds)
        if len(busy.pauses) == 3:
            lease.release()

    monkeypatch.setattr(busy.releaser, "_pause", pause)
    wanted = [name for name in names if slice_of(name) == taken]
    assert busy.releaser.on_signal(Hint(gate, slice=taken), deliveries=2) == Dispatched(put=len(wanted))
    assert (sorted(busy._jobs.started), len(busy.pauses)) == (wanted, 3)


def test_a_signal_that_comes_again_gives_up_when_a_living_process_has_the_slice(busy, gate, fill, clock, monkeypatch):
    """After GUARD no dead one can have it."""
    taken = slice_of(fill(MANY)[0])
    try_lease(busy.container("gates"), f"_slice-{taken:02}-{gate}")
    monkeypatch.setattr(busy.releaser, "_pause", lambda seconds: clock.advance(seconds=seconds))
    assert busy.releaser.on_signal(Hint(gate, slice=taken), deliveries=2) == Dispatched(is_shared=True)
    assert clock.now() == NOON + GUARD


def test_a_slice_is_renewed_when_that_is_due(busy, gate, clock, monkeypatch):
    """One request each time that a lease is due, and none before."""
    renewed = []
    monkeypatch.setattr(BlobLease, "renew", lambda lease: renewed.extend([lease]))
    with busy.slices.lease(gate, 0) as renew:
        for _ in range(3):
            clock.advance(seconds=RENEW_AFTER / 2)
            renew()
    assert len(renewed) == 1


def test_a_gate_that_is_open_for_once_stays_open_while_others_release_it(busy, gate, fill, clock):
    """A tick that finds a slice taken does not say that all is on its way."""
    names = fill(MANY)
    busy.gate_operator.close(gate, by="ann")
    busy.gate_operator.open(gate, by="ann", once=True)
    lease = try_lease(busy.container("gates"), f"_slice-{slice_of(names[0]):02}-{gate}")
    busy.tick.run()
    assert busy.gates.read(gate).is_open
    lease.release()
    busy.tick.run()
    assert not busy.gates.read(gate).is_open


def test_a_slice_for_which_the_time_is_up_goes_on_from_where_it_stood(busy, jobs, gate, signals, fill):
    """By a signal of its own, sent when the lease is free again; the tick needs none."""
    names = [name for name in fill(MANY * 3) if slice_of(name) == 5]
    assert len(names) >= 5
    jobs.last = names[2]
    done = busy.releaser.on_signal(Hint(gate, slice=5))
    assert done == Dispatched(put=3, left=Hint(gate, since=names[3], slice=5))
    assert signals.sent[-1] == done.left
    assert busy.releaser.on_signal(done.left) == Dispatched(put=len(names) - 3)


def test_no_signal_goes_on_with_what_only_fails(busy, jobs, gate, signals, fill):
    """A release that started nothing would repeat itself for ever; the next tick is early enough."""
    jobs.failing = set(fill(FEW))
    jobs.on_start = lambda name: jobs.clock.advance(minutes=1)
    del signals.sent[:]
    done = busy.releaser.on_signal(Hint(gate))
    assert (done.put, done.left.gate, signals.sent) == (0, gate, [])
    assert left(busy, gate) == sorted(jobs.failing)


def test_rows_of_an_earlier_version_are_released_too(busy, jobs, gate, fill, connections):
    """They name no slice; whoever shares the others takes them."""
    names = fill(MANY, is_old=True)
    rows = list(connections.tables.get_table_client("held").list_entities())
    assert all({"slice", "deadline", "chunks"}.isdisjoint(row) for row in rows)
    for _ in range(3):
        busy.tick.run()
    assert (sorted(jobs.started), left(busy, gate)) == (names, [])


def test_jobs_with_a_deadline_come_first_by_their_slack(busy, jobs, gate, fill):
    """The slack is what is left after the time that their chunks will take; then all others by their id."""
    names = fill(MANY)
    hour, long, soon, later = timedelta(hours=1), names[30], names[20], names[10]
    for name, deadline, chunks in ((soon, NOON + hour, 1), (later, NOON + 2 * hour, 1), (long, NOON + 3 * hour, 90)):
        (entry,) = [one for page in busy.held.pages(gate) for one in page if one.id == name]
        busy.held.delete_all([entry])
        busy.held_work.keep(replace(entry, deadline=deadline, chunks=chunks))
    busy.outflow._chunk_seconds = lambda: 100.0
    busy.batches._parallel = 1
    busy.outflow._slices = OneSlice()
    busy.outflow.run(busy.gates.read(gate), Hint(gate), float("inf"), lambda hints: None)
    in_slices = {number: [name for name in jobs.started if slice_of(name) == number] for number in range(SLICES)}
    urgent = [name for name in jobs.started if name in {long, soon, later}]
    assert sorted(urgent) == sorted([long, soon, later])
    for number, started in in_slices.items():
        first = [name for name in (long, soon, later) if slice_of(name) == number]
        rest = sorted(name for name in started if name not in first)
        assert started == first + rest


class OneSlice:
    """Leases that are always free."""

    @contextmanager
    def lease(self, gate, number):
        """Give it."""
        yield lambda: None


def test_a_few_with_deadlines_are_sorted_too(busy, jobs, gate):
    """A page is one list."""
    for name, hours in (("a", None), ("b", 3), ("c", 1), ("d", 2)):
        deadline = None if hours is None else NOON + timedelta(hours=hours)
        entry = held(gate, name, deadline=deadline)
        busy.held_work.keep(entry)
    busy.gate_operator.open(gate, by="ann")
    busy.batches._parallel = 1
    busy.tick.run()
    assert jobs.started == ["c", "d", "b", "a"]


def test_several_instances_share_without_doing_anything_twice(*, busy, connections, clock, jobs, gate, fill):
    """Four that were signalled and two ticks, all at once: the leases keep each row to one of them."""
    names = fill(MANY * 3)
    houses = [House(connections, jobs, clock=clock, signals=RecordedSignals(), parallel=2) for _ in range(6)]
    start = threading.Barrier(6)

    def release(number):
        start.wait()
        if number < 2:
            return houses[number].tick.run()[gate].put
        return sum(houses[number].releaser.on_signal(Hint(gate, slice=n)).put for n in range(number, SLICES))

    with ThreadPoolExecutor(6) as pool:
        put = sum(pool.map(release, range(6)))
    assert (put, sorted(jobs.started), left(busy, gate)) == (len(names), names, [])


def test_rows_are_deleted_a_hundred_at_a_time_and_one_by_one_where_that_is_refused(busy, gate, jobs, fill, house_under):
    """A row that another instance deleted, or wrote again, keeps none of the others."""
    fill(FEW)
    entries = [one for page in busy.held.pages(gate) for one in page]
    busy.held.delete_all([entries[1]])
    busy.held_work.keep(entries[1])
    busy.held.delete_all([entries[2]])
    counted = Plan()
    house_under(counted, jobs=jobs).held.delete_all(entries)
    assert (left(busy, gate), counted.kinds) == ([entries[1].id], ["POST $batch", *["DELETE held"] * FEW])
