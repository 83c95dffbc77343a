"""`sluice migrate` against real tables: the example of docs/processes.md as it stands, and what is refused."""

import json
import shlex
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal

import pytest
from azure.core.exceptions import ResourceNotFoundError

from capabilities.registration.entities import registration
from capabilities.registration.flows import RegistrationStores
from capabilities.registration.order import OrderPlaced, event_of, order_home
from capabilities.registration.views import ORDER_MODEL, READ_MODELS
from shared.app import Stores
from shared.azure import Connections
from shared.processes import Commit, EventRange
from shared.readmodels import Slot
from shared.topology import topology
from tests.repo.test_commands import BLOCK
from tools.local.docs import documents
from tools.local.paths import ROOT
from tools.local.provision import provision

PRICE = Decimal("500.00")


@pytest.fixture
def on(stack_settings, provisioned):
    """The settings of an installation with registration, whose tables exist."""
    provision(provisioned.connection_string, topology(entities=[registration()]))
    return stack_settings | {"SLUICE_CAPABILITIES": "registration"}


@pytest.fixture
def stores(on):
    """Its stores, with three orders that have rows, and no migration."""
    with Connections.parse(on) as connections:
        tables = connections.tables
        made = RegistrationStores(Stores(connections)).views
        with suppress(ResourceNotFoundError):
            tables.get_table_client("models").delete_entity("model", "orders")
        for slot in Slot:
            for page in made.slots[slot].old_rows("orders"):
                made.slots[slot].remove(page)
        for number in range(1, 4):
            place(made, f"migrated-{number}", number)
        yield made


def place(stores, order, number):
    """Place an order, if it is not there yet, and project it."""
    home = order_home(order)
    if stores.homes.read_head(home) is None:
        body = OrderPlaced(order, number, "conf1", {"seat": 1}, {"seat": PRICE})
        event = event_of(body, datetime(2026, 11, 22, 12, tzinfo=UTC))
        stores.homes.commit(
            Commit(home=home, aggregate="order", expected=0, events=(event,), fields={"number": number})
        )
    (event,) = stores.homes.read_tail(home, 0)
    stores.projector(ORDER_MODEL).project([EventRange(home, 1, 1, (event,))])


def rows(stores, slot, version):
    """Return the keys of the rows of a version."""
    return [row.place.key for page in stores.slots[slot].scan("orders", version) for row in page]


def test_the_example_of_the_document_runs(sluice, on, stores):
    """All steps from the plan to the end, forth, back and forth again. The rows of the former version are gone."""
    text = (ROOT / "docs" / "processes.md").read_text()
    (example,) = [found[4] for found in BLOCK.finditer(text) if found[2] == "sh" and "sluice migrate" in found[4]]
    done = [sluice(*shlex.split(line)[1:], settings=on) for line in example.splitlines()]
    assert [one.returncode for one in done] == [0] * 8, [one.stderr for one in done]
    said = "".join(one.stdout for one in done)
    assert "no row differs" in said
    assert "sluice migrate finish orders --to 2: removes the former version" in said
    assert rows(stores, Slot.A, 1) == []
    assert {"000000000001", "000000000002", "000000000003"} <= set(rows(stores, Slot.B, 2))


def test_the_steps_are_refused_in_any_other_order(sluice, on, stores):
    """Each refusal says what was found and what to type."""
    early = sluice("migrate", "switch", "orders", "--to", "2", "--yes", settings=on)
    assert early.returncode == 1
    assert "no migration was begun: type `sluice migrate start orders --to 2`" in early.stderr
    same = sluice("migrate", "plan", "orders", "--to", "1", settings=on)
    assert (same.returncode, "version 1 is the current one" in same.stderr) == (1, True)
    later = sluice("migrate", "start", "orders", "--to", "7", settings=on)
    assert (later.returncode, "this program knows 1, 2" in later.stderr) == (1, True)
    assert json.loads(sluice("migrate", "status", "orders", "--json", settings=on).stdout)["phase"] == "none"


def test_a_difference_is_a_problem_and_cannot_be_switched_to(sluice, on, stores):
    """A row that another program changed: verify names the home and the field, and no value."""
    assert sluice("migrate", "start", "orders", "--to", "2", "--json", settings=on).returncode == 0
    (row,) = [
        row for page in stores.slots[Slot.B].scan("orders", 2) for row in page if row.home == order_home("migrated-2")
    ]
    stores.slots[Slot.B].try_write([replace(row, view={**row.view, "total": "777.00"})])
    found = sluice("migrate", "verify", "orders", "--to", "2", "--json", settings=on)
    told = json.loads(found.stdout)
    assert found.returncode == 1
    assert [line for line in told["differences"] if "migrated-2" in line] == [
        "order-migrated-2: its row differs from its events in total"
    ]
    assert "777.00" not in found.stdout
    refused = sluice("migrate", "switch", "orders", "--to", "2", "--yes", settings=on)
    assert (refused.returncode, "it is not verified" in refused.stderr) == (1, True)
    given_up = json.loads(sluice("migrate", "finish", "orders", "--to", "2", "--yes", "--json", settings=on).stdout)
    assert (given_up["phase"], given_up["current"], rows(stores, Slot.B, 2)) == ("done", 1, [])


def test_a_rehearsal_writes_nothing(sluice, on, stores):
    """It shows what rows would be, by home and key."""
    told = json.loads(sluice("migrate", "plan", "orders", "--to", "2", "--json", settings=on).stdout)
    assert told["homes"] >= 3
    assert {"home": "order-migrated-1", "key": "000000000001"}.items() <= told["rows"][0].items()
    assert told["rows"][0]["row"]["placed_at"] == "2026-11-22T12:00:00Z"
    assert rows(stores, Slot.B, 2) == []


def test_an_unknown_model_or_no_registration_is_a_wrong_call(sluice, on, stack_settings):
    """Both say what there is."""
    unknown = sluice("migrate", "status", "seats", settings=on)
    assert (unknown.returncode, "there is no read model 'seats'" in unknown.stderr) == (2, True)
    off = sluice("migrate", "status", "orders", settings=stack_settings)
    assert (off.returncode, "registration is off" in off.stderr) == (2, True)


def test_the_document_lists_every_version(on):
    """A version more is a row more."""
    text = next(one for one in documents() if one == ROOT / "docs" / "processes.md").read_text()
    for model in READ_MODELS.values():
        for one in model.versions:
            assert f"| `{model.name}` | {one.version} |" in text
