"""The comparison of a version with the log: what it finds, what it waits for, and that one migrator works at a time."""

from dataclasses import replace

import pytest

from shared.azure import try_lease
from shared.azure.meter import tally_requests
from shared.errors import ContentionError, MigrationRefusedError
from shared.readmodels import Phase, Slot
from shared.readmodels.slot_table import StoredView, ViewPlace
from tests.readmodels.counters import Counted, CountedTwice
from tests.readmodels.test_projector import operations

HOMES = [f"counter-{number:03}" for number in range(10)]


@pytest.fixture
def built(house):
    """A version that was built, and its migrator."""
    process = house.process()
    for number, home in enumerate(HOMES):
        process.projector.project([house.append(home, number + 1, 5)])
    assert process.migration().start().phase is Phase.BUILT
    return process


def row_of(house, home):
    """Return a home's row in the new version."""
    (found,) = [row for page in house.own.slots[Slot.B].scan("counters", 2) for row in page if row.home == home]
    return found


def test_an_equal_version_may_be_switched_to_and_its_checksums_are_equal(house, built):
    """The counts and the sums of rows and log stay in the pointer."""
    found = built.migration().verify()
    assert (found.homes, found.rows, found.is_right, found.of_rows) == (10, 10, True, found.of_log)
    pointer = built.migration().read()
    assert (pointer.phase, pointer.figures["homes"], pointer.figures["events"]) == (Phase.VERIFIED, 10, 20)
    assert pointer.figures["checksum_of_rows"] == pointer.figures["checksum_of_log"] != f"{0:016x}"


def test_another_value_another_version_seen_and_another_key_are_differences(house, built):
    """Each is named by its home, and the version stays unverified."""
    changed, behind, moved = (row_of(house, home) for home in HOMES[:3])
    slot = house.own.slots[Slot.B]
    slot.try_write([replace(changed, view={**changed.view, "sum": -1})])
    slot.try_write([replace(behind, seen=1)])
    (gone,) = slot.old_rows("counters")
    slot.remove([one for one in gone if one["RowKey"] == moved.place.key])
    slot.try_write([replace(moved, place=ViewPlace(moved.place.partition, "x"), etag="")])
    found = built.migration().verify()
    assert sorted(found.differences) == [
        "counter-000: its row differs from its events in sum",
        "counter-001: its row has seen version 1 of 2",
        "counter-002: it has no row",
    ]
    assert found.number_of_differences == 3
    assert not found.is_right
    with pytest.raises(MigrationRefusedError, match="it is not verified"):
        built.migration().switch()


def test_a_second_row_and_a_row_without_events_are_differences(house, built):
    """No reader of the log would find them."""
    first = row_of(house, HOMES[0])
    slot = house.own.slots[Slot.B]
    slot.try_write([replace(first, place=ViewPlace(first.place.partition, "x"), etag="")])
    slot.try_write(
        [
            StoredView(
                place=ViewPlace("counters.2|00", "y"), home="counter-lost", seen=1, view={"sum": 1, "amounts": [1]}
            )
        ]
    )
    found = built.migration().verify()
    assert any("it has two rows" in one for one in found.differences)
    assert "counter-lost: it has a row, but no events" in found.differences
    assert not found.is_right


def test_an_event_on_its_way_is_waited_for(house, built):
    """A row that is behind when it is compared, and comes up while the comparison waits, is no difference."""
    late = house.append(HOMES[3], 7)
    new = house.append("counter-new", 1)
    waits = []

    def arrive(act, _done):
        if act == "wait for rows that are behind" and not waits:
            waits.append(act)
            built.projector.project([late, new])

    found = built.migration(report=arrive).verify()
    assert (found.is_right, found.homes, found.rows, len(waits)) == (True, 11, 11, 1)


def test_an_event_that_never_arrives_is_a_difference(house, built):
    """After a minute, a row that is behind is one that lost its events."""
    house.append(HOMES[3], 7)
    began = house.clock.monotonic()
    found = built.migration().verify()
    assert found.differences == [f"{HOMES[3]}: its row has seen version 2 of 3"]
    assert 60 <= house.clock.monotonic() - began <= 70


def test_a_field_that_both_versions_have_must_be_equal(house, built, monkeypatch):
    """A projection that makes another value of the same events is found without the rows of the old version."""
    fold = Counted.fold
    monkeypatch.setattr(CountedTwice, "fold", lambda self, view, event: {**fold(self, view, event), "largest": 5})
    monkeypatch.setattr(Counted, "fold", lambda self, view, event: {**fold(self, view, event), "sum": 0})
    found = built.migration().verify()
    assert {one.partition(": ")[2] for one in found.differences} >= {"versions 1 and 2 differ in sum"}


def test_what_building_and_verifying_cost(house):
    """The heads, the events of each home, and a row's write or a page of rows: no request for each row."""
    process = house.process()
    # Its first use creates the blob of the lease.
    with pytest.raises(MigrationRefusedError):
        process.migration().verify()
    for home in HOMES:
        house.append(home, 1)
    with tally_requests() as building:
        process.migration().start()
    with tally_requests() as verifying:
        process.migration().verify()
    # The homes are in memory here: their requests are one for each page of heads, and one for each home.
    assert operations(building) == {
        "QueryEntity models": 1,
        "InsertEntity models": 1,
        "UpdateEntity models": 3,
        "QueryEntities readmodelb": 1,
        # One for each page of heads: all homes are of one shard.
        "EntityGroupTransaction readmodelb": 2,
        "LeaseBlob settings": 2,
    }
    assert operations(verifying) == {
        "QueryEntity models": 1,
        "UpdateEntity models": 1,
        "QueryEntities readmodelb": 1,
        "LeaseBlob settings": 2,
    }


def test_one_migrator_works_at_a_time(house, built):
    """The second one is refused, and says when it may come."""
    container = house.own.connections.blobs.get_container_client("settings")
    lease = try_lease(container, "migrate-counters")
    with pytest.raises(MigrationRefusedError, match="another process does"):
        built.migration().verify()
    # One write each, and the answer to a bad version: they do not wait for a lease of a process that died.
    with pytest.raises(MigrationRefusedError, match="not verified"):
        built.migration().switch()
    lease.release()
    assert built.migration().verify().is_right


def test_a_migrator_that_lost_its_lease_stops_before_it_removes_anything(house, built):
    """It stood still for longer than its lease, and another process has it now."""
    built.migration().verify()
    built.migration().switch()
    container = house.own.connections.blobs.get_container_client("settings")

    def stand_still(act, _done):
        if act == "wait until all processes know it":
            house.free_lease()
            taken.append(try_lease(container, "migrate-counters"))
            house.clock.advance(seconds=100)

    taken = []
    with pytest.raises(MigrationRefusedError, match="lease of the blob 'migrate-counters' was lost"):
        built.migration(report=stand_still).finish()
    assert len(house.rows(Slot.A, 1)) == len(HOMES)
    taken[0].release()
    assert built.migration().finish().phase is Phase.DONE
    assert house.rows(Slot.A, 1) == {}


def test_a_command_that_comes_second_changes_nothing(house, built):
    """Two operators: the second write of the pointer is refused, whatever it says."""
    first, second = built.pointers.read(house.model), built.pointers.read(house.model)
    assert built.pointers.try_write(replace(first, cursor="x"))
    assert built.pointers.try_write(replace(second, cursor="y")) is None
    with pytest.raises(ContentionError, match="another command changed it meanwhile"):
        built.migration()._write(second)
