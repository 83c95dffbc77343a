"""Limits of calls: never more than the rate in any window, over processes that die, give back and come."""

import itertools
import uuid
from threading import Event, Thread

import pytest

from shared.azure.connections import Connections
from shared.clock import SystemClock
from shared.dequeue import redeliver_after
from shared.dequeue.permits import BlobSlots
from shared.errors import NoSlotError, StorageUnavailableError, WorkloadsRefusedError
from shared.grammar import MOST_CALLS, Rate, read_rate
from shared.payload import Limits
from shared.pipeline.failing.alone import Alone
from shared.pipeline.failing.call_limits import CallLimits, check_limits, cut_lots
from shared.workloads.isolate import DELIVERY_SECONDS, Calls, is_uncalled
from shared.workloads.registry import Workloads, isolate_lines, run_lines
from tests.dequeue.memory_queue import ManualClock
from tests.faults.memory.storage import MemoryStorage
from tests.process.memory_lots import MemoryLots
from tests.process.test_alone import SUSPECT
from tests.process.world import LINES, MemoryWorld, Sales
from tests.waiting import until


class Limited(Sales):
    """Sales of which each call has two limits."""

    name, limits = "limited", {"bank": "100/s"}


class Waiting(Limited):
    """Its calls run side by side."""

    async def map(self, sale, number):
        """Map it as the other one does."""
        return super().map(sale, number)


class Fleet:
    """Processes of one fleet on one clock, and the times of their calls."""

    def __init__(self, rate="100/s"):
        self.clock, self.times = ManualClock(), []
        self.lots, self.workload = MemoryLots(self.clock), Limited()
        self.workload.limits = {"bank": rate}

    def process(self, lots=None, **more):
        """Return the limits of one more process."""
        return CallLimits(lots or self.lots, self.clock, {}, pause=self.pause, **more)

    def pause(self, seconds):
        """Let time pass. A wait of no time would come again at once, and take a whole processor."""
        assert seconds > 0
        self.clock.advance(seconds)

    def call(self, turns, times):
        """Call so often, each as soon as there is a turn."""
        for _ in range(times):
            while not turns.begin():
                turns.wait()
            self.times.append(self.clock.monotonic())

    def most(self, seconds=1):
        """The most calls of any window."""
        times, most, first = self.times, 0, 0
        for last, time in enumerate(times):
            while times[first] <= time - seconds:
                first += 1
            most = max(most, last - first + 1)
        return most


@pytest.mark.parametrize("calls", [1, 15, 16, 17, 100, 250, MOST_CALLS])
def test_lots_add_up_to_the_rate_and_those_of_two_rates_to_the_higher_one(calls):
    """A process of before the change of a setting has the lower rate for the same lots, or the higher one."""
    lots = cut_lots(Rate(calls, 1))
    assert sum(lots) == calls
    for other in (1, 10, 16, 40, 99, 1000):
        both = itertools.zip_longest(lots, cut_lots(Rate(other, 1)), fillvalue=0)
        assert sum(map(max, both)) == max(calls, other)


def test_one_process_has_nearly_the_whole_rate_and_never_more():
    """More than 75 of 100 a second, for it gives a lot back now and then."""
    fleet = Fleet()
    with fleet.process().pace(fleet.workload) as turns:
        fleet.call(turns, 6000)
    assert fleet.most() <= 100
    assert 6000 / (fleet.times[-1] - fleet.times[0]) >= 75
    # Two and a half requests for a lot and ten seconds.
    assert fleet.lots.requests <= 2 * fleet.times[-1]


@pytest.mark.parametrize("begun", range(0, 1000, 83))
def test_calls_of_a_dead_process_and_of_the_next_one_are_within_the_rate(begun):
    """It dies at any call. Its lots are free when their leases end, and are used again."""
    fleet = Fleet()
    dead = fleet.process().pace(fleet.workload)
    fleet.call(dead.__enter__(), begun)
    # The clock has gone on when the next one comes: its leases have not ended.
    with fleet.process().pace(fleet.workload) as turns:
        fleet.call(turns, 1500)
    assert fleet.most() <= 100
    last = fleet.times[-500:]
    assert 500 / (last[-1] - last[0]) >= 75


def test_a_process_that_has_all_gives_one_back_now_and_then():
    """Another one, which comes later, gets some of it, and both keep within the rate."""
    fleet = Fleet()
    with fleet.process().pace(fleet.workload) as turns:
        fleet.call(turns, 500)
        assert len(fleet.lots.list_leased_lots("bank")) == 7
        second = CallLimits(fleet.lots, fleet.clock, {}, pause=lambda _seconds: fleet.call(turns, 1))
        with second.pace(fleet.workload) as others:
            while not others.begin():
                others.wait()
            fleet.times.append(fleet.clock.monotonic())
    assert fleet.most() <= 100


def test_a_chunk_that_finds_every_lot_taken_is_delivered_again():
    """It has made no call. The other chunk goes on meanwhile."""
    fleet = Fleet("16/s")
    with fleet.process().pace(fleet.workload) as turns:
        second = CallLimits(fleet.lots, fleet.clock, {}, pause=lambda _seconds: fleet.call(turns, 1))
        found = pytest.raises(NoSlotError, match=r"other processes have the calls of the limit bank \(16/s\)")
        with found, second.pace(fleet.workload):
            pytest.fail("it began")
    assert fleet.most() <= 16


def test_all_is_given_back_at_the_end():
    """The next process need not wait for the end of a lease."""
    fleet = Fleet()
    with fleet.process().pace(fleet.workload) as turns:
        fleet.call(turns, 200)
    assert fleet.lots.list_leased_lots("bank") == frozenset()


def test_a_lost_storage_costs_no_call_while_a_lot_is_in_hand():
    """Without any lot the chunk is tried again, as in any outage."""

    class Lost(MemoryLots):
        """Lots that answer once."""

        def list_leased_lots(self, limit):
            """Answer the first look."""
            if self.requests:
                raise StorageUnavailableError("storage does not answer")
            return super().list_leased_lots(limit)

    fleet = Fleet("40/s")
    lots = Lost(fleet.clock)
    with fleet.process(lots).pace(fleet.workload) as turns:
        fleet.call(turns, 100)
    with pytest.raises(StorageUnavailableError), fleet.process(lots).pace(fleet.workload):
        pytest.fail("it began")


def test_a_call_has_a_turn_of_each_of_its_limits():
    """The slower one decides."""
    fleet = Fleet()
    fleet.workload.limits = {"bank": "100/s", "mail": "30/min"}
    with fleet.process().pace(fleet.workload) as turns:
        fleet.call(turns, 90)
    assert fleet.most(60) <= 30
    assert 90 / (fleet.times[-1] - fleet.times[0]) >= 75 / 100 * 30 / 60


def test_a_setting_replaces_the_rate():
    """That of the class is not used."""
    fleet = Fleet()
    process = CallLimits(fleet.lots, fleet.clock, {"bank": read_rate("bank", "10/s")}, pause=fleet.clock.advance)
    with process.pace(fleet.workload) as turns:
        fleet.call(turns, 50)
    assert fleet.most() <= 10


def test_one_chunk_is_inside_one_waits_and_a_third_is_delivered_again():
    """So every chunk that began has the calls of the process to itself, and the next one begins at once."""
    fleet = Fleet()
    limits, entered, may_end, second = fleet.process(), Event(), Event(), []

    def first():
        with limits.pace(fleet.workload):
            entered.set()
            may_end.wait()

    def wait():
        with limits.pace(fleet.workload):
            second.append(fleet.lots.requests)

    runs = [Thread(target=first), Thread(target=wait)]
    runs[0].start()
    entered.wait()
    runs[1].start()
    until(lambda: limits._known["bank"][0]._here == 2)
    with pytest.raises(NoSlotError, match="two chunks"), limits.pace(fleet.workload):
        pytest.fail("it began")
    requests = fleet.lots.requests
    may_end.set()
    for run in runs:
        run.join()
    # It has the lots of the first one.
    assert second == [requests]
    assert fleet.lots.list_leased_lots("bank") == frozenset()


def test_chunks_that_were_sent_away_come_again_one_after_the_other():
    """As often as one has been inside, and within half a minute: else tasks would find none when the next may enter."""
    fleet = Fleet()
    limits = fleet.process(waits=0)
    with limits.pace(fleet.workload):
        fleet.clock.advance(seconds=12)
    with limits.pace(fleet.workload):
        sent_away = [refused_for(limits, fleet.workload) for _ in range(4)]
    assert sent_away == [12, 24, 30, 30]


def refused_for(limits, workload):
    """Return after how many seconds a chunk comes again that may not enter."""
    with pytest.raises(NoSlotError) as refused, limits.pace(workload):
        pytest.fail("it began")
    return redeliver_after(refused.value, 1)


def test_a_second_chunk_does_not_wait_for_ever():
    """Then its task takes other work."""
    fleet = Fleet()
    limits = fleet.process(waits=0)
    with (
        limits.pace(fleet.workload),
        pytest.raises(NoSlotError, match="a chunk with this limit runs here"),
        limits.pace(fleet.workload),
    ):
        pytest.fail("it began")


@pytest.mark.parametrize("kind", [Limited, Waiting])
def test_each_call_waits_for_its_turn(kind):
    """Whether it is async or not. All else is the workload's."""
    fleet, workload, each = Fleet(), kind(), []
    # One lot: no two of its turns come at once.
    workload.limits = {"bank": "16/s"}
    with fleet.process().pace(workload) as turns:
        begin = turns.begin

        def count():
            had = begin()
            each.extend([fleet.clock.monotonic()] * had)
            return had

        turns.begin = count
        ran = isolate_lines(workload, LINES, range(1, 1 + len(LINES)), calls=Calls(turns=turns))
    assert ran == run_lines(Sales(), LINES, 1)
    assert len(each) == len(LINES)
    assert all(later > sooner for sooner, later in itertools.pairwise(each))


class Failing(Waiting):
    """One whose first call fails, while others wait for a turn."""

    async def map(self, sale, number):
        """Lose the connection."""
        raise ConnectionResetError


def test_no_wait_outlives_its_chunk():
    """Lots are given back when no thread takes any."""
    fleet, workload = Fleet("2/s"), Failing()
    workload.limits = {"bank": "2/s"}
    with fleet.process().pace(workload) as turns:
        ran = isolate_lines(workload, LINES, range(1, 1 + len(LINES)), calls=Calls(turns=turns))
    assert ran.left
    assert fleet.lots.list_leased_lots("bank") == frozenset()


class TwoTurns:
    """Turns of which every second one has to be waited for."""

    def __init__(self, most=100):
        self.had, self._has, self._most = 0, False, most

    def begin(self):
        """Take what came."""
        self.had += self._has
        has, self._has = self._has, False
        return has

    def wait(self):
        """Have one come, up to the last."""
        if self.had == self._most:
            raise NoSlotError
        self._has = True


@pytest.mark.parametrize("kind", ["Suspect", "Waiting"])
def test_a_chunk_in_a_process_of_its_own_asks_for_each_turn(kind):
    """The lots stay with this process, whose death the child hears of."""
    loaded = Workloads.load(f"tests.process.suspects:{kind}", {"HOW": "prints", "AMOUNTS": ""}).loaded
    turns = TwoTurns()
    ran = Alone(loaded=loaded)(SUSPECT, [LINES], 1, Limits(), turns=turns)
    assert (ran.accepted.items, turns.had) == (len(LINES), len(LINES))


def test_a_chunk_there_that_gets_no_turn_is_delivered_again():
    """It is no killer and has not stood still. Those that had their turns are kept."""
    loaded = Workloads.load("tests.process.suspects:Suspect", {"HOW": "prints", "AMOUNTS": ""}).loaded
    ran = Alone(loaded=loaded)(SUSPECT, [LINES], 1, Limits(), turns=TwoTurns(3))
    assert (ran.accepted.items, len(ran.left)) == (3, len(LINES) - 3)
    assert all(is_uncalled(one.error) for one in ran.left)


@pytest.fixture
def limited():
    """A world whose workload has limits."""
    world, fleet = MemoryWorld(MemoryStorage()), Fleet()
    world.workload = Limited()
    world.workload.name = "sales"
    world.pace = fleet.process().pace
    return world


def test_a_chunk_with_limits_is_processed(limited):
    """As any other one."""
    limited.deliver()
    assert limited.sent[0].accepted.items + limited.sent[0].rejected.items == len(LINES)


def test_a_chunk_that_may_not_begin_is_never_parked(limited):
    """However often it is delivered. A person sees what it waits for, and no fault."""

    def full(*_):
        raise NoSlotError("other processes have the calls", waits_for="the limit bank (16/s)")

    limited.pace = full
    for count in (1, 5, 60):
        with pytest.raises(NoSlotError):
            limited.deliver(count)
    assert limited.entry is None
    with limited.process() as process:
        (noted,) = process.attempts.list_failures(limited.job)
    assert noted.words == "waits for the limit bank (16/s)"


def test_a_limit_at_which_a_delivery_ends_before_its_first_call_stops_the_start():
    """Each delivery waits for one distance first, and begins no call after a minute. So a chunk would never end."""
    workloads = Workloads([Limited()])
    with pytest.raises(WorkloadsRefusedError, match=r"of 1/min no call begins within the 60 s .*: take 2/min or more"):
        check_limits(workloads, {"bank": Rate(1, 60)})
    check_limits(workloads, {"bank": Rate(2, 60)})
    fleet = Fleet("2/min")
    began = fleet.clock.monotonic()
    with fleet.process().pace(fleet.workload) as turns:
        fleet.call(turns, 1)
    assert fleet.times[0] - began < DELIVERY_SECONDS


def test_a_setting_of_a_limit_that_no_workload_has_stops_the_start():
    """It names those that there are."""
    with pytest.raises(WorkloadsRefusedError, match=r"names the limit bnak, .*known: bank"):
        check_limits(Workloads([Limited()]), {"bnak": Rate(100, 1)})


@pytest.fixture(params=["memory", "storage"])
def lots(request):
    """Lots of one of the two kinds."""
    if request.param == "memory":
        yield MemoryLots(ManualClock())
        return
    with Connections(request.getfixturevalue("azurite").connection_string) as connections:
        container = connections.blobs.create_container(f"permits-{uuid.uuid4().hex[:12]}")
        yield BlobSlots(container, SystemClock())
        container.delete_container()


def test_a_lot_is_for_one_at_a_time_and_known_by_its_limit(lots):
    """No limit sees those of another, whatever the names are."""
    first = lots.lease_lot("bank", 3)
    assert first.is_held
    assert lots.lease_lot("bank", 3) is None
    assert lots.lease_lot("bank-2", 4).is_held
    assert lots.list_leased_lots("bank") == {3}
    assert lots.list_leased_lots("bank-2") == {4}
    first.release()
    assert lots.list_leased_lots("bank") == frozenset()
    assert lots.lease_lot("bank", 3).is_held
