"""What a deployment costs: nothing is left out, and the parts make the whole."""

from decimal import Decimal

import msgspec

from shared.usage.bill import load
from tools.local.infra import costs
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


def _named(start: str, found: list[costs.Cost]) -> Decimal:
    return next(one.amount for one in found if one.what.startswith(start))
