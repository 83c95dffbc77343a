"""The rows that Azurite finds by its indexes are those that it would find by asking every row."""

import random

import pytest
from azure.data.tables import TableServiceClient

#: Numbers as texts sort otherwise in the index: all before the other texts, and by their value. Some hide in blanks.
KEYS = ["1", "10", "2", "1e1", "-1", "Infinity", " 5", "\u00a05", "1a", "9a", "A", "a b", "e|0001", "e|0002", "e|0010"]
KEYS += ["head", "i", "i|x", "it's", "process", "s", "zz", "~", "Ä"]


@pytest.fixture(scope="module")
def table(azurite):
    """A table with each key in some partitions, and in few others."""
    with TableServiceClient.from_connection_string(azurite.connection_string) as tables:
        table = tables.create_table("quicklyfound")
        for partition in ("p", "10", "it's"):
            table.submit_transaction([("create", {"PartitionKey": partition, "RowKey": key}) for key in KEYS])
        for key in KEYS:
            table.upsert_entity({"PartitionKey": key, "RowKey": "only"})
        yield table


def found(table, wanted, **parameters):
    """Return the keys of the rows that a filter finds."""
    return [(row["PartitionKey"], row["RowKey"]) for row in table.query_entities(wanted, parameters=parameters)]


def test_a_range_of_keys_in_a_partition_has_all_of_them(table):
    """Whatever the keys look like, in the order of their characters."""
    dice = random.Random(1)
    for _ in range(200):
        partition, low, high = dice.choice(["p", "10", "it's"]), dice.choice(KEYS), dice.choice(KEYS)
        wanted = "PartitionKey eq @partition and RowKey ge @low and RowKey lt @high"
        keys = {key for _, key in found(table, wanted, partition=partition, low=low, high=high)}
        own = {*KEYS, *(["only"] if partition in KEYS else [])}
        assert keys == {key for key in own if low <= key < high}, (partition, low, high)


def test_a_partition_is_found_whole_and_conditions_beside_it_hold(table):
    """Also where its name is a number, or has a quote that the filter doubles."""
    for partition in ("10", "it's", "1e1", "\u00a05"):
        keys = {key for _, key in found(table, "PartitionKey eq @partition", partition=partition)}
        assert keys == {*(KEYS if partition in {"10", "it's"} else ()), "only"}
    assert found(table, "PartitionKey eq 'none'") == []
    assert found(table, "RowKey gt 'i' and PartitionKey eq 'p' and RowKey le 'i|x'") == [("p", "it's"), ("p", "i|x")]


def test_a_filter_that_names_several_partitions_is_asked_of_every_row(table):
    """An `or`, a `not`, or a range of partitions names none."""
    both = {("head", "only"), ("zz", "only")}
    assert set(found(table, "(PartitionKey eq 'head' or PartitionKey eq 'zz')")) == both
    assert set(found(table, "PartitionKey ge 'zz' and PartitionKey lt 'zzz'")) == {("zz", "only")}
    assert len(found(table, "not (PartitionKey eq 'p')")) == 2 * len(KEYS) + len(KEYS)
