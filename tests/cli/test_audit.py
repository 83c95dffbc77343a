"""`sluice audit`: the acts of a month, as a person asks for them."""

import json
from datetime import UTC, datetime, timedelta

import pytest

from shared.azure.connections import Connections
from shared.operating.audit import AuditedAct, AuditTable
from tests.process.world import ManualClock

MONTH = "2031-03"


@pytest.fixture
def acts(provisioned):
    """Three acts in one month, one of which failed, and one in the next."""
    clock = ManualClock()
    clock.at = datetime(2031, 3, 1, tzinfo=UTC)
    with Connections(provisioned.connection_string) as connections:
        table = connections.tables.get_table_client("audit")
        audit = AuditTable(table, clock)
        with audit.record(AuditedAct("ann", "gate open", "nightly", "month end", {"once": "yes"})) as act:
            act.result = "done: epoch 7, open"
        clock.advance(60)
        with pytest.raises(ZeroDivisionError), audit.record(AuditedAct("bob", "job resume", "usage-0412", "")):
            raise ZeroDivisionError
        clock.advance(60)
        with audit.record(AuditedAct("\x1b[31mann", "gate close", "nightly", "")) as act:
            act.result = "done"
        clock.at += timedelta(days=31)
        with audit.record(AuditedAct("ann", "gate open", "later", "")):
            pass
        yield
        for month in (MONTH, "2031-04"):
            for row in table.query_entities("PartitionKey eq @month", parameters={"month": month}):
                table.delete_entity(row["PartitionKey"], row["RowKey"])


@pytest.mark.usefixtures("acts")
def test_the_acts_of_a_month_are_listed_the_newest_first(sluice):
    """Who, what, to what, with which result and why, and what an act noted beside."""
    found = json.loads(sluice("audit", MONTH, "--json").stdout)["acts"]
    assert [one["what"] for one in found] == ["gate close", "job resume", "gate open"]
    assert found[1]["result"] == "failed: ZeroDivisionError"
    assert found[2] == {
        "at": "2031-03-01T00:00:00+00:00",
        "who": "ann",
        "what": "gate open",
        "target": "nightly",
        "why": "month end",
        "result": "done: epoch 7, open",
        "details": {"once": "yes"},
    }
    shown = sluice("audit", MONTH).stdout
    assert "done: epoch 7, open" in shown
    assert "\x1b" not in shown


@pytest.mark.usefixtures("acts")
def test_a_person_narrows_the_list(sluice):
    """By who, by what it was about, by number."""
    assert [one["who"] for one in json.loads(sluice("audit", MONTH, "--by", "bob", "--json").stdout)["acts"]] == ["bob"]
    about = json.loads(sluice("audit", MONTH, "--about", "night", "--json").stdout)["acts"]
    assert {one["target"] for one in about} == {"nightly"}
    (last,) = json.loads(sluice("audit", MONTH, "--limit", "1", "--json").stdout)["acts"]
    assert last["what"] == "gate close"


def test_a_month_without_acts_says_so(sluice):
    """And what is no month is refused."""
    assert "no such act was recorded in 2030-01" in sluice("audit", "2030-01").stdout
    assert sluice("audit", "march").returncode == 2
