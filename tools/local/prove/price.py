"""The price of a proof: a share of a month without work, and the requests of a deep examination."""

from datetime import timedelta
from decimal import Decimal

from shared.usage import MONTH, load, price
from tools.conformance import REQUESTS
from tools.local.infra import costs
from tools.local.infra.project import Project
from tools.local.prove.acts import KILLED_ITEMS


def price_of(hours: float) -> Decimal:
    """Return the price of so many hours, in USD, by the prices file."""
    month = sum((one.amount for one in costs.idle(Project())), Decimal())
    return month * Decimal(timedelta(hours=hours) / MONTH)


def price_of_work() -> Decimal:
    """Return the price of the examinations. The jobs of the tests are no larger than the one under the kill."""
    million = sum((one.amount for one in costs.work()), Decimal())
    return price(REQUESTS, load()).total + million * 2 * KILLED_ITEMS / 1_000_000
