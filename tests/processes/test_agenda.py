"""The agenda on Azurite: what is due comes in one request, however much is due later, and goes a hundred at a time."""

from datetime import UTC, datetime, timedelta

import pytest

from shared.azure import tally_requests
from shared.processes import SHARDS, Agenda, Alias, Note, TimeoutRow
from shared.processes.agenda import notes_of, shard_of_home

NOON = datetime(2026, 11, 22, 12, tzinfo=UTC)


def after(seconds):
    """Return a moment after noon."""
    return NOON + timedelta(seconds=seconds)


def note(name="n1", due=0, shard=0, **homes):
    """Return a note."""
    return Note(shard, after(due), name, homes or {"order-1": 1}, NOON)


def timeout(home="order-1", due=0, shard=0):
    """Return a timeout."""
    return TimeoutRow(shard, after(due), home, "expire")


def keys(due):
    """Return the keys of what was found due."""
    return [row.row_key for row in (*due.notes, *due.timeouts)]


def test_rows_come_back_as_they_were_written(agenda):
    """With the ETags that the writer got, so that both may remove them."""
    rows = [note("n1", 1, a=3, b=0), timeout(due=2), Alias(8, "order-1"), Note(0, NOON, "n2", {"c": 1}, NOON, 8)]
    written = agenda.write(rows)
    assert [row.row_key for row in written] == [row.row_key for row in rows]
    due = agenda.read_due(0, after(10))
    assert (due.notes, due.timeouts) == ((written[3], written[0]), (written[1],))
    assert agenda.find(8) == "order-1"
    assert agenda.find(4) is None


def test_a_shard_is_read_only_as_far_as_now(agenda):
    """A row is due in the second of its due time. Of 300 later ones none is read, and an alias never."""
    agenda.write([timeout(f"order-{n}", due=60 + n) for n in range(300)])
    agenda.write(
        [timeout("order-a", due=-1), timeout("order-b", due=0), timeout("order-c", due=1), Alias(4, "order-a")]
    )
    agenda.write([timeout("order-d", shard=1)])
    with tally_requests() as tally:
        due = agenda.read_due(0, after(0.9))
    assert [row.home for row in due.timeouts] == ["order-a", "order-b"]
    assert tally.total() == 1


def test_one_reading_takes_the_oldest(agenda):
    """The next tick goes on behind them, when they are removed."""
    agenda.write([timeout(f"order-{n}", due=n) for n in range(5)])
    assert [row.home for row in agenda.read_due(0, after(60), most=3).timeouts] == ["order-0", "order-1", "order-2"]


def test_one_transaction_writes_what_belongs_together(agenda):
    """The note, the timeout and the alias of a new order: one request. Those of two shards: two."""
    with tally_requests() as tally:
        agenda.write([note(), timeout(), Alias(4, "order-1")])
        assert tally.total() == 1
        agenda.write([note(), note(shard=1)])
        assert tally.total() == 3
        assert agenda.write([]) == []
    assert tally.total() == 3


def test_250_rows_go_in_three_transactions(agenda):
    """And no more than they."""
    rows = agenda.write([timeout(f"order-{n}") for n in range(250)])
    kept = agenda.write([timeout("order-kept")])
    with tally_requests() as tally:
        agenda.remove(rows)
    assert tally.total() == 3
    assert agenda.read_due(0, NOON).timeouts == tuple(kept)


def test_a_row_that_is_gone_stops_no_other(agenda):
    """Another process removed it; the reply to an earlier removal was lost."""
    rows = agenda.write([timeout(f"order-{n}") for n in range(3)])
    agenda.remove(rows[:1])
    agenda.remove(rows)
    agenda.remove(rows)
    assert keys(agenda.read_due(0, NOON)) == []


def test_a_row_that_was_written_again_stays(agenda):
    """Its new writer needs it, unless whoever removes it knows that the home does not."""
    rows = agenda.write([timeout("order-1"), timeout("order-2")])
    again = agenda.write([timeout("order-1")])
    agenda.remove(rows)
    assert agenda.read_due(0, NOON).timeouts == tuple(again)
    agenda.remove([timeout("order-1")])
    assert keys(agenda.read_due(0, NOON)) == []


def test_equal_rows_are_one_row(agenda):
    """A transaction takes each key once."""
    assert len(agenda.write([timeout(), timeout()])) == 1


def test_fifty_homes_share_a_note():
    """And the next ones another."""
    notes = notes_of(2, {f"order-{n}": n for n in range(120)}, NOON)
    assert [len(each.homes) for each in notes] == [50, 50, 20]
    assert {each.shard for each in notes} == {2}
    assert len({each.row_key for each in notes}) == 3


@pytest.mark.parametrize(("fields", "shard"), [({"number": 7}, 3), ({"number": 8}, 0)])
def test_the_shard_of_a_home_is_that_of_its_number(fields, shard):
    """So that its alias is written with its note."""
    assert shard_of_home("order-1", fields) == shard == Alias(fields["number"], "order-1").shard


def test_homes_without_a_number_are_spread():
    """By their names."""
    assert {shard_of_home(f"seats-{n}", {}) for n in range(50)} == {0, 1, 2, 3}


def test_an_agenda_of_one_shard_has_the_rows_of_all(table):
    """One request finds them, and they are removed by the shard that their writer gave them, or by the one read."""
    agenda = Agenda(table, shards=1)
    written = agenda.write([timeout(f"return-{shard}", shard=shard) for shard in range(SHARDS)])
    assert [row.shard for row in written] == [0, 1, 2, 3]
    due = agenda.read_due(0, NOON)
    assert [row.home for row in due.timeouts] == [row.home for row in written]
    agenda.remove(written[:2])
    agenda.remove(due.timeouts[2:])
    assert keys(agenda.read_due(0, NOON)) == []
