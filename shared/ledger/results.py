"""What a result says, checked against the job that it claims to belong to; pure."""

import re
from datetime import datetime
from typing import Final

from shared.ledger.amounts import amounts
from shared.ledger.records import ChunkRow, ChunkState, Job, Tally, Totals
from shared.pipeline.messages import Outcome, Result

_SHA256: Final = re.compile(r"[0-9a-f]{64}", re.ASCII)
#: A chunk holds at most the transactions of some frames; more than this is no chunk.
MOST_ITEMS: Final = 10**9
#: The row keeps the beginning of a reason; the whole of it is with the parked bytes.
LONGEST_REASON: Final = 500


def result_blob(job: str, revision: int, chunk: int) -> str:
    """Return the name of the blob that the result of a chunk has."""
    return f"{job}/{revision}/{chunk}"


def misfit(job: Job, result: Result) -> str:
    """Say why a result cannot belong to the job, or nothing."""
    if job.plan is None:
        return f"job {job.job!r} is {job.state} and has no plan yet, so nothing of it can have been processed"
    if result.chunk >= job.chunks:
        return f"job {job.job!r} has chunks 0 to {job.chunks - 1}, this is for chunk {result.chunk}"
    if result.revision > job.revision:
        return f"job {job.job!r} is at revision {job.revision}, this is for revision {result.revision}"
    return _wrong_end(result) or _wrong_counts(result)


def _wrong_end(result: Result) -> str:
    if result.reason is not None:
        return "it says both why it is parked and where its result is" if result.blob or result.hash else ""
    if result.hash is None or not _SHA256.fullmatch(result.hash):
        return "a done chunk needs the SHA-256 of its result blob in lower-case hex"
    if result.blob != result_blob(result.job, result.revision, result.chunk):
        # The finisher reads this blob with the app's own rights: it must lie where this chunk's result lies.
        return f"its result blob is not {result_blob(result.job, result.revision, result.chunk)}"
    return ""


def _wrong_counts(result: Result) -> str:
    outcomes = (result.accepted, result.rejected, result.parked)
    if any(outcome.items > MOST_ITEMS for outcome in outcomes):
        return f"a chunk has at most {MOST_ITEMS} items"
    try:
        for outcome in outcomes:
            amounts(outcome.sums or {})
    except ValueError as error:
        return str(error)
    return ""


def row_of(result: Result, now: datetime) -> ChunkRow:
    """Return the row of a result that fits its job."""
    return ChunkRow(
        job=result.job,
        chunk=result.chunk,
        state=ChunkState.DONE if result.reason is None else ChunkState.PARKED,
        revision=result.revision,
        settled_at=now,
        totals=Totals(_tally(result.accepted), _tally(result.rejected), _tally(result.parked)),
        blob=result.blob,
        hash=result.hash,
        reason=None if result.reason is None else result.reason[:LONGEST_REASON],
        milliseconds=result.milliseconds,
    )


def _tally(outcome: Outcome) -> Tally:
    if outcome.sums is None:
        return Tally(outcome.items, unknown=1)
    return Tally(outcome.items, amounts(outcome.sums))
