"""What a deployment costs: nothing is left out, and the parts make the whole."""

import json
from decimal import Decimal

import msgspec

from shared.usage.bill import BUILT_IN, load
from tools.local.infra import choices, costs
from tools.local.infra.project import Project

PRICES = load()


def test_every_file_says_what_it_is_for():
    """A module that is added is in the table of what is created."""
    project = Project()
    assert {file.name for file in project.bicep_files()} == set(costs.PURPOSES)


def test_every_resource_is_counted_in_one_part():
    """The table of what is created leaves nothing out but the services that come with an account."""
    found = Project().deployed(principalId="you", publishers=[], operators=[])
    words = [one.split()[0] for part in costs.created(Project()) for one in part.contents.split(", ")]
    assert sum(int(word) if word.isdigit() else 1 for word in words) == sum(
        not one.type.endswith("Services") for one in found.resources
    )


def test_the_parts_make_the_whole():
    """What the files cost each is what a month costs."""
    parts = sum(part.amount for part in costs.created(Project()))
    assert parts == sum(one.amount for one in costs.idle(Project()))


def test_each_alert_has_its_price():
    """Twice the price of a rule is twice the line."""
    dearer = {minutes: 2 * each for minutes, each in PRICES.logs.alert_rule.items()}
    changed = msgspec.structs.replace(PRICES, logs=msgspec.structs.replace(PRICES.logs, alert_rule=dearer))
    before, after = (_named("alert rules", costs.idle(Project(), prices)) for prices in (PRICES, changed))
    assert after == 2 * before > 0


def test_what_is_free_ends():
    """Without a free grant each second of the tick is paid."""
    functions = msgspec.structs.replace(PRICES.functions, free_gb_seconds=0)
    changed = msgspec.structs.replace(PRICES, functions=functions)
    assert _named("the tick's executions", costs.idle(Project(), changed)) > 0


def test_work_costs_less_than_a_message_a_transaction():
    """A million transactions in chunks against three requests of the queue for each of them."""
    alone = 3 * 1_000_000 * PRICES.requests["queue"] / 10_000
    assert sum(one.amount for one in costs.work()) < alone


def test_copies_cost_as_many_times_as_the_prices_say():
    """The requests of a month without work, and nothing else of it."""
    requests = sum(one.amount for one in costs.idle(Project()) if one.part == "app-storage.bicep")
    more = {one.value: one.more for one in choices.choices(Project()) if one.parameter == "storageRedundancy"}
    assert more
    assert more == {name: requests * (PRICES.redundancy[name].requests - 1) for name in more}


def test_a_day_of_soft_delete_is_paid_as_a_day_of_storage():
    """Twice the price of a GB is twice what its deletion costs."""
    found = [
        one.by_gb.split()[0]
        for prices in (PRICES, _with_gb(2 * PRICES.redundancy["Standard_LRS"].gb))
        for one in choices.choices(Project(), prices)
        if one.parameter == "blobSoftDeleteDays"
    ]
    assert found == ["0.0049", "0.0097"]


def test_private_addresses_cost_by_the_hour():
    """Each endpoint and each zone has its price, and nothing of it is paid while the network is off."""
    private = Project().deployed(isStoragePrivate=True)
    endpoints, zones = (
        len(private.of_type(f"Microsoft.Network/{kind}")) for kind in ("privateEndpoints", "privateDnsZones")
    )
    (more,) = (one.more for one in choices.choices(Project()) if one.parameter == "isStoragePrivate")
    assert more == endpoints * 720 * PRICES.network["endpoint_hour"] + zones * PRICES.network["zone"]
    assert not [one for one in costs.idle(Project()) if one.part == "network.bicep"]


def test_an_alert_that_looks_more_often_costs_more():
    """A choice has the price of its value, by the number of rules."""
    (more,) = (one.more for one in choices.choices(Project()) if (one.parameter, one.value) == ("alertMinutes", 5))
    rules = int(next(one.how_much for one in costs.idle(Project()) if one.what.startswith("alert rules")))
    assert more == rules * (PRICES.logs.alert_rule[5] - PRICES.logs.alert_rule[15])


def test_a_table_of_ones_own_may_lack_copies_and_network(tmp_path):
    """Tables that were written before 0.4.0 still load."""
    own = json.loads(BUILT_IN.read_text())
    del own["redundancy"], own["network"]
    (tmp_path / "mine.json").write_text(json.dumps(own))
    assert load(tmp_path / "mine.json").requests == PRICES.requests


def _with_gb(price: Decimal):
    usual = msgspec.structs.replace(PRICES.redundancy["Standard_LRS"], gb=price)
    return msgspec.structs.replace(PRICES, redundancy={**PRICES.redundancy, "Standard_LRS": usual})


def _named(start: str, found: list[costs.Cost]) -> Decimal:
    return next(one.amount for one in found if one.what.startswith(start))
