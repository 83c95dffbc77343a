"""A process that dies at any request of a look or of a put of rules, or loses its reply: the next one puts it right."""

from contextlib import suppress

import pytest

from shared.app import Stores
from shared.azure.connections import Connections
from shared.errors import SluiceError
from tests.faults.plan import UNTOLD, KilledError, Plan

RULES = "version: 1\nrules:\n- {name: ten, tasks: 10}\n"
#: More requests than any of these makes.
MOST = 30


def broken(provisioned, plan, act):
    """Run it in a process with this fault; whatever it ends with is the process's own."""
    with (
        Connections(provisioned.connection_string, transport=plan.transport) as connections,
        suppress(KilledError, SluiceError),
    ):
        act(connections)


def every_fault(act):
    """Call it with each fault at each request until there are no more requests; returns how many runs there were."""
    for mode in UNTOLD:
        for at in range(1, MOST):
            plan = Plan.of(at, mode)
            act(plan)
            if not plan.fired:
                assert at > 1
                break
        else:
            raise AssertionError("more requests than anybody thought")


@pytest.fixture(autouse=True)
def impatient(monkeypatch):
    """The library's retries wait for nobody here."""
    monkeypatch.setattr("shared.azure.connections.PAUSE", 0.001)


def test_a_look_that_ends_anywhere_is_made_good_by_the_next(fleet, provisioned):
    """One decision is in force, it is the newest in the history, and none is told twice."""
    fleet.rules.put(RULES)
    fleet.put(30)

    def act(plan):
        table = fleet.connections.tables.get_table_client("decisions")
        for row in table.list_entities(select=["PartitionKey", "RowKey"]):
            table.delete_entity(row)

        def run(connections):
            tuning = fleet.tuning()
            stores = Stores(connections)
            tuning.fleet, tuning.rules = stores.fleet, stores.rules
            fleet.clock.advance(minutes=1)
            tuning.run()
            fleet.clock.advance(minutes=1)
            tuning.run()

        broken(provisioned, plan, run)
        fleet.clock.advance(minutes=1)
        assert fleet.tuning().run().tasks == 10
        found = fleet.table.history(20)
        assert [one.tasks for one in found] == [10]
        assert fleet.table.read().decision == found[0]
        assert fleet.table.read().rules.version == 1

    every_fault(act)


def test_rules_whose_putting_ends_anywhere_are_put_by_the_next_attempt(fleet, provisioned):
    """The version is this text, and the text is in force."""

    def act(plan):
        settings = fleet.connections.blobs.get_container_client("settings")
        for name in list(settings.list_blob_names()):
            settings.delete_blob(name)
        broken(provisioned, plan, lambda connections: Stores(connections).rules.put(RULES))
        assert fleet.rules.text() in {None, RULES}
        fleet.rules.put(RULES)
        assert (fleet.rules.text(), fleet.rules.text(1)) == (RULES, RULES)

    every_fault(act)
