"""Notes which deliveries of a message began and which ended: a worker that died leaves one that only began.

Only late deliveries are noted, so that the ordinary message costs nothing.
"""

from hashlib import sha256
from typing import Final

from azure.core.exceptions import ResourceNotFoundError
from azure.data.tables import TableClient, UpdateMode

from shared.answers import expecting_an_answer
from shared.parked.entry import NOT_ENTRIES
from shared.pipeline.failure import Mark

#: Stands behind every id of a message.
_AFTER_EVERY_ID: Final = "~"


def submission_note(queue: str, body: bytes, message_id: str) -> str:
    """Return the key of a submission's notes: the host's poison copy has another id and the same body."""
    return f"{_notes_of(queue, body)}{message_id}"


def _notes_of(queue: str, body: bytes) -> str:
    return f"{queue}|{sha256(body).hexdigest()}|"


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

    def dropped_as(self, queue: str, body: bytes) -> list[str]:
        """Return the ids of the messages with this body whose late deliveries were noted and whose end was not."""
        first = _notes_of(queue, body)
        known = {"notes": NOT_ENTRIES, "first": first, "last": first + _AFTER_EVERY_ID}
        wanted = "PartitionKey eq @notes and RowKey ge @first and RowKey lt @last"
        with expecting_an_answer("look for the submission that a poison copy was made of"):
            rows = self._table.query_entities(wanted, parameters=known)
            return [row["RowKey"].removeprefix(first) for row in rows]

    def forget(self, key: str) -> None:
        """Remove the row; safe to repeat."""
        with expecting_an_answer(f"forget the deliveries of {key!r}"):
            self._table.delete_entity(NOT_ENTRIES, key)
