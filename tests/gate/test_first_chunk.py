"""The first chunk of an opening: one message of a release is marked, and the worker that begins it writes one row."""

import math
from contextlib import nullcontext
from datetime import timedelta

import pytest
from msgspec.structs import replace

from shared.azure.connections import Connections
from shared.errors import NewerVersionError, StorageUnavailableError
from shared.gate.receipts import FirstChunks, Receipt, ReceiptTable, SeenBy
from shared.messages import FirstChunkMark
from shared.signals import Hint
from shared.telemetry import events, metrics
from shared.telemetry.log import Silent
from tests.gate.conftest import NOON, House, held, taken


class Kept(Silent):
    """Telemetry that keeps what is added."""

    def __init__(self):
        self.added = []

    def add(self, metric, number=1, **attributes):
        """Keep it."""
        self.added.append((metric.name, number, attributes))


def mark_of(gate, epoch=3, **changed):
    """Return the mark of an opening at noon that the signal told of."""
    return FirstChunkMark(**{"gate": gate, "epoch": epoch, "opened_at": NOON, "seen_by": "push", **changed})


@pytest.fixture
def table(connections):
    """The table of receipts."""
    return connections.tables.get_table_client("receipts")


def test_the_first_of_an_epoch_stands_and_is_told_once(table, clock, gate, told):
    """Two releasers marked a chunk each; the worker that began later changes nothing."""
    kept = Kept()
    first_chunks = FirstChunks(table, clock, kept)
    clock.advance(milliseconds=250)
    first_chunks.note(mark_of(gate))
    clock.advance(seconds=9)
    first_chunks.note(mark_of(gate, seen_by="poll"))
    (found,) = first_chunks.history(gate)
    assert (found.epoch, found.how, found.delay) == (3, SeenBy.PUSH, timedelta(milliseconds=250))
    assert told(events.FIRST_CHUNK_BEGUN) == [{"gate": gate, "epoch": 3, "seen_by": "push", "delay_seconds": 0.25}]
    assert kept.added == [(metrics.FIRST_CHUNK_DELAY.name, 0.25, {"seen_by": "push"})]


def test_history_has_every_epoch_of_a_gate_and_of_all_and_no_receipt(table, clock, gate):
    """Receipts are in the same table, and neither kind is read as the other."""
    first_chunks, receipts = FirstChunks(table, clock), ReceiptTable(table)
    receipts.write(
        Receipt(gate=gate, epoch=4, node="n", how=SeenBy.PUSH, seen_at=NOON, lag=timedelta(), interval=timedelta())
    )
    first_chunks.note(mark_of(gate, 4, opened_at=NOON - timedelta(seconds=1)))
    first_chunks.note(mark_of(gate, 3, opened_at=NOON - timedelta(seconds=2)))
    first_chunks.note(mark_of(f"{gate}-z", 7, opened_at=NOON - timedelta(seconds=3)))
    assert [found.epoch for found in first_chunks.history(gate)] == [3, 4]
    here = [(found.gate, found.epoch) for found in first_chunks.history() if found.gate.startswith(gate)]
    assert here == [(f"{gate}-z", 7), (gate, 3), (gate, 4)]
    assert [found.node for found in receipts.of_epochs(gate, 0)] == ["n"]


def test_a_way_that_only_a_newer_version_has_names_it(table, clock, gate):
    """An operator's command says to deploy it, and shows no traceback. The mark of such a release is not noted."""
    first_chunks, receipts = FirstChunks(table, clock), ReceiptTable(table)
    first_chunks.note(mark_of(gate, seen_by="lease"))
    assert first_chunks.history(gate) == []
    first_chunks.note(mark_of(gate))
    receipts.write(Receipt(gate=gate, epoch=4, node="n", how=SeenBy.PUSH, seen_at=NOON, lag=timedelta()))
    rows = [*table.query_entities("PartitionKey eq @gate", parameters={"gate": gate})]
    for row in rows:
        table.update_entity({**row, "how": "lease"})
    try:
        for read in (lambda: first_chunks.history(gate), lambda: receipts.of_epochs(gate, 0)):
            with pytest.raises(NewerVersionError, match="seen by 'lease'"):
                read()
    finally:
        # Other tests read the history of all gates.
        for row in rows:
            table.delete_entity(row)


def test_a_clock_that_is_behind_the_openers_makes_no_negative_delay(table, clock, gate):
    """The delay is as right as the clocks, and never less than none."""
    first_chunks = FirstChunks(table, clock)
    first_chunks.note(mark_of(gate, opened_at=NOON + timedelta(seconds=5)))
    assert [found.delay for found in first_chunks.history(gate)] == [timedelta()]


@pytest.mark.parametrize("forged", [{"gate": "../a?b"}, {"seen_by": "hearsay"}])
def test_a_mark_of_another_hand_writes_nothing(table, clock, gate, forged):
    """Neither a name that is no gate's nor an unknown way reaches storage."""
    kept = Kept()
    FirstChunks(table, clock, kept).note(replace(mark_of(gate), **forged))
    assert (FirstChunks(table, clock).history(gate), kept.added) == ([], [])


def test_storage_that_does_not_answer_fails_no_work(clock, gate, told, monkeypatch):
    """It is told that the row is missing; the delay is told nevertheless."""
    monkeypatch.setattr("shared.azure.connections.PAUSE", 0.004)
    nowhere = "DefaultEndpointsProtocol=http;AccountName=a;AccountKey=a2V5;TableEndpoint=http://127.0.0.1:9/a;"
    with Connections(nowhere + "BlobEndpoint=http://127.0.0.1:9/a;QueueEndpoint=http://127.0.0.1:9/a;") as lost:
        first_chunks = FirstChunks(lost.tables.get_table_client("receipts"), clock)
        first_chunks.note(mark_of(gate))
        with pytest.raises(StorageUnavailableError):
            first_chunks.history(gate)
    assert told(events.RECEIPT_UNWRITTEN) == [{"gate": gate, "epoch": 3}]
    assert [line["delay_seconds"] for line in told(events.FIRST_CHUNK_BEGUN)] == [0.0]


class Taking:
    """Starts jobs, and takes the mark of every one that it is given."""

    def __init__(self):
        self.marks = {}

    def is_job(self, entry):
        """Everything is."""
        return True

    def begin(self, entries, coming):
        """Prepare nothing."""
        return nullcontext()

    def carry_out(self, entry, gate, until, mark):
        """Take it."""
        self.marks[entry.id] = taken(mark)
        return True


@pytest.mark.parametrize("how", list(SeenBy)[:2])
def test_a_release_marks_one_job_with_its_opening(connections, clock, signals, gate, how):
    """By the signal and by the tick: gate, epoch, the opener's time, and the way."""
    jobs = Taking()
    house = House(connections, jobs, clock=clock, signals=signals, parallel=1)
    for name in "abc":
        house.held_work.keep(held(gate, name))
    house.gate_operator.open(gate, by="ann")
    clock.advance(seconds=2)
    house.releaser.release(Hint(gate), how, "release_gate", math.inf)
    assert jobs.marks == {"a": mark_of(gate, 1, seen_by=how.value), "b": None, "c": None}


def test_what_was_held_after_the_opening_has_no_mark(connections, clock, signals, gate):
    """Its keeper ended before it could start it: its wait says nothing about the opening."""
    jobs = Taking()
    house = House(connections, jobs, clock=clock, signals=signals, parallel=1)
    house.gate_operator.open(gate, by="ann")
    house.held_work.keep(held(gate, "late", epoch=1))
    house.releaser.release(Hint(gate), SeenBy.POLL, "tick", math.inf)
    assert jobs.marks == {"late": None}
