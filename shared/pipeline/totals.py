"""The totals of a job by account, in a table: a hundred rows per transaction, behind a fence against older revisions.

Each transaction moves the fence row by its ETag and carries as many rows as fit beside it. The fence counts the rows that
this revision has written, so a finisher that follows another one continues there.
"""

import re
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import Any, Final

from azure.core import MatchConditions
from azure.core.exceptions import AzureError, ResourceNotFoundError
from azure.data.tables import EdmType, EntityProperty, TableClient, UpdateMode

from shared.azure import (
    LOST_RACE,
    MOST_GROUP_BYTES,
    Entity,
    check_limits,
    entity_size,
    error_code,
    expecting_an_answer,
    write_group,
)
from shared.errors import ContentionError, FencedOffError, FinishRefusedError
from shared.grammar import LAST_SHARD, shard_partition
from shared.ledger import MOST_ROWS
from shared.workloads import Total

#: No account's key begins with `!`.
FENCE_KEY: Final = "!fence"
_SAFE: Final = re.compile(r"[A-Za-z0-9.-]")
#: A row key may have 512 UTF-16 characters. A longer account has its hash as key and its full name in the row.
_LONGEST_KEY: Final = 400
_PROPERTY: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,99}")
_RESERVED: Final = frozenset({"PartitionKey", "RowKey", "Timestamp", "account", "revision"})
_MOST_PROPERTIES: Final = 200
_ATTEMPTS: Final = 20


@dataclass(frozen=True, slots=True)
class Fence:
    """The revision that may write, and the number of its rows written so far."""

    revision: int
    written: int
    nonce: str = ""
    etag: str = ""


def account_key(account: str) -> str:
    """Return an account's row key. No two accounts share one, and its characters are allowed in every key."""
    escaped = "".join(_escape(character) for character in account) or "_E"
    if len(escaped) <= _LONGEST_KEY:
        return escaped
    # An escape is a lower-case letter after an underscore or hexadecimal digits in capitals, so this is neither.
    return "_h" + sha256(account.encode("utf-8", "surrogatepass")).hexdigest()


def _escape(character: str) -> str:
    if _SAFE.fullmatch(character):
        return character
    return "".join(f"_{byte:02X}" for byte in character.encode("utf-8", "surrogatepass"))


class TotalsTable:
    """The totals of all jobs. Only rows of the job's current revision count. `job` names a partition: a job, or its shard."""

    def __init__(self, table: TableClient) -> None:
        self._table = table

    def take(self, job: str, revision: int) -> Fence:
        """Take the fence for a revision. If the revision has it already, return it with the rows written so far."""
        for _ in range(_ATTEMPTS):
            found = self._read(job)
            if found is not None and found.revision == revision:
                return found
            if found is not None and found.revision > revision:
                raise _fence_error(job, revision, found)
            if (taken := self._try_move_fence(job, found, Fence(revision, 0), [])) is not None:
                return taken
        raise ContentionError(
            f"could not take the fence of the totals of job {job!r} for revision {revision}: other writers were first "
            f"{_ATTEMPTS} times in a row; the finish is retried"
        )

    def write(self, job: str, fence: Fence, rows: Sequence[Entity]) -> Fence:
        """Write rows and return the fence after them. If another finisher of this revision was first, return its fence."""
        moved = self._try_move_fence(job, fence, replace(fence, written=fence.written + len(rows)), rows)
        if moved is not None:
            return moved
        found = self._read(job)
        if found is None or found.revision != fence.revision:
            raise _fence_error(job, fence.revision, found)
        return found

    def rows(self, job: str, revision: int) -> Iterator[Entity]:
        """Yield the rows of a revision by partition and key, a page at a time."""
        # From the job's own partition to the last of its shards, in one range: no other job's id is between them.
        wanted = "PartitionKey ge @job and PartitionKey le @last and revision eq @revision"
        bounds = {"job": job, "last": shard_partition(job, LAST_SHARD), "revision": revision}
        with expecting_an_answer(f"read the totals of job {job!r}"):
            for row in self._table.query_entities(wanted, parameters=bounds):
                if row["RowKey"] != FENCE_KEY:
                    yield row

    def _try_move_fence(self, job: str, before: Fence | None, after: Fence, rows: Sequence[Entity]) -> Fence | None:
        after = replace(after, nonce=uuid.uuid4().hex)
        entity = {"PartitionKey": job, "RowKey": FENCE_KEY, "revision": after.revision, "written": after.written}
        entity["nonce"] = after.nonce
        own: Any = ("create", entity)
        if before is not None:
            unchanged = {"etag": before.etag, "match_condition": MatchConditions.IfNotModified}
            own = ("update", entity, {"mode": UpdateMode.REPLACE, **unchanged})
        replaced: list[Any] = [("upsert", row, {"mode": UpdateMode.REPLACE}) for row in rows]
        with expecting_an_answer(f"write {len(rows)} totals of job {job!r}"):
            try:
                etags = write_group(self._table, [own, *replaced])
            except AzureError as error:
                return self._proven(job, after, error)
        return replace(after, etag=etags[0])

    def _proven(self, job: str, mine: Fence, error: AzureError) -> Fence | None:
        """Return the fence if its write took effect although the answer did not say so."""
        found = self._read(job)
        if found is not None and found.nonce == mine.nonce:
            return found
        if error_code(error) in LOST_RACE:
            return None
        raise error

    def _read(self, job: str) -> Fence | None:
        with expecting_an_answer(f"read the totals of job {job!r}"):
            try:
                found = self._table.get_entity(job, FENCE_KEY)
            except ResourceNotFoundError:
                return None
        return Fence(found["revision"], found["written"], found["nonce"], str(found.metadata["etag"]))


def _fence_error(job: str, revision: int, found: Fence | None) -> FencedOffError:
    newer = "gone" if found is None else f"at revision {found.revision}"
    return FencedOffError(
        f"could not write the totals of job {job!r} at revision {revision}: the fence is {newer}, so this finisher ends"
    )


class TotalsWriter:
    """Writes the rows of one revision in the given order, and skips the rows that the fence counts already."""

    def __init__(self, table: TotalsTable, job: str, revision: int) -> None:
        self._table, self._job, self._revision = table, job, revision
        self._fence = table.take(job, revision)
        self._accounts: set[str] = set()
        #: Rows not written yet, the index of the first one, and their size.
        self._waiting: list[Entity] = []
        self._first = self._size = 0

    @property
    def count(self) -> int:
        """Number of rows so far."""
        return len(self._accounts)

    def write(self, total: Total) -> None:
        """Add one row."""
        row = check_limits(_row(self._job, self._revision, total))
        if row["RowKey"] in self._accounts:
            raise FinishRefusedError(
                f"job {self._job!r} has two totals for account {total.account[:100]!r}: let the workload merge them"
            )
        self._accounts.add(row["RowKey"])
        size = entity_size(row)
        if len(self._waiting) == MOST_ROWS or self._size + size > MOST_GROUP_BYTES:
            self.close()
        self._waiting.append(row)
        self._size += size

    def close(self) -> None:
        """Write the rows that were not written yet."""
        while self._waiting:
            done = self._fence.written - self._first
            if done > 0:
                # Written by this finisher, by the one before it, or by another one that runs right now.
                self._waiting, self._first = self._waiting[done:], self._first + min(done, len(self._waiting))
            else:
                self._fence = self._table.write(self._job, self._fence, self._waiting)
        self._size = 0


def _row(job: str, revision: int, total: Total) -> Entity:
    wrong = [name for name in total.properties if name in _RESERVED or not _PROPERTY.fullmatch(name)]
    if wrong or len(total.properties) > _MOST_PROPERTIES:
        raise FinishRefusedError(
            f"a total of job {job!r} has {len(total.properties)} properties, the limit is {_MOST_PROPERTIES}; these "
            f"have names that are not allowed: {wrong[:3]}; use letters, digits and underscores, except "
            f"{', '.join(sorted(_RESERVED))}"
        )
    own = {"PartitionKey": job, "RowKey": account_key(total.account), "account": total.account, "revision": revision}
    return own | {name: _property(job, value) for name, value in total.properties.items()}


def _property(job: str, value: object) -> object:
    if isinstance(value, bool | str):
        return value
    if isinstance(value, int) and -(2**63) <= value < 2**63:
        return EntityProperty(value, EdmType.INT64)
    raise FinishRefusedError(
        f"a total of job {job!r} has a {type(value).__name__} that a table cannot hold exactly: give it as text"
    )
