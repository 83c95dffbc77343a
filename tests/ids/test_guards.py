"""A sequence that lost its history gives no ids: the generator refuses and says what it found."""

import json

import pytest

from shared.azure import OptimisticStore, Snapshot
from shared.errors import (
    ContentionError,
    SequenceCorruptError,
    SequenceLostError,
    SequenceRestoredError,
    StorageUnavailableError,
)
from shared.ids import RangeGenerator, Sizing, explain_in, read_sequence, resume
from shared.ids.book import MARKER
from shared.ids.explain import NumberFate
from shared.ids.sequence import KEPT
from tests.ids.memory_store import MemoryStore

ONES = Sizing(first=1, range_size=1, largest=1)


def use(store: OptimisticStore, ids: int, clock=None) -> list[int]:
    """Draw so many ids, one to a range."""
    with RangeGenerator(store, sizing=ONES, prefetch=False, clock=clock) as generator:
        return [generator.next_id() for _ in range(ids)]


class Tampered:
    """A store whose blob somebody else changes at will."""

    def __init__(self, store: MemoryStore) -> None:
        self.store = store

    def put(self, value: bytes | None) -> None:
        """Replace the blob, or delete it."""
        if value is None:
            del self.store._values[self.store.name]
        else:
            current = self.store.read()
            assert self.store.try_write(value, current.etag if current else None)


def test_a_lost_blob_is_not_started_anew():
    """After first use, a blob that is gone is an error even for a process that never saw it."""
    store = MemoryStore("ids/orders")
    use(store, 3)
    Tampered(store).put(None)
    with pytest.raises(SequenceLostError, match="ids/orders"):
        use(store, 1)


def test_a_running_generator_notices_that_its_blob_is_gone():
    """A process that has ids left refuses when it needs more."""
    store = MemoryStore("ids/orders")
    with RangeGenerator(store, sizing=ONES, prefetch=False) as generator:
        generator.next_id()
        Tampered(store).put(None)
        with pytest.raises(SequenceLostError):
            generator.next_id()


def test_a_process_that_died_before_first_use_leaves_a_usable_sequence():
    """A page without a marker, or with one and no reservation, is new: the next process begins."""
    store = MemoryStore()
    use(store, 1)
    created = json.loads(store.read().value)["events"][:1]
    page = f'{{"v": 1, "next": 1, "spilled": 0, "events": {json.dumps(created)}}}'.encode()
    fresh = MemoryStore()
    fresh.try_write(page, None)
    assert use(fresh, 2) == [1, 2]
    assert fresh.beside(MARKER).read() is not None


def test_a_running_generator_refuses_an_older_version(clock):
    """A blob put back to an older version is refused by whoever saw a newer one."""
    store = MemoryStore("ids/orders", clock)
    use(store, 2, clock)
    older = store.read().value
    with RangeGenerator(store, sizing=ONES, prefetch=False, clock=clock) as generator:
        generator.next_id()
        Tampered(store).put(older)
        with pytest.raises(SequenceRestoredError, match="this process saw write"):
            generator.next_id()


def test_a_new_process_refuses_a_version_that_was_put_back_later(clock):
    """A process that has seen nothing notices a restore by the time at which the storage wrote it."""
    store = MemoryStore("ids/orders", clock)
    use(store, 2, clock)
    older = store.read().value
    use(store, 2, clock)
    clock.advance(16 * 60)
    Tampered(store).put(older)
    with pytest.raises(SequenceRestoredError, match="but the storage wrote it at 2080-11-21 09:16:00"):
        use(store, 1, clock)


def test_a_sequence_that_rested_is_not_taken_for_a_restored_one(clock):
    """Nobody using it for a month is no reason to refuse."""
    store = MemoryStore("ids/orders", clock)
    use(store, 2, clock)
    clock.advance(30 * 24 * 3600)
    assert use(store, 1, clock) == [3]


def test_a_new_process_refuses_a_version_that_is_behind_its_log(clock):
    """A process that has seen nothing notices a restore within minutes by what the log already holds."""
    store = MemoryStore("ids/orders", clock)
    use(store, 10, clock)
    older = store.read().value
    use(store, 3 * KEPT, clock)
    Tampered(store).put(older)
    with pytest.raises(SequenceRestoredError, match="its log holds other events"):
        use(store, 1, clock)


def test_a_corrupt_blob_gives_no_id(store: OptimisticStore):
    """What no generator wrote, Twist's bare number for one, is refused and left as it is."""
    store.try_write(b"4711", None)
    with pytest.raises(SequenceCorruptError, match="4711"):
        use(store, 1)
    assert store.read().value == b"4711"


@pytest.mark.parametrize("lost", [True, False], ids=["lost", "older"])
def test_a_resumed_sequence_goes_on_above_what_may_be_in_use(clock, lost: bool):  # noqa: FBT001  # parametrised
    """After a loss or a restore a person names the highest id in use, and no id at or below it is given again."""
    store = MemoryStore("ids/orders", clock)
    use(store, 10, clock)
    older = store.read().value
    use(store, 4 * KEPT, clock)
    highest = read_sequence(store).next - 1
    Tampered(store).put(None if lost else older)
    resume(store, highest, "operator", clock.now())
    more = use(store, 3 * KEPT, clock)
    assert min(more) == highest + 1
    assert len(set(more)) == 3 * KEPT
    assert explain_in(store, highest - 5).fate in {NumberFate.STEPPED_OVER, NumberFate.HANDED_OUT}


def test_resuming_never_moves_a_sequence_back(clock):
    """A number below the next free one changes nothing about what comes next."""
    store = MemoryStore("ids/orders", clock)
    use(store, 10, clock)
    assert resume(store, 3, "operator", clock.now()).next == 11


class Refusing(MemoryStore):
    """A store where somebody else is always faster."""

    def try_write(self, value: bytes, etag: str | None) -> str | None:
        """Refuse whatever rests on an earlier value."""
        return None if etag else super().try_write(value, etag)


class Silent(MemoryStore):
    """A store that does not answer."""

    def read(self) -> Snapshot | None:
        """Fail."""
        raise StorageUnavailableError("no answer")


@pytest.mark.usefixtures("no_pauses")
def test_a_generator_gives_up_after_as_many_attempts_as_it_was_given():
    """Losing every time ends with an error that says so, and no id of a range that was never ours."""
    with (
        RangeGenerator(Refusing(), max_attempts=3) as generator,
        pytest.raises(ContentionError, match="failed 3 times"),
    ):
        generator.next_id()


@pytest.mark.usefixtures("no_pauses")
def test_a_storage_outage_is_told_as_one():
    """No answer from storage, however often asked, is told as an outage with its last failure."""
    with (
        RangeGenerator(Silent(), max_attempts=3) as generator,
        pytest.raises(StorageUnavailableError, match="no answer"),
    ):
        generator.next_id()
