"""Notes which deliveries of a message began and which ended: a worker that died leaves one that only began.

Only late deliveries are noted, so that the ordinary message costs nothing.
"""

from azure.core.exceptions import ResourceNotFoundError
from azure.data.tables import TableClient, UpdateMode

from shared.answers import expecting_an_answer
from shared.parked.entry import NOT_ENTRIES
from shared.pipeline.failure import Mark


class Attempts:
    """Marks of deliveries, one row a message."""

    def __init__(self, table: TableClient) -> None:
        self._table = table

    def note(self, key: str, delivery: int, mark: Mark) -> None:
        """Note it without reading first: two deliveries of one message write different properties."""
        row = {"PartitionKey": NOT_ENTRIES, "RowKey": key, f"d{delivery}": mark.value}
        with expecting_an_answer(f"note delivery {delivery} of {key!r}"):
            self._table.upsert_entity(row, mode=UpdateMode.MERGE)

    def of(self, key: str) -> dict[int, Mark]:
        """Return what was noted, by delivery."""
        with expecting_an_answer(f"read the deliveries of {key!r}"):
            try:
                row = self._table.get_entity(NOT_ENTRIES, key)
            except ResourceNotFoundError:
                return {}
        return {int(name[1:]): Mark(value) for name, value in row.items() if name[:1] == "d" and name[1:].isdigit()}

    def forget(self, key: str) -> None:
        """Remove the row; safe to repeat."""
        with expecting_an_answer(f"forget the deliveries of {key!r}"):
            self._table.delete_entity(NOT_ENTRIES, key)
