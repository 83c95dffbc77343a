"""What permits rely on, of the slots in memory and of those in storage alike."""

import itertools
import uuid

import pytest

from shared.azure.connections import Connections
from shared.clock import SystemClock
from shared.dequeue.permits import LEASE_SECONDS, MARGIN, RENEW_AFTER, RENEW_AGAIN_AFTER, BlobSlots
from shared.errors import StorageUnavailableError
from tests.dequeue.conftest import Shifted
from tests.dequeue.memory_queue import ManualClock
from tests.dequeue.memory_slots import MemorySlots


@pytest.fixture
def container(azurite):
    """A container of this test's own."""
    with Connections(azurite.connection_string) as connections:
        made = connections.blobs.create_container(f"permits-{uuid.uuid4().hex[:12]}")
        yield made
        made.delete_container()


@pytest.fixture(params=["memory", "storage"])
def slots(request):
    """Slots of one of the two kinds."""
    if request.param == "memory":
        return MemorySlots(ManualClock())
    return BlobSlots(request.getfixturevalue("container"), SystemClock())


def test_a_slot_is_for_one_at_a_time(slots):
    """Whoever comes second is told so, and has it when the first one lets go."""
    first = slots.lease(0)
    assert first.is_held
    assert slots.lease(0) is None
    assert slots.lease(1).is_held
    first.release()
    assert slots.lease(0).is_held


def test_the_held_ones_are_known(slots):
    """Those that were released are not among them."""
    assert slots.list_held() == frozenset()
    leases = {slot: slots.lease(slot) for slot in (0, 3, 12)}
    leases[3].release()
    assert slots.list_held() == {0, 12}


def test_a_renewed_lease_is_still_held(slots):
    """And stays one that nobody else can have."""
    lease = slots.lease(0)
    lease.renew()
    assert lease.is_held
    assert slots.lease(0) is None


def test_a_lease_that_is_not_renewed_ends_for_its_holder_first(container):
    """By its own clock the holder stops long before storage lets others have it; then it cannot take it up again."""
    clock = Shifted()
    lease = BlobSlots(container, clock).lease(0)
    assert clock.monotonic() < lease.due < clock.monotonic() + LEASE_SECONDS / 2
    clock.by = LEASE_SECONDS - MARGIN - 1
    assert lease.is_held
    clock.by = LEASE_SECONDS - MARGIN + 1
    assert not lease.is_held
    lease.renew()
    assert not lease.is_held


def test_a_renewal_that_fails_is_tried_again_soon(container, monkeypatch):
    """The lease is held for as long as it is known to be, and no longer."""
    monkeypatch.setattr("shared.azure.connections.PAUSE", 0.001)
    clock = Shifted()
    lease = BlobSlots(container, clock).lease(0)
    monkeypatch.setattr(lease._lease, "renew", lambda: False)
    clock.by = RENEW_AFTER
    lease.renew()
    assert lease.is_held
    assert lease.due - clock.monotonic() == pytest.approx(RENEW_AGAIN_AFTER, abs=0.5)
    monkeypatch.undo()
    clock.by += RENEW_AGAIN_AFTER
    lease.renew()
    clock.by += LEASE_SECONDS - MARGIN - 1
    assert lease.is_held


@pytest.mark.parametrize("kind", ["lease", "held"])
def test_storage_that_does_not_answer_is_one_known_error(azurite, kind):
    """A drain leaves it to the tick."""
    with Connections(azurite.connection_string) as connections:
        slots = BlobSlots(connections.blobs.get_container_client("no-such-container"), SystemClock())
        with pytest.raises(StorageUnavailableError, match="dequeue tasks"):
            slots.lease(0) if kind == "lease" else slots.list_held()


def test_what_each_costs(azurite, container):
    """One request to lease, to be refused, to list and to release; two more at the first use of a slot ever."""
    with Connections(azurite.connection_string) as connections:
        slots = BlobSlots(connections.blobs.get_container_client(container.container_name), SystemClock())
        total = connections.meter.tally.total
        counts = [total()]
        lease = slots.lease(7)
        counts.append(total())
        slots.lease(7)
        counts.append(total())
        slots.list_held()
        counts.append(total())
        lease.release()
        counts.append(total())
        slots.lease(7).release()
        counts.append(total())
    assert [after - before for before, after in itertools.pairwise(counts)] == [3, 1, 1, 1, 2]
