"""Counts the open entries of each cause, so that no page reads them all: partition `causes` of the table `decisions`.

- `0|<fingerprint>|<process>`: the sums of one process, which it alone writes; `-` has those of processes that are gone
- `0|<fingerprint>|+<room>+<file>`: the sums of a file above the bound at the door, which the process that fills it writes
- `1|<fingerprint>|<job>|<key>`: a member, which is an open entry. No time is in its key: two deliveries make one of it
- `0`: when the index was last compared with the entries, and agreed

The entry is written first. Member and sums change in one transaction, so the number of a cause always equals its
members. Repeating a record changes nothing: a member that is there was counted. A crash between entry and member
leaves them apart until the message comes again, or until `cause_check` compares.

Not in the table `parked`: an instance of release 0.3.0 reads every partition there as entries.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime
from threading import Lock
from typing import Any, Final, cast

from azure.core import MatchConditions
from azure.core.exceptions import AzureError, ResourceModifiedError, ResourceNotFoundError
from azure.data.tables import TableClient, TableEntity, UpdateMode

from shared.azure import expecting_an_answer, write_group
from shared.errors import ContentionError
from shared.parked.causes import (
    CauseSums,
    count_closed,
    count_nothing,
    count_parked,
    join,
    join_by_cause,
    room_at_the_door,
)
from shared.parked.entry import Entry

#: Rows of sums that a count reads.
_MOST_COUNTED: Final = 1_000
#: Members that one transaction changes. Azure takes a hundred rows, and each may bring a row of sums.
MOST_TOGETHER: Final = 45
_PARTITION: Final = "causes"
#: The row that says when the index was last compared. It sorts before all others.
_CHECKED: Final = "0"
#: The rows of sums, those of files too.
_OF_SUMS: Final = "RowKey gt '0|' and RowKey lt '1|'"
#: The name of the process whose row has the sums of those that are gone.
GONE: Final = "-"
_ATTEMPTS: Final = 8
_MOST_TEXT: Final = 1000
_TEXTS: Final = ("reason", "stage", "instead", "found", "place")
_TIMES: Final = ("first_at", "last_at")


@dataclass(frozen=True, slots=True)
class Member:
    """An open entry, as the index knows it."""

    fingerprint: str
    job: str
    key: str
    #: The room of its queue. None: it is not at the door.
    room: str | None = field(default=None, compare=False)

    @classmethod
    def of(cls, entry: Entry) -> "Member":
        """Return the member that an entry is while it is open."""
        return cls(entry.fingerprint, entry.job, entry.key, room_at_the_door(entry))

    @property
    def row_key(self) -> str:
        """Return the key of its row."""
        return f"1|{self.fingerprint}|{self.job}|{self.key}"

    @property
    def row(self) -> dict[str, Any]:
        """Return its row."""
        return _key(self.row_key) | ({} if self.room is None else {"room": self.room})


@dataclass(frozen=True, slots=True)
class OverFile:
    """A file of messages above the bound at the door."""

    room: str
    name: str
    sums: CauseSums

    @property
    def row_key(self) -> str:
        """Return the key of its row."""
        return _sums_key(self.sums.fingerprint, f"+{self.room}+{self.name}")


@dataclass(frozen=True, slots=True)
class SumsRow:
    """A row of sums as it was read."""

    process: str
    sums: CauseSums
    etag: str
    #: When storage wrote it.
    written_at: datetime

    @property
    def row_key(self) -> str:
        """Return the key of its row."""
        return _sums_key(self.sums.fingerprint, self.process)

    @property
    def is_joined(self) -> bool:
        """Return whether it has the sums of processes that are gone."""
        return self.process == GONE


@dataclass(slots=True)
class Indexed:
    """All that the index has."""

    rows: list[SumsRow] = field(default_factory=list)
    files: list[OverFile] = field(default_factory=list)
    members: list[Member] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Causes:
    """The causes with open entries, the largest first."""

    causes: Sequence[CauseSums]
    #: When the index last agreed with the entries. None: what was parked before the upgrade is not counted yet.
    checked_at: datetime | None


@dataclass(frozen=True, slots=True)
class ParkedCount:
    """How much is parked, for a page that shows no cause."""

    number: int
    causes: int
    #: Whether all rows were counted. Else there is at least so much.
    is_whole: bool

    def __str__(self) -> str:
        """Return it in words."""
        least = "" if self.is_whole else "at least "
        return f"{least}{self.number:,} in {least}{self.causes:,} {'cause' if self.causes == 1 else 'causes'}"


class CauseIndex:
    """The index, written by one process. Safe to repeat, beside others, and to be killed anywhere."""

    def __init__(self, table: TableClient, process: str) -> None:
        """Take the table `decisions`, and a name that no other process has, nor ever had."""
        self._table, self.process = table, process
        #: The rows of this process as it wrote them, with their ETags. An empty one: there is no row.
        self._own: dict[str, tuple[CauseSums, str]] = {}
        self._lock = Lock()

    def record(self, gone: Sequence[Member], come: Sequence[Entry]) -> int:
        """Count entries that are open no more, and those that are open now. Return how many were not counted before.

        One request. At most MOST_TOGETHER entries, none of them twice.
        """
        out = list(gone)
        into = {Member.of(entry): entry for entry in come}
        with self._lock:
            for _ in range(_ATTEMPTS):
                if not out and not into:
                    return 0
                try:
                    self._write(out, into)
                except AzureError as refusal:
                    found = refusal
                else:
                    return len(out) + len(into)
                # A member that is there was counted, by whomever: also by a write of ours whose reply was lost.
                out = [member for member in out if self._has(member)]
                into = {member: entry for member, entry in into.items() if not self._has(member)}
                for fingerprint in {member.fingerprint for member in (*out, *into)}:
                    self._own[fingerprint] = self._read_own(fingerprint)
        raise ContentionError(f"could not count {len(out) + len(into)} parked in {_ATTEMPTS} attempts") from found

    def _write(self, out: Sequence[Member], into: Mapping[Member, Entry]) -> None:
        known = {
            one: self._own.get(one) or (count_nothing(one), "")
            for one in dict.fromkeys(member.fingerprint for member in (*out, *into))
        }
        sums = {fingerprint: found for fingerprint, (found, _) in known.items()}
        for member in out:
            sums[member.fingerprint] = count_closed(sums[member.fingerprint], member.room)
        for member, entry in into.items():
            sums[member.fingerprint] = count_parked(sums[member.fingerprint], entry)
        operations: list[Any] = [("delete", _key(member.row_key)) for member in out]
        operations += [("create", member.row) for member in into]
        operations += [_replacement(_row(self.process, sums[one]), etag) for one, (_, etag) in known.items()]
        written = write_group(self._table, operations)[-len(known) :]
        self._own |= {one: (sums[one], etag) for one, etag in zip(known, written, strict=True)}

    def _has(self, member: Member) -> bool:
        return self._get(member.row_key) is not None

    def _read_own(self, fingerprint: str) -> tuple[CauseSums, str]:
        # Joined to those that are gone, or never written: this process begins at zero.
        row = self._get(_sums_key(fingerprint, self.process))
        return (count_nothing(fingerprint), "") if row is None else (_sums(row), str(row.metadata["etag"]))

    def _get(self, key: str) -> TableEntity | None:
        with expecting_an_answer("read the index of causes"):
            try:
                return self._table.get_entity(_PARTITION, key)
            except ResourceNotFoundError:
                return None

    def read(self) -> Causes:
        """Return the causes. One request for a thousand rows."""
        found = self._query("RowKey lt '1|'")
        checked = next((row["at"] for row in found if row["RowKey"] == _CHECKED), None)
        return Causes(join_by_cause(_sums(row) for row in found if row["RowKey"] != _CHECKED), checked)

    def count(self) -> ParkedCount:
        """Count what is open of the first thousand rows, by one request."""
        columns = ["RowKey", "parked", "closed", "over"]
        with expecting_an_answer("count what is parked"):
            wanted = f"PartitionKey eq '{_PARTITION}' and {_OF_SUMS}"
            pages = self._table.query_entities(wanted, select=columns, results_per_page=_MOST_COUNTED).by_page()
            rows = list(next(pages, ()))
        numbers = Counter[str]()
        for row in rows:
            open_ = row.get("parked", 0) - row.get("closed", 0)
            numbers[row["RowKey"].split("|", 2)[1]] += open_ + row.get("over", 0)
        found = [number for number in numbers.values() if number > 0]
        is_whole = not pages.continuation_token  # type: ignore[attr-defined]  # of the library's iterator of pages
        return ParkedCount(sum(found), len(found), is_whole)

    def read_all(self) -> Indexed:
        """Return the rows of sums and the members. One request for a thousand."""
        found = Indexed()
        for row in self._query("RowKey gt '0|'"):
            if row["RowKey"].startswith("1|"):
                found.members.append(_member(row))
            elif (file := _file(row)) is not None:
                found.files.append(file)
            else:
                process = row["RowKey"].rpartition("|")[2]
                etag, at = str(row.metadata["etag"]), cast("datetime", row.metadata["timestamp"])
                found.rows.append(SumsRow(process, _sums(row), etag, at))
        return found

    def members_of(self, fingerprint: str) -> Iterator[Member]:
        """Yield the members of a cause by job and key. One request for a thousand."""
        with expecting_an_answer(f"read the members of cause {fingerprint!r}"):
            rows = self._table.query_entities(
                "PartitionKey eq @partition and RowKey gt @first and RowKey lt @last",
                # The last one is behind every job: no other character follows the bar.
                parameters={"partition": _PARTITION, "first": f"1|{fingerprint}|", "last": f"1|{fingerprint}}}"},
            )
            for row in rows:
                yield _member(row)

    def _query(self, wanted: str) -> list[TableEntity]:
        with expecting_an_answer("read the index of causes"):
            return list(self._table.query_entities(f"PartitionKey eq '{_PARTITION}' and {wanted}"))

    def forget_words(self, job: str) -> None:
        """Replace the words of errors that come from this job: they may quote a transaction. One request a thousand rows.

        A process that holds such a row reads it again at its next write.
        """
        for row in self._query(_OF_SUMS):
            sums = _sums(row)
            if not _quotes(sums, job):
                continue
            process, etag = row["RowKey"].rpartition("|")[2], str(row.metadata["etag"])
            with expecting_an_answer(f"forget the words of a cause of job {job!r}"), suppress(ResourceModifiedError):
                # One that was written since has the words of its writer's last entry, and is looked at again.
                self._table.update_entity(
                    _row(process, replace(sums, found=_without_words(sums))), mode=UpdateMode.REPLACE, **_only_if(etag)
                )

    def count_of(self, job: str) -> int:
        """Return how many members are of this job, and how many causes have words from it. One request a thousand rows."""
        rows = self._query("RowKey gt '0|'")
        return sum(
            _quotes(_sums(row), job) if row["RowKey"] < "1|" else row["RowKey"].split("|", 3)[2] == job for row in rows
        )

    def count_others_at_the_door(self) -> dict[tuple[str, str], int]:
        """Return the open entries at the door that other processes count, by room and cause. One request a thousand rows."""
        found = self._query(_OF_SUMS)
        own = f"|{self.process}"
        return _by_room(_sums(row) for row in found if not row["RowKey"].endswith(own))

    def count_own_at_the_door(self) -> dict[tuple[str, str], int]:
        """Return the same of this process. No request."""
        with self._lock:
            return _by_room(sums for sums, _ in self._own.values())

    def list_files(self) -> list[OverFile]:
        """Return the files, by cause, room and day. One request a thousand rows."""
        found = map(_file, self._query(_OF_SUMS))
        return [file for file in found if file is not None]

    def note_file(self, file: OverFile) -> None:
        """Write how much a file has. Its process alone writes it, and repeating it changes nothing."""
        room_and_name = f"+{file.room}+{file.name}"
        with expecting_an_answer(f"count the file {file.name!r} of parked messages"):
            self._table.upsert_entity(_row(room_and_name, file.sums), mode=UpdateMode.REPLACE)

    def forget_file(self, file: OverFile) -> None:
        """Remove the row of a file that is gone."""
        with expecting_an_answer(f"forget the file {file.name!r} of parked messages"):
            self._table.delete_entity(_PARTITION, file.row_key)

    def fold(self, rows: Sequence[SumsRow]) -> None:
        """Join rows of one cause that no process writes any more into one. If one was written since, nothing changes.

        Their sum stays the same. So rows that make zero together may go.
        """
        whole = join([row.sums for row in rows])
        operations: list[Any] = [
            ("delete", _key(row.row_key), _only_if(row.etag)) for row in rows if not row.is_joined or not whole.open
        ]
        if whole.open:
            former = next((row.etag for row in rows if row.is_joined), "")
            operations.append(_replacement(_row(GONE, whole), former))
        # The next comparison sees what is there, also if only the reply was lost.
        with suppress(AzureError):
            write_group(self._table, operations)

    def note_checked(self, at: datetime) -> None:
        """Note that the index agreed with the entries."""
        with expecting_an_answer("note the comparison of the index of causes"):
            self._table.upsert_entity({**_key(_CHECKED), "at": at}, mode=UpdateMode.REPLACE)

    def read_checked_at(self) -> datetime | None:
        """Return when the index last agreed with the entries, or None."""
        row = self._get(_CHECKED)
        return None if row is None else row["at"]


def _member(row: Mapping[str, Any]) -> Member:
    _, fingerprint, job, key = row["RowKey"].split("|", 3)
    return Member(fingerprint, job, key, row.get("room"))


def _quotes(sums: CauseSums, job: str) -> bool:
    return sums.jobs[:1] == (job,) and sums.found not in {"", _without_words(sums)}


def _without_words(sums: CauseSums) -> str:
    """Return the type of a failure, which stands instead of its words."""
    return f"{sums.reason}: its words were erased with their job"


def _only_if(etag: str) -> dict[str, Any]:
    return {"etag": etag, "match_condition": MatchConditions.IfNotModified}


def _replacement(row: Mapping[str, Any], etag: str) -> tuple[Any, ...]:
    return ("update", row, {"mode": UpdateMode.REPLACE, **_only_if(etag)}) if etag else ("create", row)


def _key(row_key: str) -> dict[str, Any]:
    return {"PartitionKey": _PARTITION, "RowKey": row_key}


def _sums_key(fingerprint: str, process: str) -> str:
    return f"0|{fingerprint}|{process}"


def _row(process: str, sums: CauseSums) -> dict[str, Any]:
    # An exception may quote half a character (a lone surrogate): storage would refuse the row.
    texts = {name: getattr(sums, name)[:_MOST_TEXT].encode(errors="replace").decode() for name in _TEXTS}
    times = {name: at for name in _TIMES if (at := getattr(sums, name)) is not None}
    return {
        **_key(_sums_key(sums.fingerprint, process)),
        "parked": sums.parked,
        "closed": sums.closed,
        **texts,
        **times,
        "hours": " ".join(f"{hour}:{number}" for hour, number in sums.hours.items()),
        "jobs": " ".join(sums.jobs),
        "rooms": " ".join(f"{room}:{number}" for room, number in sums.rooms.items()),
        **({"over": sums.over} if sums.over else {}),
    }


def _sums(row: Mapping[str, Any]) -> CauseSums:
    hours = (part.split(":") for part in row["hours"].split())
    rooms = (part.split(":") for part in row.get("rooms", "").split())
    return CauseSums(
        fingerprint=row["RowKey"].split("|")[1],
        parked=row["parked"],
        closed=row["closed"],
        reason=row["reason"],
        stage=row["stage"],
        instead=row["instead"],
        found=row["found"],
        place=row["place"],
        first_at=row.get("first_at"),
        last_at=row.get("last_at"),
        hours={int(hour): int(number) for hour, number in hours},
        jobs=tuple(row["jobs"].split()),
        rooms={room: int(number) for room, number in rooms},
        over=row.get("over", 0),
        files=int("over" in row),
    )


def _file(row: Mapping[str, Any]) -> OverFile | None:
    mark, _, room_and_name = row["RowKey"].rpartition("|")[2].partition("+")
    room, is_one, name = room_and_name.partition("+")
    return OverFile(room, name, _sums(row)) if not mark and is_one else None


def _by_room(found: Iterable[CauseSums]) -> dict[tuple[str, str], int]:
    counts: dict[tuple[str, str], int] = {}
    for sums in found:
        for room, number in sums.rooms.items():
            counts[room, sums.fingerprint] = counts.get((room, sums.fingerprint), 0) + number
    return counts
