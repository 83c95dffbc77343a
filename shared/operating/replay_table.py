"""The table of replays: one partition, the newest first. Every write is conditional, and known again by its nonce."""

import secrets
from collections.abc import Mapping
from datetime import datetime
from itertools import islice
from typing import Any, Final

import msgspec
from azure.core import MatchConditions
from azure.core.exceptions import AzureError, ResourceModifiedError, ResourceNotFoundError
from azure.data.tables import TableClient, UpdateMode
from msgspec.structs import replace

from shared.azure import expecting_an_answer
from shared.decoding import convert, decode
from shared.errors import NoReplayError
from shared.operating.replay_record import Replay

PARTITION: Final = "replay"
#: Replays that are kept. When one ends, older ones that have ended go.
KEPT: Final = 100
#: Each has a column of its own, because a column has an upper bound.
_APART: Final = ("waves", "out")
_LATEST_FIRST: Final = str.maketrans("0123456789", "9876543210")
#: Digits of a replay's time in its id.
_TIME: Final = len("20261123-131205")


def name_replay(at: datetime, nonce: str) -> str:
    """Return the id of a replay that was requested at this moment."""
    return f"{at:%Y%m%d-%H%M%S}-{nonce[:8]}"


class ReplayTable:
    """The rows of replays."""

    def __init__(self, table: TableClient) -> None:
        self._table = table

    def insert(self, replay: Replay) -> Replay:
        """Write the row of a new replay. After a lost reply, its nonce tells whether this call wrote it."""
        fresh = replace(replay, nonce=secrets.token_hex(8))
        with expecting_an_answer(f"write replay {replay.id}"):
            try:
                written = self._table.create_entity(_row(fresh))
            except AzureError:
                there = self.find(replay.id)
                if there is None or there.nonce != fresh.nonce:
                    raise
                return there
        return replace(fresh, etag=written["etag"])

    def change(self, replay: Replay) -> Replay | None:
        """Replace the row that was read. Return None if another writer changed it since."""
        fresh = replace(replay, nonce=secrets.token_hex(8))
        with expecting_an_answer(f"write replay {replay.id}"):
            try:
                written = self._table.update_entity(
                    _row(fresh),
                    mode=UpdateMode.REPLACE,
                    etag=replay.etag,
                    match_condition=MatchConditions.IfNotModified,
                )
            except ResourceModifiedError:
                there = self.find(replay.id)
                return there if there is not None and there.nonce == fresh.nonce else None
        return replace(fresh, etag=written["etag"])

    def find(self, replay: str) -> Replay | None:
        """Return the replay with this id, or None."""
        with expecting_an_answer(f"read replay {replay}"):
            try:
                return _replay(self._table.get_entity(PARTITION, _row_key(replay)))
            except ResourceNotFoundError:
                return None

    def get(self, replay: str) -> Replay:
        """Return the replay with this id, or raise NoReplayError."""
        if (found := self.find(replay)) is None:
            raise NoReplayError(f"no replay is called {replay[:100]!r}: `sluice parked replays` lists them")
        return found

    def newest(self, most: int = KEPT) -> list[Replay]:
        """Return the last replays, the newest first. One request."""
        with expecting_an_answer("list the replays"):
            wanted = {"partition": PARTITION}
            rows = self._table.query_entities("PartitionKey eq @partition", parameters=wanted, results_per_page=most)
            return [_replay(row) for row in islice(rows, most)]

    def remove_old(self) -> None:
        """Remove what has ended beyond the newest hundred. One request, and one for each that goes."""
        with expecting_an_answer("remove old replays"):
            wanted = {"partition": PARTITION, "ended": "ended"}
            rows = self._table.query_entities(
                "PartitionKey eq @partition and state eq @ended", parameters=wanted, select=["PartitionKey", "RowKey"]
            )
            for row in islice(rows, KEPT, None):
                self._table.delete_entity(PARTITION, row["RowKey"])


def _row_key(replay: str) -> str:
    return replay[:_TIME].translate(_LATEST_FIRST) + replay[_TIME:]


def _row(replay: Replay) -> dict[str, Any]:
    fields = msgspec.to_builtins(replay)
    own = {"PartitionKey": PARTITION, "RowKey": _row_key(replay.id), "state": replay.state.value}
    own |= {name: msgspec.json.encode(fields.pop(name)).decode() for name in _APART}
    del fields["etag"]
    return {**own, "replay": msgspec.json.encode(fields).decode()}


def _replay(row: Mapping[str, Any]) -> Replay:
    fields = {**decode(row["replay"], dict[str, Any]), **{name: decode(row[name], Any) for name in _APART}}
    found = convert(fields, Replay)
    return replace(found, etag=row.metadata["etag"])  # type: ignore[attr-defined]  # the library's own mapping has it
