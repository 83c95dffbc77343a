"""The tables of docs/appendix/capacity.md that follow from the model: its constants, Azure's limits, and four loads."""

from typing import Any, Final

import msgspec

from shared.usage import Installation, load as load_prices
from tools.cli import capacity_view as view
from tools.local.infra.tables import Table
from tools.planning.azure_limits import LIMITS
from tools.planning.capacity_bill import bury
from tools.planning.load import Load, Machines
from tools.planning.measured import MEANINGS, constants

#: A job of the usual size, large ones, and a day of 100,000,000 in one job, in some and in small ones.
LOADS: Final = {
    "one job of 1,000,000": Load(transactions=1_000_000),
    "one job of 10,000,000": Load(transactions=10_000_000),
    "a raw file of 10,000,000": Load(transactions=10_000_000, is_raw=True),
    "one job of 100,000,000": Load(transactions=100_000_000),
    "100,000,000 in 10 jobs": Load(transactions=100_000_000, jobs=10),
    "100,000,000 in 10 jobs, chunks of 1,000": Load(transactions=100_000_000, jobs=10, chunk_items=1_000),
    "100,000,000 in 1,000 jobs": Load(transactions=100_000_000, jobs=1_000),
    "100,000,000 in 100,000 jobs": Load(transactions=100_000_000, jobs=100_000),
}
STEPS: Final = (1, 10, 25, 100)


def loads() -> Table:
    """Return the seconds of each load with so many instances, and what binds first."""
    rows = []
    for name, one in _estimates().items():
        for row in one.rows:
            stages = " + ".join(f"{seconds:,.0f}" for seconds in (row.publish, row.start, row.work, row.finish))
            rows.append((name, str(row.instances), f"{row.total:,.0f} s", stages, row.first.name))
    return ("load", "instances", "done after", "publish + start + work + finish", "comes first"), rows


def ceilings() -> Table:
    """Return the ceilings of the largest load, the lowest first."""
    found = _estimates()["100,000,000 in 10 jobs"].ceilings
    return ("ceiling", "transactions/s", "from instances", "why"), list(view.ceiling_rows(found))


def costs() -> Table:
    """Return the requests, the money and the ticks of each load."""
    rows = []
    for name, one in _estimates().items():
        rows.append(
            (
                name,
                f"{one.asked.storage:,}",
                f"{one.asked.bus:,}",
                f"{one.money.work.total:.4f}",
                f"{one.money.computing:.4f}",
            )
        )
    currency = load_prices().currency
    return (
        "load",
        "storage requests",
        "bus operations",
        f"{currency}: requests and bus",
        f"{currency}: computing",
    ), rows


def retention() -> Table:
    """Return the requests, the price and the ticks of retention, for each load as that of a day."""
    rows = []
    for name, load in LOADS.items():
        found, one = bury(load, Machines(), constants()), _estimates()[name]
        kept = "yes" if found.keeps_up else f"NO: up to {found.most_a_day(load.transactions):,.0f} a day"
        rows.append(
            (
                name,
                f"{one.asked.buried:,}",
                f"{one.money.retention.total:.4f}",
                f"{found.seconds:,.0f} s",
                f"{found.ticks:,}",
                f"{found.longest:.1f} s",
                kept,
            )
        )
    head = ("load of a day", "requests", load_prices().currency, "time of ticks", "ticks", "longest tick", "keeps up")
    return head, rows


def measured() -> Table:
    """Return the constants."""
    found: dict[str, Any] = msgspec.to_builtins(constants())
    rows = [(f"`{name}`", what, _shown(found[name]), where) for name, (what, where) in MEANINGS.items()]
    return ("constant", "what it is", "value", "measured by"), rows


def azure() -> Table:
    """Return the limits of Azure that the model knows."""
    return ("limit", "at most", "source"), [(one.what, f"{one.most:,}", one.source) for one in LIMITS]


def _estimates() -> dict[str, view.Estimate]:
    prices = load_prices()
    return {
        name: view.Estimate.of(load, Machines(), constants(), prices, STEPS, groups=Installation().function_groups)
        for name, load in LOADS.items()
    }


def _shown(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{_shown(one)} per {name}" for name, one in value.items())
    if isinstance(value, int):
        return f"{value / 2**20:.0f} MiB" if value >= 2**20 else f"{value:.0f} bytes"
    if value >= 0.1:
        return f"{value:.2f} s"
    return f"{value * 1e3:.2f} ms" if value >= 1e-4 else f"{value * 1e6:.2f} µs"


TABLES: Final = {
    "capacity-loads": loads,
    "capacity-ceilings": ceilings,
    "capacity-costs": costs,
    "capacity-retention": retention,
    "capacity-measured": measured,
    "capacity-azure": azure,
}
