"""The table of docs/appendix/services.md: what Sluice relies on of storage and bus."""

from conformance import PROPERTIES
from local.infra.tables import Table


def properties() -> Table:
    """Return a row for each property."""
    rows = [(f"`{one.key}`", one.what, f"[{one.page}.md](../{one.page}.md)") for one in PROPERTIES.values()]
    return ("property", "the promise", "relied on by"), rows
