"""What a generator promises its callers."""

import asyncio
import copy
import itertools
import multiprocessing
import threading
from datetime import timedelta

import pytest
from hypothesis import given, strategies as st

from shared.azure import OptimisticStore
from shared.errors import GeneratorClosedError, StorageUnavailableError, WaitExpiredError
from shared.ids import RangeGenerator, Sizing, explain_in, read_sequence
from shared.ids.book import IdDemand, low_mark, next_size, read_log
from shared.ids.explain import NumberFate
from shared.ids.range_generator import LockedLane, drain
from shared.ids.sequence import KEPT
from tests.ids.memory_store import MemoryStore
from tests.ids.turns import Fault
from tests.waiting import LIMIT


def test_ids_begin_at_one_and_follow_each_other(store: OptimisticStore):
    """One node alone hands out short numbers in order."""
    with RangeGenerator(store) as generator:
        assert [generator.next_id() for _ in range(200)] == list(range(1, 201))


def test_a_sequence_can_begin_elsewhere():
    """The first id of a sequence is the one that was asked for when it was made."""
    with RangeGenerator(MemoryStore(), first_id=100_000) as generator:
        assert generator.next_id() == 100_000


def test_two_generators_share_a_sequence(store: OptimisticStore):
    """Generators that know nothing of each other hand out different ids."""
    with RangeGenerator(store) as one, RangeGenerator(store) as two:
        ids = [generator.next_id() for _ in range(100) for generator in (one, two)]
    assert len(set(ids)) == 200


def test_a_block_is_adjoining_and_may_be_larger_than_a_range(store: OptimisticStore):
    """A block has no holes whatever its size, and shares nothing with the ids around it."""
    with RangeGenerator(store, range_size=10) as generator:
        single, block, another = generator.next_id(), generator.next_ids(5000), generator.next_id()
    assert isinstance(block, range)
    assert (len(block), block.step) == (5000, 1)
    assert single not in block
    assert another not in block


@pytest.mark.parametrize("count", [0, -1])
def test_a_block_of_nothing_is_refused(count: int):
    """Asking for no ids is a mistake that is told, not an empty answer."""
    with RangeGenerator(MemoryStore()) as generator, pytest.raises(ValueError, match="expected 1 or more"):
        generator.next_ids(count)


@given(st.lists(st.integers(0, 700), max_size=40), st.integers(1, 50))
def test_any_mix_of_single_ids_and_blocks_is_unique_and_leaves_no_hole(sizes: list[int], range_size: int):
    """Whatever is asked for in whatever order, no id comes twice, and a close explains every number not used."""
    store = MemoryStore()
    with RangeGenerator(store, range_size=range_size, prefetch=False) as generator:
        taken = [[generator.next_id()] if size == 0 else list(generator.next_ids(size)) for size in sizes]
    ids = list(itertools.chain.from_iterable(taken))
    assert len(set(ids)) == len(ids)
    page = read_sequence(store)
    events = (*read_log(store, page.spilled), *page.events) if page else ()
    unused = set(range(1, page.next)) - set(ids) if page else set()
    assert all(explain_in(store, number).fate is NumberFate.LEFT for number in unused)
    assert len(events) == (page.writes if page else 0)


def test_threads_share_a_generator():
    """Many threads that take single ids and blocks from one generator never get the same number."""
    taken: list[list[int]] = []

    def work(generator: RangeGenerator) -> None:
        mine = []
        for turn in range(2000):
            mine.extend(generator.next_ids(7) if turn % 10 == 0 else [generator.next_id()])
        taken.append(mine)

    with RangeGenerator(MemoryStore(), range_size=50) as generator:
        threads = [threading.Thread(target=work, args=(generator,)) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    ids = list(itertools.chain.from_iterable(taken))
    assert len(ids) == 8 * (1800 + 200 * 7)
    assert len(set(ids)) == len(ids)


async def test_coroutines_share_a_generator(store: OptimisticStore):
    """Coroutines and blocks on one event loop never get the same number."""
    async with RangeGenerator(store) as generator:
        singles = asyncio.gather(*(generator.anext_id() for _ in range(300)))
        blocks = asyncio.gather(*(generator.anext_ids(20) for _ in range(10)))
        ids = [*await singles, *itertools.chain.from_iterable(await blocks)]
    assert len(set(ids)) == 500


class Blocked(MemoryStore):
    """A store that answers when the test lets it."""

    def __init__(self) -> None:
        super().__init__()
        self.may_answer = threading.Event()

    def try_write(self, value: bytes, etag: str | None) -> str | None:
        """Write when the test lets it."""
        self.may_answer.wait(LIMIT)
        return super().try_write(value, etag)


async def test_the_event_loop_runs_on_while_ids_are_fetched():
    """A coroutine that waits for ids does not keep others from running."""
    store = Blocked()
    async with RangeGenerator(store) as generator:
        waiting = asyncio.create_task(generator.anext_id())
        await asyncio.sleep(0)
        assert not waiting.done()
        store.may_answer.set()
        assert await waiting == 1


async def test_a_cancelled_waiter_leaves_the_others_their_ids():
    """Giving up on an id does not cancel the fetch that others wait for."""
    store = Blocked()
    async with RangeGenerator(store) as generator:
        first, second = (asyncio.create_task(generator.anext_id()) for _ in range(2))
        await asyncio.sleep(0)
        first.cancel()
        store.may_answer.set()
        assert await second == 1


async def test_waiting_ends_at_the_deadline():
    """A storage that hangs costs a caller its deadline, in threads and in coroutines, not for ever."""
    store = Blocked()
    generator = RangeGenerator(store, wait=timedelta(milliseconds=20))
    with pytest.raises(WaitExpiredError, match=r"within 0.02 s"):
        generator.next_id()
    with pytest.raises(WaitExpiredError, match=r"within 0.02 s"):
        await generator.anext_id()
    store.may_answer.set()
    await generator.aclose()


class Counting(MemoryStore):
    """Counts requests, and fails the writes that it is told to."""

    def __init__(self) -> None:
        super().__init__()
        self.requests = 0
        self.faults: list[Fault | None] = []

    def read(self):
        """Read, and count it."""
        self.requests += 1
        return super().read()

    def try_write(self, value: bytes, etag: str | None) -> str | None:
        """Write, count it, and lose the reply if told to."""
        self.requests += 1
        fault = self.faults.pop(0) if self.faults else None
        written = super().try_write(value, etag)
        if fault is Fault.FAILS_AFTER:
            raise StorageUnavailableError("injected")
        return None if fault is Fault.REFUSED_AFTER else written


def test_one_process_alone_makes_one_request_a_range():
    """Each write rests on the answer to the one before: alone, a range costs one request."""
    store = Counting()
    with RangeGenerator(store, sizing=Sizing(first=1, range_size=1, largest=1), prefetch=False) as generator:
        generator.next_id()
        store.requests = 0
        for _ in range(50):
            generator.next_id()
        assert store.requests == 50


@pytest.mark.usefixtures("no_pauses")
@pytest.mark.parametrize("fault", [Fault.FAILS_AFTER, Fault.REFUSED_AFTER])
def test_a_range_whose_reply_was_lost_is_found_again_and_used(fault: Fault):
    """A write that took effect without saying so is proven by its nonce, and its numbers are not wasted."""
    store = Counting()
    with RangeGenerator(store, sizing=Sizing(first=2, range_size=2, largest=2), prefetch=False) as generator:
        ids = [generator.next_id(), generator.next_id()]
        store.faults = [fault]
        ids += [generator.next_id(), generator.next_id()]
    assert ids == [1, 2, 3, 4]


@pytest.mark.usefixtures("no_pauses")
def test_a_range_proven_after_its_refill_failed_is_used_by_the_next_one():
    """Even when all attempts ended without an answer, the range that landed is found later, never taken unproven."""
    store = Counting()
    with RangeGenerator(store, sizing=Sizing(first=2, range_size=2, largest=2), max_attempts=1) as generator:
        store.faults = [None, Fault.FAILS_AFTER]
        with pytest.raises(StorageUnavailableError):
            generator.next_id()
        assert generator.next_id() == 1


def test_steady_use_waits_for_nothing(clock):
    """With ids fetched ahead, a caller whose rate is known has each at once. One that had to wait would fail."""
    store = Blocked()
    store.may_answer.set()
    with RangeGenerator(store, clock=clock) as generator:
        for number in range(20_000):
            if number == 5_000:
                generator._wait = 0.0
            generator.next_id()
            clock.advance(0.001)
            # Storage answers between two ids.
            assert generator._supply._flight.result(LIMIT) is None
        # The store hangs from now on; nearly half a horizon of numbers is there without it.
        store.may_answer.clear()
        for _ in range(700):
            generator.next_id()
        store.may_answer.set()


def test_a_cold_start_burns_few_numbers():
    """A hundred nodes that need three ids each use up little more than a thousand numbers, and give most back."""
    store = MemoryStore()
    nodes = [RangeGenerator(store) for _ in range(100)]
    for node in nodes:
        for _ in range(3):
            node.next_id()
    assert read_sequence(store).next <= 100 * 10 + 1
    for node in reversed(nodes):
        node.close()
    with RangeGenerator(store) as late:
        assert late.next_id() < 1000


def test_a_close_gives_the_unused_tail_back():
    """After a graceful end the next node goes on where this one stopped."""
    store = MemoryStore()
    with RangeGenerator(store) as generator:
        ids = [generator.next_id() for _ in range(5)]
    with RangeGenerator(store) as generator:
        assert generator.next_id() == ids[-1] + 1


def test_a_tail_below_somebody_elses_range_is_not_given_back():
    """What is no longer the top stays a gap, and its story is told."""
    store = MemoryStore()
    with RangeGenerator(store) as early:
        early.next_id()
        late = RangeGenerator(store)
        assert late.next_id() == 11
    assert read_sequence(store).next == 21
    told = explain_in(store, 7)
    assert told.fate is NumberFate.LEFT
    assert told.reservation.by.node == early.node
    late.close()


@pytest.mark.usefixtures("no_pauses")
def test_a_close_whose_reply_was_lost_gives_nothing_back_twice():
    """Repeating a close that took effect would give back numbers that others have taken since."""
    store = Counting()
    generator = RangeGenerator(store, prefetch=False)
    generator.next_id()
    store.faults = [Fault.FAILS_AFTER]
    generator.close()
    assert read_sequence(store).next == 2
    assert [event.kind for event in read_sequence(store).events] == ["created", "reserved", "closed"]


def test_a_closed_generator_refuses():
    """No id comes from a generator after its close, and closing twice is harmless."""
    generator = RangeGenerator(MemoryStore())
    generator.next_id()
    generator.close()
    generator.close()
    for call in (generator.next_id, lambda: generator.next_ids(3)):
        with pytest.raises(GeneratorClosedError, match="closed"):
            call()


def test_no_id_is_used_and_given_back_while_threads_race_a_close():
    """Whatever a close gives back was not handed out by a thread that came in just before."""
    for _ in range(30):
        store = MemoryStore()
        taken: list[int] = []
        generator = RangeGenerator(store, range_size=20)

        def work(generator: RangeGenerator = generator, taken: list[int] = taken) -> None:
            try:
                while True:
                    taken.append(generator.next_id())
            except GeneratorClosedError:
                return

        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        generator.next_ids(50)
        generator.close()
        for thread in threads:
            thread.join()
        with RangeGenerator(store) as after:
            assert after.next_id() > max(taken, default=0)


def _child(generator: RangeGenerator, answers) -> None:
    try:
        answers.put(generator.next_id())
    except GeneratorClosedError as refusal:
        answers.put(str(refusal))


@pytest.mark.filterwarnings("ignore:.*use of fork:DeprecationWarning")
def test_a_forked_child_does_not_hand_out_its_parents_numbers():
    """A child that inherits a generator is refused, while its parent goes on."""
    context = multiprocessing.get_context("fork")
    answers = context.SimpleQueue()
    with RangeGenerator(MemoryStore(), prefetch=False) as generator:
        generator.next_id()
        child = context.Process(target=_child, args=(generator, answers))
        child.start()
        assert "before this process was forked" in answers.get()
        child.join()
        assert generator.next_id() == 2


def test_a_generator_cannot_be_copied():
    """Two copies would hand out the same numbers."""
    with RangeGenerator(MemoryStore()) as generator, pytest.raises(TypeError, match="cannot be copied"):
        copy.copy(generator)


def test_the_log_keeps_what_the_blob_no_longer_holds(store: OptimisticStore):
    """Reservations older than the blob's own are explained from the log, without a hole between the two."""
    ones = Sizing(first=1, range_size=1, largest=1)
    with RangeGenerator(store, sizing=ones, prefetch=False) as generator:
        for _ in range(3 * KEPT):
            generator.next_id()
    page = read_sequence(store)
    assert page.spilled == 2 * KEPT
    reserved = [event.start for event in (*read_log(store, page.spilled), *page.events) if event.kind == "reserved"]
    assert reserved == list(range(1, 3 * KEPT + 1))
    for number in (1, KEPT, 2 * KEPT + 1, 3 * KEPT):
        told = explain_in(store, number)
        assert (told.fate, told.reservation.by.node) == (NumberFate.HANDED_OUT, generator.node)


def test_a_locked_lane_hands_each_number_to_one_taker():
    """What a free-threaded interpreter uses keeps the promises of a plain iterator."""
    shared = LockedLane(range(5))
    assert [next(shared), next(shared)] == [0, 1]
    assert drain(shared) == range(2, 5)
    assert list(shared) == []


@given(st.floats(0, 1e7), st.floats(0, 20), st.integers(1, 2_000_000))
def test_a_range_stays_within_its_bounds(rate: float, pressure: float, previous: int):
    """For any demand the size is within the bounds and at most ten times the one before, more after conflicts."""
    sizing = Sizing()
    demand = IdDemand(rate, pressure, previous)
    size = next_size(demand, sizing)
    assert sizing.first <= size <= sizing.largest
    assert size <= max(10 * previous * (1 + pressure), sizing.first)
    assert 0 <= low_mark(demand, sizing) <= previous


def test_a_range_follows_the_rate():
    """A slow node holds seconds of numbers, a busy one what it needs, and conflicts make it more."""
    sizing = Sizing()
    assert next_size(IdDemand(), sizing) == 10
    assert next_size(IdDemand(rate=5, previous=1000), sizing) == 100
    assert next_size(IdDemand(rate=200, previous=1000), sizing) == 1000
    assert next_size(IdDemand(rate=50_000, previous=100_000), sizing) == 100_000
    assert next_size(IdDemand(rate=50_000, pressure=1, previous=100_000), sizing) == 200_000


@given(st.floats(0.1, 1e5), st.lists(st.floats(0.001, 5), min_size=30, max_size=60))
def test_the_measured_rate_approaches_the_true_one(rate: float, pauses: list[float]):
    """However irregular the measurements, a constant rate is found."""
    demand = IdDemand()
    for seconds in (*pauses, 10.0):
        demand = demand.after_drawing(round(rate * seconds * 1000), seconds * 1000)
    assert demand.rate == pytest.approx(rate, rel=0.1)
