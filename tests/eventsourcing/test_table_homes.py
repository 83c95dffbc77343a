"""Homes in a table: their requests, and what every fault at every request leaves behind."""

from contextlib import suppress
from dataclasses import replace

import pytest
from azure.core.exceptions import HttpResponseError
from azure.data.tables import TableTransactionError, UpdateMode

from shared.azure import LOST_RACE, Connections, error_code, tally_requests, write_group
from shared.errors import (
    CommitTooLargeError,
    ConflictError,
    DuplicateError,
    HomeCorruptError,
    LaterFormatError,
    StorageUnavailableError,
)
from shared.processes import Memento, MementoStore, TableHomes
from tests.eventsourcing.builders import commit, event
from tests.faults.plan import MODES, WITH_EFFECT, Fault, KilledError, Plan

LARGE = Memento(1, 1, bytes(range(256)) * 8)


@pytest.fixture
def through(azurite, table, container):
    """Homes in the same table, whose requests meet the faults of a plan."""
    opened = []

    def homes(plan, most_in_a_row=700 * 1024):
        opened.append(Connections(azurite.connection_string, transport=plan.transport))
        tables, blobs = opened[-1].tables, opened[-1].blobs
        mementos = MementoStore(blobs.get_container_client(container.container_name), most_in_a_row)
        return TableHomes(tables.get_table_client(table.table_name), mementos)

    yield homes
    for one in opened:
        one.close()


def test_each_act_makes_its_requests(table_homes):
    """A commit, a home, a tail, a head, a memento: one each. A lost race costs one more."""
    rich = commit(inbox={"o": "h"}, process={"a": 1}, memento=Memento(1, 1, b"x"))
    acts = {
        "commit": (1, lambda: table_homes.commit(rich)),
        "load": (2, lambda: table_homes.load("order-7")),  # of three rows a page
        "tail": (1, lambda: table_homes.read_tail("order-7", 0)),
        "head": (1, lambda: table_homes.read_head("order-7")),
        "memento": (1, lambda: table_homes.read_memento("order-7")),
        "conflict": (2, lambda: table_homes.commit(commit())),
        "duplicate": (2, lambda: table_homes.commit(commit(expected=1, inbox={"o": "h"}))),
    }
    made = {}
    for name, (_, act) in acts.items():
        with tally_requests() as tally, suppress(ConflictError, DuplicateError):
            act()
        made[name] = tally.total()
    assert made == {name: number for name, (number, _) in acts.items()}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("at", [1, 2])
def test_a_fault_at_a_commit_leaves_all_of_it_or_nothing(through, table_homes, mode, at):
    """A commit that said yes is stored, once; one that ended in an error is whole or absent; the next one goes on."""
    table_homes.commit(commit())
    plan = Plan([Fault(at, mode)])
    rich = commit(
        expected=1, events=3, inbox={"pay:1": "h"}, process={"n": 1}, fields={"n": 1}, memento=Memento(4, 1, b"m")
    )
    outcome = None
    try:
        head = through(plan).commit(rich)
        outcome = "yes"
    except (KilledError, StorageUnavailableError):
        outcome = "unknown"
    plan.revive()
    plan.catch_up()
    found = table_homes.load("order-7")
    is_whole = (found.head.version, found.process, dict(found.inbox)) == (4, {"n": 1}, {"pay:1": "h"})
    assert is_whole or (found.head.version, found.process, dict(found.inbox)) == (1, None, {})
    assert (table_homes.read_memento("order-7") == Memento(4, 1, b"m")) == is_whole
    if outcome == "yes":
        assert is_whole
        assert found.head == head
    assert outcome == "yes" or "kill" in mode
    assert plan.fired or at == 2
    table_homes.commit(commit(expected=found.head.version))


def test_a_409_of_one_s_own_commit_would_be_a_conflict(through, monkeypatch):
    """Without the nonce, a writer that is refused by its own first sending takes itself for another one."""

    def believe_the_409(_self, _commit, _rows, error):
        if error_code(error) in LOST_RACE:
            raise ConflictError("another writer was first")
        return False

    assert through(Plan([Fault(1, "reset_after")])).commit(commit()).version == 1
    monkeypatch.setattr(TableHomes, "_is_written", believe_the_409)
    with pytest.raises(ConflictError):
        through(Plan([Fault(1, "reset_after")])).commit(commit("order-8"))


@pytest.mark.parametrize("first", sorted(WITH_EFFECT - {"kill_after"}))
@pytest.mark.parametrize("then", [mode for mode in MODES if "kill" not in mode])
def test_two_faults_never_make_a_conflict_with_oneself(through, table_homes, first, then):
    """The reply is lost, and the reading that settles it meets a fault of its own."""
    plan = Plan([Fault(1, first), Fault(2, then)])
    assert through(plan).commit(commit()).version == 1
    assert plan.fired == {Fault(1, first), Fault(2, then)}
    assert len(table_homes.read_tail("order-7", 0)) == 1


@pytest.mark.parametrize("mode", sorted(WITH_EFFECT - {"kill_after"}))
def test_a_lost_reply_is_settled_although_others_wrote_since(through, table_homes, mode):
    """The head has the nonce of the last writer; the event has that of its own."""
    plan = Plan([Fault(1, mode)])
    homes = through(plan)
    noted = plan.note

    def write_more(*_, **__):
        # Before the second request, which reads what became of the first one.
        if plan.count == 2:
            plan.note = noted
            table_homes.commit(commit(expected=1))

    plan.note = write_more
    assert homes.commit(commit()).version == 1
    assert [one.version for one in table_homes.read_tail("order-7", 0)] == [1, 2]


@pytest.mark.parametrize("mode", ["reset_after", "503_after", "truncated_reply"])
def test_a_refusal_whose_reply_is_lost_is_a_refusal(through, table_homes, mode):
    """The transaction was refused, and nobody heard of it: the same is sent again, or the event is read."""
    table_homes.commit(commit(inbox={"pay:1": "h"}))
    with pytest.raises(ConflictError):
        through(Plan([Fault(1, mode)])).commit(commit(events=2))
    with pytest.raises(DuplicateError) as refused:
        through(Plan([Fault(1, mode)])).commit(commit(expected=1, inbox={"pay:0": "h", "pay:1": "h"}))
    assert (refused.value.id, refused.value.is_same) == ("pay:1", True)
    assert table_homes.read_head("order-7").version == 1


def test_a_request_that_hung_and_comes_late_changes_nothing(through, table_homes):
    """The sender gave up, read that nothing was there, and wrote again; then the first one arrives."""
    plan = Plan([Fault(1, "hang_then_timeout")])
    assert through(plan).commit(commit(inbox={"pay:1": "h"})).version == 1
    plan.catch_up()
    assert [one.version for one in table_homes.read_tail("order-7", 0)] == [1]


def test_an_id_of_one_s_own_commit_is_no_duplicate(table_homes, monkeypatch):
    """The library sends a transaction again whose reply was an error; storage may name any row that it finds."""

    def write_twice(table, operations):
        write_group(table, operations)
        error = TableTransactionError(message="1:planned")
        error.error_code = "EntityAlreadyExists"
        raise error

    monkeypatch.setattr("shared.processes.table_homes.write_group", write_twice)
    assert table_homes.commit(commit(inbox={"pay:1": "h"})).version == 1


def test_an_outage_is_told(through):
    """After some writes without an answer the caller decides, and its message comes again."""
    with pytest.raises(StorageUnavailableError, match="write 1 events of home 'order-7'"):
        through(Plan([Fault(n, "503_before") for n in range(1, 40)])).commit(commit())


def test_a_table_that_is_missing_is_told(connections, container):
    """It is no home that is new."""
    homes = TableHomes(connections.tables.get_table_client("homesnone"), MementoStore(container))
    for act in (lambda: homes.load("a"), lambda: homes.read_head("a"), lambda: homes.commit(commit())):
        with pytest.raises(StorageUnavailableError, match="TableNotFound"):
            act()


def test_a_home_that_grows_while_it_is_read_is_read_of_one_version(azurite, table, container, table_homes):
    """Its pages are several requests; a commit comes between any two of them."""
    for between in range(2, 6):
        key = f"order-{between}"
        table_homes.commit(commit(key=key, events=5, inbox={"a": "1"}, process={"n": 5}))
        plan = Plan()

        def grow(*_, plan=plan, between=between, key=key, **__):
            if plan.count == between:
                plan.note = lambda *_, **__: None
                table_homes.commit(commit(key=key, expected=5, inbox={"b": "2"}, process={"n": 6}))

        plan.note = grow
        with Connections(azurite.connection_string, transport=plan.transport) as opened:
            slow = TableHomes(opened.tables.get_table_client(table.table_name), MementoStore(container), page=2)
            found = slow.load(key)
        assert found.head.version == len(found.events) == found.process["n"]
        assert [one.version for one in found.events] == list(range(1, found.head.version + 1))
        assert ("b" in found.inbox) == (found.head.version == 6)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("at", [1, 2, 3, 4])
def test_a_large_memento_is_in_a_blob_before_its_row(through, table_homes, container, mode, at):
    """A row never names a blob that is not there, and what was replaced goes."""
    through(Plan(), 1024).commit(commit(memento=replace(LARGE, packed=LARGE.packed[:1])))
    through(Plan(), 1).commit(commit(expected=1, memento=replace(LARGE, version=2)))
    plan = Plan([Fault(at, mode)])
    try:
        through(plan, 1).commit(commit(expected=2, memento=replace(LARGE, version=3)))
    except (KilledError, StorageUnavailableError):
        assert "kill" in mode
    plan.revive()
    plan.catch_up()
    found = table_homes.read_memento("order-7")
    assert found.version == table_homes.read_head("order-7").version
    assert found.packed == LARGE.packed
    through(Plan(), 1).commit(commit(expected=found.version, memento=replace(LARGE, version=found.version + 1)))
    names = list(container.list_blob_names())
    assert [name.partition("-")[2][:10] for name in names] == [f"7/{found.version + 1:010}"[:10]]


def test_the_size_decides_where_a_memento_is(table_homes, container):
    """Random bytes do not compress: seven hundred KiB fit into a row, more do not."""
    import random  # noqa: PLC0415 - only here

    noise = random.Random(7).randbytes(700 * 1024)
    table_homes.commit(commit(memento=Memento(1, 1, noise[:-1024])))
    assert list(container.list_blob_names()) == []
    assert table_homes.read_memento("order-7").packed == noise[:-1024]
    table_homes.commit(commit(expected=1, events=98, memento=Memento(99, 1, noise)))
    assert len(list(container.list_blob_names())) == 1
    with tally_requests() as tally:
        assert table_homes.read_memento("order-7").packed == noise
    assert tally.total() == 2


def test_a_memento_that_cannot_be_read_is_none(table_homes, table, container):
    """The events are the truth; the next commit stores another memento."""
    key = {"PartitionKey": "order-7", "RowKey": "s", "version": 1, "format": 1}
    for broken in ({"packed": b"no zstd"}, {"blob": "order-7/gone"}, {}):
        table.upsert_entity(key | broken, mode=UpdateMode.REPLACE)
        assert table_homes.read_memento("order-7") is None


def test_rows_that_another_program_wrote_are_told(table_homes, table):
    """No decision is made on them, and the error names the row and what to do."""
    table_homes.commit(commit(events=3, process={"a": 1}, inbox={"pay:1": "h"}))
    wrong = {
        "e|0000000002": {"at": "yesterday"},
        "head": {"version": "three"},
        "process": {"body": "[]"},
        "i|pay=3A1": {"version": "x"},
    }
    for key, columns in wrong.items():
        before = dict(table.get_entity("order-7", key))
        table.update_entity(before | columns, mode=UpdateMode.REPLACE)
        with pytest.raises(HomeCorruptError, match="restore"):
            table_homes.load("order-7")
        table.update_entity(before, mode=UpdateMode.REPLACE)
    assert table_homes.load("order-7").head.version == 3
    table.delete_entity("order-7", "e|0000000002")
    for read in (lambda: table_homes.load("order-7"), lambda: table_homes.read_tail("order-7", 0)):
        with pytest.raises(HomeCorruptError, match=r"e\|0000000002"):
            read()


@pytest.mark.parametrize("gone", ["head", "e|0000000003"])
def test_a_home_without_its_head_or_its_last_event_is_told(table_homes, table, gone):
    """Rows vanish only by hand."""
    table_homes.commit(commit(events=3))
    table.delete_entity("order-7", gone)
    with pytest.raises(HomeCorruptError, match="order-7"):
        table_homes.load("order-7")


def test_a_home_of_a_later_format_is_left_alone(table_homes, table):
    """An older version of Sluice must not decide on rows that it does not know."""
    table_homes.commit(commit())
    table.update_entity({"PartitionKey": "order-7", "RowKey": "head", "format": 2}, mode=UpdateMode.MERGE)
    for read in (lambda: table_homes.load("order-7"), lambda: table_homes.read_head("order-7")):
        with pytest.raises(LaterFormatError, match="format 2"):
            read()


def test_long_values_take_several_columns(table_homes):
    """A column takes 32 Ki characters, a row half a MiB; what exceeds it is refused before the request."""
    text = "ü'\"\\🎉" * 6_000
    table_homes.commit(commit(events=[event(body={"text": text})], process={"text": text}))
    found = table_homes.load("order-7")
    assert found.events[0].body["text"] == found.process["text"] == text
    with tally_requests() as tally, pytest.raises(CommitTooLargeError, match="blob"):
        table_homes.commit(commit(expected=1, events=[event(body={"text": "x" * 300_000})]))
    with tally_requests() as more, pytest.raises(CommitTooLargeError, match="bytes"):
        table_homes.commit(commit(expected=1, events=[event(body={"text": "x" * 100_000})] * 20))
    assert tally.total() + more.total() == 0


def test_ids_that_look_alike_are_two(table_homes):
    """The key of an id is exact, whatever its characters."""
    ids = dict.fromkeys(["a/b", "a=2Fb", "a%2Fb", "A/b", "a b", "a+b", "ä", "a#b?c\\d"], "h")
    table_homes.commit(commit(inbox=ids))
    assert table_homes.load("order-7").inbox == ids


def test_another_refusal_is_told_as_it_is(table_homes, monkeypatch):
    """Neither a conflict nor a duplicate: the home is not there, and the caller must not take it for one."""

    def refuse(*_, **__):
        error = HttpResponseError("planned")
        error.status_code, error.error_code = 403, "AuthorizationFailure"
        raise error

    monkeypatch.setattr("shared.processes.table_homes.write_group", refuse)
    with tally_requests() as tally, pytest.raises(StorageUnavailableError, match="AuthorizationFailure"):
        table_homes.commit(commit())
    assert tally.total() == 1
