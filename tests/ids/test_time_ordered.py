"""What time-ordered ids promise, whatever the clocks of their makers say."""

import itertools
import multiprocessing
import threading
from datetime import timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shared.errors import (
    ClockWentBackError,
    GeneratorClosedError,
    NodesTakenError,
    SequenceCorruptError,
    SequenceLostError,
    StorageUnavailableError,
    WaitExpiredError,
)
from shared.ids import OptimisticStore, TimeOrderedGenerator, node_lease, read_id
from shared.ids.node_lease import NODES
from shared.ids.time_ordered import EPOCH
from tests.ids.conftest import ManualClock
from tests.ids.memory_store import MemoryStore
from tests.ids.turns import Fault


def generator(store: OptimisticStore, clock: ManualClock, **options) -> TimeOrderedGenerator:
    """Return a generator that lets the clock run where it would wait."""
    return TimeOrderedGenerator(store, clock=clock, pause=clock.advance, **options)


def test_an_id_says_when_and_where_it_was_made(clock):
    """Time, counter and node number can be read back from an id, which fits a signed 64-bit column."""
    with generator(MemoryStore(), clock) as ids:
        number = ids.next_id()
    assert 0 < number < 2**63
    assert (read_id(number).at, read_id(number).count, read_id(number).node) == (clock.at, 0, 0)


def test_ids_rise_with_time_across_nodes(store: OptimisticStore, clock):
    """An id made in a later millisecond is larger, on whichever node."""
    with generator(store, clock) as one, generator(store, clock) as two:
        ids = []
        for turn in range(50):
            ids.append((one, two)[turn % 2].next_id())
            clock.advance(0.001)
    assert ids == sorted(set(ids))
    assert {read_id(number).node for number in ids} == {0, 1}


def test_a_block_is_evenly_spaced_across_milliseconds(clock):
    """More ids than a millisecond holds are one range, given when the last of their milliseconds has come."""
    with generator(MemoryStore(), clock) as ids:
        began = clock.at
        block = ids.next_ids(10_000)
        after = ids.next_id()
    assert (len(block), block.step) == (10_000, NODES)
    assert clock.at - began == timedelta(milliseconds=2)
    assert after > block[-1]


async def test_coroutines_get_ids_under_the_same_interface(clock):
    """The async twins give unique ids too."""
    async with generator(MemoryStore(), clock) as ids:
        numbers = [await ids.anext_id(), *await ids.anext_ids(3), ids.next_id()]
    assert len(set(numbers)) == 5


def test_threads_share_a_generator():
    """Threads that take single ids and blocks never get the same number."""
    taken: list[list[int]] = []

    def work(ids: TimeOrderedGenerator) -> None:
        taken.append([number for turn in range(300) for number in (ids.next_ids(5) if turn % 3 else [ids.next_id()])])

    with TimeOrderedGenerator(MemoryStore()) as ids:
        threads = [threading.Thread(target=work, args=(ids,)) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    numbers = list(itertools.chain.from_iterable(taken))
    assert len(numbers) == len(set(numbers)) == 4 * (100 + 200 * 5)


def test_a_clock_that_goes_back_a_little_is_waited_for(clock):
    """Ids go on rising after a small step back: the caller waits until the clock has caught up."""
    with generator(MemoryStore(), clock) as ids:
        before = ids.next_id()
        clock.advance(-3)
        after = ids.next_id()
    assert after > before
    assert read_id(after).at <= clock.at


def test_a_clock_that_goes_back_far_is_refused(clock):
    """A step back longer than a caller may wait is told with its length, and no id is given."""
    with generator(MemoryStore(), clock) as ids:
        ids.next_id()
        clock.advance(-3600)
        with pytest.raises(ClockWentBackError, match="3600000 ms behind"):
            ids.next_id()
        clock.advance(3600)
        ids.next_id()


def test_more_ids_than_a_caller_can_wait_for_are_refused(clock):
    """A block that would take longer than the deadline is refused before it takes anything."""
    with generator(MemoryStore(), clock, wait=timedelta(seconds=1)) as ids:
        with pytest.raises(WaitExpiredError, match="smaller blocks"):
            ids.next_ids(10_000_000)
        ids.next_id()


def test_a_lease_is_prolonged_while_it_is_used(clock):
    """A node that goes on making ids keeps its number."""
    with generator(MemoryStore(), clock) as ids:
        nodes = set()
        for _ in range(60):
            nodes.add(read_id(ids.next_id()).node)
            clock.advance(10)
    assert nodes == {0}


def test_a_node_number_is_used_again_after_a_close_and_after_a_crash(clock):
    """A hundred starts do not use up a hundred node numbers."""
    store = MemoryStore("ids/nodes", clock)
    with generator(store, clock) as closed:
        closed.next_id()
    clock.advance(0.002)
    crashed = generator(store, clock)
    assert read_id(crashed.next_id()).node == 0
    with generator(store, clock) as meanwhile:
        assert read_id(meanwhile.next_id()).node == 1
    clock.advance(120)
    with generator(store, clock) as later:
        assert read_id(later.next_id()).node == 0
    crashed.close()


def test_a_holder_whose_number_was_taken_gets_another(clock):
    """A process that slept past its lease does not make ids under a number that has a new holder."""
    store = MemoryStore("ids/nodes", clock)
    with generator(store, clock) as slept:
        slept.next_id()
        clock.advance(300)
        with generator(store, clock) as awake:
            taken = awake.next_id()
            assert (read_id(taken).node, read_id(slept.next_id()).node) == (0, 1)


STEPS = st.lists(
    st.tuples(st.integers(0, 2), st.sampled_from(["id", "block", "tick", "skew", "crash"]), st.integers(-90, 90))
)


@settings(max_examples=150, deadline=None)
@given(STEPS)
def test_ids_are_unique_with_any_clocks(steps):
    """Three nodes whose clocks jump as they like, crash and come back, never make the same id."""
    store, clocks = MemoryStore(clock=ManualClock()), [ManualClock() for _ in range(3)]
    options = {"wait": timedelta(hours=100), "lease": timedelta(seconds=20)}
    makers = [generator(store, clock, **options) for clock in clocks]
    made: list[int] = []
    for node, step, amount in steps:
        if step == "id":
            made.append(makers[node].next_id())
        elif step == "block":
            made.extend(makers[node].next_ids(abs(amount) * 100 + 1))
        elif step == "crash":
            makers[node].disown()
            makers[node] = generator(store, clocks[node], **options)
        else:
            clocks[node].advance(abs(amount) if step == "tick" else amount)
    assert len(set(made)) == len(made)


@given(st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 500), st.integers(1, 100)), max_size=30))
def test_intervals_of_one_node_number_never_overlap(requests):
    """However the clocks of those who ask are set, a number's lease begins where its last one ended, or later."""
    table = node_lease.empty("n", EPOCH)
    for holder, now, length in requests:
        before = table.leases
        table = node_lease.granted(table, holder, now, now + length, "n", EPOCH)
        lease = table.held_by(holder)
        if lease.node < len(before) and before[lease.node].holder != holder:
            assert lease.begin >= before[lease.node].end


class Lossy(MemoryStore):
    """Loses the replies that it is told to."""

    def __init__(self) -> None:
        super().__init__()
        self.faults: list[Fault | None] = []

    def try_write(self, value: bytes, etag: str | None) -> str | None:
        """Write, and lose the reply if told to."""
        fault = self.faults.pop(0) if self.faults else None
        written = super().try_write(value, etag)
        if fault is Fault.FAILS_AFTER:
            raise StorageUnavailableError("injected")
        return None if fault is Fault.REFUSED_AFTER else written


@pytest.mark.usefixtures("no_pauses")
@pytest.mark.parametrize("fault", [Fault.FAILS_AFTER, Fault.REFUSED_AFTER])
def test_a_lease_whose_reply_was_lost_is_found_and_used(fault: Fault):
    """A lease that was granted without saying so does not cost a second number."""
    store = Lossy()
    store.faults = [None, fault]
    with TimeOrderedGenerator(store) as ids:
        assert read_id(ids.next_id()).node == 0
        assert len(node_lease.parse(store.read().value, "x").leases) == 1


def test_the_lease_table_is_not_started_anew(clock):
    """When the leases are lost, running processes may hold any number: none is granted."""
    store = MemoryStore("ids/nodes", clock)
    with generator(store, clock) as ids:
        ids.next_id()
    del store._values["ids/nodes"]
    with generator(store, clock) as ids, pytest.raises(SequenceLostError):
        ids.next_id()


@pytest.mark.parametrize(
    "value", [b"", b"{}", b'{"v": 1, "writes": 1, "nonce": "", "at": "2026-01-01T00:00Z", "leases": [["a", 2, 1]]}']
)
def test_a_corrupt_lease_table_grants_nothing(value: bytes):
    """What no generator wrote is refused."""
    store = MemoryStore()
    store.try_write(value, None)
    with TimeOrderedGenerator(store) as ids, pytest.raises(SequenceCorruptError):
        ids.next_id()


def test_no_free_node_number_is_told_with_the_time_of_the_next(clock):
    """With 1024 living nodes one more is refused, not given somebody's number."""
    table = node_lease.empty("n", clock.at)
    for node in range(NODES):
        table = node_lease.granted(table, f"holder-{node}", 0, 60_000, "n", clock.at)
    with pytest.raises(NodesTakenError, match="free in 50000 ms"):
        node_lease.granted(table, "late", 10_000, 70_000, "n", clock.at)
    assert node_lease.parse(table.encode(), "x") == table


def test_a_closed_generator_refuses(clock):
    """No id comes from a generator after its close, and closing twice is harmless."""
    ids = generator(MemoryStore(), clock)
    ids.close()
    ids.close()
    with pytest.raises(GeneratorClosedError):
        ids.next_id()
    with generator(MemoryStore(), clock) as ids, pytest.raises(ValueError, match="expected 1 or more"):
        ids.next_ids(0)


def _child(ids: TimeOrderedGenerator, answers) -> None:
    try:
        answers.put(ids.next_id())
    except GeneratorClosedError as refusal:
        answers.put(str(refusal))


@pytest.mark.filterwarnings("ignore:.*use of fork:DeprecationWarning")
def test_a_forked_child_does_not_use_its_parents_node_number():
    """A child that inherits a generator is refused."""
    context = multiprocessing.get_context("fork")
    answers = context.SimpleQueue()
    with TimeOrderedGenerator(MemoryStore()) as ids:
        ids.next_id()
        child = context.Process(target=_child, args=(ids, answers))
        child.start()
        assert "before this process was forked" in answers.get()
        child.join()
