"""The audit: rows are only added, an act is told once, and a killed process leaves its begin."""

from datetime import UTC, datetime, timedelta

import pytest
from azure.core.exceptions import HttpResponseError
from azure.storage.blob import AccountSasPermissions, ResourceTypes

from shared.azure.connections import Connections
from shared.errors import ActRepeatedError
from shared.operating import ActKey, AuditedAct, AuditTable
from tests.conformance.storage_proxy import connection_string
from tests.faults.plan import MODES, KilledError, Plan
from tests.process.world import ManualClock

MONTH = "2032-05"
#: What the role of docs/deploy.md gives an operator on this table.
READ_AND_ADD = (ResourceTypes(container=True, object=True), AccountSasPermissions(read=True, add=True))


@pytest.fixture
def clock():
    """A clock in a month that no other test writes to."""
    found = ManualClock()
    found.at = datetime(2032, 5, 1, tzinfo=UTC)
    return found


@pytest.fixture
def table(provisioned):
    """The table, whose rows of the month go at the end."""
    with Connections(provisioned.connection_string) as connections:
        found = connections.tables.get_table_client("audit")
        yield found
        for row in list(rows_of(found)):
            found.delete_entity(row["PartitionKey"], row["RowKey"])


def rows_of(table):
    """Return the rows of the month."""
    return table.query_entities("PartitionKey eq @month", parameters={"month": MONTH})


def told(audit):
    """Return who did what with which result, the newest first."""
    return [(one.act.who, one.act.what, one.act.result) for one in audit.newest(MONTH, 10)]


def test_an_end_is_a_row_of_its_own_beside_its_begin(table, clock):
    """The begin stays as it was written; the end adds the result and what the act noted."""
    audit = AuditTable(table, clock)
    with audit.record(AuditedAct("ann", "gate open", "nightly", "due")) as act:
        (begun,) = [dict(row) for row in rows_of(table)]
        act.result, act.details["epoch"] = "done", "7"
    first, last = rows_of(table)
    assert (dict(first), first["result"]) == (begun, "started")
    assert (last["RowKey"], last["result"], last["epoch"]) == (f"{first['RowKey']}|end", "done", "7")
    (found,) = audit.newest(MONTH, 10)
    assert (found.at, found.act) == (clock.now(), act)


def test_reading_and_adding_are_all_the_rights_that_it_needs(provisioned, table, clock):
    """With these alone every act is recorded, and no row of it can be changed or removed."""
    storage = connection_string(provisioned, provisioned.ports, READ_AND_ADD)
    with Connections(storage, retries=0) as connections:
        mine = connections.tables.get_table_client("audit")
        audit, named = AuditTable(mine, clock), ActKey(clock.now(), "named")
        with audit.record(AuditedAct("ann", "gate open", "nightly", "")) as act:
            act.result = "done"
        clock.advance(1)
        with audit.record(AuditedAct("ann", "gate close", "nightly", ""), named) as act:
            act.result = "done"
        audit.note(AuditedAct("ann", "gate roll", "nightly", "", result="b1946ac9"), ActKey(clock.now(), "nightly-1"))
        with pytest.raises(ActRepeatedError, match="its result: done"):
            audit.check_new(named)
        assert len(told(audit)) == 3
        for row in list(rows_of(mine)):
            for change in (mine.upsert_entity, mine.update_entity, mine.delete_entity):
                with pytest.raises(HttpResponseError) as refusal:
                    change(row)
                assert refusal.value.status_code == 403


@pytest.mark.parametrize("name", [None, "named"])
@pytest.mark.parametrize(("at", "mode"), [(at, mode) for at in (1, 2) for mode in MODES])
def test_each_fault_of_each_row_leaves_one_act(provisioned, table, clock, *, at, mode, name):
    """Where the begin cannot be written, nothing is done. Where a process dies before the end, it says `started`."""
    plan, done = Plan.of(at, mode), []
    named = ActKey(clock.now(), name) if name else None
    with Connections(provisioned.connection_string, transport=plan.transport) as connections:
        audit = AuditTable(connections.tables.get_table_client("audit"), clock)
        try:
            with audit.record(AuditedAct("ann", "try", "nightly", ""), named) as act:
                done.append(act)
                act.result = "done"
        except KilledError:
            pass
        plan.catch_up()
    is_dead = mode.startswith("kill")
    begun = [] if (at, mode) == (1, "kill_before") else ["started"]
    ended = not is_dead or (at, mode) == (2, "kill_after")
    assert [result for *_, result in told(AuditTable(table, clock))] == (["done"] if ended else begun)
    assert bool(done) is (at == 2 or not is_dead)
    assert all("unrecorded" not in act.details for act in done)


def test_a_repeated_act_says_how_the_first_ended(table, clock):
    """Also one whose process died, and one of a release that wrote the result into the first row."""
    audit, named = AuditTable(table, clock), ActKey(clock.now(), "named")
    with pytest.raises(ZeroDivisionError), audit.record(AuditedAct("ann", "try", "nightly", ""), named):
        raise ZeroDivisionError
    with (
        pytest.raises(ActRepeatedError, match="its result: failed: ZeroDivisionError"),
        audit.record(AuditedAct("ann", "try", "nightly", ""), named),
    ):
        pytest.fail("it was done again")
    old = {"who": "bob", "what": "try", "target": "nightly", "why": "", "result": "done: epoch 7"}
    later = clock.now() + timedelta(seconds=1)
    table.create_entity({"PartitionKey": MONTH, "RowKey": f"{later.isoformat(timespec='microseconds')}|old", **old})
    with pytest.raises(ActRepeatedError, match="its result: done: epoch 7"):
        audit.check_new(ActKey(later, "old"))
    assert told(audit) == [("bob", "try", "done: epoch 7"), ("ann", "try", "failed: ZeroDivisionError")]


def test_an_end_that_another_process_added_changes_neither_who_nor_what(table, clock):
    """It may say a result, which the command that comes to write its own does not overlook."""
    audit = AuditTable(table, clock)
    with audit.record(AuditedAct("ann", "gate open", "nightly", "due", {"once": "yes"})) as act:
        (row,) = rows_of(table)
        forged = {"who": "bob", "what": "look", "target": "-", "why": "-", "result": "nothing", "once": "no"}
        table.create_entity({"PartitionKey": MONTH, "RowKey": f"{row['RowKey']}|end", **forged})
        act.result = "done"
    assert act.details["unrecorded"] == "the audit has another result, which another process added"
    (found,) = audit.newest(MONTH, 10)
    shown = found.act
    assert (shown.who, shown.what, shown.target, shown.why) == ("ann", "gate open", "nightly", "due")
    assert (shown.result, shown.details) == ("nothing", {"once": "yes"})
    assert audit.newest(MONTH, 10, who="bob") == []
