"""The blobs of a finish: its plan, its segments and its shards.

All blobs are below `results/<job>/<revision>/finish/`. Each is written once, and last in its step.

The blob of a segment in one piece is a zstd frame of JSON. In slices it is a line of JSON with its totals and the length of
each slice, and then the slices, each a zstd frame of its own. So the totals are read without the slices.
"""

from collections.abc import Iterator, Mapping, Sequence
from http import HTTPStatus
from itertools import accumulate
from typing import Any, Final, NamedTuple

import msgspec
import zstandard
from azure.core.exceptions import HttpResponseError, ResourceNotFoundError
from azure.storage.blob import ContainerClient
from msgspec import Raw, Struct

from shared.azure import expecting_an_answer
from shared.errors import ResultRefusedError
from shared.ledger import Totals, read_totals, write_totals
from shared.pipeline.finish_plan import FinishPlan
from shared.versions import decode_document

_WRITTEN_BEFORE: Final = frozenset({409, 412})
_PLAN: Final = "plan"
#: Upper bound of the first line of a segment in slices: three sums, some kinds of requests, the lengths.
_LONGEST_HEAD: Final = 16 * 1024
#: The version of each blob.
_VERSION: Final = 1


class Steps(NamedTuple):
    """How far the steps are, by their blobs."""

    #: Segments that are not merged yet.
    missing: list[int]
    #: Bytes of those that are.
    size: int
    #: Shards that are written.
    written: frozenset[int]


class SegmentResult(NamedTuple):
    """The outcome of the chunks of a segment. Its partials, one for each slice, are decoded by the type of the workload."""

    totals: Totals
    partials: Sequence[Raw]
    #: Storage requests that merging it took, by the meter that bills them.
    requests: Mapping[str, int]


class _Stored(Struct, frozen=True, kw_only=True):
    """A merged segment in its stored form."""

    totals: Raw
    partial: Raw
    requests: dict[str, int]
    v: int = _VERSION


class _Head(Struct, frozen=True, kw_only=True):
    """The first line of a merged segment in slices: the bytes of each slice follow it, in their order."""

    totals: Raw
    requests: dict[str, int]
    slices: list[int]
    v: int = _VERSION


class ShardResult(Struct, frozen=True, kw_only=True):
    """The outcome of a shard: its rows of totals, its output lines, and the requests that it took."""

    totals: int
    lines: int
    requests: dict[str, int] = {}
    v: int = _VERSION


class SegmentBlobs:
    """The blobs of one revision's finish."""

    def __init__(self, container: ContainerClient, job: str, revision: int) -> None:
        self._container, self._folder = container, f"{job}/{revision}/finish/"

    def find_plan(self) -> FinishPlan | None:
        """Return the plan, or None."""
        content = self._read(_PLAN)
        return None if content is None else _decode(content, FinishPlan, "finish plan", self._folder + _PLAN)

    def put_plan(self, plan: FinishPlan) -> tuple[FinishPlan, bool]:
        """Write the plan and return it with True, or return the plan that is there with False."""
        if self._put(_PLAN, msgspec.json.encode(plan)):
            return plan, True
        return self.find_plan() or plan, False

    def list_steps(self, plan: FinishPlan) -> Steps:
        """Return how far the segments and the shards are."""
        with expecting_an_answer(f"list the blobs in {self._folder!r}"):
            found = {
                blob.name.removeprefix(self._folder): int(blob.size)
                for blob in self._container.list_blobs(name_starts_with=self._folder)
            }
        sizes = [found.get(_name(number)) for number in range(len(plan.segments))]
        return Steps(
            missing=[number for number, size in enumerate(sizes) if size is None],
            size=sum(size or 0 for size in sizes),
            written=frozenset(number for number in range(plan.pieces) if _shard_name(number) in found),
        )

    def put(self, number: int, totals: Totals, slices: Sequence[Any], requests: Mapping[str, int]) -> None:
        """Write a merged segment, unless it is there. `requests` are those that merging it took."""
        packer, added = zstandard.ZstdCompressor(level=1, write_checksum=True), Raw(write_totals(totals).encode())
        if len(slices) == 1:
            partial = Raw(msgspec.json.encode(slices[0]))
            stored = _Stored(totals=added, partial=partial, requests=dict(requests))
            self._put(_name(number), packer.compress(msgspec.json.encode(stored)))
            return
        packed = [packer.compress(msgspec.json.encode(one)) for one in slices]
        head = _Head(totals=added, requests=dict(requests), slices=[len(one) for one in packed])
        self._put(_name(number), b"".join((msgspec.json.encode(head), b"\n", *packed)))

    def put_shard(self, number: int, totals: int, lines: int, requests: Mapping[str, int]) -> None:
        """Write the outcome of a shard, unless it is there."""
        done = ShardResult(totals=totals, lines=lines, requests=dict(requests))
        self._put(_shard_name(number), msgspec.json.encode(done))

    def read_heads(self, plan: FinishPlan) -> Iterator[SegmentResult]:
        """Yield the totals and requests of all segments in slices, without their partials."""
        for number in range(len(plan.segments)):
            yield self._read_head(plan, number, self._need(_name(number), _LONGEST_HEAD))[0]

    def read_slices(self, plan: FinishPlan, slices: Sequence[int]) -> Iterator[SegmentResult]:
        """Yield some slices of all segments in their order, one segment at a time."""
        for number in range(len(plan.segments)):
            path = self._folder + _name(number)
            # One request; the other slices stay packed.
            content = self._need(_name(number))
            if plan.pieces == 1:
                stored = _decode(_unpack(content, path), _Stored, "segment result", path)
                totals = read_totals(bytes(stored.totals).decode())
                yield SegmentResult(totals, [stored.partial], stored.requests)
                continue
            segment, places = self._read_head(plan, number, content)
            partials = [Raw(_unpack(content[places[one] : places[one + 1]], path)) for one in slices]
            yield segment._replace(partials=partials)

    def read_shards(self, count: int) -> list[ShardResult]:
        """Return the outcomes of all shards."""
        names = [_shard_name(number) for number in range(count)]
        return [_decode(self._need(name), ShardResult, "shard result", self._folder + name) for name in names]

    def _read_head(self, plan: FinishPlan, number: int, content: bytes) -> tuple[SegmentResult, list[int]]:
        """Return a segment without its partial, and where each of its slices begins and the last one ends."""
        path = self._folder + _name(number)
        line, found, _ = content[:_LONGEST_HEAD].partition(b"\n")
        head = _decode(line, _Head, "segment result", path)
        if not found or len(head.slices) != plan.pieces:
            raise _refuse(path, ValueError(f"it has {len(head.slices)} slices, and the plan says {plan.pieces}"))
        places = list(accumulate(head.slices, initial=len(line) + 1))
        return SegmentResult(read_totals(bytes(head.totals).decode()), (), head.requests), places

    def _need(self, name: str, most: int | None = None) -> bytes:
        if (content := self._read(name, most)) is None:
            raise ResultRefusedError(f"{self._folder + name!r} is gone although it was written: resume the job")
        return content

    def _read(self, name: str, most: int | None = None) -> bytes | None:
        with expecting_an_answer(f"read {self._folder + name!r}"):
            try:
                return self._container.download_blob(
                    self._folder + name, offset=None if most is None else 0, length=most
                ).readall()
            except ResourceNotFoundError:
                return None
            except HttpResponseError as refusal:
                # A range of a blob without a byte.
                if refusal.status_code != HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE:
                    raise
                return b""

    def _put(self, name: str, content: bytes) -> bool:
        with expecting_an_answer(f"write {self._folder + name!r}"):
            try:
                # Without `overwrite` the request says If-None-Match: *.
                self._container.upload_blob(self._folder + name, content)
            except HttpResponseError as refusal:
                # Another finisher of this revision was first, or this very request, whose reply was lost.
                if refusal.status_code not in _WRITTEN_BEFORE:
                    raise
                return False
        return True


def _name(number: int) -> str:
    return f"segment-{number:06}"


def _shard_name(number: int) -> str:
    return f"shard-{number:02}"


def _unpack(packed: bytes, path: str) -> bytes:
    try:
        return zstandard.ZstdDecompressor().decompress(packed)
    except zstandard.ZstdError as error:
        raise _refuse(path, error) from error


def _decode(content: bytes, kind: type[Any], document: str, path: str) -> Any:
    try:
        return decode_document(content, kind, document, f"blob {path!r}")
    except (ValueError, RecursionError) as error:
        raise _refuse(path, error) from error


def _refuse(path: str, error: Exception) -> ResultRefusedError:
    return ResultRefusedError(
        f"{path!r} cannot be read: {error}; find out who else writes to container 'results', then resume the job"
    )
