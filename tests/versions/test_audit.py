"""The audit of two versions on one table: each reads what the other wrote."""

from datetime import UTC, datetime, timedelta

from shared.azure.connections import Connections
from tests.process.world import ManualClock
from tests.versions.loading import find_today

MONTH = "2033-07"


def test_each_version_reads_the_acts_of_the_other(release, provisioned):
    """The release shows the end as a line more; today shows one act of either."""
    clock, (find_release, _) = ManualClock(), release
    clock.at = datetime(2033, 7, 1, tzinfo=UTC)
    with Connections(provisioned.connection_string) as connections:
        table = connections.tables.get_table_client("audit")
        for who, find in (("release", find_release), ("today", find_today)):
            audit = find("operating.audit")
            with audit.AuditTable(table, clock).record(audit.AuditedAct(who, "gate open", "nightly", "")) as act:
                act.result = f"done by {who}"
            clock.at += timedelta(seconds=1)
        read = {
            name: [one.act.result for one in find("operating.audit").AuditTable(table, clock).newest(MONTH, 10)]
            for name, find in (("release", find_release), ("today", find_today))
        }
        for row in list(table.query_entities("PartitionKey eq @month", parameters={"month": MONTH})):
            table.delete_entity(row["PartitionKey"], row["RowKey"])
    assert read == {
        "release": ["done by today", "started", "done by release"],
        "today": ["done by today", "done by release"],
    }
