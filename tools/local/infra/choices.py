"""The price of each choice: a month without work with it, beside one with every parameter left alone."""

from collections.abc import Iterator
from decimal import Decimal
from typing import Any, Final, NamedTuple

from shared.usage import MONTH, Prices, load
from tools.local.infra.costs import idle
from tools.local.infra.project import Project

#: Parameters that a deployer may turn on, each with a value that shows its price.
CHOICES: Final[tuple[tuple[str, Any], ...]] = (
    ("storageRedundancy", "Standard_ZRS"),
    ("storageRedundancy", "Standard_GZRS"),
    ("storageRedundancy", "Standard_RAGZRS"),
    ("blobSoftDeleteDays", 7),
    ("containerSoftDeleteDays", 7),
    ("isStorageLocked", True),
    ("isStoragePrivate", True),
    ("hasTraces", True),
    ("hasRollingUpdates", True),
    ("hasWorkbook", True),
    ("alertWebhook", "https://example.com/alerts"),
    ("alertMinutes", 5),
    ("instanceMemoryMB", 4096),
)


class Choice(NamedTuple):
    """One parameter with a value: what a month without work costs more, and what is paid by the GB."""

    parameter: str
    value: Any
    more: Decimal
    by_gb: str


def choices(project: Project, prices: Prices | None = None) -> Iterator[Choice]:
    """Yield the price of each choice."""
    table = prices or load()
    usual = _total(project, table)
    for parameter, value in CHOICES:
        more = _total(project, table, **{parameter: value}) - usual
        yield Choice(parameter, value, more, _by_gb(parameter, value, table))


def _total(project: Project, prices: Prices, **parameters: Any) -> Decimal:
    return sum((one.amount for one in idle(project, prices, **parameters)), Decimal())


def _by_gb(parameter: str, value: Any, prices: Prices) -> str:
    usual = prices.redundancy["Standard_LRS"].gb
    if parameter == "storageRedundancy":
        found = prices.redundancy[value]
        copied = f", and {found.gb_copied} for each one that is copied" if found.gb_copied else ""
        return f"{found.gb} a month, not {usual}{copied}"
    if parameter == "isStoragePrivate":
        return f"{prices.network['endpoint_gb']} for each one that passes an endpoint, either way"
    if parameter == "hasTraces":
        return f"{prices.logs.gb} for each one of spans"
    if parameter.endswith("SoftDeleteDays"):
        what = "deleted or overwritten" if parameter.startswith("blob") else "in a deleted container"
        return f"{usual * value / MONTH.days:.4f} for each one {what}"
    return "nothing"
