"""The plan of a finish, and the blobs by which its steps tell each other how far they are.

`SegmentBlobs` has the blobs of a finish: its plan, its segments and its shards. All are below `results/<job>/<revision>/finish/`. Each is written once, and last in its step.

The blob of a segment in one cut is a zstd frame of JSON. In cuts it is a line of JSON with its totals and the length of
each cut, and then the cuts, each a zstd frame of its own. So the totals are read without the cuts.

The plan says how the results of a job are cut, and how many shards publish its totals. A segment is neighbouring chunks, by
their numbers. The plan is made once for a revision of a job and then read: all finishers cut alike, also those of another
version. It says the number of cuts too, so that all cut a partial alike.

Version 3 has more cuts than shards. Version 2 has as many. Version 1 has none, or was written before the number of cuts
got its version: all are read.

The bytes of all segments say how many shards there are, each of which takes some cuts of every segment. Blobs that are
written once have the same bytes for everybody, so all steps find the same number.

Where the partials are large, there are more cuts than shards, so that a cut has some 4 MiB. The cuts of a shard are
neighbours then, and some of them are a span. A shard reads a span of each segment by one ranged read and publishes it, then
the next one. `places` says where spans lie: `finish` writes it once, from the heads of all segments.
"""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from http import HTTPStatus
from itertools import accumulate
from typing import Any, Final, NamedTuple, Self

import msgspec
from azure.core.exceptions import HttpResponseError, ResourceNotFoundError
from azure.storage.blob import ContainerClient
from msgspec import UNSET, Raw, Struct, UnsetType

from shared.azure import expecting_an_answer
from shared.errors import ResultRefusedError
from shared.ledger import Totals, read_totals, write_totals
from shared.versions import decode_document
from shared.zstd import ZstdError, pack, unpack, unpack_each

#: The most shards of the totals, if a job of several segments has a workload with `split`. Each is a partition of the table.
SHARDS: Final = 16


#: The version of a plan whose totals go to the partitions of a rerun: a shard of an instance of before would go elsewhere.
_OF_RERUN: Final = 4


class FinishPlan(Struct, frozen=True, kw_only=True):
    """The segments of a revision, by their first and last chunk, and the cuts of each."""

    segments: list[tuple[int, int]]
    #: 1: a segment is one cut.
    cuts: int = msgspec.field(default=1, name="slices")
    #: Above 1: a plan of an earlier version, with a shard for each cut.
    shards: int = 1
    v: int = 1

    @classmethod
    def make(cls, segments: Sequence[tuple[int, int]], cuts: int, *, is_rerun: bool = False) -> Self:
        """Return a plan in the version that its cuts need, and a rerun."""
        v = 1 if cuts == 1 else 2 if cuts <= SHARDS else 3
        return cls(segments=list(segments), cuts=cuts, v=_OF_RERUN if is_rerun else v)

    def find_run(self, run_from: int) -> int:
        """Return the run whose partitions have the totals. Where a version before made the plan, those of the first run do."""
        return run_from if self.v == _OF_RERUN else 0

    @property
    def has_spans(self) -> bool:
        """True if its shards publish span after span."""
        return self.cuts > SHARDS

    def arrange(self) -> list[int]:
        """Return the cuts in the order in which segments with spans have them.

        It is that of their bits, reversed. So the cuts of each shard are neighbours, whose numbers leave the same rest.
        """
        bits = self.cuts.bit_length() - 1
        return [int(f"{place:0{bits}b}"[::-1], 2) for place in range(self.cuts)]

    @property
    def cuts_of_each(self) -> int:
        """The cuts of each segment, whichever version made the plan."""
        return max(self.cuts, self.shards)

    def choose_shards(self, size: int, shard_bytes: int) -> int:
        """Return the number of shards for merged segments of so many bytes together."""
        if self.has_spans:
            return SHARDS
        return self.shards if self.shards > 1 else choose_shards(size, self.cuts, shard_bytes)


def choose_shards(size: int, cuts: int, shard_bytes: int) -> int:
    """Return how many shards the cuts of so many bytes are worth: 1, 2, 4 and so on, at most one for each cut.

    A power of two divides the cuts, so an account's shard is the same by its cut and by its hash.
    """
    count = 1
    while count < cuts and size > count * shard_bytes:
        count *= 2
    return count


_WRITTEN_BEFORE: Final = frozenset({409, 412})
_PLAN: Final = "plan"
_PLACES: Final = "places"
_SPAN: Final = re.compile(r"span-(\d{2})-(\d{3})")
#: Upper bound of the first line of a segment in cuts: three sums and some kinds of requests, and the length of each cut.
_LONGEST_HEAD, _LONGEST_LENGTH = 16 * 1024, 9
#: Packed bytes of a span in all segments together. A larger cut is a span by itself.
SPAN_BYTES: Final = 4 * 1024 * 1024
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
    #: Spans that are written: the shard, and the number there.
    spans: frozenset[tuple[int, int]] = frozenset()


class SegmentResult(NamedTuple):
    """The outcome of the chunks of a segment. Its partials, one for each cut, are decoded by the type of the workload."""

    totals: Totals
    partials: Sequence[Raw]
    #: Storage requests that merging it took, by the meter that bills them.
    requests: Mapping[str, int]
    #: The lines that its transactions made.
    lines: int = 0


class _Stored(Struct, frozen=True, kw_only=True):
    """A merged segment in its stored form."""

    totals: Raw
    partial: Raw
    requests: dict[str, int]
    lines: int | UnsetType = UNSET
    v: int = _VERSION


class _Head(Struct, frozen=True, kw_only=True):
    """The first line of a merged segment in cuts: the bytes of each cut follow it, in their order."""

    totals: Raw
    requests: dict[str, int]
    cuts: list[int] = msgspec.field(name="slices")
    lines: int | UnsetType = UNSET
    v: int = _VERSION


class Places(Struct, frozen=True, kw_only=True):
    """Where the spans of all shards lie in the segments, and what the segments came to."""

    totals: Raw
    requests: dict[str, int]
    #: The place of the first cut of each span, in the order of the cuts in a segment.
    spans: list[int]
    #: Of each segment: the offset of each span, and the end of the last one.
    segments: list[list[int]]
    #: The lines that all transactions made.
    lines: int | UnsetType = UNSET
    v: int = _VERSION

    def read_totals(self) -> Totals:
        """Return the totals of all segments."""
        return read_totals(bytes(self.totals).decode())

    def last_spans(self, plan: FinishPlan) -> list[tuple[int, int]]:
        """Return the last span of each shard: the shard, and the number of the span there."""
        cuts = plan.arrange()
        return [
            (shard, count - 1) for shard, count in sorted(Counter(cuts[begin] % SHARDS for begin in self.spans).items())
        ]

    def find_missing(self, plan: FinishPlan, steps: Steps) -> list[int]:
        """Return the shards that are not written to their end."""
        return [shard for shard, number in self.last_spans(plan) if (shard, number) not in steps.spans]

    def spans_of(self, plan: FinishPlan, shard: int) -> list["SpanRange"]:
        """Return the spans of a shard."""
        cuts, ends = plan.arrange(), [*self.spans[1:], plan.cuts]
        pairs = enumerate(zip(self.spans, ends, strict=True))
        return [
            SpanRange(cuts[begin:end], [(one[number], one[number + 1]) for one in self.segments])
            for number, (begin, end) in pairs
            if cuts[begin] % SHARDS == shard
        ]


class SpanRange(NamedTuple):
    """Neighbouring cuts, by their numbers, and the range of bytes that they take in each segment."""

    cuts: list[int]
    ranges: list[tuple[int, int]]


def cut_spans(plan: FinishPlan, sizes: Sequence[int], most: int) -> list[int]:
    """Return the place of the first cut of each span. `sizes` are the bytes of each cut in all segments together.

    Cuts of two shards are never in one span.
    """
    of_a_shard, spans, held = plan.cuts // SHARDS, list[int](), 0
    for place, size in enumerate(sizes):
        if place % of_a_shard == 0 or held + size > most:
            spans.append(place)
            held = 0
        held += size
    return spans


class ShardResult(Struct, frozen=True, kw_only=True):
    """The outcome of a shard: its rows of totals, its output lines, and the requests that it took."""

    totals: int
    lines: int
    requests: dict[str, int] = {}
    v: int = _VERSION


class SpanResult(ShardResult, frozen=True, kw_only=True):
    """The outcome of a shard up to the end of a span, and when it was written."""

    at: datetime


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
            written=frozenset(number for number in range(plan.cuts_of_each) if _shard_name(number) in found),
            spans=frozenset((int(name[1]), int(name[2])) for one in found if (name := _SPAN.fullmatch(one))),
        )

    def put(
        self, number: int, totals: Totals, cuts: Sequence[Any], requests: Mapping[str, int], *, lines: int = 0
    ) -> None:
        """Write a merged segment, unless it is there. `requests` are those that merging it took."""
        added, made = Raw(write_totals(totals).encode()), lines or UNSET
        if len(cuts) == 1:
            partial = Raw(msgspec.json.encode(cuts[0]))
            stored = _Stored(totals=added, partial=partial, requests=dict(requests), lines=made)
            self._put(_name(number), _pack(stored))
            return
        packed = [_pack(one) for one in cuts]
        head = _Head(totals=added, requests=dict(requests), cuts=[len(one) for one in packed], lines=made)
        self._put(_name(number), b"".join((msgspec.json.encode(head), b"\n", *packed)))

    def put_places(self, plan: FinishPlan, span_bytes: int) -> Places:
        """Write where the spans lie, from the heads of all segments, unless it is there. Return the stored places."""
        if (found := self.find_places()) is not None:
            return found
        totals, requests, ends, lines = Totals(), Counter[str](), list[list[int]](), 0
        for number in range(len(plan.segments)):
            segment, places = self._read_head(plan, number, self._need(_name(number), _head_most(plan)))
            totals += segment.totals
            requests.update(segment.requests)
            lines += segment.lines
            ends.append(places)
        spans = cut_spans(plan, [sum(one[cut + 1] - one[cut] for one in ends) for cut in range(plan.cuts)], span_bytes)
        offsets = [[one[place] for place in (*spans, plan.cuts)] for one in ends]
        added = Raw(write_totals(totals).encode())
        made = Places(totals=added, requests=dict(requests), spans=spans, segments=offsets, lines=lines or UNSET)
        return made if self._put(_PLACES, _pack(made)) else self.find_places() or made

    def find_places(self) -> Places | None:
        """Return where the spans lie, or None."""
        if (content := self._read(_PLACES)) is None:
            return None
        path = self._folder + _PLACES
        found: Places = _decode(_unpack(content, path), Places, "places", path)
        return found

    def read_span(self, span: SpanRange) -> Iterator[tuple[int, Iterator[Raw]]]:
        """Yield the number of each cut of a span, and its partials in the order of the segments.

        All of them stay packed until their turn.
        """
        frames = [
            unpack_each(self._need(_name(number), end - begin, begin))
            for number, (begin, end) in enumerate(span.ranges)
        ]
        for one in span.cuts:
            yield one, (self._expand(number, each) for number, each in enumerate(frames))

    def _expand(self, segment: int, frames: Iterator[bytes]) -> Raw:
        path = self._folder + _name(segment)
        try:
            found = next(frames, None)
        except ZstdError as error:
            raise _refuse(path, error) from error
        if found is None:
            raise _refuse(path, ValueError("a span of it ends before its last cut"))
        return Raw(found)

    def find_span(self, shard: int, number: int) -> SpanResult:
        """Return the outcome of a shard up to the end of a span."""
        name = _span_name(shard, number)
        found: SpanResult = _decode(self._need(name), SpanResult, "span result", self._folder + name)
        return found

    def put_span(self, shard: int, number: int, done: SpanResult) -> None:
        """Write the outcome of a shard up to the end of a span, unless it is there."""
        self._put(_span_name(shard, number), msgspec.json.encode(done))

    def put_shard(self, number: int, totals: int, lines: int, requests: Mapping[str, int]) -> None:
        """Write the outcome of a shard, unless it is there."""
        done = ShardResult(totals=totals, lines=lines, requests=dict(requests))
        self._put(_shard_name(number), msgspec.json.encode(done))

    def read_heads(self, plan: FinishPlan) -> Iterator[SegmentResult]:
        """Yield the totals and requests of all segments in cuts, without their partials."""
        for number in range(len(plan.segments)):
            yield self._read_head(plan, number, self._need(_name(number), _head_most(plan)))[0]

    def read_cuts(self, plan: FinishPlan, cuts: Sequence[int]) -> Iterator[SegmentResult]:
        """Yield some cuts of all segments in their order, one segment at a time."""
        for number in range(len(plan.segments)):
            path = self._folder + _name(number)
            # One request; the other cuts stay packed.
            content = self._need(_name(number))
            if plan.cuts_of_each == 1:
                stored = _decode(_unpack(content, path), _Stored, "segment result", path)
                totals = read_totals(bytes(stored.totals).decode())
                yield SegmentResult(totals, [stored.partial], stored.requests, stored.lines or 0)
                continue
            segment, places = self._read_head(plan, number, content)
            partials = [Raw(_unpack(content[places[one] : places[one + 1]], path)) for one in cuts]
            yield segment._replace(partials=partials)

    def read_shards(self, count: int) -> list[ShardResult]:
        """Return the outcomes of all shards."""
        names = [_shard_name(number) for number in range(count)]
        return [_decode(self._need(name), ShardResult, "shard result", self._folder + name) for name in names]

    def _read_head(self, plan: FinishPlan, number: int, content: bytes) -> tuple[SegmentResult, list[int]]:
        """Return a segment without its partial, and where each of its cuts begins and the last one ends."""
        path = self._folder + _name(number)
        line, found, _ = content[: _head_most(plan)].partition(b"\n")
        head = _decode(line, _Head, "segment result", path)
        if not found or len(head.cuts) != plan.cuts_of_each:
            raise _refuse(path, ValueError(f"it has {len(head.cuts)} cuts, and the plan says {plan.cuts_of_each}"))
        places = list(accumulate(head.cuts, initial=len(line) + 1))
        return SegmentResult(read_totals(bytes(head.totals).decode()), (), head.requests, head.lines or 0), places

    def _need(self, name: str, most: int | None = None, begin: int = 0) -> bytes:
        if (content := self._read(name, most, begin)) is None:
            raise ResultRefusedError(f"{self._folder + name!r} is gone although it was written: resume the job")
        return content

    def _read(self, name: str, most: int | None = None, begin: int = 0) -> bytes | None:
        with expecting_an_answer(f"read {self._folder + name!r}"):
            try:
                return self._container.download_blob(
                    self._folder + name, offset=None if most is None else begin, length=most
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


def _span_name(shard: int, number: int) -> str:
    return f"span-{shard:02}-{number:03}"


def _head_most(plan: FinishPlan) -> int:
    return _LONGEST_HEAD + _LONGEST_LENGTH * plan.cuts_of_each


def _pack(content: Any) -> bytes:
    return pack(msgspec.json.encode(content), level=1, has_checksum=True)


def _unpack(packed: bytes, path: str) -> bytes:
    try:
        return unpack(packed)
    except ZstdError as error:
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
