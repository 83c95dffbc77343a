"""A job's outputs: parts of compressed newline-delimited JSON, and a manifest that names them all.

Each name is written once and its first content stays. So a stopped finisher and the one after it, or two at once, leave
the same set. The manifest is one small file beside the parts. It is written last, so its presence means that all parts
are there. Only the parts that it names are the output; docs/ledger.md describes both.

`run_in_parts` runs a chunk in parts of bounded size, one after the other, and adds up their results. Nearly every chunk
is one part. Only the merged partials and the bytes of the rejections are kept of the parts.
"""

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from io import BytesIO
from typing import Any, Final

import msgspec
import zstandard
from azure.core.exceptions import HttpResponseError
from azure.storage.blob import ContainerClient, ContentSettings
from msgspec import Struct
from msgspec import field as struct_field

from shared.azure import expecting_an_answer
from shared.grammar import amounts, plus, texts
from shared.ledger import Balance, Job, Portion
from shared.messages import VERSION, PortionMessage, Sums
from shared.payload import Limits
from shared.telemetry import contain
from shared.workloads import AnyWorkload, Rejection, run_lines

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
    #: Lines that needed the slower, closer reading; not part of the result.
    closely: int = field(default=0, compare=False)


def run_in_parts(workload: AnyWorkload, parts: Iterable[list[bytes]], first_number: int, limits: Limits) -> Ran:
    """Run the lines of each part. The first transaction has the id `first_number`."""
    kept = _Kept(limits.rejected_text_most)
    outcomes = _run_each(workload, parts, first_number, kept)
    whole = next(outcomes)
    for part in outcomes:
        whole = _both(workload, whole, part)
    return replace(whole, rejections=b"".join(kept.lines))


def _run_each(workload: AnyWorkload, parts: Iterable[list[bytes]], first_number: int, kept: "_Kept") -> Iterator[Ran]:
    for lines in parts:
        ran = run_lines(workload, lines, first_number)
        first_number += len(lines)
        kept.add(ran.rejections)
        yield Ran(ran.accepted, ran.rejected, ran.partial, b"", ran.closely)


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
    accepted, rejected = _add(left.accepted, right.accepted), _add(left.rejected, right.rejected)
    with contain():
        merged = workload.merge(left.partial, right.partial)
    return Ran(accepted, rejected, merged, b"", left.closely + right.closely)


def _add(left: PortionMessage, right: PortionMessage) -> PortionMessage:
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

    def put_manifest(self, manifest: Struct) -> None:
        """Write the manifest, unless it exists."""
        content = msgspec.json.format(msgspec.json.encode(manifest), indent=2)
        self._put(MANIFEST, content, _JSON, {})

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
        self._compressed.write(self._packer.compress(line))
        self._items += 1
        self._size += len(line)

    def close(self) -> None:
        """Write the lines that were not written yet. A name without lines has no parts."""
        if not self._items:
            return
        self._compressed.write(self._packer.flush())
        self._outputs.put_part(f"{self._name}-{self._number:06}", self._compressed.getvalue(), self._items)
        self._number += 1
        self._begin()

    def _begin(self) -> None:
        self._packer = zstandard.ZstdCompressor(level=3, write_checksum=True).compressobj()
        # Its `getvalue` hands the bytes over without a copy.
        self._compressed = BytesIO()
        self._items = self._size = 0
