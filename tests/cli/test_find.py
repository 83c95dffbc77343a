"""`sluice find`: what a text may be, with the command that shows more of it."""

from datetime import UTC, datetime

from shared.app import Stores
from shared.azure.connections import Connections
from shared.ledger import Job

AT = datetime(2031, 3, 1, 12, tzinfo=UTC)


def test_a_person_finds_a_job_and_a_gate_by_a_part(sluice, provisioned):
    """And a number is a number of transactions. Nothing found is a problem."""
    with Connections(provisioned.connection_string) as connections, Stores(connections) as stores:
        stores.ledger.insert(Job(job="findable-job", content_hash="", workload="billing", accepted_at=AT))
        stores.gate_operator.open("find-findable", by="ann")
    found = sluice("find", "findable")
    rows = [line.split("\t") for line in found.stdout.splitlines() if not line.startswith("#")]
    assert found.returncode == 0
    assert rows[1:] == [
        ["job", "findable-job", "planning, accepted 2031-03-01 12:00 UTC", "sluice jobs show"],
        ["gate", "find-findable", "", "sluice gate status"],
    ]
    assert "findable-job" in sluice("find", "dable-j", "--further").stdout
    assert "sluice ids explain transactions" in sluice("find", "7777").stdout
    assert sluice("find", "no-such-thing").returncode == 1
