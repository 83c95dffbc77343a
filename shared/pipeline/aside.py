"""Sets transactions aside: a chunk of which few fail for good ends with the others, and only those few are parked.

Its result counts them as parked, with their sums, and lists them in the stream `parked`. An entry only leads there: the
credited result is the one list. So the entry comes first, and then the result. A crash between the two leaves
an entry too many, and never a transaction that none can replay.

Its replay runs those few, and makes a result that extends the credited one. Of two such results the first counts.
"""

from collections.abc import Iterator
from dataclasses import replace
from io import BytesIO
from typing import Final

from msgspec import Struct, json

from shared.errors import ResultRefusedError
from shared.messages import ChunkMessage
from shared.parked import OTHERWISE, cause_of
from shared.pipeline.outputs import Ran
from shared.pipeline.put_off import Waits
from shared.pipeline.results import Opened, read_parked, read_partial
from shared.pipeline.so_far import SoFar, join
from shared.pipeline.streams import LINES, PARKED, Stream, StreamWriter, join_rows
from shared.refusals import DeliveryReason
from shared.telemetry import contain, origin_of
from shared.versions import decode
from shared.workloads import LONGEST_LINE, AnyWorkload, Left, PartialPiece

#: The name of the stage; it is stored.
TRANSACTIONS: Final = "transactions"
#: Characters of the text of an error.
_LONGEST_FOUND: Final = 1000
#: Of what was parked for these, a process died or stood still.
_OF_ITS_PROCESS: Final = frozenset({DeliveryReason.KILLED_ITS_WORKER, DeliveryReason.TOOK_TOO_LONG})
#: What was credited lies before all that is run later.
_BEFORE_ALL: Final = 0


class ParkedTransaction(Struct, frozen=True, omit_defaults=True):
    """A transaction that was set aside, as stored in the stream and in the outputs."""

    number: int
    reason: str
    found: str
    #: The transaction as sent, cut at `LONGEST_LINE` characters.
    line: str
    #: The functions that its error passed through, the innermost first.
    place: str = ""
    fingerprint: str = ""


def set_aside(workload: AnyWorkload, ran: Ran) -> Ran:
    """Return the outcome of a chunk with those that are left parked, and the others in one partial."""
    # Nothing may come between them any more: those that pass later are merged behind the others.
    pieces = join(workload, ran.pieces or (), ())
    with contain():
        partial = pieces[0].partial if pieces else workload.combine([])
    made = _write(ran.left)
    # Lines are the last stream.
    return replace(ran, partial=partial, streams=({} if made is None else {PARKED: made}) | join_rows(ran.rows))


def _write(left: tuple[Left, ...]) -> Stream | None:
    writer = StreamWriter()
    for one in left:
        cause, raised = cause_of(one.error, TRANSACTIONS, OTHERWISE), origin_of(one.error)
        parked = ParkedTransaction(
            number=one.number,
            reason=cause.reason,
            # The cause of the first one also counts the others.
            found=_storable(f"{type(raised).__name__}: {raised}"[:_LONGEST_FOUND]),
            line=one.line.decode(errors="replace")[:LONGEST_LINE],
            place=cause.place,
            fingerprint=cause.fingerprint,
        )
        writer.add(json.encode(parked) + b"\n", 1)
    return writer.close()


def _storable(text: str) -> str:
    # An exception may quote half a character (a lone surrogate).
    return text.encode(errors="replace").decode()


def list_parked(opened: Opened) -> Iterator[ParkedTransaction]:
    """Yield the transactions that a result set aside."""
    for line in read_parked(opened):
        try:
            yield decode(line, ParkedTransaction)
        except (ValueError, RecursionError) as error:
            raise ResultRefusedError(
                f"a parked transaction of result {opened.row.blob!r} cannot be read: {error}"
            ) from error


def resume_from(opened: Opened, chunk: ChunkMessage, workload: AnyWorkload) -> SoFar:
    """Return the credited result of a chunk as its outcome so far, of which those are left that it set aside."""
    result, parked = opened.result, list(list_parked(opened))
    left = {one.number: Waits() for one in parked}
    if not left or not left.keys() <= frozenset(range(chunk.first_id, chunk.first_id + chunk.items)):
        raise ResultRefusedError(f"result {opened.row.blob!r} parks transactions that are not of its chunk")
    piece = PartialPiece(_BEFORE_ALL, read_partial(result, workload.partial))
    packed = opened.streams.get(LINES)
    rows = {} if packed is None else {_BEFORE_ALL: Stream(result.streams[LINES], BytesIO(packed))}
    return SoFar(
        accepted=result.accepted,
        rejected=result.rejected,
        pieces=(piece,),
        rejections=b"".join(opened.rejections),
        left=left,
        since=0,
        milliseconds=0,
        etag="",
        rows=rows,
        is_alone=any(one.reason in _OF_ITS_PROCESS for one in parked),
    )
