"""A job's outputs: parts of compressed newline-delimited JSON, and a manifest that names them all.

Each name is written once and its first content stays. So a stopped finisher and the one after it, or two at once, leave
the same set. The manifest is one small file beside the parts. It is written last, so its presence means that all parts
are there. Only the parts that it names are the output; docs/ledger.md describes both.

`run_in_parts` runs a chunk in parts of bounded size, one after the other, and adds up their results. Nearly every chunk
is one part. Only the merged partials and the bytes of the rejections are kept of the parts.

`TotalsTable` has the totals of a job by account: a hundred rows per transaction, behind a fence against older revisions.

Each transaction moves the fence row by its ETag and carries as many rows as fit beside it. The fence counts the rows that
this revision has written, so a finisher that follows another one continues there.
"""

import hashlib
import re
import uuid
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import sha256
from io import BytesIO
from math import expm1, log
from typing import Any, Final

import msgspec
from azure.core import MatchConditions
from azure.core.exceptions import AzureError, HttpResponseError, ResourceNotFoundError
from azure.data.tables import EdmType, EntityProperty, TableClient, UpdateMode
from azure.storage.blob import ContainerClient, ContentSettings
from msgspec import Struct, field as struct_field

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
from shared.grammar import LAST_SHARD, amounts, plus, shard_partition, texts
from shared.ledger import MOST_ROWS, Balance, Job, Portion
from shared.messages import NO_PORTION, VERSION, PortionMessage, Sums
from shared.payload import Limits
from shared.pipeline.streams import LineRows, Stream, join_rows
from shared.refusals import Reason, refuse
from shared.telemetry import contain
from shared.versions import decode_document
from shared.workloads import AnyWorkload, Calls, Left, LineSink, PartialPiece, Rejection, Total, isolate_lines
from shared.zstd import make_packer

#: The text of a rejection whose own text is not kept.
NOT_KEPT: Final = "not kept"
#: Characters of a reason; a workload can make reasons of any length.
_LONGEST_REASON: Final = 100


@dataclass(frozen=True, slots=True)
class Ran:
    """How the transactions of a chunk ended."""

    accepted: PortionMessage
    rejected: PortionMessage
    partial: Any
    #: In their stored form: each on a line of its own.
    rejections: bytes
    #: What goes behind the first frame of the result, by name and in this order; `lines` is the last one.
    streams: Mapping[str, Stream] = field(default_factory=dict)
    #: The failure of each one that failed, waits or was not called.
    left: tuple[Left, ...] = ()
    #: Their number and sums. They are in none of the other portions.
    failed: PortionMessage = NO_PORTION
    #: Lines that needed the slower, closer reading; not part of the result.
    closely: int = field(default=0, compare=False)
    #: Bytes that the merged partial of the whole job may have. 0: it was not sounded.
    expected: int = field(default=0, compare=False)
    #: Its partial in pieces, where some are left or others passed before. None: it cannot be kept.
    pieces: tuple[PartialPiece, ...] | None = field(default=None, compare=False)
    #: Its lines there, in rows by the id of the first transaction. Otherwise they are a stream.
    rows: Mapping[int, Stream] = field(default_factory=dict, compare=False)


def run_in_parts(  # noqa: PLR0913 - the chunk, its bounds, and what its message asks of its run
    workload: AnyWorkload,
    parts: Iterable[list[bytes]],
    first_number: int,
    limits: Limits,
    *,
    sound: int = 0,
    makes_lines: bool = False,
    left: Container[int] | None = None,
    calls: Calls | None = None,
) -> Ran:
    """Run the lines of each part. The first transaction has the id `first_number`. `left`: only those with these ids.

    `sound`: the job's transactions, if the size of their merged partial is to be expected from this chunk. `makes_lines`:
    whether the job has lines of its transactions. Its row says so, for two versions of the code may run at once.
    """
    kept, made = _Kept(limits.rejected_text_most), LineRows(first_number) if makes_lines else None
    numbered = _number(_halve_first(parts) if sound else parts, first_number, left)
    outcomes = _run_each(workload, numbered, kept, made, calls)
    whole = next(outcomes)
    half, expected = _size(whole) if sound else 0, 0
    for part in outcomes:
        is_apart = left is not None or whole.left or part.left
        whole = _beside(whole, part) if is_apart else _both(workload, whole, part)
        if sound and not expected and not whole.left:
            expected = expect_merged(half, _size(whole), whole.accepted.items + whole.rejected.items, sound)
    whole = replace(whole, rejections=b"".join(kept.lines), expected=expected)
    if made is None:
        return whole
    rows = made.close()
    return replace(whole, rows=rows) if left is not None or whole.left else replace(whole, streams=join_rows(rows))


def _halve_first(parts: Iterable[list[bytes]]) -> Iterator[list[bytes]]:
    """Yield the first part in two halves. Each value of `map` is combined once, for `combine` may change it."""
    each = iter(parts)
    first = next(each)
    middle = len(first) // 2
    yield from (half for half in (first[:middle], first[middle:]) if half)
    yield from each


def _size(ran: Ran) -> int:
    return len(msgspec.json.encode(ran.partial))


def expect_merged(half: int, whole: int, items: int, of: int) -> int:
    """Return the bytes of the merged partial of `of` transactions, by those of `items` and of the first half of these.

    Of A accounts that come alike often, n transactions meet A(1 - exp(-n/A)). So whole / half = 1 + exp(-items/2A).
    """
    overlap = whole / half - 1
    if overlap >= 1:
        return whole * of // items
    if overlap <= 0:
        return whole
    met = 2 * log(overlap)
    return round(whole * expm1(met * of / items) / expm1(met))


def _number(
    parts: Iterable[list[bytes]], first_number: int, left: Container[int] | None
) -> Iterator[tuple[Sequence[bytes], Sequence[int]]]:
    """Yield the lines of each part, and their ids. `left`: only those with these ids."""
    for lines in parts:
        ids = range(first_number, first_number + len(lines))
        first_number += len(lines)
        if left is None:
            yield lines, ids
        elif chosen := [number for number in ids if number in left]:
            yield [lines[number - ids.start] for number in chosen], chosen


def _run_each(
    workload: AnyWorkload,
    parts: Iterable[tuple[Sequence[bytes], Sequence[int]]],
    kept: "_Kept",
    sink: LineSink | None,
    calls: Calls | None,
) -> Iterator[Ran]:
    for lines, ids in parts:
        ran = isolate_lines(workload, lines, ids, sink, calls)
        kept.add(ran.rejections)
        pieces = ran.pieces
        if pieces is None and not ran.left:
            pieces = [PartialPiece(ids[0] if ids else 0, ran.partial)]
        yield Ran(
            ran.accepted,
            ran.rejected,
            ran.partial,
            b"",
            left=tuple(ran.left),
            failed=ran.failed,
            pieces=None if pieces is None else tuple(pieces),
            closely=ran.closely,
        )


class _Kept:
    """The rejections of a chunk, each with number and reason, and with its text while there is room."""

    def __init__(self, room: int) -> None:
        self._room = room
        self.lines: list[bytes] = []

    def add(self, rejections: Iterable[Rejection]) -> None:
        for one in rejections:
            line = msgspec.json.encode(one)
            if len(line) <= self._room:
                self._room -= len(line)
            else:
                line = msgspec.json.encode(Rejection(one.number, one.reason[:_LONGEST_REASON], NOT_KEPT, ""))
            self.lines.append(line + b"\n")


def _both(workload: AnyWorkload, left: Ran, right: Ran) -> Ran:
    accepted, rejected = add_portions(left.accepted, right.accepted), add_portions(left.rejected, right.rejected)
    with contain():
        merged = workload.merge(left.partial, right.partial)
    pieces = None if left.pieces is None else (PartialPiece(left.pieces[0].first, merged),)
    return Ran(accepted, rejected, merged, b"", pieces=pieces, closely=left.closely + right.closely)


def _beside(left: Ran, right: Ran) -> Ran:
    """Return both with their pieces side by side: `merge` may change what it is given. They have no partial in one."""
    accepted, rejected = add_portions(left.accepted, right.accepted), add_portions(left.rejected, right.rejected)
    pieces = None if left.pieces is None or right.pieces is None else left.pieces + right.pieces
    return Ran(
        accepted,
        rejected,
        None,
        b"",
        left=left.left + right.left,
        failed=add_portions(left.failed, right.failed),
        pieces=pieces,
        closely=left.closely + right.closely,
    )


def add_portions(left: PortionMessage, right: PortionMessage) -> PortionMessage:
    """Return both together."""
    return PortionMessage(items=left.items + right.items, sums=_sums(left.sums, right.sums))


def _sums(left: Sums | None, right: Sums | None) -> Sums | None:
    if left is None or right is None:
        return None
    found = texts(plus(amounts(left), amounts(right)))
    # `plus` leaves out a sum of zero.
    return {name: found.get(name, "0") for name in {**left, **right}}


class Ended(Struct, frozen=True):
    """Items and sums that ended in one way, without the sums of `unknown` chunks."""

    items: int
    sums: Mapping[str, str]
    unknown: int


class OutputPart(Struct, frozen=True):
    """One blob of the output, in the manifest."""

    name: str
    items: int
    bytes: int
    sha256: str


class Manifest(Struct, frozen=True, kw_only=True):
    """The content of manifest.json. It does not depend on when or how often it was made."""

    job: str
    revision: int
    workload: str
    state: str
    items: int
    declared: Mapping[str, str]
    accepted: Ended
    rejected: Ended
    parked: Ended
    #: Declared sums that cannot be proven.
    unproven: list[str] = struct_field(default_factory=list)
    #: Rows of this revision in the table of totals, and the partitions that have them.
    totals: int
    totals_partitions: list[str]
    parts: list[OutputPart]
    v: int = VERSION


def manifest_of(
    job: Job, found: Balance, totals: int, partitions: Iterable[str], parts: Iterable[OutputPart]
) -> Manifest:
    """Return the manifest of a job that balances."""
    return Manifest(
        job=job.job,
        revision=job.revision,
        workload=job.workload,
        state=found.state.value,
        items=job.items,
        declared=texts(job.declared),
        accepted=_ended_counts(job.totals.accepted),
        rejected=_ended_counts(job.totals.rejected),
        parked=_ended_counts(job.totals.parked),
        unproven=list(found.unproven),
        totals=totals,
        totals_partitions=list(partitions),
        parts=list(parts),
    )


def _ended_counts(tally: Portion) -> Ended:
    return Ended(tally.items, texts(tally.sums), tally.unknown)


#: Uncompressed bytes of a part; a finisher holds it compressed, which is a small share of that.
PART_BYTES: Final = 32 * 1024 * 1024
MANIFEST: Final = "manifest.json"
_WRITTEN_BEFORE: Final = frozenset({409, 412})
_NDJSON: Final = ContentSettings(content_type="application/x-ndjson", content_encoding="zstd")
_JSON: Final = ContentSettings(content_type="application/json")


class Outputs:
    """The outputs of one revision of a job."""

    def __init__(self, container: ContainerClient, job: str, revision: int) -> None:
        self._container, self._folder = container, f"{job}/{revision}"

    def put_part(self, name: str, content: bytes, items: int) -> None:
        """Write a part, unless it exists."""
        digest = hashlib.sha256(content).hexdigest()
        self._put(f"{name}.ndjson.zst", content, _NDJSON, {"items": str(items), "sha256": digest})

    def parts(self) -> Iterator[OutputPart]:
        """Yield the stored parts by name. What is stored counts, even if a part was computed again."""
        with expecting_an_answer(f"list the outputs in {self._folder!r}"):
            for blob in self._container.list_blobs(name_starts_with=f"{self._folder}/", include=["metadata"]):
                if blob.metadata and "sha256" in blob.metadata:
                    name = blob.name.removeprefix(f"{self._folder}/")
                    yield OutputPart(name, int(blob.metadata["items"]), blob.size, blob.metadata["sha256"])

    def find_manifest(self) -> Manifest | None:
        """Return the manifest, if this revision has one."""
        with expecting_an_answer(f"read output {self._folder!r}"):
            try:
                content = self._container.download_blob(f"{self._folder}/{MANIFEST}").readall()
            except ResourceNotFoundError:
                return None
        found: Manifest = decode_document(content, Manifest, "manifest", f"output {self._folder!r}")
        return found

    def put_manifest(self, manifest: Struct) -> None:
        """Write the manifest, unless it exists."""
        content = msgspec.json.format(msgspec.json.encode(manifest), indent=2)
        self._put(MANIFEST, content, _JSON, {})

    def read_manifest(self) -> Manifest | None:
        """Return the manifest, or refuse a damaged one. None: it is gone. Only the row of its job says whether it counts."""
        path = f"{self._folder}/{MANIFEST}"
        with expecting_an_answer(f"read output {path!r}"):
            try:
                content = self._container.download_blob(path).readall()
            except ResourceNotFoundError:
                return None
        try:
            found: Manifest = decode_document(content, Manifest, "manifest", f"output {path!r}")
        except ValueError as error:
            raise refuse(Reason.CORRUPT, f"output {path!r} is no manifest: {error}") from error
        return found

    def _put(self, name: str, content: bytes, settings: ContentSettings, metadata: Mapping[str, str]) -> None:
        path = f"{self._folder}/{name}"
        with expecting_an_answer(f"write output {path!r}"):
            try:
                # Without `overwrite` the request says If-None-Match: *.
                self._container.upload_blob(path, content, content_settings=settings, metadata=dict(metadata))
            except HttpResponseError as refusal:
                # Written by another finisher of this revision, or by this very request, whose reply was lost.
                if refusal.status_code not in _WRITTEN_BEFORE:
                    raise


#: Lines are packed in pieces of this size. Each call gives the interpreter's lock away. Beside 23 busy threads, a call
#: for each line waits for the lock again each time.
_PACKED_AT_ONCE: Final = 64 * 1024


class PartWriter:
    """Writes lines as numbered parts of bounded size. The same lines always make the same parts."""

    def __init__(self, outputs: Outputs, name: str, part_bytes: int = PART_BYTES) -> None:
        self._outputs, self._name, self._limit = outputs, name, part_bytes
        self._number = 0
        self._begin()

    def write(self, content: Any) -> None:
        """Add one line."""
        self.write_line(msgspec.json.encode(content) + b"\n")

    def write_line(self, line: bytes) -> None:
        """Add one encoded line, which ends with its line feed."""
        if self._items and self._size + len(line) > self._limit:
            self.close()
        self._waiting.append(line)
        self._items += 1
        self._size += len(line)
        if self._size - self._packed >= _PACKED_AT_ONCE:
            self._pack()

    def close(self) -> None:
        """Write the lines that were not written yet. A name without lines has no parts."""
        if not self._items:
            return
        self._pack()
        self._compressed.write(self._packer.flush())
        self._outputs.put_part(f"{self._name}-{self._number:06}", self._compressed.getvalue(), self._items)
        self._number += 1
        self._begin()

    def _begin(self) -> None:
        self._packer = make_packer(level=3, has_checksum=True)
        # Its `getvalue` hands the bytes over without a copy.
        self._compressed = BytesIO()
        self._waiting: list[bytes] = []
        self._items = self._size = self._packed = 0

    def _pack(self) -> None:
        self._compressed.write(self._packer.compress(b"".join(self._waiting)))
        self._waiting.clear()
        self._packed = self._size


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
        """Yield the rows of a revision of a job that never ran again by partition and key, a page at a time."""
        # From the job's own partition to the last of its shards, in one range: no other job's id is between them.
        wanted = "PartitionKey ge @job and PartitionKey le @last and revision eq @revision"
        bounds = {"job": job, "last": shard_partition(job, LAST_SHARD), "revision": revision}
        return self._query(job, wanted, bounds)

    def rows_of_partition(self, partition: str, revision: int, page: int | None = None) -> Iterator[Entity]:
        """Yield the rows of a revision in one partition by key, so many at a time."""
        bounds = {"partition": partition, "revision": revision}
        return self._query(partition, "PartitionKey eq @partition and revision eq @revision", bounds, page)

    def find_revision(self, partition: str) -> int | None:
        """Return the revision that may write to a partition. One request."""
        fence = self._read(partition)
        return None if fence is None else fence.revision

    def _query(self, job: str, wanted: str, bounds: dict[str, object], page: int | None = None) -> Iterator[Entity]:
        with expecting_an_answer(f"read the totals of job {job!r}"):
            for row in self._table.query_entities(wanted, parameters=bounds, results_per_page=page):
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

    def __init__(self, table: TotalsTable, job: str, revision: int, before: int = 0) -> None:
        """Begin behind so many rows of this revision."""
        self._table, self._job, self._revision = table, job, revision
        self._fence = table.take(job, revision)
        self._accounts: set[str] = set()
        #: Rows not written yet, the index of the first one, and their size.
        self._waiting: list[Entity] = []
        self._first, self._size = before, 0
        #: Number of rows so far, with those before.
        self.count = before

    def forget_accounts(self) -> None:
        """Take it that no account so far comes again."""
        self._accounts.clear()

    def write(self, total: Total) -> None:
        """Add one row."""
        row = row_of_total(self._job, self._revision, total)
        if row["RowKey"] in self._accounts:
            raise FinishRefusedError(
                f"job {self._job!r} has two totals for account {total.account[:100]!r}: let the workload merge them"
            )
        self._accounts.add(row["RowKey"])
        self.count += 1
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


def row_of_total(job: str, revision: int, total: Total) -> Entity:
    """Return the row of a total, or raise FinishRefusedError if a table cannot hold it."""
    wrong = [name for name in total.properties if name in _RESERVED or not _PROPERTY.fullmatch(name)]
    if wrong or len(total.properties) > _MOST_PROPERTIES:
        raise FinishRefusedError(
            f"a total of job {job!r} has {len(total.properties)} properties, the limit is {_MOST_PROPERTIES}; these "
            f"have names that are not allowed: {wrong[:3]}; use letters, digits and underscores, except "
            f"{', '.join(sorted(_RESERVED))}"
        )
    own = {"PartitionKey": job, "RowKey": account_key(total.account), "account": total.account, "revision": revision}
    return check_limits(own | {name: _property(job, value) for name, value in total.properties.items()})


def _property(job: str, value: object) -> object:
    if isinstance(value, bool | str):
        return value
    if isinstance(value, int) and -(2**63) <= value < 2**63:
        return EntityProperty(value, EdmType.INT64)
    raise FinishRefusedError(
        f"a total of job {job!r} has a {type(value).__name__} that a table cannot hold exactly: give it as text"
    )
