"""Every order of storage operations that a few writers can come in, with every fault at every place."""

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import pytest

from shared.azure import OptimisticStore
from shared.errors import SluiceError
from shared.ids import RangeGenerator, Sizing
from tests.ids.memory_store import MemoryStore
from tests.ids.seed_generator import SeedGenerator, SeedStore
from tests.ids.turns import Fault, SteppedStore, Turns

CALLS = 5
PAIRS = Sizing(first=2, range_size=2, largest=2)


@dataclass(frozen=True)
class Run:
    """The ids that came out of one schedule."""

    ids: tuple[int, ...]

    @property
    def has_duplicates(self) -> bool:
        """Whether an id came twice."""
        return len(set(self.ids)) < len(self.ids)


def plans(places: Sequence[int], kinds: Sequence[Fault]) -> Iterator[list[Fault | None]]:
    """Yield a plan without a fault, then one for each fault at each place."""
    yield []
    for place in places:
        for kind in kinds:
            yield [*[None] * place, kind]


def drawn(next_id: Callable[[], int]) -> list[int]:
    """Ask on after a failure, as an application does."""
    ids = []
    for _ in range(CALLS):
        try:
            ids.append(next_id())
        except (SluiceError, RuntimeError):
            continue
    return ids


def run_ours(writers: int, schedule: Sequence[int], plan: list[Fault | None]) -> Run:
    """Run a schedule with our generator on a sequence in use."""
    store = MemoryStore()
    with RangeGenerator(store, sizing=PAIRS) as before:
        before.next_id()
    return run_all(store, writers, schedule, plan, ours)


def ours(store: OptimisticStore) -> list[int]:
    """Draw from our generator."""
    with RangeGenerator(store, sizing=PAIRS, max_attempts=2, prefetch=False) as generator:
        return drawn(generator.next_id)


def seeds(*, etag_at_write: bool, adopts_before_write: bool) -> Callable[[OptimisticStore], list[int]]:
    """Return the program that draws from Twist's generator with these defects."""

    def program(store: OptimisticStore) -> list[int]:
        seed_store = SeedStore(store, etag_at_write=etag_at_write)
        try:
            generator = SeedGenerator(seed_store, 2, 1, adopts_before_write=adopts_before_write)
        except (SluiceError, RuntimeError):
            # Its first range is fetched when it is made; an application that cannot start draws nothing.
            return []
        return drawn(generator.next_id)

    return program


def run_all(
    store: MemoryStore,
    writers: int,
    schedule: Sequence[int],
    plan: list[Fault | None],
    program: Callable[[OptimisticStore], list[int]],
) -> Run:
    """Run writers of one program on one store; the first one meets the faults."""
    turns = Turns(writers)
    ids: list[int] = []

    def job(writer: int) -> Callable[[], None]:
        stepped = SteppedStore(store, turns, writer, list(plan) if writer == 0 else [])
        return lambda: ids.extend(program(stepped))

    turns.run([job(writer) for writer in range(writers)], schedule)
    return Run(tuple(ids))


@pytest.mark.usefixtures("no_pauses")
def test_two_writers_never_share_an_id_in_any_order_with_any_fault(is_usual: bool):  # noqa: FBT001 # a fixture
    """No order of two writers' operations, with any fault at any of the first eight, in CI, yields an id twice."""
    schedules, places = itertools.product(range(2), repeat=6), range(0, 8, 3 if is_usual else 1)
    cases = itertools.product(schedules, plans(places, list(Fault)))
    runs = [run_ours(2, schedule, plan) for schedule, plan in cases]
    assert len(runs) == 64 * (1 + 4 * len(places))
    assert not [run for run in runs if run.has_duplicates]
    # Were every call refused, there would be nothing to find: most must succeed in spite of the fault.
    assert sum(len(run.ids) for run in runs) > 0.9 * len(runs) * 2 * CALLS


@pytest.mark.usefixtures("no_pauses")
def test_three_writers_never_share_an_id_in_any_order_with_any_fault():
    """No order of three writers' first operations, with any fault at the first write, yields an id twice."""
    schedules = itertools.product(range(3), repeat=4)
    cases = itertools.product(schedules, plans([2], list(Fault)))
    assert not [case for case in cases if run_ours(3, *case).has_duplicates]


@pytest.mark.parametrize(
    ("etag_at_write", "adopts_before_write"),
    [(True, True), (True, False), (False, True)],
    ids=["both", "etag", "adopts"],
)
def test_the_seeds_generator_repeats_ids_in_the_same_schedules(etag_at_write: bool, adopts_before_write: bool):  # noqa: FBT001  # parametrised
    """The same schedules catch Twist's generator as published, and with either one of its two defects."""
    program = seeds(etag_at_write=etag_at_write, adopts_before_write=adopts_before_write)
    schedules = itertools.product(range(2), repeat=6)
    caught = 0
    for schedule, plan in itertools.product(schedules, plans(range(4), list(Fault))):
        store = MemoryStore()
        store.try_write(b"0", None)
        caught += run_all(store, 2, schedule, plan, program).has_duplicates
    assert caught > 0


def test_a_generator_with_neither_defect_passes_the_same_schedules():
    """The schedules do not catch a generator of Twist's shape without its defects: they look for nothing else."""
    program = seeds(etag_at_write=False, adopts_before_write=False)
    schedules = itertools.product(range(2), repeat=6)
    for schedule, plan in itertools.product(schedules, plans(range(4), list(Fault))):
        store = MemoryStore()
        store.try_write(b"0", None)
        assert not run_all(store, 2, schedule, plan, program).has_duplicates
