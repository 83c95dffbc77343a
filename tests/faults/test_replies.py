"""A reply that ends in its middle is one that did not come: whoever asked looks for what became of it."""

from contextlib import closing
from dataclasses import replace

import pytest

from shared.azure.connections import Connections
from shared.ledger.table_ledger import TableLedger
from tests.faults.memory.storage import MemoryStorage
from tests.faults.plan import Fault, Plan
from tests.ledger import builders


@pytest.mark.parametrize("kind", ["memory", "azurite"])
def test_a_transaction_whose_reply_ends_in_its_middle_is_found_written(request, kind):
    """The library reads that reply only after the transport returned it, where no handler expects its error."""
    storage = MemoryStorage() if kind == "memory" else request.getfixturevalue("accounts").fresh()
    # The row and its line in the list are written first.
    plan = Plan([Fault(3, "truncated_reply")])
    with closing(Connections(storage.connection_string, transport=lambda: storage.transport(plan))) as connections:
        ledger = TableLedger(*(connections.tables.get_table_client(name) for name in ("jobs", "jobindex")))
        job, _ = ledger.insert(builders.job())
        written = ledger.commit(replace(job, problem="seen"))
        assert plan.fired
        assert plan.sites[2] == "POST $batch"
        assert written == ledger.read(job.job)
