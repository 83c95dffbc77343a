"""The README's numbers: taken from the tables of `make bench` in docs/performance.md, so that they are stated once."""

import re
from typing import Final

from local.errors import StackError
from local.infra.tables import Table
from local.paths import ROOT

#: The contenders: the beginning of each row there, and the name used here.
WHO: Final = {
    "Sluice, default": "Sluice, in a job of 400,000",
    "Sluice, chunks of 1,000": "Sluice, with a thousand transactions per chunk",
    "one message each, aio": "a message for each transaction; a crash loses some",
    "whole job, naive": "a message, an id and a table row for each, which survives a crash",
}
_ROW: Final = r"^\| {name}[^|]*\|[^|]*\|[^|]*\| ([\d.,]+) \|"


def why() -> Table:
    """Return how many storage requests a million transactions take."""
    page = (ROOT / "docs" / "performance.md").read_text()
    rows = [(called, f"{round(_each(page, name) * 1_000_000):,}") for name, called in WHO.items()]
    return ("how a million transactions are processed", "billable storage requests"), rows


def _each(page: str, name: str) -> float:
    found = re.search(_ROW.format(name=re.escape(name)), page, re.MULTILINE)
    if found is None:
        raise StackError(f"docs/performance.md has no row of {name!r}: run `make bench`, or name the row anew here")
    return float(found[1].replace(",", ""))
