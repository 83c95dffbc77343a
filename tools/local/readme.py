"""Parts of the README that stand elsewhere too: its numbers, which other pages have first, and its workload, which others repeat."""

import re
from decimal import Decimal
from typing import Final

from shared.usage import load
from tools.local.errors import StackError
from tools.local.infra import costs
from tools.local.infra.project import Project
from tools.local.infra.tables import Table
from tools.local.paths import ROOT

#: The contenders: the beginning of each row of docs/appendix/performance.md, and the name used here.
WHO: Final = {
    "Sluice, default": "Sluice, in a job of 400,000",
    "Sluice, chunks of 1,000": "Sluice, with a thousand transactions per chunk",
    "one message each, aio": "a message for each transaction; a crash loses some",
    "whole job, naive": "a message, an id and a table row for each, which survives a crash",
}
#: What a deployment's charges are called in a sentence, by the file that makes what is paid.
CHARGED: Final = {"service-bus.bicep": "the bus", "alerts.bicep": "alert rules", "app-storage.bicep": "requests"}
_ROW: Final = r"^\| {name}[^|]*\|[^|]*\|[^|]*\| ([\d.,]+) \|"
_CODE: Final = re.compile(r"^```python\n(.*?)^```", re.DOTALL | re.MULTILINE)


def why() -> Table:
    """Return how many storage requests a million transactions take."""
    page = (ROOT / "docs" / "appendix" / "performance.md").read_text()
    rows = [(called, f"{round(_each(page, name) * 1_000_000):,}") for name, called in WHO.items()]
    return ("how a million transactions are processed", "billable storage requests"), rows


def idle_month() -> str:
    """Return the cost of a month without work in a sentence, as docs/deploy.md adds it up."""
    found = costs.idle(Project())
    total = sum(one.amount for one in found)
    charges = {
        what: sum((one.amount for one in found if one.part == part), Decimal()) for part, what in CHARGED.items()
    }
    if (missed := total - sum(charges.values())) > 0:
        raise StackError(f"a month without work has a charge of {missed} that tools/local/readme.py has no words for")
    parts = ", ".join(f"{what} {amount:.2f}" for what, amount in charges.items())
    return f"A month without work costs [{total:.2f} {load().currency}](docs/deploy.md#what-it-will-cost): {parts} (unverified: check before you rely on it)."


def workload() -> str:
    """Return the text of `sales.py`. Every other page that shows the file repeats it."""
    (code,) = _CODE.findall((ROOT / "README.md").read_text())
    return str(code)


def code() -> str:
    """Return that text as a block of a page."""
    return f"```python\n{workload()}```"


def _each(page: str, name: str) -> float:
    found = re.search(_ROW.format(name=re.escape(name)), page, re.MULTILINE)
    if found is None:
        raise StackError(
            f"docs/appendix/performance.md has no row of {name!r}: run `make bench`, or name the row anew here"
        )
    return float(found[1].replace(",", ""))
