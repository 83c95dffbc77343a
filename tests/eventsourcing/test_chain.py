"""The chain of a home: what was changed, replaced or removed after it was written is seen, and what has no hash is named."""

import pytest
from azure.data.tables import UpdateMode

from shared.azure import tally_requests
from shared.errors import HomeCorruptError
from shared.processes import table_homes as store
from shared.processes.table_homes import encode_commit, event_key
from tests.eventsourcing.builders import commit, event

KEY = "order-7"


@pytest.fixture
def write(table_homes):
    """Return a function that writes events after those that are there, as a writer that has just loaded the home."""

    def write_(number=1, **changes):
        head = getattr(table_homes.load(KEY), "head", None)
        known = {"expected": head.version, "former": head.last} if head else {}
        return table_homes.commit(commit(events=number, **known, **changes))

    return write_


@pytest.fixture
def earlier(monkeypatch):
    """Return a context in which commits are those of a version before the chain: its head row keeps columns of others."""

    def encode_plainly(given, head):
        rows = encode_commit(given, head)
        for row in (*rows.events, rows.head):
            row.pop("former", None), row.pop("chain", None)
        return rows

    def enter():
        patch = monkeypatch.context()
        patch.__enter__().setattr(store, "encode_commit", encode_plainly)
        return patch

    return enter


def proof(homes):
    """Return what the chain says: the changed versions, and the ranges without a hash."""
    home, found = homes.load_proven(KEY)
    assert [one.version for one in home.events] == list(range(1, home.head.version + 1))
    return found.changed, found.unproven


def test_a_home_as_it_was_written_is_proven_whole(table_homes, write):
    """Of any number of commits, by as many requests as a load makes."""
    written = [write(3, inbox={"o": "h"}, process={"a": 1}, fields={"n": 1}), write(), write(4, published=4)]
    assert proof(table_homes) == ((), ())
    assert table_homes.load(KEY).head.last == table_homes.read_head(KEY).last == written[-1].last != written[0].last
    counts = []
    for act in (table_homes.load, table_homes.load_proven):
        with tally_requests() as tally:
            act(KEY)
        counts.append(tally.total())
    assert counts[0] == counts[1]
    assert table_homes.load_proven("order-8") is None


@pytest.mark.parametrize("version", [1, 3, 4, 5])
@pytest.mark.parametrize(
    "change",
    [{"body": '{"n":99}'}, {"kind": "other"}, {"command": "c9"}, {"at": "2020-01-01T00:00:00+00:00"}, {"new": 1}],
)
def test_a_changed_event_is_seen(table_homes, table, write, version, change):
    """Whichever it is, the first and the last one too, and whichever of its columns."""
    write(3)
    write(2)
    table.update_entity({"PartitionKey": KEY, "RowKey": event_key(version), **change}, mode=UpdateMode.MERGE)
    assert proof(table_homes) == ((version,), ())


def test_a_changed_event_is_seen_although_its_hash_was_removed(table_homes, table, write):
    """The row behind it is then another one than was written, which the next row tells."""
    write(5)
    table.update_entity({"PartitionKey": KEY, "RowKey": event_key(2), "kind": "other"}, mode=UpdateMode.MERGE)
    row = dict(table.get_entity(KEY, event_key(3)))
    row.pop("former")
    table.update_entity(row, mode=UpdateMode.REPLACE)
    assert proof(table_homes) == ((3,), ((2, 2),))


def test_removed_events_are_seen(table_homes, table, write):
    """One before others, the last one, and the last ones also where the version was wound back."""
    write(4)
    write(1)
    last = dict(table.get_entity(KEY, event_key(5)))
    table.delete_entity(KEY, event_key(5))
    with pytest.raises(HomeCorruptError, match="its events end at 4"):
        table_homes.load_proven(KEY)
    table.update_entity({"PartitionKey": KEY, "RowKey": "head", "version": 4}, mode=UpdateMode.MERGE)
    assert proof(table_homes) == ((5,), ((4, 4),))
    table.delete_entity(KEY, event_key(4))
    table.update_entity({"PartitionKey": KEY, "RowKey": "head", "version": 3}, mode=UpdateMode.MERGE)
    assert proof(table_homes) == ((4, 5), ((3, 3),))
    table.create_entity(last)
    with pytest.raises(HomeCorruptError, match=r"e\|0000000004.*it is missing"):
        table_homes.load_proven(KEY)


def test_events_of_before_the_chain_are_named_and_the_next_event_proves_the_last_of_them(
    table_homes, table, write, earlier
):
    """They stay readable. From the first commit of this version on all is proven."""
    with_plain = earlier()
    write(3)
    with_plain.__exit__(None, None, None)
    assert proof(table_homes) == ((), ((1, 3),))
    write(2)
    assert proof(table_homes) == ((), ((1, 2),))
    table.update_entity({"PartitionKey": KEY, "RowKey": event_key(3), "kind": "other"}, mode=UpdateMode.MERGE)
    assert proof(table_homes) == ((3,), ((1, 2),))


def test_an_earlier_version_beside_this_one_leaves_a_gap_that_is_named(table_homes, write, earlier):
    """Its head keeps the hash of our last event, which proves it until our next commit. Nothing is called changed."""
    write(3)
    with_plain = earlier()
    write(2)
    with_plain.__exit__(None, None, None)
    assert proof(table_homes) == ((), ((4, 5),))
    write(1)
    assert proof(table_homes) == ((), ((3, 4),))


def test_a_writer_that_does_not_know_the_last_hash_begins_anew(table_homes, write):
    """It decided on what it believed, and makes no request for the hash. What has none then is named."""
    write(2)
    table_homes.commit(commit(events=[event(3)], expected=2))
    assert proof(table_homes) == ((), ((2, 2),))
    write(1)
    assert proof(table_homes) == ((), ((2, 2),))
