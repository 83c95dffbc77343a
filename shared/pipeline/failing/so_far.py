"""The outcome of a chunk so far: of its transactions that passed, while others failed, waited or were not called.

It is a blob beside the chunk's result, written before such a delivery ends. The next one runs only the transactions that
are left. So one that passed is not called again.

Of those that are left it has how often they waited, and until when. `judge_left` decides by that.

The partial is in pieces, and the lines are in rows, one for each row of neighbours that passed. When those between have passed too, neighbouring pieces
are merged, in the order of the transactions, as in a run without a failure.

No count depends on this blob. Without it, or if the workload cannot read its pieces any more, the whole chunk runs again.
Of two deliveries at once, the later one changes nothing.
"""

from bisect import bisect
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from io import BytesIO
from itertools import groupby
from typing import Any, Final

from azure.core import MatchConditions
from azure.core.exceptions import HttpResponseError, ResourceNotFoundError
from azure.storage.blob import ContainerClient
from msgspec import Raw, Struct, json

from shared.azure import expecting_an_answer
from shared.errors import ResultRefusedError
from shared.ledger import result_blob
from shared.messages import VERSION, ChunkMessage, Count, Number, PortionMessage
from shared.payload import Limits
from shared.pipeline.failing.put_off import Waits
from shared.pipeline.outputs import Ran, add_portions
from shared.pipeline.results import unpack_result
from shared.pipeline.streams import Stream, StreamHead, join_rows, split_streams
from shared.telemetry import contain
from shared.versions import decode, decode_document
from shared.workloads import AnyWorkload, PartialPiece
from shared.zstd import pack

#: Storage's refusals of a write whose condition does not hold.
_WRITTEN_BEFORE: Final = frozenset({409, 412})


class SoFarHead(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The first line of the blob, as stored. Each further line is a rejected transaction, as behind a result."""

    workload: str
    accepted: PortionMessage
    rejected: PortionMessage
    #: The id of the first transaction of each piece, and its partial, of the workload's own type.
    pieces: list[tuple[Number, Raw]]
    #: The ids of the transactions that are left. They are in none of the portions.
    left: list[Number]
    #: How often each of these waited in vain, and the second of Unix time before which it is not called.
    waits: list[tuple[Count, Number]] = []
    #: Lines by the id of the first transaction of their row. Their packed bytes follow the first frame, side by side.
    rows: dict[Number, StreamHead] = {}
    #: When the first of them was left.
    since: Number = 0
    #: Whether those that are left run in a process of their own: one died of some of them.
    is_alone: bool = False
    #: What the tries took so far.
    milliseconds: Count
    v: int = VERSION


@dataclass(frozen=True, slots=True)
class SoFar:
    """The outcome of a chunk so far."""

    accepted: PortionMessage
    rejected: PortionMessage
    pieces: tuple[PartialPiece, ...]
    rejections: bytes
    left: Mapping[int, Waits]
    since: int
    milliseconds: int
    etag: str
    rows: Mapping[int, Stream] = field(default_factory=dict)
    is_alone: bool = False

    def add(self, workload: AnyWorkload, ran: Ran, resting: Iterable[int] = ()) -> Ran:
        """Return the outcome of the chunk with a run of those that were left, but for those that rest."""
        left, pieces = [*(one.number for one in ran.left), *resting], None
        if ran.pieces is not None:
            pieces = tuple(join(workload, sorted((*self.pieces, *ran.pieces), key=lambda one: one.first), left))
        partial, rows = None, {**self.rows, **ran.rows}
        rejections = sorted(BytesIO(self.rejections + ran.rejections), key=_number_of)
        if not left:
            partial = pieces[0].partial if pieces else workload.combine([])
        return Ran(
            add_portions(self.accepted, ran.accepted),
            add_portions(self.rejected, ran.rejected),
            partial,
            b"".join(rejections),
            streams={} if left else join_rows(rows),
            left=ran.left,
            failed=ran.failed,
            pieces=pieces,
            rows=rows,
            closely=ran.closely,
        )

    def reduce(self, limits: Limits) -> Limits:
        """Return the limits without the text of the rejections that are kept."""
        return replace(limits, rejected_text_most=max(0, limits.rejected_text_most - len(self.rejections)))


def join(workload: AnyWorkload, pieces: Sequence[PartialPiece], left: Iterable[int]) -> list[PartialPiece]:
    """Merge neighbouring pieces, in their order, unless one that is left lies between them."""
    apart = sorted(left)
    rows = [list(row) for _, row in groupby(pieces, key=lambda piece: bisect(apart, piece.first))]
    with contain():
        return [PartialPiece(row[0].first, _merge(workload, [piece.partial for piece in row])) for row in rows]


def _merge(workload: AnyWorkload, partials: list[Any]) -> Any:
    """Merge by twos, then these by twos: of thousands, no partial is copied for each of the others."""
    while len(partials) > 1:
        twos = zip(partials[::2], partials[1::2], strict=False)
        partials = [*(workload.merge(*two) for two in twos), *partials[len(partials) & ~1 :]]
    return partials[0]


class _Numbered(Struct):
    number: int


def _number_of(rejection: bytes) -> int:
    return decode(rejection, _Numbered).number


class SoFarStore:
    """The container of results, where chunks keep their outcome so far."""

    def __init__(self, container: ContainerClient) -> None:
        self._container = container

    def find(self, chunk: ChunkMessage, workload: AnyWorkload, extends: str | None = None) -> SoFar | None:
        """Return the outcome of the chunk so far. None: nothing that this workload can read.

        `extends`: the hash of the credited result that it extends.
        """
        name = _name(chunk, extends)
        with expecting_an_answer(f"read {name!r}"):
            try:
                download = self._container.download_blob(name)
                stored: bytes = download.readall()
            except ResourceNotFoundError:
                return None
        try:
            text, rest = unpack_result(name, stored)
            return _read(text, rest, chunk, workload, str(download.properties.etag))
        except ResultRefusedError:
            return None

    def put(  # noqa: PLR0913, PLR0917 - all that a chunk came to
        self,
        chunk: ChunkMessage,
        ran: Ran,
        left: Mapping[int, Waits],
        since: int,
        milliseconds: int,
        before: SoFar | None,
        extends: str | None = None,
        *,
        is_alone: bool = False,
    ) -> None:
        """Keep the outcome, if that is possible, unless another delivery did since `before`."""
        if ran.pieces is None:
            return
        name, text = _name(chunk, extends), _write(chunk, ran, ran.pieces, left, since, milliseconds, is_alone=is_alone)
        content = b"".join((pack(text, level=1), *(row.read() for row in ran.rows.values())))
        condition: dict[str, Any] = {}
        if before is not None and before.etag:
            condition = {"overwrite": True, "etag": before.etag, "match_condition": MatchConditions.IfNotModified}
        with expecting_an_answer(f"write {name!r}"):
            try:
                # Without `overwrite` the request says If-None-Match: *.
                self._container.upload_blob(name, content, **condition)
            except HttpResponseError as refusal:
                # Another delivery was first, or this very write was, and its reply was lost.
                if refusal.status_code not in _WRITTEN_BEFORE:
                    raise


def _name(chunk: ChunkMessage, extends: str | None) -> str:
    return f"{result_blob(chunk.job, chunk.revision, chunk.chunk, extends)}~"


def _write(  # noqa: PLR0913, PLR0917 - all that a chunk came to
    chunk: ChunkMessage,
    ran: Ran,
    pieces: Iterable[PartialPiece],
    left: Mapping[int, Waits],
    since: int,
    milliseconds: int,
    *,
    is_alone: bool,
) -> bytes:
    numbers = sorted(left)
    head = SoFarHead(
        workload=chunk.workload,
        accepted=ran.accepted,
        rejected=ran.rejected,
        pieces=[(first, Raw(json.encode(partial))) for first, partial in pieces],
        left=numbers,
        # Nearly always, they only failed.
        waits=[(left[number].times, left[number].due) for number in numbers] if any(map(any, left.values())) else [],
        rows={first: row.head for first, row in ran.rows.items()},
        since=since,
        is_alone=is_alone,
        milliseconds=milliseconds,
    )
    # A workload's raw JSON may have line feeds. Valid JSON has none inside a string, so a blank replaces each.
    return b"\n".join((json.encode(head).replace(b"\n", b" "), ran.rejections))


@contain()
def _read(text: bytes, rest: bytes, chunk: ChunkMessage, workload: AnyWorkload, etag: str) -> SoFar | None:
    first, _, rejections = text.partition(b"\n")
    try:
        head: SoFarHead = decode_document(first, SoFarHead, "so far", "the outcome of a chunk so far")
    except (ValueError, RecursionError):
        return None
    pieces = read_pieces(workload, head.pieces)
    waits = [Waits(*one) for one in head.waits] or [Waits()] * len(head.left)
    left = dict(zip(head.left, waits, strict=False))
    is_of_it = left.keys() <= frozenset(range(chunk.first_id, chunk.first_id + chunk.items))
    counted = head.accepted.items + head.rejected.items + len(left)
    if pieces is None or not left or not is_of_it or counted != chunk.items or head.workload != chunk.workload:
        return None
    packed = split_streams("so far", head.rows, rest)
    rows = {first: Stream(one, BytesIO(packed[first])) for first, one in head.rows.items()}
    return SoFar(
        accepted=head.accepted,
        rejected=head.rejected,
        pieces=pieces,
        rejections=rejections,
        left=left,
        since=head.since,
        milliseconds=head.milliseconds,
        etag=etag,
        rows=rows,
        is_alone=head.is_alone,
    )


@contain()
def read_pieces(workload: AnyWorkload, stored: Iterable[tuple[int, Raw | bytes]]) -> tuple[PartialPiece, ...] | None:
    """Return the pieces of a partial from their JSON. None: this workload cannot read them."""
    try:
        return tuple(PartialPiece(first, decode(partial, workload.partial)) for first, partial in stored)
    except (ValueError, RecursionError):
        return None
