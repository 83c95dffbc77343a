"""The store of parked messages: entries as rows of a table, original bytes as blobs. Nothing in it expires by itself.

Order of writes: the bytes, then the row, then the index of causes. A row without bytes would promise a replay that is
impossible; bytes without a row are written again by the next delivery of the message, and so is a member.
"""

import secrets
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, replace
from datetime import datetime
from hashlib import sha256
from itertools import groupby, islice
from operator import attrgetter
from types import MappingProxyType
from typing import Any, Final

from azure.core import MatchConditions
from azure.core.exceptions import (
    AzureError,
    HttpResponseError,
    ResourceExistsError,
    ResourceModifiedError,
    ResourceNotFoundError,
)
from azure.data.tables import EdmType, EntityProperty, TableClient, UpdateMode
from azure.storage.blob import ContainerClient

from shared.azure import delete_rows, expecting_an_answer, write_group
from shared.errors import ContentionError, NotParkedError, ParkedTamperedError, StorageUnavailableError
from shared.messages import unwrap
from shared.parked.cause_index import MOST_TOGETHER, CauseIndex, Causes, Member, ParkedCount
from shared.parked.entry import ACCEPT, DOOR, NO_JOB, NOT_ENTRIES, Entry, EntryState, content_key
from shared.parked.overflow import Overflow, OverLine
from shared.parked.poison_policy import Nature, nature_of
from shared.telemetry import describe_error, events, place, tell

#: The upper bound of a text column, below Azure's limit even if every character counts twice.
MOST_TEXT: Final = 8000
#: Attempts at a write. Other writers change an entry only when it fails again or a person acts on it.
_ATTEMPTS: Final = 8
_NUMBERS: Final = ("attempts", "size", "chunk", "revision", "replays", "returns", "scheme")
#: The numbers of transactions: too large for an ordinary column of numbers.
_ITEMS: Final = ("first_item", "failed_item", "items")


_OPEN: Final = "state ne @done and state ne @discarded"
_CLOSED_STATES: Final = MappingProxyType({"done": EntryState.DONE.value, "discarded": EntryState.DISCARDED.value})


class ParkedTable:
    """Entries by job and key, and their bytes."""

    def __init__(self, table: TableClient, container: ContainerClient, index: CauseIndex, overflow: Overflow) -> None:
        self._table, self._container, self._index, self._overflow = table, container, index, overflow

    def park(self, entry: Entry, body: bytes) -> Entry:
        """Store the message: one entry per key, one blob per content. Safe to repeat from any process.

        If storage refuses the entry as claimed, it is stored by its bytes alone, so that no message disappears.
        """
        try:
            return self._park(entry, body)
        except Exception as refusal:
            if nature_of(refusal) is Nature.TRANSIENT:
                raise
            alone = _by_bytes(entry, body)
            tell(events.PARKED_BY_BYTES, key=alone.key, error=describe_error(refusal), at=place(refusal))
            return self._park(alone, body)

    def _park(self, entry: Entry, body: bytes) -> Entry:
        # One that has an entry comes back from a replay, or is delivered again.
        if self._overflow.is_full(entry) and self.find(entry.job, entry.key) is None:
            self._overflow.keep(entry, body)
            return entry
        self._keep(entry, body)
        fresh = replace(entry, nonce=secrets.token_hex(8))
        for _ in range(_ATTEMPTS):
            known = self._insert_or_get(fresh)
            if known.nonce == fresh.nonce:
                self._index.record([], [known])
                return known
            if (updated := self._replace(known, known.again(entry))) is not None:
                # Also if it was open before: that delivery may have ended in between.
                has_moved = known.is_open and known.fingerprint != updated.fingerprint
                self._index.record([Member.of(known)] if has_moved else [], [updated])
                return updated
        raise ContentionError(
            f"could not park {entry.key!r} of job {entry.job!r} in {_ATTEMPTS} attempts: other writers changed its row; "
            "its message is delivered again"
        )

    def find(self, job: str, key: str) -> Entry | None:
        """Return the entry, or None."""
        with expecting_an_answer(f"read parked {key!r} of job {job!r}"):
            try:
                return _entry(self._table.get_entity(job, key))
            except ResourceNotFoundError:
                return None

    def get(self, job: str, key: str) -> Entry:
        """Return the entry, or raise NotParkedError."""
        if (entry := self.find(job, key)) is None:
            raise _not_parked(job, key)
        return entry

    def about(self, job: str, key: str) -> Entry:
        """Return the entry under its job, or the one at the door that claims the job, or raise NotParkedError."""
        if (entry := self.find(job, key)) is None:
            entry = self.find(DOOR, key)
            if entry is None or entry.claimed != job:
                raise _not_parked(job, key)
        return entry

    def entries(self, job: str | None = None, *, closed: bool = False) -> Iterator[Entry]:
        """Yield the entries of all jobs or of one. `closed`: also those done or discarded."""
        if job is None:
            return self._query("PartitionKey ne @notes", {"notes": NOT_ENTRIES}, closed=closed)
        return self._query("PartitionKey eq @job", {"job": job}, closed=closed)

    def read_causes(self) -> Causes:
        """Return how many are open of each cause. One request for a thousand rows of sums."""
        return self._index.read()

    def count_open(self) -> ParkedCount:
        """Return how much is parked. One request. Of more than a thousand rows of sums, a lower bound."""
        return self._index.count()

    def claiming(self, job: str, *, closed: bool = False) -> Iterator[Entry]:
        """Yield the entries at the door that claim the job: any publisher may have sent them."""
        wanted = "PartitionKey eq @door and claimed eq @job"
        return self._query(wanted, {"door": DOOR, "job": job}, closed=closed)

    def read_all_of(self, job: str) -> Iterator[list[Entry]]:
        """Yield all entries under a job, also closed ones, those at the door that claim it, and those of no job that name it.

        The last ones are messages that their parker did not read, such as results for a row of a newer version. One
        request for each of these.
        """
        unread = (entry for entry in self.entries(NO_JOB, closed=True) if self._is_named(entry, job))
        for entries in (self.entries(job, closed=True), self.claiming(job, closed=True), unread):
            while some := list(islice(entries, MOST_TOGETHER)):
                yield some

    def read_members(self, fingerprint: str) -> Iterator[list[Entry]]:
        """Yield the open entries of a cause by its members, MOST_TOGETHER of these at a time.

        One request for a thousand members, and one for each job among those of one time. A member that is no open entry goes:
        a process died after it had closed that.
        """
        members = self._index.members_of(fingerprint)
        while some := list(islice(members, MOST_TOGETHER)):
            found = [
                entry for job, of_job in groupby(some, attrgetter("job")) for entry in self._among(job, list(of_job))
            ]
            for member in set(some) - {Member.of(entry) for entry in found}:
                self.drop(member)
            yield found

    def _among(self, job: str, members: Sequence[Member]) -> Iterator[Entry]:
        keys = [member.key for member in members]
        wanted = "PartitionKey eq @job and RowKey ge @first and RowKey le @last and fingerprint eq @fingerprint"
        values = {"job": job, "first": keys[0], "last": keys[-1], "fingerprint": members[0].fingerprint}
        return (entry for entry in self._query(wanted, values, closed=False) if entry.key in keys)

    def drop(self, member: Member) -> int:
        """Take a member from the index unless it is an open entry. Return how many were taken."""
        entry = self.find(member.job, member.key)
        if entry is not None and entry.is_open and Member.of(entry) == member:
            return 0
        return self._index.record([member], [])

    def discard(self, entries: Sequence[Entry], note: str) -> int:
        """Close entries for good, MOST_TOGETHER at most. Return how many, without those that others have changed.

        A request for those of one job, and one for the index. Safe to stop: `read_members` removes what is left there.
        """
        closed = list[Entry]()
        for _, some in groupby(sorted(entries, key=attrgetter("job")), attrgetter("job")):
            closed += self._discard_together(list(some), note)
        # The act took effect: an index that does not answer is corrected by the daily comparison.
        with suppress(StorageUnavailableError, ContentionError):
            self._index.record([Member.of(entry) for entry in closed], [])
        return len(closed)

    def _discard_together(self, entries: Sequence[Entry], note: str) -> Sequence[Entry]:
        nonce = secrets.token_hex(8)
        fresh = [replace(entry, state=EntryState.DISCARDED, note=note, nonce=nonce) for entry in entries]
        with expecting_an_answer(f"discard {len(entries)} parked of job {entries[0].job!r}"):
            try:
                write_group(
                    self._table,
                    [
                        ("update", _row(one), {"mode": UpdateMode.REPLACE, **_only_if(known)})
                        for known, one in zip(entries, fresh, strict=True)
                    ],
                )
            except AzureError:
                # One was changed meanwhile, or the reply was lost: the rows tell.
                return [known for known, one in zip(entries, fresh, strict=True) if self._is_discarded(known, one)]
        return entries

    def _is_discarded(self, known: Entry, fresh: Entry) -> bool:
        there = self.find(known.job, known.key)
        if there is None or there.nonce == fresh.nonce:
            return there is not None
        return there.etag == known.etag and self._replace(known, fresh) is not None

    def forget(self, entries: Sequence[Entry]) -> None:
        """Remove entries of one partition for good: their bytes, then themselves from the index, then their rows."""
        for entry in entries:
            if not self._is_shared(entry):
                remove = self._container.get_blob_client(entry.bytes_name).delete_blob
                with expecting_an_answer(f"remove the bytes of parked {entry.key!r}"), suppress(ResourceNotFoundError):
                    remove()
        self._index.record([Member.of(entry) for entry in entries if entry.is_open], [])
        with expecting_an_answer("remove parked entries"):
            delete_rows(self._table, [(entry.job, entry.key, "") for entry in entries])

    def _is_named(self, entry: Entry, job: str) -> bool:
        with suppress(ParkedTamperedError):
            return f'"job":"{job}"'.encode() in unwrap(self.body(entry))
        return False

    def _is_shared(self, entry: Entry) -> bool:
        """Check whether an entry that claims another job has the same bytes: at the door they have one place."""
        if entry.job != DOOR:
            return False
        wanted = "PartitionKey eq @door and sha256 eq @sha256 and claimed ne @claimed"
        values = {"door": DOOR, "sha256": entry.sha256, "claimed": entry.claimed}
        return next(self._query(wanted, values, closed=True), None) is not None

    def read_over(self) -> Iterator[OverLine]:
        """Yield the messages above the bound at the door. A request, and one for each file."""
        for file in self._index.list_files():
            yield from self._overflow.read(file).messages()

    def _query(self, wanted: str, parameters: dict[str, str], *, closed: bool) -> Iterator[Entry]:
        if not closed:
            wanted += f" and {_OPEN}"
            parameters |= _CLOSED_STATES
        with expecting_an_answer("list the parked entries"):
            for row in self._table.query_entities(wanted, parameters=parameters):
                yield _entry(row)

    def read_changes(self, since: datetime | None = None) -> tuple[list[Entry], datetime | None]:
        """Return the entries that storage wrote at or after a moment, and the moment of the newest.

        Without a moment: all that are open. With one, also those that were closed since. One request per thousand.
        """
        if since is None:
            wanted = f"PartitionKey ne @notes and {_OPEN}"
            values: dict[str, Any] = {"notes": NOT_ENTRIES, **_CLOSED_STATES}
        else:
            wanted, values = "PartitionKey ne @notes and Timestamp ge @since", {"notes": NOT_ENTRIES, "since": since}
        with expecting_an_answer("list the parked entries"):
            rows = list(self._table.query_entities(wanted, parameters=values))
        written = [at for row in rows if (at := row.metadata["timestamp"]) is not None]
        return [_entry(row) for row in rows], max(written) if written else since

    def change(self, known: Entry, changed: Entry) -> Entry | None:
        """Replace the entry that was read, and count it. Return None if another writer changed it since."""
        written = self._replace(known, changed)
        if written is not None and known.is_open and not written.is_open:
            # The act took effect: an index that does not answer is corrected by the daily comparison.
            with suppress(StorageUnavailableError, ContentionError):
                self._index.record([Member.of(known)], [])
        return written

    def _replace(self, known: Entry, changed: Entry) -> Entry | None:
        fresh = replace(changed, nonce=secrets.token_hex(8))
        with expecting_an_answer(f"change parked {known.key!r} of job {known.job!r}"):
            try:
                written = self._table.update_entity(
                    _row(fresh),
                    mode=UpdateMode.REPLACE,
                    **_only_if(known),
                )
            except ResourceModifiedError:
                # Our own write may have done it: its reply was lost, and the library sent it again.
                there = self.find(known.job, known.key)
                return there if there is not None and there.nonce == fresh.nonce else None
        return replace(fresh, etag=written["etag"])

    def body(self, entry: Entry) -> bytes:
        """Return the original bytes, verified by their hash."""
        with expecting_an_answer(f"read the bytes of parked {entry.key!r} of job {entry.job!r}"):
            try:
                content: bytes = self._container.download_blob(entry.bytes_name).readall()
            except ResourceNotFoundError as error:
                raise ParkedTamperedError(
                    f"the bytes of parked {entry.key!r} of job {entry.job!r} are gone; discard it, publish it again"
                ) from error
        if sha256(content).hexdigest() != entry.sha256:
            raise ParkedTamperedError(
                f"the bytes of parked {entry.key!r} of job {entry.job!r} are not those that were parked; "
                "find out who wrote them, discard it, publish it again"
            )
        return content

    def _keep(self, entry: Entry, body: bytes) -> None:
        with expecting_an_answer(f"keep the bytes of parked {entry.key!r} of job {entry.job!r}"):
            try:
                self._container.upload_blob(entry.bytes_name, body)
            except ResourceExistsError as refusal:
                # The name is the hash, so the blob has the same bytes: this or an earlier delivery wrote it.
                if getattr(refusal, "error_code", None) != "BlobAlreadyExists":
                    raise

    def _insert_or_get(self, entry: Entry) -> Entry:
        with expecting_an_answer(f"park {entry.key!r} of job {entry.job!r}"):
            try:
                written = self._table.create_entity(_row(entry))
            except HttpResponseError as refusal:
                if refusal.status_code == 409:
                    return _entry(self._table.get_entity(entry.job, entry.key))
                raise
            except AzureError:
                # No reply: only a read shows whether the row was written.
                return _entry(self._table.get_entity(entry.job, entry.key))
        return replace(entry, etag=written["etag"])


def _only_if(known: Entry) -> dict[str, Any]:
    return {"etag": known.etag, "match_condition": MatchConditions.IfNotModified}


def _not_parked(job: str, key: str) -> NotParkedError:
    return NotParkedError(f"nothing is parked as {key!r} of job {job!r}: see `sluice parked list`")


def _by_bytes(entry: Entry, body: bytes) -> Entry:
    job = DOOR if entry.stage == ACCEPT else NO_JOB
    key = content_key(entry.stage, body)
    return replace(entry, job=job, key=key, chunk=None, revision=None, claimed="", message_id="", attempts=1)


def _row(entry: Entry) -> dict[str, Any]:
    columns = {name: value for name, value in asdict(entry).items() if name not in {"job", "key", "etag"}}
    columns |= {name: _text(columns[name]) for name in ("reason", "found", "instead", "place", "note", "message_id")}
    columns |= {"state": entry.state.value, "place": columns["place"] or None}
    items = {name: columns[name] for name in _ITEMS}
    columns |= {name: None if item is None else EntityProperty(item, EdmType.INT64) for name, item in items.items()}
    known = {name: value for name, value in columns.items() if value is not None}
    return {"PartitionKey": entry.job, "RowKey": entry.key, **known}


def _text(value: str) -> str:
    # An exception may quote half a character (a lone surrogate): storage would refuse the row.
    return value[:MOST_TEXT].encode(errors="replace").decode()


def _entry(row: Mapping[str, Any]) -> Entry:
    named = {name: row[name] for name in _COLUMNS if name in row}
    return Entry(
        **{
            **named,
            **{name: int(row[name]) for name in _NUMBERS if row.get(name) is not None},
            **{name: int(row[name].value) for name in _ITEMS if row.get(name) is not None},
            "job": row["PartitionKey"],
            "key": row["RowKey"],
            "state": EntryState(row["state"]),
            "etag": row.metadata["etag"],  # type: ignore[attr-defined]  # the library's own mapping has it
        }
    )


_COLUMNS: Final = (
    "stage",
    "queue",
    "reason",
    "found",
    "instead",
    "fingerprint",
    "first_at",
    "last_at",
    "message_id",
    "sha256",
    "note",
    "nonce",
    "claimed",
    "place",
)
